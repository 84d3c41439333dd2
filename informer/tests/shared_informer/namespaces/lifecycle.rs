//! Tests of the initial sync and the stop of an informer of several namespaces.

use deltafifo_informer::shared_informer::Namespaces;
use deltafifo_testkit::Fault;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::rig::{LONG, apply, blue_and_green, builder, of, server, wait_for_stored};
use crate::rig::{QUEUES, run};

#[tokio::test(start_paused = true)]
async fn informer_of_an_empty_set_is_synced() {
    for choose in QUEUES {
        let namespaces = of([]);
        let server = server();
        apply(&server, "blue", "a", 1);
        let informer = choose(builder(&server, &namespaces)).build().unwrap();
        assert!(!informer.has_synced(), "it does not run");
        run(&informer);
        timeout(LONG, informer.wait_for_sync()).await.unwrap().unwrap();
        assert!(informer.watch_status().is_open);
        namespaces.add("blue").unwrap();
        wait_for_stored(&informer, &["blue/a=1"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn informer_of_a_followed_set_syncs_after_the_first_item() {
    for choose in QUEUES {
        let server = blue_and_green();
        let (send, mut receive) = mpsc::unbounded_channel::<Vec<String>>();
        let names = futures_util::stream::poll_fn(move |context| receive.poll_recv(context));
        let (namespaces, following) = Namespaces::follow(names);
        let informer = choose(builder(&server, &namespaces)).build().unwrap();
        run(&informer);
        tokio::spawn(following);
        assert!(timeout(LONG, informer.wait_for_sync()).await.is_err());
        assert!(!informer.watch_status().is_open);
        namespaces.add("red").unwrap();
        assert!(timeout(LONG, informer.wait_for_sync()).await.is_err());
        let is = |names: &[&str]| {
            let names = names.iter().map(ToString::to_string).collect();
            send.send(names).unwrap();
        };
        is(&["blue", "Not a name", ""]);
        timeout(LONG, informer.wait_for_sync()).await.unwrap().unwrap();
        wait_for_stored(&informer, &["blue/a=1"]).await;
        assert_eq!(namespaces.names(), ["blue"]);
        is(&["green"]);
        wait_for_stored(&informer, &["green/b=1"]).await;
        informer.stop().await;
    }
}

/// Checks that an informer does not count as synced when its only namespace is replaced before the
/// server has responded to the list of either. The removal runs on another thread, at the same time
/// as the addition of the new namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn informer_whose_only_namespace_is_replaced_waits_for_the_new_one() {
    let server = server();
    server.fault(Fault::silence().times(usize::MAX));
    for _ in 0..50 {
        for choose in QUEUES {
            let (send, mut receive) = mpsc::unbounded_channel::<Vec<String>>();
            let names = futures_util::stream::poll_fn(move |context| receive.poll_recv(context));
            let (namespaces, following) = Namespaces::follow(names);
            let informer = choose(builder(&server, &namespaces)).build().unwrap();
            run(&informer);
            tokio::spawn(following);
            for name in ["blue", "green"] {
                send.send(vec![name.to_owned()]).unwrap();
                let listed = || informer.namespace_status().into_iter().map(|one| one.namespace);
                while !listed().eq([name]) {
                    assert!(!informer.has_synced());
                    tokio::task::yield_now().await;
                }
            }
            assert!(!informer.has_synced());
            informer.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stop_waits_for_every_namespace_and_ends_their_watches() {
    for choose in QUEUES {
        let server = server();
        let namespaces = of(["blue", "green", "red"]);
        let informer = choose(builder(&server, &namespaces)).build().unwrap();
        let running = run(&informer);
        informer.wait_for_sync().await.unwrap();
        assert_eq!(server.watchers(), 3);
        informer.stop().await;
        assert!(informer.is_stopped());
        running.await.unwrap().unwrap();
        assert_eq!(server.watchers(), 0);
        assert!(!namespaces.add("blue").unwrap(), "a set outlives its informers");
    }
}
