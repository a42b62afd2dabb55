#!/bin/sh
# Build the recorder without Python into a stress program and run it under AddressSanitizer with UBSan, and under
# ThreadSanitizer; under valgrind where the compiler has no sanitizers. Returns non-zero on any finding.
# usage: sanitize.sh [ROUNDS]
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
rounds=${1:-40}
compiler=${CC:-cc}
work=$(mktemp -d "${TMPDIR:-/tmp}/ms_profiler_sanitize.XXXXXX")
trap 'rm -rf "$work"' EXIT

sources="$root/tests/native/stress.c"
for source in "$root"/native/*.c; do
  [ "$source" = "$root/native/module.c" ] || sources="$sources $source"
done

build() { # NAME FLAGS...
  name=$1
  shift
  # shellcheck disable=SC2086 # paths of the sources hold no spaces but those between them
  "$compiler" -std=c11 -D_GNU_SOURCE -g -O1 -fno-omit-frame-pointer -Wall -Wextra -Werror "$@" \
    -I"$root/native" $sources -o "$work/$name" -pthread
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

sanitizes() { # FLAG
  echo 'int main(void) { return 0; }' >"$work/probe.c"
  "$compiler" "$1" "$work/probe.c" -o "$work/probe" 2>/dev/null && "$work/probe"
}

if sanitizes -fsanitize=address && sanitizes -fsanitize=thread; then
  build address -fsanitize=address,undefined -fno-sanitize-recover=all
  ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99 run address "$work/address"
  build thread -fsanitize=thread
  # a fork child of the program starts no thread, which is what the sanitizer cannot follow
  TSAN_OPTIONS=halt_on_error=1:exitcode=99:die_after_fork=0 run thread setarch -R "$work/thread"
elif command -v valgrind >/dev/null; then
  build plain
  rounds=$((rounds / 10 + 1))
  run plain valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite "$work/plain"
else
  echo "neither a compiler with sanitizers nor valgrind" >&2
  exit 2
fi
echo "no findings"
