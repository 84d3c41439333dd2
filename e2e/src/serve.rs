//! Runs only the servers, for clients in other programs. `ci/server.sh` and `ci/million.sh` measure
//! such clients.

use std::path::Path;
use std::{fs, io, thread};

use deltafifo::BoxError;
use tokio::sync::oneshot;

use crate::fill::fill;
use crate::scenarios::Setting;
use crate::servers::{self, Options, Servers};

/// Starts both servers, and prints the path of a kubeconfig for them. Then creates this number of
/// objects, and prints how many the servers have, and why it stopped. The servers run until the
/// standard input ends.
pub async fn serve(binaries: &Path, objects: Option<usize>) -> Result<(), BoxError> {
    let dir = tempfile::Builder::new().prefix("deltafifo-e2e-").tempdir()?;
    let setting = Setting {
        binaries: binaries.to_owned(),
        dir: dir.path().to_owned(),
        smoke: false,
        objects,
        trials: None,
        candidate: None,
        etcd34: None,
    };
    let servers = Servers::start(&setting, Options::default()).await;
    let servers = servers.inspect_err(|_| eprint!("{}", servers::logs(&setting.dir)))?;
    let kubeconfig = setting.dir.join("kubeconfig");
    fs::write(&kubeconfig, servers.kubeconfig().to_string())?;
    println!("{}", kubeconfig.display());
    if let Some(objects) = objects {
        println!("{}", fill(&servers.writer(), objects).await?);
    }
    // A thread that nothing joins: a signal must end the program without waiting for its input.
    let (sender, ended) = oneshot::channel();
    thread::spawn(move || sender.send(io::copy(&mut io::stdin(), &mut io::sink())));
    ended.await??;
    Ok(())
}
