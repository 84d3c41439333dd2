//! The commit of the source.

use std::path::Path;
use std::process::{Command, Stdio};

/// The files that are compiled into the tool and its programs in Go, or that determine how they are
/// built. Reports, documents and tests are not among them, because they do not change a figure.
const SOURCES: &[&str] = &[
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "bench/Cargo.toml",
    "bench/data",
    "bench/peers",
    "bench/src",
    "core/Cargo.toml",
    "core/src",
    "informer/Cargo.toml",
    "informer/src",
    "classic/Cargo.toml",
    "classic/src",
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
        let write = |name: &str, text: &str| {
            let path = top.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("it can be created");
            fs::write(path, text).expect("it can be written");
        };
        let (source, others) =
            ("core/src/lib.rs", ["bench/report/figures.md", "README.md", "bench/tests/cli.rs"]);
        for name in others.into_iter().chain([source]) {
            write(name, "one");
        }
        ["init", "add .", "commit -m one"].into_iter().for_each(git);
        let clean = commit(top.path()).expect("a commit");
        assert!(clean.len() >= 7 && !clean.contains("dirty"), "{clean}");
        for name in others {
            write(name, "two");
        }
        assert_eq!(commit(top.path()), Some(clean.clone()));
        let dirty = Some(format!("{clean}-dirty"));
        write(source, "two");
        assert_eq!(commit(top.path()), dirty);
        write(source, "one");
        assert_eq!(commit(top.path()), Some(clean));
        write("bench/src/new.rs", "one");
        assert_eq!(commit(top.path()), dirty, "a new source that git does not know");
    }
}
