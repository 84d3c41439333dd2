#!/usr/bin/env bash
# Runs the same elections with this project's elector and with those of other libraries: client-go
# (`e2e/client-go`), kubert, kube-lease-manager and kube-leader-election (`e2e/rivals`).
# `rivals.sh [NAME...]` runs those of the named libraries, by default of all, with `deltafifo` for
# this project. 20 leaders that write as fast as the server answers are killed, and 20 are stopped.
# Then, with this project and with client-go, 50 leaders that write each object once are terminated,
# and 50 killed. The line that the tool prints for a scenario has its overlapped and late writes,
# and the times until another candidate writes. All Rust programs are debug builds.
#
# Proves that client-go's elector has the three faults that the documentation names. The figures are
# those of one run: an election without an overlap does not prove that none is possible. Fails if a
# program cannot be built, if client-go's elector no longer has one of these faults, if a scenario
# takes ten minutes, or if this project's elector breaks a rule. Skips everything if no suitable Go
# is installed.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
. ci/common.sh

names=("$@")
if ((!$#)); then names=(deltafifo client-go kubert kube-lease-manager kube-leader-election); fi
build_servers
cargo build --quiet -p deltafifo-e2e

# Builds the candidate of another library, and prints its path.
candidate() { # name
  if [[ $1 == client-go ]]; then
    (cd e2e/client-go && go test ./client-go-elector >&2)
    echo "$DELTAFIFO_E2E_BIN/client-go-elector"
  else
    # .cargo/config.toml selects a version of Kubernetes that older releases of k8s-openapi lack.
    K8S_OPENAPI_ENABLED_VERSION='' cargo build --quiet --locked --target-dir target/rivals \
      --manifest-path "e2e/rivals/$1/Cargo.toml"
    echo "target/rivals/debug/deltafifo-e2e-$1"
  fi
}

for name in "${names[@]}"; do
  e2e=(timeout --verbose 600 target/debug/e2e --binaries "$DELTAFIFO_E2E_BIN")
  if [[ $name != deltafifo ]]; then
    program=$(candidate "$name")
    e2e+=(--candidate "$program")
  fi
  echo "== $name"
  "${e2e[@]}" --trials 20 election-full
  # With the other libraries, both candidates often lead at once. Such a trial is repeated, so a
  # hundred trials can take longer than ten minutes.
  if [[ $name == deltafifo || $name == client-go ]]; then "${e2e[@]}" election-handovers; fi
done
