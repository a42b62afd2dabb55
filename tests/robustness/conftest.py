"""Run a real job bare and profiled, and compare everything that a user sees.

`make test-robustness` runs these tests, and no other target does, because they take long.
"""

from pathlib import Path

import pytest
from conftest import launcher
from unharmed import unharmed


@pytest.fixture
def twice(tmp_path):
    """Return a function that runs a program bare and profiled, compares the runs, and returns the second.

    The program is either a path or a text; the fixture writes a text to `job.py` in the directory of the test. The
    fixture calls `prepared` with the directory before each run.
    """

    def run(program, *args, options=None, env=None, profiled_env=None, prepared=None, **keywords):
        runs = []
        script = program if isinstance(program, Path) else tmp_path / "job.py"
        if script is not program:
            script.write_text(program)
        for profile in False, True:
            if prepared is not None:
                prepared(tmp_path)
            given = {"analyse": "off"} | (options or {}) if not isinstance(options, str) else options
            variables = (env or {}) | (profiled_env or {} if profile else {})
            runs.append(launcher(tmp_path)(script, *args, options=given, profile=profile, env=variables, **keywords))
        unharmed(runs[1], runs[0])
        runs[1].bare = runs[0]
        return runs[1]

    return run
