#!/bin/sh
# Cross-build the wheel for aarch64, and test it under the emulator qemu-user. The tests are the stress programs of the
# recorder, a recording from Python with spans and a fork, and jobs of PyTorch with its aarch64 wheel. The compiler is
# that of zig. qemu, CPython and the C libraries are packages of Debian, unpacked below build/aarch64; nothing is
# installed on the machine itself.
# usage: aarch64.sh [PYTHON]; PYTHON has pip and the version that Debian's python3 has
set -eu

python=$(command -v "${1:-python3}")
case $python in /*) ;; *) python=$PWD/$python ;; esac
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/build/aarch64
sysroot=$work/sysroot
torch=2.10.0 # PyPI's last for aarch64 without CUDA
mkdir -p "$work"

packages() { # ARCHITECTURE FOLDER PACKAGE...: download packages with all that they depend on, and unpack them
  architecture=$1 folder=$2
  shift 2
  apt=$work/apt.$architecture
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$folder"
  : >"$apt/status"
  options="-qq -o APT::Architecture=$architecture -o APT::Architectures=$architecture -o Dir::State::Lists=$apt/lists
    -o Dir::State::status=$apt/status -o Dir::Cache=$apt/cache -o APT::Install-Recommends=false"
  # shellcheck disable=SC2086 # options hold no spaces but those between them
  apt-get $options update
  # shellcheck disable=SC2086
  apt-get $options -y --download-only install "$@"
  for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$folder"; done
}

[ -e "$work/qemu.done" ] || { packages amd64 "$work/qemu" qemu-user-static && touch "$work/qemu.done"; }
[ -e "$work/sysroot.done" ] || { packages arm64 "$sysroot" python3 libstdc++6 libgomp1 && touch "$work/sysroot.done"; }
qemu=$work/qemu/usr/bin/qemu-aarch64-static
minor=$(basename "$(readlink "$sysroot/usr/bin/python3")")
version=${minor#python}

if ! "$work/tools/bin/python" -c 'import build, wheel, ziglang' 2>/dev/null; then
  rm -rf "$work/tools"
  "$python" -m venv "$work/tools"
  "$work/tools/bin/python" -m pip install -q --disable-pip-version-check build wheel 'ziglang>=0.13'
fi
cat >"$work/zigcc" <<END
#!/bin/sh
exec "$work/tools/bin/python" -m ziglang cc -target aarch64-linux-gnu.2.17 "\$@" -idirafter /usr/include
END
chmod +x "$work/zigcc"

echo "== native programs"
TMPDIR=$work CC=$work/zigcc EMULATOR="$qemu -L $sysroot" "$root/native/sanitize.sh" 5

echo "== wheel"
rm -rf "$work/dist"
(cd "$root" && CC=$work/zigcc "$work/tools/bin/python" -m build --wheel --outdir "$work/dist" \
  --config-setting=build-dir="$work/build" --config-setting=cmake.define.MSP_WERROR=ON .)
"$work/tools/bin/python" -m wheel tags --remove --platform-tag manylinux_2_17_aarch64 "$work"/dist/*.whl

# The kernel itself cannot run programs for aarch64. So the emulated Python has a script as sys.executable, which starts
# the emulator.
environment=$work/environment
rm -rf "$environment"
mkdir -p "$environment/bin"
cat >"$environment/bin/python" <<END
#!/bin/sh
exec "$qemu" -L "$sysroot" -0 "$environment/bin/python" "$sysroot/usr/bin/$minor" "\$@"
END
chmod +x "$environment/bin/python"
printf 'home = %s\ninclude-system-site-packages = false\n' "$sysroot/usr/bin" >"$environment/pyvenv.cfg"
site=$environment/lib/$minor/site-packages
install() {
  "$python" -m pip install -q --disable-pip-version-check --only-binary :all: --implementation cp --target "$site" \
    --python-version "$version" --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 "$@"
}
install "$(echo "$work"/dist/*.whl)[analysis]" 'numpy<2' typing-extensions sympy networkx jinja2 fsspec filelock setuptools
# without dependencies: pip would take those of this machine, and on x86-64 PyTorch needs CUDA
install --no-deps "torch==$torch"

echo "== Python"
rm -rf "$work/store"
mkdir "$work/store"
PYTHONPATH=$root/tests "$environment/bin/python" -W error "$root/tests/programs/record.py" "$work/store"

echo "== PyTorch"
rm -rf "$work/jobs"
PYTHONPATH=$root/tests "$python" "$root/tests/aarch64.py" "$environment/bin/python" "$work/jobs"
