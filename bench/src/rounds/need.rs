//! The memory that a run needs, which is that of its largest turn. If the objects did not fit into
//! memory, the system would kill a process, possibly an unrelated one.

use super::plan::Plan;
use crate::names::{EngineName, Workload};
use crate::warm::process_bytes;

/// The memory of a decoded pod, divided by that of a generated object.
const POD: u64 = 50;
/// The bytes of a pod in the workload `cache`, rounded up from the largest peak of an engine.
const CACHED: u64 = 90_000;

/// The error of a run that needs more memory than is free.
#[derive(Debug, thiserror::Error)]
#[error(
    "not enough memory: {engine} needs at least {needed} MB for {objects} objects, and {free} MB are free; \
     pass --objects {most} or fewer, or leave out engines with --engine or workloads with --workload"
)]
pub struct TooLarge {
    engine: EngineName,
    objects: usize,
    needed: u64,
    free: u64,
    most: u64,
}

impl Plan {
    /// Returns an error if the plan needs more memory than the `free` bytes.
    pub fn check_memory(&self, free: u64) -> Result<(), TooLarge> {
        let key = |engine: EngineName| self.key_bytes(engine);
        let largest = self.engines.iter().copied().max_by_key(|engine| key(*engine));
        let (Some(engine), Some(objects)) = (largest, self.objects.iter().copied().max()) else {
            return Ok(());
        };
        let needed = key(engine).saturating_mul(objects as u64);
        if needed <= free {
            return Ok(());
        }
        let most = free / key(engine);
        let [needed, free] = [needed, free].map(|bytes| bytes / 1_000_000);
        Err(TooLarge { engine, objects, needed, free, most })
    }

    /// Returns the memory that an engine's process needs for each key, in bytes.
    fn key_bytes(&self, engine: EngineName) -> u64 {
        let settings = &self.settings;
        if settings.includes(Workload::Cache) {
            return CACHED;
        }
        let object = if settings.input.is_some() { POD } else { 1 };
        let process = process_bytes(engine) as u64 * object;
        // Without the variant `owned` a relist has two lists less.
        let has_fewer = !settings.owned && settings.workloads.iter().all(|one| one.is_list());
        if has_fewer { process / 3 * 2 } else { process }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the runs that BENCHMARKS.md recommends fit into the free memory of an otherwise
    /// idle machine with 24 GiB.
    #[test]
    fn documented_runs_fit_the_memory() {
        let engines = [
            EngineName::DeltaFifo,
            EngineName::Mutex,
            EngineName::Floor,
            EngineName::ClientGoDeltaFifo,
        ];
        let growth = Plan::of(&engines, &[Workload::Initial, Workload::Relist], 4_000_000);
        assert!(growth.check_memory(22_000_000_000).is_ok());
        let mut cache = Plan::of(&[EngineName::KubeWriter], &[Workload::Cache], 100_000);
        cache.settings.input = Some("pods".into());
        assert!(cache.check_memory(22_000_000_000).is_ok());
    }

    #[test]
    fn advised_number_of_objects_fits_the_memory() {
        let plan = |objects| Plan::of(&[EngineName::KubeWriter], Workload::ALL, objects);
        let error = plan(4_000_000).check_memory(24_000_000_000).expect_err("too many");
        let most = usize::try_from(error.most).expect("it is below");
        assert!(plan(most).check_memory(24_000_000_000).is_ok());
        assert!(plan(most + 1).check_memory(24_000_000_000).is_err());
        let message = error.to_string();
        assert!(
            message.contains("kube-writer") && message.contains(&most.to_string()),
            "{message}"
        );
    }
}
