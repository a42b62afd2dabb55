"""The interface for scripts, with MindSpore's names; `ms_profiler` imports its modules only when a script uses them."""
