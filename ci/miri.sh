#!/usr/bin/env bash
# Miri on core's tests. `miri.sh quick`: the slot's races and a part of the rest, a few minutes;
# `miri.sh races`, `engine` or `stress`, or all of them without an argument: everything that makes
# sense under it, an hour or more. Races run for as many seeds as `MIRI_SEEDS` says (4), which use
# as many cores; an interpreter of one seed uses one.
#
# Proves: in the executions it chose, no undefined behaviour (wild or freed memory, data races,
# wrong provenance), no leak. It also shows threads values that are stale by the memory model,
# which x86 never does. Says nothing about executions it did not choose. Left out: tests that start
# a process or forget a guard (they say so themselves), and `engine/slow.rs`, which is about the
# clock.
#
# Provenance is permissive: a link of a slot's list names the next by its exposed address
# (`core/src/engine/slot/word.rs` says why it must), and parking_lot makes pointers from integers
# for threads that wait. Addresses that were freed are given out again at once for the races, since
# a list made anew where an old one was is the hard case.
set -euo pipefail
cd "$(dirname "$0")/../core"
. ../ci/common.sh

need_nightly
cargo +nightly miri --version >/dev/null 2>&1 || rustup component add miri rust-src --toolchain nightly >/dev/null 2>&1 ||
  skip "Miri cannot be had for nightly"

# Isolation is off because the tests ask for the time and the environment.
under() { # seeds, test arguments...
  local seeds=$1
  shift
  MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-disable-isolation -Zmiri-many-seeds=0..$seeds ${reuse:-}" \
    cargo +nightly miri test -p deltafifo "$@"
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
    # With each test's time: one that takes more than some minutes here should be smaller under
    # Miri.
    tested under 1 --test engine -- --skip slow:: --skip races:: -Zunstable-options --report-time
    echo "ok: the other tests of the engine for one seed"
    ;;
  stress)
    # One round each: a queue of every kind.
    for plan in 0 1 2 3 4 5 6 7 8; do STRESS_SEED=$plan tested under 1 --test stress; done
    echo "ok: stress for a round of each plan"
    ;;
  all) for part in races engine stress; do ../ci/miri.sh "$part"; done ;;
  *) echo "no such part: $1" >&2; exit 2 ;;
esac
