//! Estimates of the time of a turn.
//!
//! The times below were measured on another machine with two busy cores: with 640,000 objects for
//! lists, and with 50,000 for the other workloads. `progress.rs` corrects them by the times of the
//! turns that are already measured.

use super::plan::Plan;
use super::turn::Turn;
use crate::names::{EngineName, Workload};

/// The time to create a decoded pod, divided by the time to create a generated object.
const POD: f64 = 10.0;

/// The additional microseconds for each object of a list if the variant `owned` of a relist is also
/// measured. In this variant only the engine holds the lists. The microseconds include the first
/// use of the memory.
const OWNED: f64 = 5.0;

/// Returns the microseconds that an engine needs for each object of a list.
fn list(engine: EngineName) -> f64 {
    match engine {
        EngineName::Floor | EngineName::FloorTwoThreads | EngineName::DeltaFifo => 1.7,
        EngineName::DeltaFifoOneThread => 2.0,
        EngineName::Mutex | EngineName::DashMap => 3.6,
        engine if engine.is_go() => 9.0,
        _ => 3.0,
    }
}

/// Returns the estimated seconds of a turn.
#[expect(clippy::cast_precision_loss, reason = "a guess has one digit")]
pub(super) fn seconds(plan: &Plan, turn: &Turn) -> f64 {
    let length = plan.settings.length.as_secs_f64();
    let object = if plan.settings.input.is_some() { POD } else { 1.0 };
    let of = |workload: Workload| {
        // Seconds in any case, and microseconds for each object: in Rust, and in Go.
        let (fixed, [rust, go]) = match workload {
            Workload::Initial | Workload::Relist | Workload::Churn => {
                let owned = if plan.settings.owned { OWNED } else { 0.0 };
                (0.1, [list(turn.engine) + owned; 2])
            }
            Workload::Events => (0.1, [70.0, 200.0]),
            Workload::Stall => (2.0 * length, [10.0, 50.0]),
            Workload::Readers => (5.0 * length, [20.0, 50.0]),
            // Every object is looked up forty times, and checked by forty scans.
            Workload::Queries => (0.1, [25.0, 60.0]),
            // Every key is taken nine times.
            Workload::WorkQueue => (0.1, [15.0, 40.0]),
            Workload::SlowHandler => (5.0, [10.0, 50.0]),
            Workload::Memory => (0.1, [10.0, 80.0]),
            Workload::Cache => (4.0, [15.0, 30.0]),
        };
        fixed + turn.objects as f64 * object * if turn.engine.is_go() { go } else { rust } / 1e6
    };
    turn.workloads(plan).into_iter().map(of).sum()
}
