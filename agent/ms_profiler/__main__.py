"""`python -m ms_profiler`: the command `ms-profiler`, also where its script is not on PATH."""

import sys

from ms_profiler.cli import main

sys.exit(main())
