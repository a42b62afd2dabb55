#!/bin/sh
# Find errors of memory and threads in the C code. The script builds stress programs that do not need Python. They test
# the recorder, its clock, stacks, calls, blocks, operators, the tracing of devices (with fake libraries), and the
# analysis of columns. The script runs them without a sanitizer, with AddressSanitizer and UBSan, with ThreadSanitizer
# (except the columns), and with valgrind (except the clock and devices). It leaves out tools that this machine lacks.
# Returns non-zero if a run finds an error.
# usage: [CC=COMPILER] [EMULATOR=COMMAND] sanitize.sh [ROUNDS]; with an emulator, only without a sanitizer
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-40}
compiler=${CC:-cc}
emulator=${EMULATOR:-}
work=$(mktemp -d "${TMPDIR:-/tmp}/ms_profiler_sanitize.XXXXXX")
trap 'rm -rf "$work"' EXIT

sources="$root/tests/native/stress.c"
for source in "$root"/native/*.c "$root"/native/devices/*.c; do
  # -MG lists a header that is not found, too
  "$compiler" -M -MG -D_GNU_SOURCE -I"$root/native" "$source" | grep -q 'Python\.h' || sources="$sources $source"
done

columns="$root/tests/native/columns.c"
for source in "$root"/native/columns/*.c; do
  case $source in *module.c | */arrow.c) ;; *) columns="$columns $source" ;; esac
done

build() { # NAME FLAGS...
  name=$1
  shift
  set -- -std=c11 -D_GNU_SOURCE -g -O1 -fno-omit-frame-pointer -Wall -Wextra -Werror "$@" -I"$root/native"
  # shellcheck disable=SC2086 # spaces separate the paths of the sources, which have none themselves
  "$compiler" "$@" $sources -o "$work/$name" -pthread -ldl
  "$compiler" "$@" "$root/tests/native/tsc.c" "$root/native/tsc.c" -o "$work/$name.tsc" -pthread
  # shellcheck disable=SC2086
  "$compiler" "$@" $columns -o "$work/$name.columns" -lm
  # shellcheck disable=SC2086
  for program in devices npu stacks calls blocks operators; do
    "$compiler" "$@" "$root/tests/native/$program.c" ${sources#* } -o "$work/$name.$program" -pthread -ldl
  done
  fake libcuda.so.1 "$@" "$root/tests/fakes/cuda.c"
  fake libcupti.so.12 "$@" "$root/tests/fakes/cupti.c" "$root/tests/fakes/launches.c"
  fake libascendalog.so "$@" -DALOG "$root/tests/fakes/ascend.c"
  fake libprofapi.so "$@" -DPROFAPI "$root/tests/fakes/ascend.c"
  fake libascend_hal.so "$@" -DHAL "$root/tests/fakes/ascend.c"
  fake libascendcl.so "$@" -DACL "$root/tests/fakes/ascend.c"
  fake liballocator_lazy.so "$@" -Wl,-z,lazy "$root/tests/fakes/allocator.c"
  fake liballocator_now.so "$@" -Wl,-z,now -Wl,-z,relro -fno-plt "$root/tests/fakes/allocator.c"
  fake libtorch_fake.so "$@" "$root/tests/fakes/torch.c"
  fake libmspti.so "$@" "$root/tests/fakes/mspti.c" "$root/tests/fakes/ascend_launches.c"
}

fake() { # LIBRARY FLAGS AND SOURCES...
  library=$1
  shift
  "$compiler" "$@" -shared -fPIC "-Wl,-soname,$library" -o "$work/$library" -pthread -ldl
}

run() { # NAME COMMAND...
  name=$1
  shift
  for seed in 1 2; do
    mkdir "$work/$name.$seed"
    echo "== $name, seed $seed"
    "$@" "$work/$name.$seed" "$rounds" "$seed"
  done
}

tell_time() { # NAME COMMAND...
  echo "== $1"
  shift
  for mode in "made-up" "clock 500" "follow 1000"; do
    # shellcheck disable=SC2086 # a mode and its argument
    "$@" $mode || [ $? = 77 ] # 77: the time-stamp counter of this machine is not reliable
  done
}

trace() { # NAME COMMAND...
  name=$1
  shift
  for program in devices npu stacks calls blocks operators; do
    echo "== $name, $program"
    mkdir "$work/$name.$program.store"
    LD_LIBRARY_PATH="$work" "$@" "$work/$name.$program" "$work/$name.$program.store" 5 1
  done
}

sanitizes() { # FLAG
  echo 'int main(void) { return 0; }' >"$work/probe.c"
  "$compiler" "$1" "$work/probe.c" -o "$work/probe" 2>/dev/null && "$work/probe"
}

build plain ${emulator:+-DEMULATED}
# shellcheck disable=SC2086 # the emulator's words
{
  run plain $emulator "$work/plain"
  run plain.columns $emulator "$work/plain.columns"
  tell_time plain.tsc $emulator "$work/plain.tsc"
  trace plain $emulator
}
if [ -n "$emulator" ]; then
  echo "no findings"
  exit
elif sanitizes -fsanitize=address && sanitizes -fsanitize=thread; then
  build address -fsanitize=address,undefined -fno-sanitize-recover=all
  ASAN_OPTIONS=detect_leaks=1:exitcode=99 run address "$work/address"
  ASAN_OPTIONS=detect_leaks=1:exitcode=99 run address.columns "$work/address.columns"
  ASAN_OPTIONS=detect_leaks=1:exitcode=99 tell_time address.tsc "$work/address.tsc"
  ASAN_OPTIONS=detect_leaks=0:exitcode=99 trace address env # the fake libraries do not free all memory
  build thread -fsanitize=thread
  TSAN_OPTIONS=halt_on_error=1:exitcode=99:die_after_fork=0 run thread setarch -R "$work/thread"
  TSAN_OPTIONS=halt_on_error=1:exitcode=99:die_after_fork=0 tell_time thread.tsc setarch -R "$work/thread.tsc"
  TSAN_OPTIONS=halt_on_error=1:exitcode=99:die_after_fork=0 trace thread setarch -R
elif ! command -v valgrind >/dev/null; then
  echo "neither a compiler with sanitizers nor valgrind" >&2
  exit 2
fi
if command -v valgrind >/dev/null; then
  rounds=1 # one round, because valgrind is fifty times slower; it also checks the fork children
  # a fork child does not free the memory that it has inherited, so leaks are left to AddressSanitizer, in the parent
  run valgrind valgrind -q --error-exitcode=99 --leak-check=no "$work/plain"
  run valgrind.columns valgrind -q --error-exitcode=99 --leak-check=full "$work/plain.columns"
fi
echo "no findings"
