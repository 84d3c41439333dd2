#!/usr/bin/env bash
# Counts the instructions of the hot paths (`bench/instructions`) with callgrind. No
# path may take 2 % more than `bench/instructions.txt` has. `instructions.sh record` rewrites that
# file; the change belongs to the commit that caused the difference, whose message says why it is
# acceptable.
#
# Proves: on one thread and without contention these paths execute no more instructions than when
# the file was written. Says nothing about time, cache misses, contention or other paths. Counts
# depend on the compiler: this script builds with the one that the file names. `record` uses the
# default compiler, in a commit of its own if that is another one.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/common.sh
baseline=bench/instructions.txt

if [[ ${1:-} != record ]]; then
  version=$(sed -n 's/^# rustc \([^ ]*\) .*/\1/p' "$baseline")
  host=$(sed -n 's/^# rustc .*, //p' "$baseline")
  [[ $(rustc -vV | sed -n 's/^host: //p') == "$host" ]] || skip "$baseline was recorded on $host"
  [[ $(rustc -V) == "rustc $version "* ]] || export RUSTUP_TOOLCHAIN=$version
  rustc -V >/dev/null 2>&1 || rustup toolchain install "$version" --profile minimal >/dev/null 2>&1 ||
    skip "rustc $version, with which $baseline was recorded, cannot be installed"
fi

valgrind --version >/dev/null 2>&1 || { apt-get update && apt-get install --yes valgrind; } >/dev/null 2>&1 ||
  skip "valgrind cannot be installed"
# The runner must have the exact version of the crate. A debug build of it is fast enough, and
# builds sooner.
version=$(cargo pkgid --locked gungraun | sed 's/.*@//')
[[ $(gungraun-runner --version 2>/dev/null) == "gungraun-runner $version" ]] ||
  CARGO_PROFILE_DEV_DEBUG=none cargo install --quiet --locked --debug "gungraun-runner@$version" ||
  skip "gungraun-runner $version cannot be installed"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo bench --quiet -p deltafifo-instructions -- --color=never \
  --callgrind-args=--cache-sim=no --callgrind-metrics=ir >"$log" || { cat "$log"; exit 1; }
# "instructions::hot_paths::update idle:(...)", and then "  Instructions:  10368277|N/A".
counts=$(awk '/^[^ ]/ { name = $1 "." $2; sub(/^.*::/, "", name); sub(/:.*/, "", name) }
  $1 == "Instructions:" { print name, $2 + 0 }' "$log")
[[ -n $counts ]] || { cat "$log"; echo "nothing was counted" >&2; exit 1; }

if [[ ${1:-} == record ]]; then
  compiler="# $(rustc -V), $(rustc -vV | sed -n 's/^host: //p')"
  title="# Instructions of 10,000 operations each, as \`ci/instructions.sh record\` found them."
  printf '%s\n' "$title" "$compiler" "$counts" | tee "$baseline"
  exit 0
fi

# Fails if a count is above the limit, or the baseline has other names.
awk -v percent=2 '
  BEGIN { printf "%-20s %12s %12s %9s\n", "instructions", "baseline", "now", "" }
  /^#/ { next }
  FILENAME != "-" { was[$1] = $2; next }
  !($1 in was) { printf "%-20s %12s %12d  not in the baseline\n", $1, "", $2; failed = 1; next }
  {
    more = ($2 / was[$1] - 1) * 100
    verdict = more > percent ? "  too many" : more < -percent ? "  fewer: record them" : ""
    if (more > percent) failed = 1
    printf "%-20s %12d %12d %+8.2f%%%s\n", $1, was[$1], $2, more, verdict
    delete was[$1]
  }
  END {
    for (name in was) { printf "%-20s %12d %12s  not counted\n", name, was[name], ""; failed = 1 }
    exit failed
  }' "$baseline" - <<<"$counts" || {
  echo "if this is intended, record it: ci/instructions.sh record" >&2
  exit 1
}
echo "ok: no path takes 2 % more instructions"
