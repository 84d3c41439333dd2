#!/usr/bin/env bash
# Runs the same election with this project's elector and with client-go's (`e2e/client-go`).
# `rivals.sh [N]` kills N leaders of each and stops N, by default 20. The result of each run has its
# overlapped and late writes, and the times until another candidate writes.
#
# Proves that client-go's elector has the three faults that the documentation names. The figures are
# those of one run: an election without an overlap does not prove that none is possible. Fails if a
# program cannot be built, if client-go's elector no longer has one of these faults, or if this
# project's elector breaks a rule. Skips everything if no suitable Go is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/common.sh

trials=${1:-20}
build_servers
(cd e2e/client-go && go test ./client-go-elector)
cargo build --quiet --release -p deltafifo-e2e

elect() { # title, arguments...
  echo "== $1"
  target/release/e2e --binaries "$DELTAFIFO_E2E_BIN" --trials "$trials" "${@:2}" election-full
}

elect deltafifo
elect client-go --candidate "$DELTAFIFO_E2E_BIN/client-go-elector"
