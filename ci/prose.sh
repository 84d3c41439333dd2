#!/usr/bin/env bash
# Checks the prose that a machine can check: the length of lines, how sentences and the docs of
# functions begin, and the words and names that this script lists. Files in
# `ci/prose-exceptions.txt` are left out: they are still to be rewritten. A file there without a
# violation is an error, so the list only shrinks. `prose.sh --all` prints every violation, of files
# in the list too.
#
# It does not prove that a sentence is true, or easy to read.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
# Without a repository there is no list of files, and nothing would be checked.
git rev-parse --is-inside-work-tree >/dev/null

# Lists the files that match the patterns, without those that are deleted and not yet committed.
files() {
  git ls-files -co --exclude-standard "$@" | while IFS= read -r file; do
    if [[ -f $file ]]; then printf '%s\n' "$file"; fi
  done
}

# Prints `path:line:text` of every line of prose: comments of Rust, shell and TOML, and Markdown
# outside code fences.
prose() {
  files '*.rs' '*.sh' '*.toml' .ci/run '*.md' | while IFS= read -r file; do
    case $file in
      *.rs) grep -HnE '^ *//|[^:"]// ' "$file" | sed -E 's|^([^:]*:[0-9]*:)( *)([^/].*)?(// .*)$|\1\4|' || true ;;
      *.md) awk -v file="$file" '/^ *```/ { code = !code; next } !code { print file ":" FNR ":" $0 }' "$file" ;;
      *) grep -HnE '^ *# ' "$file" || true ;;
    esac
  done
}

# Table rows, code and lines with an address are left out.
long_lines() {
  files '*.rs' '*.sh' '*.toml' .ci/run '*.md' | LC_ALL=C xargs awk '
    FNR == 1 { code = 0 }
    { is_comment = /^ *(\/\/|# )/; is_markdown = FILENAME ~ /\.md$/ }
    !is_markdown && !is_comment { code = 0 }
    { is_behind_code = FILENAME ~ /\.rs$/ && !is_comment && /[^:"]\/\/ [A-Z`]/ }
    (is_markdown || is_comment) && /^ *(\/\/[\/!]? *|# *)?```/ { code = !code; next }
    !(is_markdown || is_comment || is_behind_code) || code || /https?:/ || /^ *(\/\/[\/!])? *\|/ { next }
    # Continuation bytes of UTF-8 take no column.
    { text = $0; gsub(/[\200-\277]/, "", text)
      if (length(text) > 100) print FILENAME ":" FNR ": longer than 100 columns" }'
}

patterns() {
  local sentence='(^[^:]*:[0-9]+: *(//[/!]?|#|[-*]|[0-9]+\.)? *|[.:] )'
  local text
  text=$(prose)
  find_in() { # message, pattern
    grep -E "$2" <<<"$text" | sed -E "s|^([^:]*:[0-9]+):.*|\1: $1|" || true
  }
  find_in "a sentence begins with What, Who, The same or Again" \
    "$sentence(What|Who|Whoever|Whose|The same|Again)\b[^?]*$"
  find_in "told, so many, meanwhile, all the same, whoever or somebody" \
    '(^|[^`[:alnum:]_])(told|so many|meanwhile|all the same|[Ww]hoever|[Ss]omebody)($|[^`[:alnum:]_])'
  find_in "\"who\" without a noun before it" \
    '\b(of|by|for|to|with|and|or|from|but|than|wakes?|asks?|lets?|tells?|shows?|stops?) who(ever)?\b'
}

# Finds docs of functions whose first word does not end in -s, as a third-person verb does. Tests
# and loom models are left out: their docs describe a scenario.
function_docs() {
  files '*.rs' | grep -v '^loom-tests/src/models/' | xargs awk '
    FNR == 1 { doc = ""; is_test = 0 }
    /^ *\/\/\/( |$)/ { if (doc == "") { doc = $0; line = FNR }; next }
    /^ *#\[(tokio::)?test/ { is_test = 1; next }
    /^ *(#|\)\])/ { next }
    /^ *(pub(\([a-z: ]*\))? )?(default )?(const )?(async )?(unsafe )?(extern "C" )?fn [a-z_]/ {
      if (doc != "" && !is_test && doc !~ /^ *\/\/\/ ([A-Z][A-Za-z-]*s([ ,:.]|$)|# )/)
        print FILENAME ":" line ": a function doc that does not begin with a third-person verb"
    }
    { doc = ""; is_test = 0 }'
}

# `Next` and `Entry` are names of the standard library, so they are not listed.
names() {
  files '*.rs' | xargs grep -nE \
    -e '\b(struct|enum|trait|type|fn|mod|use) +([a-z_:]*::)?(Told|Taken|Spent|News|Said|Heard|Look|Left|What|Intake|Shares|strangers|unharmed|patience|soundly|desks)\b' \
    -e '(\||\blet (mut )?)(told|said|heard)\b' |
    sed -E 's|^([^:]*:[0-9]+):.*|\1: a name that ci/prose.sh rules out|' || true
}

exceptions=ci/prose-exceptions.txt
[[ ${1:-} == --all ]] && exceptions=/dev/null
found=$({ long_lines; patterns; function_docs; names; } | sort -t: -k1,1 -k2,2n)
excepted=$(grep -v '^#' "$exceptions" || true)
report=$(awk -F: -v list="$excepted" -v name="$exceptions" '
  BEGIN { n = split(list, file, "\n"); for (i = 1; i <= n; i++) excepted[file[i]] = file[i] != "" }
  excepted[$1] { used[$1] = 1; next }
  $0 != "" { print }
  END { for (i = 1; i <= n; i++) if (file[i] != "" && !used[file[i]])
    print name ": " file[i] " has no violation: remove its line" }' <<<"$found")
if [[ -n $report ]]; then
  printf '%s\n' "$report"
  exit 1
fi
echo "ok: prose, $(grep -c . <<<"$excepted" || true) exceptions"
