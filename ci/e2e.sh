#!/usr/bin/env bash
# The reflector and shared informers against a real kube-apiserver and etcd, on loopback (`e2e/`),
# beside client-go's informer: `e2e.sh [SCENARIO...]`, `e2e.sh smoke` for three of them with few
# objects, or all. What is missing is built first: the servers in 3 to 5 minutes, client-go's
# informer in one, once, by Go, and they stay in target/e2e/bin. An etcd 3.4 is used where the
# machine has one, or DELTAFIFO_ETCD34 names it.
#
# Proves: whatever the scenarios did to these servers (killed, stopped, started again, compacted,
# without a feature, away), stores and handlers ended with what a fresh list has, those of ours as
# those of client-go; no key was told a version older than one before, nor a state that nobody
# wrote, no deletion was missed, and no error came that nothing had brought about; handlers that
# slept and panicked harmed no other. Says nothing about other faults and versions, networks, load
# balancers, or more than one API server; and the times that it prints are of one run.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/common.sh

build_servers

if [[ -z ${DELTAFIFO_ETCD34:-} ]] && etcd --version 2>/dev/null | grep -q '^etcd Version: 3\.4\.'; then
  DELTAFIFO_ETCD34=$(command -v etcd)
  export DELTAFIFO_ETCD34
fi

# The smoke is built as the tests before it were; times are of a release.
case ${1:-all} in
  smoke) build=() chosen=(--smoke) ;;
  all) build=(--release) chosen=() ;;
  *) build=(--release) chosen=("$@") ;;
esac
cargo run --quiet "${build[@]}" -p deltafifo-e2e -- --binaries "$DELTAFIFO_E2E_BIN" "${chosen[@]}"
