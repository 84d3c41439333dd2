//! The memory that a run needs, which is the memory of its largest turn. If the objects did not
//! fit into memory, the system would kill a process, possibly an unrelated one.
//!
//! The functions below count, for each key, the objects that a workload keeps alive at the same
//! time. The sizes are rounded up from the peak of the resident memory of every engine and
//! workload, each in a process of its own, with 50,000 generated objects and with 1,000 pods.
//! The peaks with generated objects, in bytes a key, are:
//!
//! - `relist`: 4,600 in `deltafifo`, 6,500 in `kube-writer`, 3,400 in `client-go-informer`;
//! - `churn`: 5,600 in `deltafifo`, 8,400 in `kube-writer`, 4,200 in `client-go-informer`;
//! - `events`: 4,000 in Rust, 5,700 in Go;
//! - `stall`: 4,200 in Rust, 6,100 in Go.

use super::plan::Plan;
use super::turn::Turn;
use crate::names::{EngineName, Workload};

/// The bytes that an engine takes per key, including free memory that the allocator keeps.
const KEY: u64 = 1_100;
/// Bytes for a generated object, including the pointer to it in a list.
const GENERATED: u64 = 1_000;
/// Bytes for a decoded pod, most of them for its managed fields.
const POD: u64 = 51_000;
/// Bytes for a decoded pod in Go, where repeated pods share their strings.
const POD_IN_GO: u64 = 22_000;
/// The number of offers that the workload `stall` creates in advance for each second of
/// `--seconds`: 10,000 for its measurement, and 10,000 for its control (`workloads/stall`).
const OFFERS_A_SECOND: f64 = 20_000.0;

/// The error of a run that needs more memory than is free.
#[derive(Debug, thiserror::Error)]
#[error(
    "not enough memory: {engine} needs about {needed} MB for {objects} objects, and {free} MB are free; \
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
        let needs = Turn::all(self).into_iter().map(|turn| (turn, Need::of(self, &turn)));
        let Some((turn, need)) = needs.max_by_key(|(turn, need)| need.bytes(turn.objects)) else {
            return Ok(());
        };
        let needed = need.bytes(turn.objects);
        if needed <= free {
            return Ok(());
        }
        let most = free.saturating_sub(need.fixed) / need.key;
        let [needed, free] = [needed, free].map(|bytes| bytes / 1_000_000);
        Err(TooLarge { engine: turn.engine, objects: turn.objects, needed, free, most })
    }
}

/// The memory of a turn, in bytes: a part for each key, and a fixed part.
struct Need {
    key: u64,
    fixed: u64,
}

impl Need {
    fn of(plan: &Plan, turn: &Turn) -> Self {
        let object = match (&plan.settings.input, turn.engine.is_go()) {
            (None, _) => GENERATED,
            (Some(_), false) => POD,
            (Some(_), true) => POD_IN_GO,
        };
        let workloads = turn.workloads(plan);
        let most = |list| {
            let alive = workloads.iter().filter(|workload| workload.is_list() == list);
            alive
                .map(|workload| {
                    KEY + object * alive_at_once(*workload, turn.engine, plan.settings.owned)
                })
                .max()
        };
        let (lists, others) = (most(true), most(false));
        // The memory of the lists is freed at the end of the process, except in Go, where the
        // collector frees it.
        let retained = match (lists, turn.engine) {
            (None, _) => 0,
            (_, engine) if engine.is_go() => 0,
            (_, engine) if engine.makes_deltas() => KEY + 3 * object,
            _ => KEY + 6 * object,
        };
        let key = lists.unwrap_or(0).max(others.map_or(0, |others| retained + others));
        let stalls = workloads.contains(&Workload::Stall);
        Self { key, fixed: if stalls { offers(plan) * object } else { 0 } }
    }

    fn bytes(&self, objects: usize) -> u64 {
        self.key.saturating_mul(objects as u64).saturating_add(self.fixed)
    }
}

/// Returns how many objects of each key are alive at the same time.
fn alive_at_once(workload: Workload, engine: EngineName, owned: bool) -> u64 {
    let [rust, kube_writer, go] = match workload {
        Workload::Initial => [1, 3, 2],
        Workload::Relist if !owned => [2, 6, 3],
        Workload::Relist => [4, 6, 3],
        Workload::Churn => [5, 8, 4],
        Workload::Events => [3, 0, 5],
        Workload::Stall | Workload::SlowHandler => [3, 0, 6],
        Workload::Readers => [2, 5, 3],
        Workload::Queries => [1, 3, 1],
        // This workload has keys without objects.
        Workload::WorkQueue => [0, 0, 0],
        Workload::Memory => [2, 6, 3],
        // All objects once, and some of a relist.
        Workload::Cache => [1, 1, 1],
    };
    match engine {
        EngineName::KubeWriter | EngineName::KubeWriterArc => kube_writer,
        engine if engine.is_go() => go,
        _ => rust,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an hour has few enough"
)]
fn offers(plan: &Plan) -> u64 {
    (plan.settings.length.as_secs_f64() * OFFERS_A_SECOND) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(engine: EngineName, workloads: &[Workload], objects: usize) -> Plan {
        Plan::of(&[engine], workloads, objects)
    }

    /// Checks the estimates against measured peaks, in bytes a key with 50,000 objects. An estimate
    /// must not be below the peak, and must be less than one and a half times the peak.
    #[test]
    fn estimate_is_near_the_measured_peak() {
        let all = Workload::ALL;
        for (engine, workloads, measured) in [
            (EngineName::Mutex, &all[1..2], 4_574),
            (EngineName::Mutex, &all[..3], 5_621),
            (EngineName::Mutex, &all[3..4], 4_015),
            (EngineName::Mutex, &all[..9], 7_763),
            (EngineName::KubeWriter, &all[..3], 8_406),
            (EngineName::KubeWriter, &all[4..6], 5_202),
            (EngineName::KubeWriter, &all[..9], 11_963),
            (EngineName::ClientGoDeltaFifo, &all[4..5], 6_100),
            (EngineName::ClientGoInformer, &all[3..4], 5_689),
        ] {
            let turn = Turn::all(&plan(engine, workloads, 50_000))[0];
            let key = Need::of(&plan(engine, workloads, 50_000), &turn).bytes(50_000) / 50_000;
            assert!(
                (measured..measured * 3 / 2).contains(&key),
                "{engine} {workloads:?}: {key} for {measured}"
            );
        }
    }

    /// Checks that the run that BENCHMARKS.md recommends fits into the free memory of an otherwise
    /// idle machine with 24 GiB.
    #[test]
    fn documented_growth_run_fits_the_memory() {
        for engine in [
            EngineName::DeltaFifo,
            EngineName::Mutex,
            EngineName::Floor,
            EngineName::ClientGoDeltaFifo,
        ] {
            let growth = plan(engine, &[Workload::Initial, Workload::Relist], 4_000_000);
            assert!(growth.check_memory(22_000_000_000).is_ok(), "{engine}");
        }
    }

    #[test]
    fn advised_number_of_objects_fits_the_memory() {
        let plan = |objects| plan(EngineName::KubeWriter, Workload::ALL, objects);
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
