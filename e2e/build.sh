#!/usr/bin/env bash
# Builds kube-apiserver and etcd (`e2e/server`), client-go's informer and a candidate with
# client-go's elector (`e2e/client-go`), and kubectl (`e2e/kubectl`), through Go's module proxy,
# into target/e2e/bin or DELTAFIFO_E2E_BIN. Does nothing if the programs exist and were built from
# the current sources.
# Exits with 3 and prints the reason if no suitable Go is installed.
#
# A cold build takes 4 to 6 minutes on two cores, 90 MB of downloads, 2 GB of memory, and 3 GB in
# Go's caches.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${DELTAFIFO_E2E_BIN:-$here/../target/e2e/bin}
mkdir -p "$bin"
bin=$(cd "$bin" && pwd)
export CGO_ENABLED=0 GOFLAGS=-mod=readonly

need_go() { # in a module's folder
  command -v go >/dev/null || { echo "Go is not installed: install 1.26 or newer" >&2; exit 3; }
  # Reads go.mod only. If Go may download a newer version of itself, it does so here.
  local message
  message=$(go list -m 2>&1) || { echo "this Go is too old: ${message##*$'\n'}" >&2; exit 3; }
}

# Succeeds if all programs exist and the file `note` has the hash of the current sources.
are_built() { # note, sources, program...
  [[ $(cat "$bin/$1" 2>/dev/null) == "$2" ]] || return
  local program
  for program in "${@:3}"; do [[ -x $bin/$program ]] || return; done
}

# Builds programs of the module in this folder, unless they were built from the current sources.
build() { # title, file with the hash of the sources, programs, go build's arguments...
  local title=$1 note=$2 programs sources from=$SECONDS
  read -ra programs <<<"$3"
  sources=$(find . -name '*.go' -o -name 'go.*' | LC_ALL=C sort | xargs cat | git hash-object --stdin)
  if are_built "$note" "$sources" "${programs[@]}"; then return; fi
  need_go
  rm -f "$bin/$note"
  go build -trimpath "${@:4}"
  echo "$sources" >"$bin/$note"
  echo "built $title in $((SECONDS - from)) s"
}

servers() {
  cd "$here/server"
  local version minor at flags
  # The API server needs its own version, which its releases set at link time.
  version=$(awk '$1 == "k8s.io/kubernetes" { print $2 }' go.mod)
  IFS=. read -r _ minor _ <<<"$version"
  at=k8s.io/component-base/version
  flags="-s -w -X $at.gitVersion=$version -X $at.gitMajor=1 -X $at.gitMinor=$minor"
  build "kube-apiserver $version and etcd" sources "kube-apiserver etcd" \
    -ldflags "$flags" -o "$bin/" ./kube-apiserver ./etcd
}

client_go() {
  cd "$here/client-go"
  build "client-go's informer and elector" client-go.sources "client-go client-go-elector" \
    -ldflags "-s -w" -o "$bin/" . ./client-go-elector
}

kubectl() {
  cd "$here/kubectl"
  local version flags
  # kubectl v1.36.3 is the module's v0.36.3. Its version is in the header User-Agent.
  version=v1.$(awk '$1 == "k8s.io/kubectl" { print substr($2, 4) }' go.mod)
  flags="-s -w -X k8s.io/component-base/version.gitVersion=$version"
  flags+=" -X k8s.io/client-go/pkg/version.gitVersion=$version"
  build "kubectl $version" kubectl.sources kubectl -ldflags "$flags" -o "$bin/" .
}

servers
client_go
kubectl
