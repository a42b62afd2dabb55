"""Find out, for `ms-profiler doctor`, why a job left no result or less than expected; each module has one subject."""
