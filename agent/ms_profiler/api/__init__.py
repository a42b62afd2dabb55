"""The interface for scripts, under MindSpore's own names; `ms_profiler` imports a module when it is first used."""
