//! The versions of the dependencies of this binary, from its lock file.

const LOCK: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock"));

/// Returns the version of a dependency. If the lock file has several versions of it, returns the
/// one that this package depends on. Returns `of unknown version` if the lock file has none.
pub fn locked(dependency: &str) -> &'static str {
    let own = package("deltafifo-bench").find_map(|package| {
        let line = package
            .lines()
            .find_map(|line| line.trim().strip_prefix(&format!("\"{dependency} ")))?;
        line.split(['"', ' ']).next()
    });
    own.or_else(|| package(dependency).find_map(version)).unwrap_or("of unknown version")
}

fn package(name: &str) -> impl Iterator<Item = &'static str> {
    let line = format!("name = \"{name}\"");
    LOCK.split("[[package]]").filter(move |package| package.lines().any(|l| l == line))
}

fn version(package: &'static str) -> Option<&'static str> {
    package.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::locked;

    #[test]
    fn locked_version_is_that_of_this_package() {
        assert_eq!(locked("deltafifo-bench"), env!("CARGO_PKG_VERSION"));
        assert!(locked("hashbrown").starts_with("0.17."), "{}", locked("hashbrown"));
        assert_eq!(locked("no-such-package"), "of unknown version");
    }
}
