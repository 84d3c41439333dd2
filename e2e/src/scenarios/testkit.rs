//! The scenario of the test kit, which must answer as the real API server does, and serve
//! `kubectl`: see `testkit/`.

use deltafifo::BoxError;
use deltafifo_testkit::{ApiServer, Resource, Serving, ShardSelectors};
use kube::{Client, Config};
use serde_json::json;

use super::{Ended, Outcome, Setting};
use crate::servers::{self, NAMESPACE, Options, SHARDED, Servers};
use crate::testkit::{Compared, KUBECTL, check, compare, compare_selectors};

pub async fn run(setting: &Setting) -> Ended {
    let mut compared = without_selectors(setting).await?;
    compared.add(with_selectors(setting).await?);
    let Compared { requests, differences } = compared;
    if !differences.is_empty() {
        let count = differences.len();
        let all = differences.join("\n");
        return Err(format!("{count} of {requests} answers differ:\n{all}").into());
    }
    let commands = check(&setting.binaries.join(KUBECTL), &setting.dir).await?;
    Ok(Outcome::Held(format!("{requests} answers were equal, and {commands} kubectl commands")))
}

/// Compares the answers to all requests.
async fn without_selectors(setting: &Setting) -> Result<Compared, BoxError> {
    // Pods need no account here.
    let arguments = vec!["--disable-admission-plugins=ServiceAccount"];
    let mut servers = Servers::start(setting, Options { arguments, ..Options::default() }).await?;
    let (_serving, kit) = kit(ShardSelectors::Ignored).await?;
    let compared = compare(servers.client(), kit).await?;
    // The next servers use the same directory.
    servers.kill_api().await?;
    servers.stop_etcd().await?;
    servers::tidy(&setting.dir);
    Ok(compared)
}

/// Compares the answers to lists and watches with `shardSelector`, of servers that honour it.
async fn with_selectors(setting: &Setting) -> Result<Compared, BoxError> {
    let arguments = vec![SHARDED];
    let servers = Servers::start(setting, Options { arguments, ..Options::default() }).await?;
    let (_serving, kit_of_all) = kit(ShardSelectors::Honoured).await?;
    let (_uncached, kit_of_lists) = kit(ShardSelectors::HonouredInLists).await?;
    compare_selectors(servers.client(), kit_of_all, kit_of_lists).await
}

/// Returns a test kit behind a connection, as the real server is, and a client of it.
async fn kit(selectors: ShardSelectors) -> Result<(Serving, Client), BoxError> {
    let kit = ApiServer::builder()
        .resources(Resource::known())
        .managed_fields(true)
        .shard_selectors(selectors)
        .build();
    kit.apply(
        json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": NAMESPACE } }),
    )?;
    let serving = kit.serve("127.0.0.1:0".parse()?).await?;
    let client = Client::try_from(Config::new(serving.url().parse()?))?;
    Ok((serving, client))
}
