"""Find out why a job left no result, or less than expected, for `ms-profiler doctor`; one module for each subject."""
