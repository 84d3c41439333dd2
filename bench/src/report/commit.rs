//! The commit of the source.

use std::path::Path;
use std::process::{Command, Stdio};

/// The files that are compiled into the tools and their programs in Go, or that determine how they
/// are built. Reports, documents and tests are not among them, because they do not change a figure.
const SOURCES: &[&str] = &[
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "bench/Cargo.toml",
    "bench/data",
    "bench/examples",
    "bench/peers",
    "bench/src",
    "core/Cargo.toml",
    "core/src",
    "informer/Cargo.toml",
    "informer/src",
    "classic/Cargo.toml",
    "classic/src",
    "testkit/Cargo.toml",
    "testkit/src",
];

/// Returns the commit of the source in a directory, followed by `-dirty` if the [`SOURCES`] differ
/// from it. A binary may be older than this source, which is not detected.
pub(super) fn commit(top: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(top).args(arguments).stderr(Stdio::null());
        git.output().ok().filter(|output| output.status.success())
    };
    let head = git(&["rev-parse", "--short", "HEAD"])?;
    let commit = String::from_utf8_lossy(&head.stdout).trim().to_owned();
    let changed = git(&[&["status", "--porcelain", "--"], SOURCES].concat())?;
    Some(if changed.stdout.is_empty() { commit } else { format!("{commit}-dirty") })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_changed_sources_mark_the_commit_as_dirty() {
        let top = tempfile::tempdir().expect("a directory");
        assert_eq!(commit(top.path()), None, "it is not a repository");
        let git = |arguments: &str| {
            let mut git = Command::new("git");
            git.arg("-C").arg(top.path()).args(["-c", "user.name=a", "-c", "user.email=a@b.c"]);
            let ended = git.args(arguments.split(' ')).output().expect("there is git");
            assert!(ended.status.success(), "{arguments}");
        };
        ["init", "commit --allow-empty -m one"].into_iter().for_each(git);
        let clean = commit(top.path()).expect("a commit");
        let write = |name: &str| {
            let path = top.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("it can be created");
            fs::write(path, "one").expect("it can be written");
        };
        ["README.md", "bench/report/figures.md", "bench/tests/cli.rs"].into_iter().for_each(write);
        assert_eq!(commit(top.path()).as_ref(), Some(&clean));
        write("core/src/lib.rs");
        assert_eq!(commit(top.path()), Some(format!("{clean}-dirty")));
    }
}
