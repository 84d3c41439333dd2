#!/usr/bin/env bash
# Measures clients of a real kube-apiserver and etcd on loopback, next to each other. `server.sh
# [ARGUMENT...]` builds and starts both servers (`e2e/`), and runs `relist --server` with these
# arguments, for example --objects 10000 or --rounds 1. Missing programs are built once with Go:
# the servers take 3 to 5 minutes.
#
# Proves nothing: it measures, and fails only if a client did not receive every object.
# BENCHMARKS.md describes the method.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/common.sh

build_servers
# Built before the servers run, because compiling next to them takes their memory. One by one,
# because a build of both uses the features of both, and both would be built again.
cargo build --quiet --release -p deltafifo-e2e
cargo build --quiet --release -p deltafifo-bench --features peers --bin relist

# The servers end when their input is closed, which happens when this script ends.
coproc SERVERS { exec cargo run --quiet --release -p deltafifo-e2e -- --binaries "$DELTAFIFO_E2E_BIN" --serve; }
read -r kubeconfig <&"${SERVERS[0]}" || { echo "the servers did not start, see above" >&2; exit 1; }
cargo run --quiet --release -p deltafifo-bench --features peers --bin relist -- --server "$kubeconfig" "$@"
