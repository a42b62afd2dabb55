"""The interface for scripts, with MindSpore's own names; `ms_profiler` imports each lazily."""
