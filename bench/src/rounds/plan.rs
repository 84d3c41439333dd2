//! The plan of a run: its engines, workloads and numbers of objects.

use std::time::Duration;

#[cfg(feature = "peers")]
use crate::data::ListFiles;
use crate::names::EngineName;
#[cfg(test)]
use crate::names::Workload;
use crate::protocol::Settings;

#[derive(Clone, Debug)]
pub struct Plan {
    /// The engines, in order.
    pub engines: Vec<EngineName>,
    /// The numbers of objects.
    pub objects: Vec<usize>,
    pub rounds: usize,
    pub settings: Settings,
    /// The longest time that the run should take. If the estimate after the first turn is longer,
    /// the run starts again with fewer objects.
    pub limit: Option<Duration>,
}

#[cfg(feature = "peers")]
impl Plan {
    /// Sets the lists that the children read.
    pub fn with_lists(self, lists: &ListFiles) -> Self {
        let (input, second_list) = (Some(lists.first()), Some(lists.second()));
        Self { settings: Settings { input, second_list, ..self.settings }, ..self }
    }
}

#[cfg(test)]
impl Plan {
    /// Returns a plan of three rounds.
    pub fn of(engines: &[EngineName], workloads: &[Workload], objects: usize) -> Self {
        let (workloads, length) = (workloads.to_vec(), Duration::from_secs(2));
        let settings = Settings { workloads, input: None, second_list: None, length, owned: true };
        let (engines, objects) = (engines.to_vec(), vec![objects]);
        Self { engines, objects, rounds: 3, settings, limit: None }
    }
}
