#!/usr/bin/env bash
# cargo-mutants on core's safe code and on informer's: it changes one thing at a time and runs the
# package's tests, which must notice. What they do not notice is a place that no test looks at.
# `mutants.sh [FILE...]`: those files of core/src and informer/src, all of them by default (hours
# on two cores; a file of logic, such as core/src/fifo/settle.rs, takes some minutes).
#
# Proves that the tests look at what each line does; not that what they demand is right. Left out:
# the slot and the facade, whose defects are orderings and races, which these changes do not make
# and the models' own mutants do; and what `.cargo/mutants.toml` names, each with the reason why
# nothing could notice it. Survivors fail it. A test that waits for ever (a queue that hands out
# nothing) is ended by nextest, see `.config/nextest.toml`, and has noticed.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/common.sh

cargo mutants --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-mutants ||
  skip "cargo-mutants cannot be installed"
cargo nextest --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-nextest ||
  skip "cargo-nextest cannot be installed"

for file in "$@"; do
  compgen -G "$file" >/dev/null || { echo "there is no $file" >&2; exit 1; }
done
output=${CARGO_TARGET_DIR:-target}
missed=$(mktemp)
trap 'rm -f "$missed"' EXIT
caught=0

# Mutates a package, whose directory it is given, by the files asked for of it, and runs the tests
# that follow.
mutate() {
  local package=$1 directory=$2 files=() file status=0 what
  shift 2
  for file in "${asked[@]}"; do
    [[ $file != "$directory"/* ]] || files+=(--file "$file")
  done
  ((${#asked[@]} == 0 || ${#files[@]} > 0)) || return 0
  mkdir -p "$output/$package"
  # Its copy of the tree has a build directory of its own, built without what only a debugger needs.
  env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=none PROPTEST_CASES=32 NEXTEST_PROFILE=mutants \
    cargo mutants --package "$package" "${files[@]}" --output "$output/$package" --test-tool nextest \
    --exclude 'core/src/engine/slot/**' --exclude 'core/src/engine/sync/**' \
    --timeout 120 --no-shuffle --colors never -- "$@" ||
    status=$?
  echo "$package"
  for what in caught timeout unviable missed; do
    printf '%-9s %5d\n' "$what" "$(wc -l <"$output/$package/mutants.out/$what.txt")"
  done
  # Its status tells a timeout before a survivor, so the list is asked: 2 is a survivor, 3 a
  # timeout, anything else an error.
  if ((status != 0 && status != 2 && status != 3)); then exit "$status"; fi
  caught=$((caught + $(wc -l <"$output/$package/mutants.out/caught.txt")))
  cat "$output/$package/mutants.out/missed.txt" >>"$missed"
}

asked=("$@")
# The stress is left out: it finds what the others find, slower.
mutate deltafifo core --lib --test engine --test caches --test in_order
mutate deltafifo-informer informer --lib --test workqueue --test shared_informer
if ((caught == 0)); then
  echo "no mutant was caught: nothing was tried" >&2
  exit 1
fi
if [[ -s $missed ]]; then
  cat "$missed"
  exit 1
fi
echo "ok: no mutant survived"
