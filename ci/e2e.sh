#!/usr/bin/env bash
# Runs the reflector and shared informers against a real kube-apiserver and etcd on loopback
# (`e2e/`), next to client-go's informer: `e2e.sh [SCENARIO...]`, by default all but the long
# elections and groups of replicas; `e2e.sh smoke` runs four of them with few objects. Missing
# programs are built once with Go and stay in target/e2e/bin: the servers take 3 to 5 minutes,
# client-go's informer and kubectl one each. An etcd 3.4 is used if the machine has one or
# DELTAFIFO_ETCD34 names one.
#
# Proves: after everything that the scenarios did to these servers (killed, stopped, restarted,
# compacted, made unavailable, run without a feature), the stores and handlers of ours and of
# client-go ended with the contents of a fresh list; no key was delivered at an older version than
# before, or in a state that was never written; no deletion was missed; no error was reported
# without a cause; sleeping and panicking handlers affected no other; no write with a version
# followed a write of a later term of a leader, or of a later owner of a shard; each change was
# reconciled by the owner of its shard, also while shards moved. The API server sent each of two
# members of a group only the objects of its selector, if its feature was on, and the test kit
# answered requests as the API server did, also those with selectors; kubectl worked with it. Says
# nothing about other faults and versions, networks, load balancers, or several API servers. The
# printed times are those of one run.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/common.sh

build_servers

if [[ -z ${DELTAFIFO_ETCD34:-} ]] && etcd --version 2>/dev/null | grep -q '^etcd Version: 3\.4\.'; then
  DELTAFIFO_ETCD34=$(command -v etcd)
  export DELTAFIFO_ETCD34
fi

# With the test kit's program, for the scenario that runs kubectl with it. The smoke run uses the
# crates of the tests before it (built with an example, the programs have the features of tests);
# times need a release build.
programs=(--bin e2e --bin deltafifo-testkit)
case ${1:-all} in
  smoke) profile=debug build=(--workspace "${programs[@]}" --example lister) chosen=(--smoke) ;;
  all) profile=release build=(--release "${programs[@]}") chosen=() ;;
  *) profile=release build=(--release "${programs[@]}") chosen=("$@") ;;
esac
cargo build --quiet "${build[@]}"
"${CARGO_TARGET_DIR:-target}/$profile/e2e" --binaries "$DELTAFIFO_E2E_BIN" "${chosen[@]}"
