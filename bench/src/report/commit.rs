//! The commit of the source.

use std::path::Path;
use std::process::{Command, Stdio};

/// The files that are compiled into the tool and the peers. Reports, documents and tests do not
/// change a figure.
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

/// Returns the commit of the source in a directory, with a mark if the sources have been changed.
/// It is the current source: if the binary is older, that is not noticed.
pub(super) fn commit(top: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(top).args(arguments).stderr(Stdio::null());
        git.output().ok().filter(|said| said.status.success())
    };
    let said = git(&["rev-parse", "--short", "HEAD"])?;
    let commit = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    let changed = git(&[&["status", "--porcelain", "--"], SOURCES].concat())?;
    Some(if changed.stdout.is_empty() { commit } else { format!("{commit}-dirty") })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_changed_sources_make_it_dirty() {
        let top = tempfile::tempdir().expect("a directory");
        assert_eq!(commit(top.path()), None, "it is no repository");
        let git = |arguments: &str| {
            let mut git = Command::new("git");
            git.arg("-C").arg(top.path()).args(["-c", "user.name=a", "-c", "user.email=a@b.c"]);
            assert!(
                git.args(arguments.split(' ')).output().expect("there is git").status.success(),
                "{arguments}"
            );
        };
        let write = |name: &str, text: &str| {
            let path = top.path().join(name);
            fs::create_dir_all(path.parent().expect("one")).expect("it can be made");
            fs::write(path, text).expect("it can be written");
        };
        let files = [
            "core/src/lib.rs",
            "bench/report/figures.md",
            "ci/full.txt",
            "README.md",
            "bench/tests/cli.rs",
        ];
        for name in files {
            write(name, "one");
        }
        git("init");
        git("add .");
        git("commit -m one");
        let clean = commit(top.path()).expect("a commit");
        assert!(clean.len() >= 7 && !clean.contains("dirty"), "{clean}");
        for name in &files[1..] {
            write(name, "two");
        }
        assert_eq!(commit(top.path()), Some(clean.clone()));
        write("core/src/lib.rs", "two");
        assert_eq!(commit(top.path()), Some(format!("{clean}-dirty")));
        write("core/src/lib.rs", "one");
        assert_eq!(commit(top.path()), Some(clean.clone()));
        write("bench/src/new.rs", "one");
        assert_eq!(
            commit(top.path()),
            Some(format!("{clean}-dirty")),
            "a source that is not known yet"
        );
    }
}
