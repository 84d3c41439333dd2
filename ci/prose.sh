#!/usr/bin/env bash
# Checks the prose that a machine can check: that lines have at most 100 columns, the cells of
# tables, how sentences and the docs of functions begin, and the words and names that this script
# lists. Files in `ci/prose-exceptions.txt` are left out: they are still to be rewritten. A file
# there without a violation is an error, so the list only shrinks. `prose.sh --all` prints every
# violation, of files in the list too.
#
# It does not prove that a sentence is true, or easy to read. It does not find words that a line
# break separates, nor names in capitals. Docs of functions in Go are not checked: they begin with
# the name.
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

# Prints `path:line:text` of every line of prose: comments of Rust, Go, shell and TOML, texts of
# errors, logs and `doc` attributes, and Markdown outside code fences.
prose() {
  files '*.rs' '*.go' '*.sh' '*.toml' .ci/run '*.md' | while IFS= read -r file; do
    case $file in
      *.rs | *.go) grep -HnE '^[[:space:]]*//|[^:"]// ' "$file" | sed -E 's|^([^:]*:[0-9]*:)( *)([^/].*)?(// .*)$|\1\4|' || true ;;
      *.md) awk -v file="$file" '/^ *```/ { code = !code; next } !code { print file ":" FNR ":" $0 }' "$file" ;;
      *) grep -HnE '^ *# ' "$file" || true ;;
    esac
  done
  texts
}

