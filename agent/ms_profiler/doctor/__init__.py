"""Why a job left no result, or less than expected: what `ms-profiler doctor` looks at, one module for each."""
