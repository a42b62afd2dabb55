"""What scripts import, under MindSpore's own names; `ms_profiler` itself offers each of them lazily."""
