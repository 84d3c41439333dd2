//! A turn: the process of one client, from its start to its measured CPU time and memory.

use std::fmt;
use std::time::Duration;

use serde_json::{Map, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::client::{CUT, ClientCounts, RELIST, THERE};
use super::client_name::{ClientName, Program};
use super::error::TurnFailed;
use super::objects::Objects;
use super::plan::{ServerPlan, WORKLOAD};
use super::process::{Process, Usage};
use crate::machine::Machine;
use crate::process::peak_of;
use crate::protocol::Row;
use crate::rounds::order;
use crate::warm::ReservedMemory;

/// The interval at which pieces of the [`ReservedMemory`] are released to a client. A client uses a
/// few megabytes in this time.
const RELEASE_INTERVAL: Duration = Duration::from_millis(5);

/// A turn of one client.
#[derive(Clone, Copy)]
pub(super) struct ClientTurn {
    round: usize,
    rounds: usize,
    pub client: ClientName,
    /// Whether a client in Go has Go's default settings for memory. It is faster with more memory,
    /// so it has two turns in a round: one measures times with the faster settings, and the other
    /// measures peaks with the default ones.
    has_defaults: bool,
}

impl ClientTurn {
    /// Returns all turns in order.
    pub fn all(clients: &[ClientName], rounds: usize) -> Vec<Self> {
        let mut all = Vec::new();
        for round in 1..=rounds {
            for client in order(clients, round) {
                let turn = Self { round, rounds, client, has_defaults: false };
                all.push(turn);
                if client.program() == Program::Go {
                    all.push(Self { has_defaults: true, ..turn });
                }
            }
        }
        all
    }

    /// Measures the client. Returns the rows, and the client's description of itself.
    pub async fn run(
        &self,
        plan: &ServerPlan,
        objects: &Objects,
    ) -> Result<(Vec<Row>, String), TurnFailed> {
        if let Some(curl) =
            plan.chosen.curl.as_ref().filter(|_| self.client.program() == Program::Curl)
        {
            let (usage, bytes) = curl.read(&objects.namespace, self.client.is_streamed()).await?;
            let rows = times("list", usage.wall, usage.cpu, &map(&[("bytes", bytes)])).into();
            return Ok((rows, curl.version.clone()));
        }
        let command =
            plan.chosen.command(self.client, &plan.kubeconfig, plan.objects, self.has_defaults)?;
        let mut reserved = ReservedMemory::reserve(plan.objects, Machine::available_bytes());
        let mut process = Process::start(command)?;
        let id = process.id;
        // The task ends with this function.
        let mut releasing = JoinSet::new();
        releasing.spawn(async move {
            while reserved.release(peak_of(id)) {
                sleep(RELEASE_INTERVAL).await;
            }
        });

        let (listed, counts) = completed(&mut process, "its initial list").await?;
        let (calls, stored, objects_there) = (counts.calls, counts.stored, objects.number);
        if (calls, stored) != (objects_there, objects_there) {
            return Err(TurnFailed::Objects { calls, stored, objects: objects_there });
        }
        let first = map(&[("notified", calls), ("store_len", stored)]);

        process.write_line(CUT).await?;
        let answer = process.line("the cut").await?;
        if answer != CUT {
            return Err(TurnFailed::Answer(answer));
        }
        let changed = objects.change().await.map_err(|error| TurnFailed::Change(error.into()))?;
        let before = process.usage()?;
        process.write_line(&format!("{RELIST} {changed}")).await?;
        let (relisted, counts) = completed(&mut process, "its relist").await?;
        if counts.changed != changed {
            return Err(TurnFailed::Changes { notified: counts.changed, changed });
        }
        let second =
            map(&[("notified", counts.calls), ("changed", changed), ("store_len", counts.stored)]);

        let mut rows = Vec::new();
        if !self.has_defaults {
            rows.extend(times("list", listed.wall, listed.cpu, &first));
            // Its time has no row, because it consists of the client's pauses before it requests
            // the list.
            let cpu = relisted.cpu.saturating_sub(before.cpu).as_secs_f64();
            rows.push(row("relist-cpu", "s", cpu, &second));
        }
        if self.has_defaults || self.client.program() != Program::Go {
            rows.push(peak("list-peak", listed, objects, &first));
            rows.push(peak("relist-peak", relisted, objects, &second));
        }
        Ok((rows, counts.version))
    }
}

impl fmt::Display for ClientTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peaks = if self.has_defaults { ", peaks" } else { "" };
        write!(f, "round {}/{}: {}{peaks}", self.round, self.rounds, self.client)
    }
}

/// Waits until the client has notified its handler of everything. Returns the elapsed time, the CPU
/// time and the memory at that moment, and the counts, which the client collects afterwards.
async fn completed(
    process: &mut Process,
    step: &'static str,
) -> Result<(Usage, ClientCounts), TurnFailed> {
    let answer = process.line(step).await?;
    let usage = process.usage()?;
    if answer != THERE {
        return Err(TurnFailed::Answer(answer));
    }
    let counts = process.line(step).await?;
    Ok((usage, serde_json::from_str(&counts).map_err(|_| TurnFailed::Answer(counts))?))
}

type Extra = Map<String, serde_json::Value>;

fn map(counts: &[(&str, usize)]) -> Extra {
    counts.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect()
}

fn row(variant: &str, unit: &str, value: f64, extra: &Extra) -> Row {
    let (variant, unit) = (variant.to_owned(), unit.to_owned());
    Row { workload: WORKLOAD.to_owned(), variant, unit, value, extra: extra.clone() }
}

fn times(variant: &str, wall: Duration, cpu: Duration, extra: &Extra) -> [Row; 2] {
    let cpu = row(&format!("{variant}-cpu"), "s", cpu.as_secs_f64(), extra);
    [row(variant, "s", wall.as_secs_f64(), extra), cpu]
}

/// Returns the row of the process's peak, in bytes an object.
#[expect(clippy::cast_precision_loss, reason = "bytes are far below 2^53")]
fn peak(variant: &str, usage: Usage, objects: &Objects, extra: &Extra) -> Row {
    let mut extra = extra.clone();
    extra.extend([
        ("start_bytes".to_owned(), json!(0)),
        ("peak_bytes".to_owned(), json!(usage.peak)),
    ]);
    row(variant, "B", usage.peak as f64 / objects.number as f64, &extra)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_in_go_has_two_turns_in_a_round() {
        let turns = ClientTurn::all(&[ClientName::Curl, ClientName::ClientGoList], 1);
        let turns: Vec<_> = turns.iter().map(ToString::to_string).collect();
        let go = ["round 1/1: client-go-list", "round 1/1: client-go-list, peaks"];
        assert_eq!(turns, ["round 1/1: curl", go[0], go[1]]);
    }
}
