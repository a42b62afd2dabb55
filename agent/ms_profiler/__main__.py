"""`python -m ms_profiler`: the command where no script was installed."""

import sys

from ms_profiler.cli import main

sys.exit(main())
