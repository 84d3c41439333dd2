//! The times that scenarios print.

use std::fmt;
use std::time::Duration;

/// Measured times of one kind, the shortest first. It displays a summary.
pub struct Times(Vec<Duration>);

impl FromIterator<Duration> for Times {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_unstable();
        Self(times)
    }
}

impl Times {
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(times) = self;
        let Some(longest) = times.last() else { return f.write_str("none") };
        let (median, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        write!(f, "{median:.3?}, p99 {p99:.3?}, at most {longest:.3?}")
    }
}
