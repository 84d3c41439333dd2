#!/usr/bin/env bash
# Reconciles 1,000,000 config maps of a real kube-apiserver and etcd on loopback with three
# controllers, one after the other, each in a process of its own: this project's with compact and
# with typed objects, and kube-rs'. `million.sh [OBJECTS]`. Missing programs are built once with Go
# (3 to 5 minutes).
#
# A config map has 200 bytes, and the API server adds managed fields. The servers may end before
# all are created: etcd refuses writes at its quota of 2 GiB, and the creation stops when less than
# 6 GiB of the machine's memory are available, or after an hour. Then the controllers reconcile the
# config maps that exist, and the last line says why there are no more.
#
# Proves: each controller reconciles each object, and none twice. Prints the peaks of the resident
# memory: of a controller from its start until it is at rest, and of the servers during the creation
# and during each controller. That of etcd includes the pages of its file. Fails if a controller
# takes 20 minutes.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
. ci/common.sh

wanted=${1:-1000000}
build_servers
# Built before the servers run, because compiling next to them takes their memory.
cargo build --quiet --release -p deltafifo-e2e
cargo build --quiet --release -p deltafifo-bench --features peers --example controllers

# The servers end when their input is closed, which happens when this script ends.
coproc SERVERS { exec cargo run --quiet --release -p deltafifo-e2e -- --binaries "$DELTAFIFO_E2E_BIN" --serve --objects "$wanted"; }
servers=$SERVERS_PID
read -r kubeconfig <&"${SERVERS[0]}" || { echo "the servers did not start, see above" >&2; exit 1; }

# Prints the id of the process of a server.
id_of() { # program
  pgrep -x -P "$servers" "$1" || { echo "$1 has ended" >&2; return 1; }
}

# Prints the peak of the resident memory of each server in bytes, and lets a new peak begin.
peaks() {
  local name program id
  for name in server:kube-apiserver etcd:etcd; do
    program=${name#*:} id=$(id_of "$program")
    awk -v name="${name%:*}" '$1 == "VmHWM:" { printf "%s_bytes=%.0f ", name, $2 * 1024 }' "/proc/$id/status"
    echo 5 >"/proc/$id/clear_refs"
  done
}

read -r objects why <&"${SERVERS[0]}" || { echo "no objects were created, see above" >&2; exit 1; }
file=$(stat -c %s "$(dirname "$kubeconfig")/data/member/snap/db")
filled=$(peaks)
results=("objects=$objects of $wanted: $why, ${filled}etcd_file_bytes=$file")
echo "${results[0]}"

for store in compact typed kube; do
  row=$(timeout --verbose 1800 cargo run --quiet --release -p deltafifo-bench --features peers --example controllers -- \
    --server "$kubeconfig" --objects "$objects" --store "$store")
  figures=$(grep -oE '"(cpu_seconds|peak_bytes|reconciled|seconds)":[0-9]+(\.[0-9]{1,2})?' <<<"$row" | tr -d '"' | tr '\n:' ' =')
  during=$(peaks)
  results+=("$store: $figures${during% }")
  echo "${results[-1]}"
done
# One line, because `ci/full.txt` keeps the last ones.
printf '%s; ' "${results[@]}"
echo ok
