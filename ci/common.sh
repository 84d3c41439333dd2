# Functions shared by the scripts, which source this file.

# Ends a script whose tools are not available. This is neither an error nor a success. The file
# SKIPPED records it for `.ci/run`.
skip() { # why
  echo "skipped: $*" | tee -a "${SKIPPED:-/dev/null}"
  exit 0
}

# Miri, sanitizers and libFuzzer's instrumentation need nightly.
need_nightly() {
  cargo +nightly --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal >/dev/null 2>&1 ||
    skip "no nightly toolchain is installed or can be installed"
}

# Runs a test command, which must succeed and must have run at least one test. (Concurrent seeds of
# Miri write over each other, so some lines of the result are damaged.)
tested() { # command...
  local output
  output=$("$@" 2>&1 | tee >(cat >&2)) && grep -Eq 'running [1-9][0-9]* test' <<<"$output"
}

# Builds the API server, etcd, and client-go's informer and elector in DELTAFIFO_E2E_BIN, unless
# they exist.
build_servers() {
  export DELTAFIFO_E2E_BIN=${DELTAFIFO_E2E_BIN:-target/e2e/bin}
  local status=0
  e2e/build.sh || status=$?
  if ((status == 3)); then skip "no Go was found that can build the API server"; fi
  if ((status)); then exit "$status"; fi
}
