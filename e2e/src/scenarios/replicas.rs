//! The scenarios of replicas that share config maps: replicas are killed, stopped, terminated, cut
//! off and started, their servers are stopped for a time, and their Leases are deleted. No owner of
//! a shard may write after a later owner has written, if the writes contain versions, and no change
//! may be missed; see `replicas/`.

use std::sync::atomic::{AtomicUsize, Ordering};

use deltafifo::BoxError;
use futures_util::future::try_join_all;

use super::{Ended, Outcome, Setting};
use crate::replicas::fault::Fault;
use crate::replicas::{Figures, Group, Recorder, ReplicaOptions};
use crate::servers::{self, Options, SHARDED, Servers};
use crate::timing::Timing;

/// The largest number of groups at a time.
const GROUPS: usize = 6;

/// The number of faults in each configuration.
struct Plan {
    /// The number of kills, and that of stops.
    strikes: usize,
    /// The number of each other fault of one group.
    others: usize,
    /// The number of each fault of the servers.
    outages: usize,
}

/// The configuration of the servers and the replicas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Configuration {
    /// Replicas hold all objects.
    Warm,
    /// Replicas hold only the objects of their shards, which the server does not select.
    Split,
    /// Replicas hold only the objects of their shards, which the server selects.
    Selected,
}

const CONFIGURATIONS: [Configuration; 3] =
    [Configuration::Warm, Configuration::Split, Configuration::Selected];

/// Kills and stops 20 replicas in each configuration, beside a few of each other fault.
pub async fn short(setting: &Setting) -> Ended {
    run(setting, &Plan { strikes: 20, others: 3, outages: 1 }).await
}

/// Kills and stops 100 replicas in each configuration, beside tens of each other fault.
pub async fn full(setting: &Setting) -> Ended {
    let strikes = setting.trials.unwrap_or(100);
    run(setting, &Plan { strikes, others: strikes.div_ceil(5), outages: strikes.div_ceil(20) })
        .await
}

/// Runs all configurations. Prints the numbers of each, and returns those of all.
async fn run(setting: &Setting, plan: &Plan) -> Ended {
    let mut all = Figures::default();
    for configuration in CONFIGURATIONS {
        let figures = configuration.run(setting, plan).await?;
        println!("{}; {figures}", figures.line(configuration.name()));
        all.add(figures);
    }
    let names = CONFIGURATIONS.map(Configuration::name).join(", ");
    Ok(Outcome::Held(format!("{}; {all}", all.line(&names))))
}

impl Plan {
    /// Returns the faults of single groups, in a random order.
    fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        for fault in Fault::ALL {
            let number = match fault {
                Fault::Kill | Fault::Stop => self.strikes,
                Fault::ApiKilled | Fault::EtcdGone => 0,
                _ => self.others,
            };
            faults.extend([fault].repeat(number));
        }
        fastrand::shuffle(&mut faults);
        faults
    }
}

impl Configuration {
    fn name(self) -> &'static str {
        match self {
            Self::Warm => "gate=off mode=warm by=key",
            Self::Split => "gate=off mode=split by=uid",
            Self::Selected => "gate=on mode=split by=uid",
        }
    }

    /// Runs groups until all faults of the plan are inflicted, and judges their histories.
    async fn run(self, setting: &Setting, plan: &Plan) -> Result<Figures, BoxError> {
        // The recorder reads the stored objects in etcd, and can only decode JSON.
        let mut arguments = vec!["--storage-media-type=application/json"];
        if self == Self::Selected {
            arguments.push(SHARDED);
        }
        let options = Options { arguments, ..Options::default() };
        let mut servers = Servers::start(setting, options).await?;
        let recorder = Recorder::start(servers.etcd_client()?);
        let (timing, faults) = (Timing::SHORT, plan.faults());
        let groups = (0..GROUPS.min(faults.len())).map(|number| {
            let options = ReplicaOptions { timing, split: self != Self::Warm };
            Group::start(setting, &servers, &recorder, format!("g{number}"), options)
        });
        let mut groups = try_join_all(groups).await?;
        let next = AtomicUsize::new(0);
        try_join_all(groups.iter_mut().map(|group| inflict(group, &faults, &next))).await?;
        for _ in 0..plan.outages {
            for outage in [Fault::ApiKilled, Fault::EtcdGone] {
                for group in &mut groups {
                    group.begin(outage, None);
                }
                match outage {
                    Fault::EtcdGone => servers.stop_etcd_for(timing.lease_duration).await?,
                    _ => servers.kill_api_for(timing.lease_duration).await?,
                }
                try_join_all(groups.iter_mut().map(Group::recover)).await?;
            }
        }
        let mut figures = Figures::default();
        for of_group in try_join_all(groups.into_iter().map(Group::conclude)).await? {
            figures.add(of_group);
        }
        // The servers of the next configuration use the same directory.
        servers.kill_api().await?;
        servers.stop_etcd().await?;
        servers::tidy(&setting.dir);
        Ok(figures)
    }
}

/// Inflicts the faults that no other group has taken.
async fn inflict(group: &mut Group, faults: &[Fault], next: &AtomicUsize) -> Result<(), BoxError> {
    // Relaxed: the number guards no other data.
    while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
        group.inflict(*fault).await?;
    }
    Ok(())
}
