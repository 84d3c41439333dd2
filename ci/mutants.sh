#!/usr/bin/env bash
# Runs cargo-mutants on the safe code of core and on informer. It makes one change at a time and
# runs the package's tests, which must fail. A surviving mutant is code that no test checks.
# `mutants.sh [FILE...]`: these files of core/src and informer/src, by default all (hours on two
# cores; a file of logic such as core/src/fifo/settle.rs takes some minutes).
#
# Proves that the tests check the effect of each line, not that their expectations are right. Left
# out: the slot and the facade, whose defects are orderings and races, which the models' own
# mutants cover; and the entries of `.cargo/mutants.toml`, each with the reason why no test could
# detect it. Survivors are an error. A test that hangs (because a queue returns nothing) is ended
# by nextest, see `.config/nextest.toml`, and counts as failed.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/common.sh

cargo mutants --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-mutants ||
  skip "cargo-mutants cannot be installed"
cargo nextest --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-nextest ||
  skip "cargo-nextest cannot be installed"

for file in "$@"; do
  compgen -G "$file" >/dev/null || { echo "no such file: $file" >&2; exit 1; }
done
output=${CARGO_TARGET_DIR:-target}
missed=$(mktemp)
trap 'rm -f "$missed"' EXIT
caught=0

# Mutates a package in its directory, with the requested files, and runs the given tests.
mutate() {
  local package=$1 directory=$2 files=() file status=0 what
  shift 2
  for file in "${requested[@]}"; do
    [[ $file != "$directory"/* ]] || files+=(--file "$file")
  done
  ((${#requested[@]} == 0 || ${#files[@]} > 0)) || return 0
  mkdir -p "$output/$package"
  # The copy of the tree has its own build directory, built without debug information.
  env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=none PROPTEST_CASES=32 NEXTEST_PROFILE=mutants \
    cargo mutants --package "$package" "${files[@]}" --output "$output/$package" --test-tool nextest \
    --exclude 'core/src/engine/slot/**' --exclude 'core/src/engine/sync/**' \
    --timeout 120 --no-shuffle --colors never -- "$@" ||
    status=$?
  echo "$package"
  for what in caught timeout unviable missed; do
    printf '%-9s %5d\n' "$what" "$(wc -l <"$output/$package/mutants.out/$what.txt")"
  done
  # The exit status prefers a timeout to a survivor, so the list of survivors is read: 2 means a
  # survivor, 3 a timeout, anything else an error.
  if ((status != 0 && status != 2 && status != 3)); then exit "$status"; fi
  caught=$((caught + $(wc -l <"$output/$package/mutants.out/caught.txt")))
  cat "$output/$package/mutants.out/missed.txt" >>"$missed"
}

requested=("$@")
# Without the stress test, which is slower and finds nothing that the others do not.
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
