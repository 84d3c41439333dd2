//! Tests of buffer policies, that is, of the notifications that a slow handler gets.

use deltafifo_informer::shared_informer::{Buffer, HandlerOptions};
use futures_util::{FutureExt, StreamExt};

use super::rig::{QUEUES, Rig, map, next, next_sorted, server};

fn buffer(buffer: Buffer) -> HandlerOptions<k8s_openapi::api::core::v1::ConfigMap> {
    HandlerOptions::new().buffer(buffer)
}

#[tokio::test(start_paused = true)]
async fn compressing_buffer_delivers_one_change_from_the_delivered_to_the_current_state() {
    for queue in QUEUES {
        let server = server();
        for name in ["changed", "deleted", "made-again"] {
            server.apply(map(name, "1")).unwrap();
        }
        let rig = Rig::start(server, queue);
        let mut stream = rig.subscribe(HandlerOptions::new());
        next(&mut stream, 3).await;
        for data in ["2", "3"] {
            for name in ["changed", "deleted", "made-again", "came-and-went", "came"] {
                rig.apply(name, data);
            }
        }
        for name in ["deleted", "made-again", "came-and-went"] {
            rig.delete(name);
        }
        rig.apply("made-again", "4");
        rig.stored("made-again", "4").await;
        assert_eq!(stream.registration().depth(), 4);
        let received = [
            "watch changed=1>3",
            "watch -deleted=3",
            "watch !shop/made-again=1",
            "watch +made-again=4",
        ];
        assert_eq!(next(&mut stream, 5).await, [&received[..], &["watch +came=3"]].concat());
        assert!(stream.next().now_or_never().is_none());
        assert_eq!(stream.registration().depth(), 0);
        let high_water = stream.registration().high_water();
        assert!(
            (4..=5).contains(&high_water),
            "{high_water}: including short-lived keys, unless the queue compressed them"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn compressing_buffer_reports_the_end_of_the_delivered_object() {
    for queue in QUEUES {
        let server = server();
        server.apply(map("a", "1")).unwrap();
        let rig = Rig::start(server, queue);
        let mut stream = rig.subscribe(HandlerOptions::new());
        next(&mut stream, 1).await;
        rig.delete("a");
        rig.apply("a", "2");
        rig.delete("a");
        rig.apply("b", "1");
        rig.stored("b", "1").await;
        assert_eq!(
            next(&mut stream, 2).await,
            ["watch !shop/a=1", "watch +b=1"],
            "a=2 had another uid"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn hold_back_buffer_loses_nothing_and_the_informer_waits() {
    for queue in QUEUES {
        let rig = Rig::start(server(), queue);
        let mut all = rig.subscribe(buffer(Buffer::HoldBack(2)));
        let mut other = rig.subscribe(HandlerOptions::new());
        rig.informer.wait_for_sync().await.unwrap();
        assert!(all.next().now_or_never().is_none(), "the empty initial state was delivered");
        for data in 0..5 {
            rig.apply("a", &data.to_string());
            rig.apply("b", &data.to_string());
        }
        assert_eq!(next(&mut other, 1).await.len(), 1);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        // At most the bound, and the worker's current item, which in a queue by key may contain
        // all pending deltas of a key.
        assert!((2..=11).contains(&all.registration().depth()), "{}", all.registration().depth());
        let received = next(&mut all, 10).await;
        for name in ["a", "b"] {
            let of_name: Vec<_> =
                received.iter().filter(|received| received.contains(&format!("{name}="))).collect();
            let expected = [format!("watch +{name}=0")].into_iter();
            let expected =
                expected.chain((0..4).map(|data| format!("watch {name}={data}>{}", data + 1)));
            assert_eq!(of_name, expected.collect::<Vec<_>>().iter().collect::<Vec<_>>());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn in_order_hold_back_buffer_keeps_the_order_across_keys() {
    let rig = Rig::start(server(), QUEUES[1]);
    let mut all = rig.subscribe(buffer(Buffer::HoldBack(1)));
    rig.informer.wait_for_sync().await.unwrap();
    assert!(all.next().now_or_never().is_none());
    let (mut expected, names) = (Vec::new(), ["a", "b", "a", "c", "b", "a"]);
    for (data, name) in names.iter().enumerate() {
        rig.apply(name, &data.to_string());
        let before = names[..data].iter().rposition(|before| before == name);
        expected.push(match before {
            None => format!("watch +{name}={data}"),
            Some(before) => format!("watch {name}={before}>{data}"),
        });
    }
    assert_eq!(next(&mut all, names.len()).await, expected);
}

#[tokio::test(start_paused = true)]
async fn removal_of_the_slow_handler_unblocks_the_informer() {
    let rig = Rig::start(server(), |informer| informer);
    let all = rig.subscribe(buffer(Buffer::HoldBack(1)));
    let mut other = rig.subscribe(HandlerOptions::new());
    let mut all = Box::pin(all);
    rig.informer.wait_for_sync().await.unwrap();
    assert!(all.next().now_or_never().is_none());
    for name in 0..10 {
        rig.apply(&name.to_string(), "1");
    }
    next(&mut other, 1).await;
    drop(all);
    next(&mut other, 9).await;
}

#[tokio::test(start_paused = true)]
async fn dropped_changes_are_followed_by_all_current_objects() {
    for queue in QUEUES {
        let server = server();
        for name in ["a", "b"] {
            server.apply(map(name, "1")).unwrap();
        }
        let rig = Rig::start(server, queue);
        let mut stream = rig.subscribe(buffer(Buffer::DropAndResync(3)));
        assert_eq!(next_sorted(&mut stream, 2).await, ["initial *a=1", "initial *b=1"]);
        assert!(stream.next().now_or_never().is_none(), "all objects were delivered");
        stream.registration().wait_for_sync().await.unwrap();
        rig.apply("a", "2");
        rig.delete("b");
        for name in ["c", "d", "e"] {
            rig.apply(name, "1");
        }
        rig.stored("e", "1").await;
        assert!(stream.registration().depth() <= 3);
        assert_eq!(next(&mut stream, 1).await, ["begins"]);
        let received = next_sorted(&mut stream, 4).await;
        assert_eq!(received, ["resync +a=2", "resync +c=1", "resync +d=1", "resync +e=1"]);
        assert_eq!(next(&mut stream, 1).await, ["ends"]);
        rig.apply("a", "3");
        assert_eq!(next(&mut stream, 1).await, ["watch a=2>3"]);
    }
}
