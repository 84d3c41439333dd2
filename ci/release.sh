#!/usr/bin/env bash
# Checks that the published crates can be released: `release.sh PART...`, all by default.
#
# - package: the crates can be packaged together. Every dependency has a version, and every file
#   that a manifest names exists. The packages are not built; `verify` does that.
# - verify: the packages build by themselves, outside of this repository.
# - msrv: they build with the Rust version of Cargo.toml, and nothing needs a newer one.
# - musl: the informer builds for musl, without and with compact objects, whose codec is written in
#   C. Prints the seconds of the first build, and of what the second adds to it.
# - docs: the documentation builds as on docs.rs: nightly, with its cfg, and with the Kubernetes
#   version from the package's own metadata instead of this repository's configuration.
# - deny: cargo-deny with deny.toml: known vulnerabilities, licences, sources of dependencies.
# - semver: cargo-semver-checks against the last tag `v*`: breaking changes need a new version.
#   Skipped before the first release.
#
# Publishing is manual: raise the version, date the changelog, run this, tag, and publish core,
# testkit and informer, in the order of their dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/common.sh

published=(-p deltafifo -p deltafifo-testkit -p deltafifo-informer)

tool() { # cargo subcommand
  cargo "$1" --version >/dev/null 2>&1 || cargo install --quiet --locked "cargo-$1" || skip "cargo-$1 cannot be installed"
}

run() { # part
  case $1 in
    package) cargo package --quiet --no-verify --allow-dirty --offline "${published[@]}" ;;
    verify) cargo package --quiet --allow-dirty "${published[@]}" ;;
    msrv)
      local version
      version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
      cargo "+$version" --version >/dev/null 2>&1 || rustup toolchain install "$version" --profile minimal >/dev/null 2>&1 ||
        skip "Rust $version cannot be installed"
      CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/msrv cargo "+$version" check --quiet --locked "${published[@]}" --features deltafifo-informer/compact,deltafifo-informer/leader-election
      ;;
    musl)
      local target=x86_64-unknown-linux-musl
      rustup target add "$target" >/dev/null 2>&1 || skip "Rust for musl cannot be installed"
      command -v musl-gcc >/dev/null || skip "musl-gcc was not found; it is in the package musl-tools"
      for features in '' compact; do
        local from=$SECONDS
        cargo build --quiet --target "$target" -p deltafifo-informer --features "$features"
        echo "features '$features': $((SECONDS - from)) s"
      done
      ;;
    docs)
      need_nightly
      # An empty value overrides .cargo/config.toml.
      for package in deltafifo deltafifo-testkit deltafifo-informer; do
        local features=()
        case $package in
          deltafifo-testkit) features=(--features k8s-openapi/latest) ;;
          deltafifo-informer) features=(--features compact,leader-election,scripted,k8s-openapi/latest) ;;
        esac
        K8S_OPENAPI_ENABLED_VERSION='' RUSTDOCFLAGS="--cfg docsrs --deny warnings" \
          CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/docsrs \
          cargo +nightly doc --quiet --no-deps -p "$package" "${features[@]}"
      done
      ;;
    deny)
      tool deny
      cargo deny check
      ;;
    semver)
      local last
      last=$(git describe --tags --match 'v*' --abbrev=0 2>/dev/null) || skip "there is no release yet"
      tool semver-checks
      cargo semver-checks "${published[@]}" --baseline-rev "$last"
      ;;
    *) echo "unknown part: $1" >&2; return 2 ;;
  esac
  echo "ok: $1"
}

if (($#)); then parts=("$@"); else parts=(package verify msrv musl docs deny semver); fi
# Each part in its own shell, so that a skipped part does not skip the others.
for part in "${parts[@]}"; do (run "$part"); done
