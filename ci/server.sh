#!/usr/bin/env bash
# Clients of a real kube-apiserver and etcd, on loopback, beside each other:
# `server.sh [ARGUMENT...]` builds and starts both (`e2e/`), and runs `relist --server` with these
# arguments, as --objects 10000 or --rounds 1. What is missing is built first, once, by Go: the
# servers in 3 to 5 minutes.
#
# Proves nothing: it measures, and only fails where a client was not told of every object.
# BENCHMARKS.md says how.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/common.sh

build_servers
# Before the servers run: who compiles beside them takes their memory. One by one, since both at
# once are built with the features of both, and then once more.
cargo build --quiet --release -p deltafifo-e2e
cargo build --quiet --release -p deltafifo-bench --features peers --bin relist

# They end when nobody has their input any more: with this script, however it ends.
coproc SERVERS { exec cargo run --quiet --release -p deltafifo-e2e -- --binaries "$DELTAFIFO_E2E_BIN" --serve; }
read -r kubeconfig <&"${SERVERS[0]}" || { echo "the servers do not start, see above" >&2; exit 1; }
cargo run --quiet --release -p deltafifo-bench --features peers --bin relist -- --server "$kubeconfig" "$@"
