#!/bin/sh
# Install the wheel into a fresh environment of every CPython found, with no compiler to fall back on, and record.
# usage: wheel_test.sh WHEELHOUSE
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
wheel=$(echo "$root/${1#"$root"/}"/ms_profiler-*.whl)
work=$(mktemp -d "${TMPDIR:-/tmp}/ms_profiler_wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT

cat >"$work/record.py" <<'EOF'
import os
import sys
import warnings

from ms_profiler.job.recorder import create
from ms_profiler.job.recorder.python import PythonRecorder
from store_check import read_store

folder = sys.argv[1]
recorder, reason = create()
assert (recorder.kind, reason) == ("native", ""), reason
recorder.open(folder)
name = recorder.intern("x")
for number in range(100_000):
    recorder.end(recorder.begin(name, 1, number))
with warnings.catch_warnings(record=True) as seen:  # from 3.12 on a fork beside another thread warns
    warnings.simplefilter("always")
    child = os.fork()
    if not child:
        os._exit(0)
os.waitpid(child, 0)
assert not seen, seen[0].message
recorder.close()
assert [span.arg for span in read_store(folder).spans("x")] == list(range(100_000))
print("CPython %d.%d.%d:" % sys.version_info[:3], "100000 spans,", round(recorder.span_cost()), "ns each;",
      "in Python", round(PythonRecorder().span_cost()), "ns")
EOF

found=0
for minor in 10 11 12 13 14 15; do
  python=
  for candidate in "$(command -v "python3.$minor" || true)" "$HOME"/.pyenv/versions/3."$minor".*/bin/python; do
    # a shim of pyenv is there for versions that are not active, and then does not run
    [ -x "$candidate" ] && "$candidate" -c 'import venv, ensurepip' 2>/dev/null && python=$candidate && break
  done
  [ -n "$python" ] || continue
  found=$((found + 1))
  "$python" -m venv "$work/$minor"
  CC=false "$work/$minor/bin/python" -m pip install -q --disable-pip-version-check --only-binary :all: "$wheel"
  mkdir "$work/$minor/store"
  (cd "$work" && PYTHONPATH=$root/tests "$work/$minor/bin/python" -W error "$work/record.py" "$work/$minor/store")
  "$work/$minor/bin/python" -m pip install -q --disable-pip-version-check --only-binary :all: pytest
  (cd "$work" && PYTHONPATH=$root/tests "$work/$minor/bin/python" -m pytest -q --noconftest -p no:cacheprovider \
    -c /dev/null "$root/tests/test_wrapper.py" | tail -1)
done
[ "$found" -gt 0 ] || { echo "no CPython from 3.10 on found" >&2; exit 2; }
