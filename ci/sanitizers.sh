#!/usr/bin/env bash
# The stress test under ThreadSanitizer, and under AddressSanitizer with leak detection; the
# standard library is built with them too. `sanitizers.sh [SECONDS]`: for each, 30 by default.
#
# Proves: in the interleavings that came up on this machine nothing raced that the C++ memory model
# calls a race, nothing was used after it was freed, nothing leaked. Says nothing about
# interleavings or reorderings that did not come up: that is for the loom models and Miri.
# ThreadSanitizer knows no fences: where a dependency orders by one, it may report what is none;
# such reports are named one by one in `ci/tsan.supp`, with the reason.
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
  [ -d "$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library" ] || skip "rust-src cannot be had for nightly"

# A build directory of their own: flags change every crate. Debug assertions stay, with
# optimisation for speed.
under() { # sanitizer, test arguments...
  local sanitizer=$1
  shift
  RUSTFLAGS="-Zsanitizer=$sanitizer" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/$sanitizer" \
    CARGO_PROFILE_TEST_OPT_LEVEL=1 cargo +nightly test --quiet -Zbuild-std --target "$target" -p deltafifo "$@"
}

# What was made wrong on purpose must be found, by the same build that then runs the stress.
finds() { # sanitizer, the ignored test, what the report says of it
  local report
  if report=$(under "$1" --test stress -- --ignored --exact "$2" 2>&1) || ! grep -q "$3" <<<"$report"; then
    echo "$report"
    echo "$2 was made on purpose and not found: the $1 sanitizer does not work here" >&2
    exit 1
  fi
}

export STRESS_SECS=$seconds TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp halt_on_error=1" ASAN_OPTIONS=detect_leaks=1
echo "== address, leaks"
# Leak detection stops the process with ptrace, which some containers forbid: then it would not say
# so in the report.
finds address a_leak 'LeakSanitizer: detected memory leaks'
tested under address --test stress

echo "== thread"
finds thread a_race 'ThreadSanitizer: data race'
tested under thread --test stress
echo "ok: stress for $seconds s under each"
