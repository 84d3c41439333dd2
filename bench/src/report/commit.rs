//! The commit of the source.

use std::path::Path;
use std::process::{Command, Stdio};

/// Returns the commit of the source in a directory, with a mark if its files have been changed. It
/// is the current source: if the binary is older, that is not noticed.
pub(super) fn commit(top: &Path) -> Option<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(top).args(["describe", "--always", "--dirty", "--exclude=*"]);
    let output = git.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn changed_file_marks_the_commit_as_dirty() {
        let top = tempfile::tempdir().expect("a directory");
        assert_eq!(commit(top.path()), None, "it is not a repository");
        let git = |arguments: &str| {
            let mut git = Command::new("git");
            git.arg("-C").arg(top.path()).args(["-c", "user.name=a", "-c", "user.email=a@b.c"]);
            let ended = git.args(arguments.split(' ')).output().expect("there is git");
            assert!(ended.status.success(), "{arguments}");
        };
        let write = |text| fs::write(top.path().join("lib.rs"), text).expect("it can be written");
        write("one");
        ["init", "add .", "commit -m one", "tag v1"].into_iter().for_each(git);
        let clean = commit(top.path()).expect("a commit");
        assert!(clean.len() >= 7 && clean.chars().all(|c| c.is_ascii_hexdigit()), "{clean}");
        write("two");
        assert_eq!(commit(top.path()), Some(format!("{clean}-dirty")));
    }
}
