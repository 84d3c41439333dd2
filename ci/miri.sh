#!/usr/bin/env bash
# Runs core's tests under Miri, and those of the informer's compact objects. `miri.sh quick` runs
# the races of the slot and a few others, for a few minutes; `miri.sh races`, `engine`, `stress` or
# `compact`, or all of them without an argument, runs everything that is suitable for Miri, for an
# hour or more. Races run for `MIRI_SEEDS` seeds (4 by default), one core each.
#
# Proves: in the executions that Miri chose there is no undefined behaviour (wild or freed memory,
# data races, wrong provenance) and no leak. Miri also shows threads values that are stale by the
# memory model, which x86 never does. Says nothing about other executions. Left out: tests that
# start a process or leak a guard (they are marked), and `engine/slow.rs`, which depends on the
# clock. Compact objects are packed by a codec in safe Rust
# (`informer/src/compact/standin.rs`), because Miri runs no C; property tests try few cases.
#
# Provenance is permissive: a link of a slot's list names the next by its exposed address
# (`core/src/engine/slot/word.rs` says why), and parking_lot casts integers to pointers for waiting
# threads. The races reuse freed addresses immediately, because a new list at the address of an old
# one is the hard case.
set -euo pipefail
cd "$(dirname "$0")/../core"
. ../ci/common.sh

need_nightly
cargo +nightly miri --version >/dev/null 2>&1 || rustup component add miri rust-src --toolchain nightly >/dev/null 2>&1 ||
  skip "Miri is not available for nightly"

# Isolation is off because the tests read the clock and the environment.
under() { # seeds, test arguments...
  local seeds=$1
  shift
  MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-disable-isolation -Zmiri-many-seeds=0..$seeds ${reuse:-}" \
    cargo +nightly miri test -p "${package:-deltafifo}" "$@"
}
reusing="-Zmiri-address-reuse-rate=1.0 -Zmiri-address-reuse-cross-thread-rate=1.0 -Zmiri-preemption-rate=0.2"
seeds=${MIRI_SEEDS:-4}
case ${1:-all} in
  quick)
    tested under 4 --test engine races::offer_at
    reuse="$reusing" tested under 2 --test engine reallocated_list
    tested under 1 --test engine running::delete_
    echo "ok: the quick part"
    ;;
  races)
    tested under "$seeds" --test engine races::
    reuse="$reusing" tested under "$seeds" --test engine reallocated_list
    echo "ok: races for $seeds seeds, and with immediate reuse of addresses"
    ;;
  engine)
    tested under 1 --lib
    # With the time of each test. A test that takes more than a few minutes should be smaller under
    # Miri.
    tested under 1 --test engine -- --skip slow:: --skip races:: -Zunstable-options --report-time
    echo "ok: the other tests of the engine for one seed"
    ;;
  stress)
    # One round each: a queue of every kind.
    for plan in 0 1 2 3 4 5 6 7 8; do STRESS_SEED=$plan tested under 1 --test stress; done
    echo "ok: stress for a round of each plan"
    ;;
  compact)
    package=deltafifo-informer PROPTEST_CASES=4 tested under 1 --features compact --lib compact:: \
      -- -Zunstable-options --report-time
    echo "ok: compact objects for one seed"
    ;;
  all) for part in races engine stress compact; do ../ci/miri.sh "$part"; done ;;
  *) echo "unknown part: $1" >&2; exit 2 ;;
esac
