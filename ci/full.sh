#!/usr/bin/env bash
# Runs everything that takes too long for `.ci/run`: all mutants, long stress, sanitizers, Miri
# over all tests, shuttle, long fuzzing, all scenarios with a real API server, and the checks of a
# release.
# `full.sh [PART...]` runs all parts by default (most of a day on two cores). `ci/full.txt` has the
# last result of each part that was run, with the commit and the date.
set -euo pipefail
cd "$(dirname "$0")/.."

run() { # part
  case $1 in
    models) ci/models.sh ;;
    # Histories of two and three candidates for a lease, with a fault.
    lease) cargo test --release -p deltafifo-informer --lib lease::protocol::explore -- --nocapture ;;
    # Histories of two and three members of a group that shares objects. A search of 13 million
    # worlds takes about 1 GB, and each core runs one.
    sharding) cargo test --release -p deltafifo-informer --lib sharding::protocol::explore -- --include-ignored --nocapture ;;
    # Histories of two to four electors, and of two to four members of a group, of which each is a
    # seed.
    simulation) SEEDS=100000 cargo test --release -p deltafifo-informer --lib simulation:: -- --nocapture ;;
    shuttle) ci/shuttle.sh 200000 ;;
    stress) STRESS_SECS=600 cargo test --release -p deltafifo --test stress ;;
    sanitizers) ci/sanitizers.sh 120 ;;
    miri-races | miri-engine | miri-stress | miri-compact) ci/miri.sh "${1#miri-}" ;;
    fuzz-operations | fuzz-handlers | fuzz-indexer | fuzz-keys | fuzz-files | fuzz-caches | fuzz-selectors | fuzz-wire | fuzz-workqueue | fuzz-compact | fuzz-prune)
      ci/fuzz.sh 3600 "${1#fuzz-}"
      ;;
    mutants) ci/mutants.sh ;;
    e2e) ci/e2e.sh all ;;
    # 100 leaders killed and 100 stopped; five of each fault with the default durations; 50 leaders
    # terminated and 50 killed on idle servers.
    e2e-election-full | e2e-election-defaults | e2e-election-handovers) ci/e2e.sh "${1#e2e-}" ;;
    # In each of three configurations 20 replicas killed and 20 stopped, in at most 10 minutes; then
    # 100 of each, and 20 of each other fault.
    e2e-replicas | e2e-replicas-full) ci/e2e.sh "${1#e2e-}" ;;
    # 1,000,000 config maps of a real API server, in controllers.
    million) ci/million.sh ;;
    # The bars of sharded controllers, and 1,000,000 objects in four replicas. Fails if an object is
    # missed. Figures depend on the load of the machine.
    replicas)
      cargo run --release -p deltafifo-bench --example replicas
      cargo run --release -p deltafifo-bench --example replicas -- --million
      ;;
    # Programs that compile with kube's runtime and with this project's. `cargo test` compiles and
    # runs them, too; this is the script that a user runs on other programs.
    kube-examples) ci/kube-examples.sh ;;
    # Elections with fewer trials, of this project's elector and of four other libraries.
    rivals) ci/rivals.sh ;;
    package | verify | msrv | musl | docs | deny | semver) ci/release.sh "$1" ;;
    *) echo "unknown part: $1" >&2; return 2 ;;
  esac
}

parts=("$@")
if ((!$#)); then
  parts=(models lease sharding simulation shuttle stress sanitizers miri-races miri-engine miri-stress miri-compact fuzz-operations fuzz-handlers
    fuzz-indexer fuzz-keys fuzz-files fuzz-caches fuzz-selectors fuzz-wire fuzz-workqueue fuzz-compact fuzz-prune mutants e2e
    e2e-election-full e2e-election-defaults e2e-election-handovers e2e-replicas e2e-replicas-full million replicas kube-examples rivals
    package verify msrv musl docs deny semver)
fi
# Records uncommitted changes, except those of the result file.
commit=$(git rev-parse --short HEAD)
if [[ -n $(git status --porcelain -- . ':!ci/full.txt') ]]; then commit+=+changes; fi
touch ci/full.txt
failed=0
for part in "${parts[@]}"; do
  from=$SECONDS
  log=$(mktemp)
  if run "$part" 2>&1 | tee "$log"; then outcome=held; else outcome=FAILED failed=1; fi
  # A fuzz target prints its figures in the line before the last.
  figures=$(grep -v '^$' "$log" | tail -n 2 | sed -E 's/ +/ /g' | paste -sd ';')
  if [[ $outcome == held ]] && grep -q '^skipped:' "$log"; then outcome=skipped; fi
  line=$(printf '%-16s %-8s %6.1f min  %s  %s  %s' "$part" "$outcome" \
    "$(awk -v s=$((SECONDS - from)) 'BEGIN { print s / 60 }')" "$commit" "$(date -u +%F)" "$figures")
  # Parts may run concurrently.
  exec 9>>ci/full.txt
  flock 9
  { grep -v "^$part " ci/full.txt || true; echo "$line"; } | sort >"$log"
  cat "$log" >ci/full.txt
  exec 9>&-
  rm -f "$log"
done
cat ci/full.txt
exit "$failed"
