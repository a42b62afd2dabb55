"""`python -m ms_profiler`: run the command `ms-profiler` where its script is not installed."""

import sys

from ms_profiler.cli import main

sys.exit(main())
