#!/usr/bin/env bash
# Runs the protocol on loom: every schedule of a few threads on the real code, up to the bounds
# that the models state. Then every deliberate defect must make some model fail, which shows that
# the models can fail. `ci/models.sh quick` leaves out the defects, and the largest models: four
# fifths of the models take a quarter of the time.
#
# Does not cover: more threads and operations than the models have; behaviour that loom does not
# model (load buffering, spurious wake-ups, the real SegQueue and event-listener); speed.
set -euo pipefail
cd "$(dirname "$0")/.."

export RUSTFLAGS="--cfg deltafifo_loom" CARGO_TARGET_DIR=target/loom RUST_BACKTRACE=0
cargo build --quiet --profile models -p deltafifo-loom-tests
models=$CARGO_TARGET_DIR/models/deltafifo-loom-tests
if [[ ${1:-} == quick ]]; then
  "$models" --at-most 30000
else
  "$models"
  "$models" --mutants
fi
