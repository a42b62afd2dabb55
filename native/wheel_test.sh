#!/bin/sh
# Test the wheel with every CPython of this machine: install it without a compiler, and make a recording.
# usage: wheel_test.sh WHEELHOUSE
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
wheel=$(echo "$root/${1#"$root"/}"/ms_profiler-*.whl)
work=$(mktemp -d "${TMPDIR:-/tmp}/ms_profiler_wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT

found=0
for minor in 10 11 12 13 14 15; do
  python=
  for candidate in "$(command -v "python3.$minor" || true)" "$HOME"/.pyenv/versions/3."$minor".*/bin/python; do
    # pyenv has a shim for each version; the shim of an inactive version does not run
    [ -x "$candidate" ] && "$candidate" -c 'import venv, ensurepip' 2>/dev/null && python=$candidate && break
  done
  [ -n "$python" ] || continue
  found=$((found + 1))
  "$python" -m venv "$work/$minor"
  CC=false "$work/$minor/bin/python" -m pip install -q --disable-pip-version-check --only-binary :all: "$wheel"
  mkdir "$work/$minor/store"
  (cd "$work" && PYTHONPATH=$root/tests "$work/$minor/bin/python" -W error "$root/tests/programs/record.py" "$work/$minor/store")
  "$work/$minor/bin/python" -m pip install -q --disable-pip-version-check --only-binary :all: pytest
  (cd "$work" && PYTHONPATH=$root/tests "$work/$minor/bin/python" -m pytest -q --noconftest -p no:cacheprovider \
    -c /dev/null "$root/tests/test_wrapper.py" "$root/tests/test_optimizer_hook.py" | tail -1)
done
[ "$found" -gt 0 ] || { echo "no CPython from 3.10 on found" >&2; exit 2; }
