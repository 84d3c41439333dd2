//! A test of signals, which reach every controller of a process. kube's watches go on after the
//! first one.

use deltafifo_testkit::Fault;
use nix::sys::signal::{Signal, raise};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::yield_now;

use super::{OURS, finalized};
use crate::alone::is_alone;
use crate::stage::speech;
use crate::wirings::kinds::{server, site};

#[tokio::test]
async fn first_signal_lets_reconciles_end_and_second_stops_them() {
    let test = "::first_signal_lets_reconciles_end_and_second_stops_them";
    if !is_alone(&(module_path!().to_owned() + test)) {
        return;
    }
    let (server, (say, _lines)) = (server(), speech());
    server.apply(site("a", json!({ "title": "A" }))).unwrap();
    // From here on the signal does not end the process.
    let mut signals = signal(SignalKind::terminate()).unwrap();
    // The reconcile waits for a response for ever.
    server.fault(Fault::silence().when(|request| request.name() == Some("a")));
    let running = tokio::spawn(finalized::run(server.client(), say));
    server.wait_for_request(|request| request.name() == Some("a")).await;
    server.wait_for_watchers(1).await;
    raise(Signal::SIGTERM).unwrap();
    signals.recv().await;
    for _ in 0..100 {
        yield_now().await;
    }
    assert!(!running.is_finished(), "the reconcile goes on");
    if OURS {
        server.wait_for_watchers(0).await;
    }
    raise(Signal::SIGTERM).unwrap();
    running.await.unwrap();
}
