//! The names of the files of plots.

use std::collections::HashSet;

/// The number of bytes after which a name is cut. Every file system accepts such a name, also after
/// a number and an extension were added.
const LONGEST: usize = 100;

/// The file names that are in use.
#[derive(Default)]
pub struct Names(HashSet<String>);

impl Names {
    /// Returns a short file name of plain characters that no other plot has. Names that become
    /// equal because characters are replaced get a number.
    pub fn plain(&mut self, name: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
        let plain: String = name.trim_end().chars().map(plain).take(LONGEST).collect();
        let numbered = (2_usize..).map(|number| format!("{plain}-{number}"));
        let mut names = std::iter::once(plain.clone()).chain(numbered);
        names.find(|name| self.0.insert(name.clone())).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_short() {
        let mut names = Names::default();
        let plain = ["relist a b", "relist a-b", "relist a/b", "relist ", "relist a b 2"]
            .map(|name| names.plain(name));
        assert_eq!(
            plain,
            ["relist-a-b", "relist-a-b-2", "relist-a-b-3", "relist", "relist-a-b-2-2"]
        );
        let long = names.plain(&"ä".repeat(400));
        assert!(long.len() == LONGEST && names.plain(&"ä".repeat(500)) != long);
    }
}
