#!/usr/bin/env bash
# Runs the stress test under ThreadSanitizer, and under AddressSanitizer with leak detection, with
# an instrumented standard library. `sanitizers.sh [SECONDS]`: for each, 30 by default.
#
# Proves: in the interleavings that occurred on this machine there was no data race by the C++
# memory model, no use after free, and no leak. Says nothing about other interleavings or
# reorderings: the loom models and Miri cover those. ThreadSanitizer does not understand fences.
# Where a dependency synchronises with a fence it may report a false race; `ci/tsan.supp` lists
# these reports with the reason.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/common.sh
seconds=${1:-30}

target=$(rustc -vV | sed -n 's/^host: //p')
case $target in
  x86_64-unknown-linux-gnu | aarch64-unknown-linux-gnu | aarch64-apple-darwin) ;;
  *) skip "there are no sanitizers for $target" ;;
esac
need_nightly
rustup component add rust-src --toolchain nightly >/dev/null 2>&1 ||
  [ -d "$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library" ] || skip "rust-src is not available for nightly"

# A separate build directory, because the flags change every crate. Debug assertions stay on, with
# optimisation for speed.
under() { # sanitizer, test arguments...
  local sanitizer=$1
  shift
  RUSTFLAGS="-Zsanitizer=$sanitizer" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/$sanitizer" \
    CARGO_PROFILE_TEST_OPT_LEVEL=1 cargo +nightly test --quiet -Zbuild-std --target "$target" -p deltafifo "$@"
}

# A deliberate fault must be found by the build that then runs the stress test.
finds() { # sanitizer, the ignored test, what the report says of it
  local report
  if report=$(under "$1" --test stress -- --ignored --exact "$2" 2>&1) || ! grep -q "$3" <<<"$report"; then
    echo "$report"
    echo "$2 is a deliberate fault and was not found: the $1 sanitizer does not work here" >&2
    exit 1
  fi
}

export STRESS_SECS=$seconds TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp halt_on_error=1" ASAN_OPTIONS=detect_leaks=1
echo "== address, leaks"
# Leak detection stops the process with ptrace. Some containers forbid that, and then the report
# would not mention it.
finds address a_leak 'LeakSanitizer: detected memory leaks'
tested under address --test stress

echo "== thread"
finds thread a_race 'ThreadSanitizer: data race'
tested under thread --test stress
echo "ok: stress for $seconds s under each"
