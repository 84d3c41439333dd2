#!/usr/bin/env bash
# Eight threads, hundreds of operations, random schedules and PCT's, against an oracle
# (`loom-tests/src/schedules.rs`), and a dozen of an informer and its handlers
# (`loom-tests/src/handlers`), a tenth as many schedules. `shuttle.sh [SCHEDULES]`, of each
# scheduler: 20,000 by default, half a minute each. A failing schedule is printed, and run again by
# `target/shuttle/models/deltafifo-loom-tests [handlers] --replay SCHEDULE`.
#
# Shows what the models' few steps leave out, but picks schedules and does not go through all of
# them; atomics are sequentially consistent here, so weak orderings are the models' and Miri's.
# First a deliberate defect must be found.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="--cfg deltafifo_shuttle" CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/shuttle RUST_BACKTRACE=0 SHUTTLE_SILENCE_WARNINGS=1
cargo build --quiet --profile models -p deltafifo-loom-tests
schedules="$CARGO_TARGET_DIR/models/deltafifo-loom-tests"
if report=$("$schedules" --mutant PutBackBehind --schedules 2000 2>&1) || ! grep -q "failing schedule" <<<"$report"; then
  echo "$report"
  echo "a deliberate defect was not found" >&2
  exit 1
fi
# The schedule that is printed must show it again, in a process of its own: with the same words.
schedule=$(tr -d '\n' <<<"$report" | grep -o 'failing schedule:"[0-9a-f]*"' | tail -n 1 | cut -d '"' -f 2)
again=$("$schedules" --mutant PutBackBehind --replay "$schedule" 2>&1) && { echo "the schedule does not show it again" >&2; exit 1; }
of() { grep -A1 "^thread .* panicked at loom-tests" <<<"$1" | sed -n 2p; }
if [[ -z $(of "$report") || $(of "$report") != "$(of "$again")" ]]; then
  printf 'the schedule shows something else:\n%s\n%s\n' "$(of "$report")" "$(of "$again")" >&2
  exit 1
fi
"$schedules" --schedules "${1:-20000}"
# The handlers: first every deliberate defect of theirs must be found.
"$schedules" handlers --mutants --schedules 4000
"$schedules" handlers --schedules "$((${1:-20000} / 10))"
