#!/usr/bin/env bash
# Cache misses and misses of the tables of pages, an object, of every hot path (`bench/examples/misses.rs`), for a machine
# whose counters cannot be read: callgrind simulates the caches. `misses.sh [OBJECTS]`, 100,000 without.
#
# It knows neither prefetches nor the processor's own guesses: what was brought near ahead counts as a miss too. So these
# are the lines (and pages) that are touched while they are far away, not the time that was waited for them.
set -euo pipefail
cd "$(dirname "$0")/.."
objects=${1:-100000}
cargo build --quiet --release -p deltafifo-bench --example misses
driver=target/release/examples/misses
out=$(mktemp)
log=$(mktemp)
trap 'rm -f "$out" "$log"' EXIT

# The last level is to a million objects what 32 MiB are, a size that the simulator has.
last=$((1 << 15))
while ((last * 1000000 / objects < 32 << 20)); do last=$((last * 2)); done
lines="--I1=32768,8,64 --D1=32768,8,64 --LL=$last,16,64"
# Pages as lines: 64 entries of the first level, 2048 of the second for a million.
entries=64
while ((entries * 1000000 / objects < 2048)); do entries=$((entries * 2)); done
pages="--I1=262144,64,4096 --D1=262144,64,4096 --LL=$((entries * 4096)),8,4096"

count() { # engine path simulation: instructions and misses, D1 read and write, LL read and write
  # shellcheck disable=SC2086
  valgrind --log-file="$log" --tool=callgrind --cache-sim=yes $3 --toggle-collect='misses::counted*' \
    --callgrind-out-file="$out" "$driver" "$1" "$2" "$objects" || { cat "$log" >&2; return 1; }
  # Ir Dr Dw I1mr D1mr D1mw ILmr DLmr DLmw
  sed -n 's/^\(totals\|summary\): //p' "$out" | awk -v of="$objects" '
    END { printf "%7.0f %6.2f %6.2f %6.2f %6.2f\n", $1 / of, $5 / of, $6 / of, $8 / of, $9 / of }'
}

printf '%s objects; last level %s KiB, second level of pages %s entries\n' "$objects" $((last >> 10)) "$entries"
printf '%-14s %-18s %7s  %-27s  %s\n' path engine instr. "D1 rd    wr  LL rd    wr" "pages: 64 rd  wr  all rd  wr"
for path in initial-join initial-drain relist-join relist-drain update pop get; do
  for engine in deltafifo deltafifo-skip floor floor-partitioned mutex; do
    case $engine-$path in
    floor*-update | floor*-pop | floor*-get | floor*-drain | deltafifo-skip-update | deltafifo-skip-get) continue ;;
    deltafifo-skip-pop | deltafifo-skip-initial-* | deltafifo-skip-relist-drain) continue ;;
    esac
    printf '%-14s %-18s %s  %s\n' "$path" "$engine" "$(count "$engine" "$path" "$lines")" \
      "$(count "$engine" "$path" "$pages" | cut -c8-)"
  done
done
