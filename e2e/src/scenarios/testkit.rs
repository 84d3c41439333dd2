//! The scenario of the test kit, which must answer as the real API server does, and serve
//! `kubectl`: see `testkit/`.

use deltafifo_testkit::{ApiServer, Resource};
use serde_json::json;

use super::{Ended, Outcome, Setting};
use crate::servers::{NAMESPACE, Options, Servers};
use crate::testkit::{KUBECTL, check, compare};

pub async fn run(setting: &Setting) -> Ended {
    // Pods need no account here.
    let arguments = vec!["--disable-admission-plugins=ServiceAccount"];
    let servers = Servers::start(setting, Options { arguments, ..Options::default() }).await?;
    let kit = ApiServer::builder().resources(Resource::known()).managed_fields(true).build();
    kit.apply(
        json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": NAMESPACE } }),
    )?;
    // Over a connection, as the real server.
    let serving = kit.serve("127.0.0.1:0".parse()?).await?;
    let client = kube::Client::try_from(kube::Config::new(serving.url().parse()?))?;
    let compared = compare(servers.client(), client).await?;
    let (requests, differences) = (compared.requests, compared.differences);
    if !differences.is_empty() {
        let count = differences.len();
        let all = differences.join("\n");
        return Err(format!("{count} of {requests} answers differ:\n{all}").into());
    }
    let commands = check(&setting.binaries.join(KUBECTL), &setting.dir).await?;
    Ok(Outcome::Held(format!("{requests} answers were equal, and {commands} kubectl commands")))
}