# Prints `path:line:text` of the strings in `#[error]`, `#[doc]` and calls of tracing's macros. Such
# a call ends in its line, or at the next line with the same indentation.
texts() {
  files '*.rs' | xargs awk '
    function indentation() { match($0, /^ */); return RLENGTH }
    FNR == 1 { inside = 0; continues = 0 }
    /^ *\/\// && !continues { next }
    inside && !continues && indentation() <= start { inside = 0 }
    !inside && /(^|[^a-z_])(error|warn|info|debug|trace)!?\(|doc = "/ { inside = 1; one_line = /\)[^"]*$/; start = indentation() }
    inside {
      rest = $0
      if (continues) sub(/^ */, "\"", rest)
      continues = 0
      while (match(rest, /"([^"\\]|\\.)*("|\\?$)/)) {
        print FILENAME ":" FNR ":" substr(rest, RSTART + 1, RLENGTH - 1)
        if (substr(rest, RSTART, RLENGTH) ~ /[^"]$/) continues = 1
        rest = substr(rest, RSTART + RLENGTH)
      }
      if (one_line && !continues) inside = 0
    }'
}

# Table rows, code and lines with an address are left out. A tab of Go takes four columns.
long_lines() {
  files '*.rs' '*.go' '*.sh' '*.toml' .ci/run '*.md' | LC_ALL=C xargs awk '
    # All that follows an unclosed fence would count as code, and would not be checked.
    function end_file() { if (code && is_markdown) print previous ":1: a code fence that is not closed" }
    FNR == 1 { end_file(); code = 0; previous = FILENAME }
    { is_comment = /^[ \t]*(\/\/|# )/; is_markdown = FILENAME ~ /\.md$/ }
    !is_markdown && !is_comment { code = 0 }
    { is_behind_code = FILENAME ~ /\.(rs|go)$/ && !is_comment && /[^:"]\/\/ / }
    (is_markdown || is_comment) && /^ *(\/\/[\/!]? *|# *)?```/ { code = !code; next }
    !(is_markdown || is_comment || is_behind_code) || code || /https?:/ || /^ *(\/\/[\/!])? *\|/ { next }
    # Continuation bytes of UTF-8 take no column.
    { text = $0; gsub(/[\200-\277]/, "", text); gsub(/\t/, "    ", text)
      if (length(text) > 100) print FILENAME ":" FNR ": longer than 100 columns" }
    END { end_file() }'
}

# Finds table rows with more cells than the header, whose further cells are not shown, and tables
# without a line below the header, which are shown as text. A lost line break causes both. A bar
# ends a cell in a code span, too, unless a backslash precedes it.
tables() {
  files '*.rs' '*.md' | xargs awk '
    FNR == 1 { code = 0; rows = 0 }
    { row = $0; sub(/^ *(\/\/[\/!] ?)? */, "", row) }
    (FILENAME ~ /\.md$/ || /^ *\/\/[\/!]/) && row ~ /^```/ { code = !code }
    FILENAME ~ /\.rs$/ && !/^ *\/\/[\/!]/ { code = 0; rows = 0; next }
    code || row !~ /^\|/ { rows = 0; next }
    { rows++; bars = row; gsub(/\\\|/, "", bars); sub(/\| *$/, "", bars); cells = gsub(/\|/, "", bars) }
    rows == 1 { header = cells }
    rows == 2 && row !~ /^[-|: ]+$/ { print FILENAME ":" FNR ": a table without a line below its header" }
    cells > header { print FILENAME ":" FNR ": a table row with more cells than the header" }'
}

patterns() {
  local sentence='(^[^:]*:[0-9]+: *(//[/!]?|#|[-*]|[0-9]+\.)? *|[.:] )'
  local text
  text=$(prose)
  find_in() { # message, pattern
    grep -E "$2" <<<"$text" | sed -E "s|^([^:]*:[0-9]+):.*|\1: $1|" || true
  }
  find_in "a sentence begins with What, Who, The same or Again" \
    "$sentence(What|Who|Whoever|Whose|The same|Again)\b[^?.]*(\.|$)"
  find_in "told, so many, meanwhile, all the same, whoever or somebody" \
    '(^|[^`[:alnum:]_])([Tt]old|[Ss]o many|[Mm]eanwhile|[Aa]ll the same|[Ww]hoever|[Ss]omebody)($|[^`[:alnum:]_])'
  find_in "\"who\" without a noun before it" \
    '\b(of|by|for|to|with|and|or|from|but|than|wakes?|asks?|lets?|tells?|shows?|stops?) who(ever)?\b'
}

# Finds docs of functions whose first word does not end in -s, as a third-person verb does. "Keys
# of" is a noun. Tests and loom models are left out: their docs describe a scenario.
function_docs() {
  files '*.rs' | grep -v '^loom-tests/src/models/' | xargs awk '
    FNR == 1 { doc = ""; is_test = 0; in_attribute = 0 }
    in_attribute { in_attribute = !/\]$/; next }
    /^ *\/\/\/( |$)/ { if (doc == "") { doc = $0; line = FNR }; next }
    /^ *#\[(tokio::)?test/ { is_test = 1 }
    /^ *#/ { in_attribute = /[(\\]$/; next }
    /^ *(pub(\([a-z: ]*\))? )?(default )?(const )?(async )?(unsafe )?(extern "C" )?fn [a-z_]/ {
      is_verb = doc ~ /^ *\/\/\/ ([A-Z][A-Za-z-]*s([ ,:.]|$)|# )/ &&
        doc !~ /^ *\/\/\/ ((This|These|Its|Is|Was|As|Always|Sometimes|Perhaps|Unless|Less)[ ,]|[A-Za-z-]*s of )/
      if (doc != "" && !is_test && !is_verb)
        print FILENAME ":" line ": a function doc that does not begin with a third-person verb"
    }
    { doc = ""; is_test = 0 }'
}

# Finds names and block comments in code without its strings and comments. `Next` and `Entry` are
# names of the standard library, so they are not listed.
names() {
  files '*.rs' '*.go' | xargs awk '
    { code = $0; gsub(/"([^"\\]|\\.)*"/, "", code); sub(/\/\/.*/, "", code) }
    code ~ /(^|[^A-Za-z0-9_])([Tt]old|[Ss]aid|[Hh]eard|fn look)([^A-Za-z0-9_]|$)/ ||
    code ~ /(^|[^A-Za-z0-9_])(struct|enum|trait|type|fn|mod|use) +([a-z_:]*::)?(Taken|Spent|News|Look|Left|What|Intake|Shares|strangers|unharmed|patience|soundly|desks)([^A-Za-z0-9_]|$)/ {
      print FILENAME ":" FNR ": a name that ci/prose.sh rules out"
    }
    code ~ /(^|[ \t])\/\*/ { print FILENAME ":" FNR ": a block comment, which this script does not check" }'
}

exceptions=ci/prose-exceptions.txt
[[ ${1:-} == --all ]] && exceptions=/dev/null
found=$({ long_lines; tables; patterns; function_docs; names; } | sort -t: -k1,1 -k2,2n)
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
