#!/usr/bin/env bash
# Fuzzes every target of fuzz/ for SECONDS (60 by default) or ten million executions: ci/fuzz.sh
# [SECONDS [TARGET...]]. A finding ends it with an error and stays in fuzz/artifacts. It shows that
# nothing was found in that many executions, not that there is no fault.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/common.sh
seconds=${1:-60}
shift || true

need_nightly
cargo +nightly fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz >/dev/null 2>&1 ||
  cargo install cargo-fuzz || skip "cargo-fuzz cannot be installed"

all=($(cargo +nightly fuzz list))
((${#all[@]})) || { echo "no fuzz targets were found" >&2; exit 1; }
targets=("${@:-${all[@]}}")
# The inputs contain no long constants that a fuzzer would have to guess (those of `files` are in
# its seeds), so comparisons need no instrumentation. AddressSanitizer need not record allocation
# stacks, which only its reports use: a finding can be run again with them. Together this gives two
# to four times as many executions.
build=(--no-trace-compares)
export ASAN_OPTIONS=${ASAN_OPTIONS:-malloc_context_size=1:detect_stack_use_after_return=0:quarantine_size_mb=16:max_malloc_fill_size=64}
# Targets are built first, so that building takes none of a target's seconds. All of them are built
# at a time, because one target keeps one core busy. A failed build is an error.
if (($# == 1)); then only=("$1"); else only=(); fi
cargo +nightly fuzz build "${build[@]}" "${only[@]}"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=()
printf '%-12s %12s %10s %8s %8s\n' target executions per_second cov ft
for target in "${targets[@]}"; do
  # New inputs go to the first directory. The seeds stay as they are committed.
  mkdir -p "fuzz/corpus/$target"
  # The largest input in bytes: larger ones only take time. A file needs more than a list of
  # operations, and operations of four bytes each need more than others.
  case $target in
    files | compact) longest=8192 ;;
    caches | wire | workqueue) longest=512 ;;
    *) longest=256 ;;
  esac
  ended=0
  cargo +nightly fuzz run "${build[@]}" "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" -- \
    -max_total_time="$seconds" -runs=10000000 -max_len="$longest" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
    >"$log" 2>&1 || ended=$?
  # The last line of progress has the coverage: "#1234 DONE cov: 567 ft: 890 ...".
  read -r cov ft < <(sed -nE 's/^#[0-9]+.* cov: ([0-9]+) ft: ([0-9]+) .*/\1 \2/p' "$log" | tail -n 1) || true
  executions=$(sed -nE 's/^stat::number_of_executed_units: *//p' "$log")
  rate=$(sed -nE 's/^stat::average_exec_per_sec: *//p' "$log")
  printf '%-12s %12s %10s %8s %8s\n' "$target" "${executions:-?}" "${rate:-?}" "${cov:-?}" "${ft:-?}"
  if ((ended)) || ((${executions:-0} == 0)); then
    tail -n 60 "$log"
    failed+=("$target")
  fi
done
if ((${#failed[@]})); then
  echo "findings: ${failed[*]}"
  exit 1
fi
echo "ok: nothing found by ${#targets[@]} targets, $seconds s each"
