#!/usr/bin/env bash
# Miri on core's tests. `miri.sh quick`: the slot's races and a part of the rest, a few minutes; `miri.sh`: everything
# that makes sense under it, for as many seeds as `MIRI_SEEDS` says (4).
#
# Proves: in the executions it chose, no undefined behaviour (wild or freed memory, data races, wrong provenance), no
# leak. It also shows threads values that are stale by the memory model, which x86 never does. Says nothing about
# executions it did not choose. Left out: tests that start a process or forget a guard (they say so themselves).
#
# Strict provenance holds for all of core: the slot keeps pointers and tags in one word, and never makes a pointer from
# an integer. parking_lot does, for threads that wait for a lock; so only tests in which no thread waits run with it, and
# those with threads run with permissive provenance.
set -euo pipefail
cd "$(dirname "$0")/../core"

skip() { echo "skipped: $*"; exit 0; }

cargo +nightly --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal >/dev/null 2>&1 ||
  skip "there is no nightly toolchain, and it cannot be installed"
cargo +nightly miri --version >/dev/null 2>&1 || rustup component add miri rust-src --toolchain nightly >/dev/null 2>&1 ||
  skip "Miri cannot be had for nightly"

# Isolation is off because the tests ask for the time and the environment.
under() { # seeds, provenance, test arguments...
  local seeds=$1 provenance=$2
  shift 2
  MIRIFLAGS="-Zmiri-$provenance-provenance -Zmiri-disable-isolation -Zmiri-many-seeds=0..$seeds" \
    cargo +nightly miri test --quiet -p deltafifo "$@"
}

if [ "${1:-}" = quick ]; then
  under 4 permissive --test races an_offer
  under 1 strict --test running a_delete
  echo "ok: the quick part"
  exit 0
fi
seeds=${MIRI_SEEDS:-4}
under 1 strict --test semantics --test replace --test running
under "$seeds" permissive --test races
# One round each: a queue of every kind.
for plan in 0 1 2 3 4 5 6; do STRESS_SEED=$plan under 1 permissive --test stress; done
under 1 permissive --test relist --test store --test blocking --test model
echo "ok: races for $seeds seeds, stress for a round of each plan, the others for one seed"
