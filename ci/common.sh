# What the scripts share; they source it.

# Ends a script whose tools cannot be had. Not an error, and never an ok. `.ci/run` is told by the
# file SKIPPED.
skip() { # why
  echo "skipped: $*" | tee -a "${SKIPPED:-/dev/null}"
  exit 0
}

# Miri, sanitizers and libFuzzer's instrumentation need nightly.
need_nightly() {
  cargo +nightly --version >/dev/null 2>&1 || rustup toolchain install nightly --profile minimal >/dev/null 2>&1 ||
    skip "there is no nightly toolchain, and it cannot be installed"
}

# Runs a test command: it must end well, and there must have been tests in it. (Miri's seeds write
# over each other, so not every line of the result is one.)
tested() { # command...
  local said
  said=$("$@" 2>&1 | tee >(cat >&2)) && grep -Eq 'running [1-9][0-9]* test' <<<"$said"
}

# Builds the API server, etcd and client-go's informer, where they are not yet: in
# DELTAFIFO_E2E_BIN.
build_servers() {
  export DELTAFIFO_E2E_BIN=${DELTAFIFO_E2E_BIN:-target/e2e/bin}
  local status=0
  e2e/build.sh || status=$?
  if ((status == 3)); then skip "there is no Go that can build the API server"; fi
  if ((status)); then exit "$status"; fi
}
