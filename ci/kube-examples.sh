#!/usr/bin/env bash
# Compiles programs that are written for kube's runtime twice: with kube's runtime, and with this
# project's. `kube-examples.sh` does so with the programs of `informer/tests/runtime/examples`, and
# `kube-examples.sh DIRECTORY` with the files below a directory that import `kube::runtime`, for
# example with the examples of a copy of kube-rs. Prints the files that compile with kube's runtime
# but not with ours, and at the end `N of M by imports alone`.
#
# A file is not changed. Each is a program of two generated packages, which differ in the crate that
# is called `kube`: in the second one it is kube with this project's `runtime` in place of its own.
# A change of all imports of `kube::runtime` has the same effect.
#
# Proves that names and signatures agree. The behaviour is tested by `cargo test --test imports`. A
# file that needs a crate that is not listed below compiles with neither, and does not count. Fails
# if less than 17/19 of the files that compile with kube's runtime compile with ours, if none
# compiles with kube's, or if one of this project's programs does not.
set -euo pipefail
shopt -s inherit_errexit
programs=$PWD
cd "$(dirname "$0")/.."

scratch=target/kube-examples
# The script keeps the compiled dependencies and the lock file for the next run.
rm -rf "$scratch"/{src,kube,ours,theirs}
mkdir -p "$scratch/src"

# Prints the files that import something of kube's runtime, in one line or in a group.
importing() { # directory
  find "$1" -name target -prune -o -name '*.rs' -print0 |
    xargs -0 -r grep -lzE '(^|\n)[^/\n]*(kube::runtime|use kube::\{[^;]*[[:space:],{]runtime(::|,|\s*\}))' || true
}

# Writes the program of a file of another directory.
copy() { # file, name
  cp "$1" "$scratch/src/$2.rs"
}

# Writes a program that includes one of this project's, in a module whose parent has the `runtime`.
include() { # file, name
  cat >"$scratch/src/$2.rs" <<RUST
#![allow(dead_code)]
mod twin {
    pub use kube::runtime;
    #[path = "$PWD/$(dirname "$1")/bed.rs"]
    pub mod bed;
    #[path = "$PWD/$1"]
    pub mod program;
}
fn main() {}
RUST
}

bins=''
program() { # command, file, name
  "$1" "$2" "$3"
  bins+=$(printf '\n[[bin]]\nname = "%s"\npath = "../src/%s.rs"\n' "$3" "$3")$'\n'
}

if (($#)); then
  directory=$(cd "$programs" && cd "$1" && pwd)
  while IFS= read -r file; do
    name=${file#"$directory/"}
    name=${name%.rs}
    program copy "$file" "${name//\//-}"
  done < <(importing "$directory" | LC_ALL=C sort)
  # The crates of kube-rs' examples.
  dependencies='
anyhow = "1"
bytes = "1"
clap = { version = "4", default-features = false, features = ["std", "cargo", "derive"] }
crossterm = "0.29"
edit = "0.1"
either = "1"
futures = "0.3"
http = "1"
http-body-util = "0.1"
hyper = { version = "1", features = ["client", "http1"] }
hyper-util = { version = "0.1", features = ["client-legacy", "http1", "tokio"] }
schemars = "1"
serde-saphyr = "2"
tokio-stream = { version = "0.1", features = ["net"] }
tokio-util = { version = "0.7", features = ["io"] }
tower = { version = "0.5", features = ["limit", "retry", "buffer"] }
tracing-subscriber = "0.3"
'
  features='"client", "derive", "ring", "rustls-tls", "runtime", "unstable-client", "unstable-runtime", "ws"'
else
  for file in informer/tests/runtime/examples/programs/*.rs; do
    name=$(basename "$file" .rs)
    # Not programs: the list of the modules, and a type that several programs use.
    case $name in mod | bed) ;; *) program include "$file" "$name" ;; esac
  done
  dependencies=''
  features='"client", "ring", "rustls-tls", "runtime", "unstable-runtime"'
fi

package() { # directory, name, the crate that is called kube
  mkdir -p "$scratch/$1"
  cat >"$scratch/$1/Cargo.toml" <<TOML
[package]
name = "$2"
version = "0.0.0"
edition = "2024"
autobins = false

[dependencies]
futures-util = "0.3"
k8s-openapi = { version = "0.29", features = ["latest"] }
kube = $3
serde = { version = "1", features = ["derive"] }
serde_json = "1"
thiserror = "2"
tokio = { version = "1", features = ["full"] }
tracing = "0.1"
$dependencies
$bins
TOML
}

real="version = \"5\", default-features = false, features = [$features]"
package theirs programs-with-kubes-runtime "{ $real }"
package ours programs-with-our-runtime '{ path = "../kube" }'
mkdir -p "$scratch/kube"
cat >"$scratch/kube/Cargo.toml" <<TOML
[package]
name = "kube"
version = "5.0.0"
edition = "2024"

[lib]
path = "lib.rs"

[dependencies]
deltafifo-informer = { path = "../../../informer" }
real = { package = "kube", $real }
TOML
cat >"$scratch/kube/lib.rs" <<'RUST'
//! kube with another runtime.
pub use deltafifo_informer::runtime;
pub use real::*;
RUST
cat >"$scratch/Cargo.toml" <<'TOML'
[workspace]
resolver = "3"
members = ["kube", "ours", "theirs"]
TOML
# The versions of the dependencies that both have.
[[ -e $scratch/Cargo.lock ]] || cp Cargo.lock "$scratch/Cargo.lock"

# Prints the names of the programs of a package that compile. Errors are in a log.
compiling() { # package, log
  (cd "$scratch" && CARGO_INCREMENTAL=0 cargo check --bins -p "$1" --keep-going \
    --message-format json-render-diagnostics 2>"$2") |
    sed -n 's/.*"reason":"compiler-artifact".*"kind":\["bin"\].*"name":"\([^"]*\)".*"src_path".*/\1/p' |
    LC_ALL=C sort || true
}

theirs=$(compiling programs-with-kubes-runtime theirs.log)
if [[ -z $theirs ]]; then
  tail -n 40 "$scratch/theirs.log" >&2
  echo "no program compiles with kube's runtime" >&2
  exit 1
fi
ours=$(compiling programs-with-our-runtime ours.log)
all=$(sed -n 's/^name = "\(.*\)"$/\1/p' <<<"$bins" | LC_ALL=C sort)
neither=$(LC_ALL=C comm -23 <(echo "$all") <(LC_ALL=C sort -u <(echo "$theirs") <(echo "$ours")))
changed=$(LC_ALL=C comm -23 <(echo "$theirs") <(echo "$ours"))
both=$(LC_ALL=C comm -12 <(echo "$theirs") <(echo "$ours") | grep -c . || true)
count=$(grep -c . <<<"$theirs")
for name in $neither; do echo "with neither runtime: $name ($scratch/theirs.log)"; done
for name in $changed; do echo "only with kube's runtime: $name ($scratch/ours.log)"; done
echo "$both of $count by imports alone"
if ((!$#)) && ((count != $(grep -c . <<<"$all"))); then
  echo "a program of this project does not compile with kube's runtime" >&2
  exit 1
fi
((both * 19 >= count * 17))
