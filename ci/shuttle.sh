#!/usr/bin/env bash
# Runs eight threads with hundreds of operations under random schedules and under PCT, against an
# oracle (`loom-tests/src/schedules.rs`), compact objects that seven threads pack, read and drop
# (`loom-tests/src/compact`), a work queue with five threads (`loom-tests/src/work_queue.rs`), and
# an informer with a dozen handlers (`loom-tests/src/handlers`) under a tenth as many schedules.
# `shuttle.sh [SCHEDULES]` per scheduler: 20,000 by default, half a minute each. A failing schedule
# is printed. Repeat it with
# `target/shuttle/models/deltafifo-loom-tests [handlers|compact|work-queue] --replay SCHEDULE`.
#
# Covers longer histories than the models, but samples schedules instead of exploring all. Atomics
# are sequentially consistent here, so weak orderings are left to the models and Miri. First a
# deliberate defect must be found.
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
# Replaying the printed schedule in a new process must show the same failure.
schedule=$(tr -d '\n' <<<"$report" | grep -o 'failing schedule:"[0-9a-f]*"' | tail -n 1 | cut -d '"' -f 2)
again=$("$schedules" --mutant PutBackBehind --replay "$schedule" 2>&1) && { echo "replaying the schedule does not fail" >&2; exit 1; }
of() { grep -A1 "^thread .* panicked at loom-tests" <<<"$1" | sed -n 2p; }
if [[ -z $(of "$report") || $(of "$report") != "$(of "$again")" ]]; then
  printf 'replaying the schedule fails differently:\n%s\n%s\n' "$(of "$report")" "$(of "$again")" >&2
  exit 1
fi
"$schedules" --schedules "${1:-20000}"
# Handlers, compact objects and work queues: first every deliberate defect must be found.
"$schedules" handlers --mutants --schedules 4000
"$schedules" handlers --schedules "$((${1:-20000} / 10))"
"$schedules" compact --mutants --schedules 4000
"$schedules" compact --schedules "${1:-20000}"
"$schedules" work-queue --mutants --schedules 100000
"$schedules" work-queue --schedules "${1:-20000}"
