//! Tests of the backoff of failing objects under a retry policy.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deltafifo_informer::runtime::Controller;
use deltafifo_informer::runtime::controller::Action;
use deltafifo_informer::workqueue::{
    ItemExponentialFailureRateLimiter, JitteredRateLimiter, RateLimiter, WithMaxWaitRateLimiter,
};
use deltafifo_testkit::{ApiServer, Resource};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::time::{Instant, sleep};

use super::rig::{Failed, Outcome, Polled, Stored, controller, idle, map, name, poll_with, server};

const fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn exponential<K: deltafifo_informer::workqueue::Key>() -> ItemExponentialFailureRateLimiter<K> {
    ItemExponentialFailureRateLimiter::new(s(1), s(8))
}

fn at_once(_: &Failed) -> Action {
    Action::requeue(Duration::ZERO)
}

const FAILED: Outcome = Err(Failed("no room"));

/// A polled controller, and the start times of its reconciles.
struct Tries {
    polled: Polled,
    tried: UnboundedReceiver<(String, Instant)>,
    last: HashMap<String, Instant>,
}

impl Tries {
    /// Starts a controller whose reconciler returns the result of `outcome`, which is called with
    /// the object's name and the number of its earlier reconciles.
    fn of(
        controller: Controller<Stored>,
        policy: impl Fn(&Failed) -> Action + Send + 'static,
        outcome: impl Fn(&str, usize) -> Outcome + Clone + Send + Sync + 'static,
    ) -> Self {
        let (sender, tried) = mpsc::unbounded_channel();
        let mut counts = HashMap::<String, usize>::new();
        let reconcile = move |map: Arc<ConfigMap>, _| {
            let name = name(&map);
            sender.send((name.clone(), Instant::now())).unwrap();
            let count = counts.entry(name.clone()).or_default();
            let (outcome, before) = (outcome.clone(), *count);
            *count += 1;
            async move { outcome(&name, before) }
        };
        Self { polled: poll_with(controller, reconcile, policy), tried, last: HashMap::new() }
    }

    /// Returns the object of the next reconcile, and the time since the object's previous one.
    async fn next(&mut self) -> (String, Option<Duration>) {
        let (name, now) = self.tried.recv().await.expect("the controller runs");
        let before = self.last.insert(name.clone(), now);
        (name, before.map(|before| now - before))
    }

    /// Asserts the times between the next reconciles of an object, in seconds.
    async fn waits_of(&mut self, name: &str, seconds: &[u64]) {
        let mut seconds = seconds.iter();
        while seconds.len() > 0 {
            let (tried, waited) = self.next().await;
            if tried == name
                && let Some(waited) = waited
            {
                let expected = s(*seconds.next().unwrap());
                // Each timer may be late by up to a millisecond.
                assert!(
                    (expected..expected + Duration::from_millis(5)).contains(&waited),
                    "{waited:?}: {expected:?}"
                );
            }
        }
    }
}

fn with(names: &[&str]) -> ApiServer {
    let server = server();
    for name in names {
        server.apply(map(name, "1")).unwrap();
    }
    server
}

#[tokio::test(start_paused = true)]
async fn delay_of_an_object_that_fails_grows_up_to_the_cap() {
    let server = with(&["a"]);
    let mut tries = Tries::of(controller(&server).retry(exponential()), at_once, |_, _| FAILED);
    tries.waits_of("a", &[1, 2, 4, 8, 8, 8]).await;
}

#[tokio::test(start_paused = true)]
async fn delay_with_jitter_stays_within_its_bounds_and_the_cap() {
    let server = with(&["a"]);
    let policy = WithMaxWaitRateLimiter::new(JitteredRateLimiter::new(exponential(), 50), s(8));
    let mut tries = Tries::of(controller(&server).retry(policy), at_once, |_, _| FAILED);
    tries.next().await;
    let late = Duration::from_millis(5);
    let mut is_random = false;
    for least in [1, 2, 4, 8, 8].map(s) {
        let waited = tries.next().await.1.unwrap();
        let most = s(8).min(least * 3 / 2);
        assert!((least..most + late).contains(&waited), "{waited:?} of {least:?}");
        is_random |= waited > least + late;
    }
    assert!(is_random);
}

#[tokio::test(start_paused = true)]
async fn success_resets_the_delay() {
    let server = with(&["a"]);
    let outcome = |_: &str, before| if before == 3 { Ok(Action::requeue(s(60))) } else { FAILED };
    let mut tries = Tries::of(controller(&server).retry(exponential()), at_once, outcome);
    tries.waits_of("a", &[1, 2, 4, 60, 1, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn objects_back_off_each_on_its_own() {
    let server = with(&["a", "b"]);
    let outcome = |name: &str, before| {
        if name == "b" && before == 0 { Ok(Action::requeue(s(20))) } else { FAILED }
    };
    let mut tries = Tries::of(controller(&server).retry(exponential()), at_once, outcome);
    tries.waits_of("b", &[20, 1, 2]).await;
    tries.waits_of("a", &[8]).await;
}

#[tokio::test(start_paused = true)]
async fn change_during_the_back_off_is_reconciled_at_once_and_may_fail_once_more() {
    let server = with(&["a"]);
    let mut tries = Tries::of(controller(&server).retry(exponential()), at_once, |_, _| FAILED);
    tries.waits_of("a", &[1, 2]).await;
    server.wait_for_watchers(1).await;
    sleep(s(1)).await;
    server.apply(map("a", "2")).unwrap();
    tries.waits_of("a", &[1, 8]).await;
}

#[tokio::test(start_paused = true)]
async fn deletion_resets_the_delay_of_an_object_of_that_name() {
    let server = with(&["a"]);
    let mut tries = Tries::of(controller(&server).retry(exponential()), at_once, |_, _| FAILED);
    tries.waits_of("a", &[1, 2, 4]).await;
    server.wait_for_watchers(1).await;
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    server.apply(map("a", "2")).unwrap();
    tries.waits_of("a", &[0, 1, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn error_policy_sets_the_least_delay() {
    let server = with(&["a"]);
    let controller = controller(&server).retry(exponential());
    let mut tries = Tries::of(controller, |_| Action::requeue(s(3)), |_, _| FAILED);
    tries.waits_of("a", &[3, 3, 4, 8]).await;
}

#[tokio::test(start_paused = true)]
async fn error_policy_that_awaits_a_change_gives_up_and_forgets_the_failures() {
    let server = with(&["a"]);
    let policy = |error: &Failed| {
        if error.0 == "for good" { Action::await_change() } else { at_once(error) }
    };
    let outcome = |_: &str, before| if before == 3 { Err(Failed("for good")) } else { FAILED };
    let mut tries = Tries::of(controller(&server).retry(exponential()), policy, outcome);
    tries.waits_of("a", &[1, 2, 4]).await;
    server.wait_for_watchers(1).await;
    sleep(s(100)).await;
    server.apply(map("a", "2")).unwrap();
    tries.waits_of("a", &[100, 1, 2]).await;
}

#[tokio::test(start_paused = true)]
async fn panic_backs_off_by_the_policy() {
    let server = with(&["a"]);
    let outcome = |_: &str, before| if before % 2 == 0 { FAILED } else { panic!("a bug") };
    let mut tries = Tries::of(controller(&server).retry(exponential()), at_once, outcome);
    tries.waits_of("a", &[1, 2, 4, 8]).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_policy_the_error_policy_decides() {
    let server = with(&["a"]);
    let mut tries = Tries::of(controller(&server), |_| Action::requeue(s(3)), |_, _| FAILED);
    tries.waits_of("a", &[3, 3, 3, 3]).await;
}

/// A policy that counts failures and shows which keys it knows.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<HashMap<Arc<str>, u32>>>);

impl RateLimiter<Arc<str>> for Counts {
    fn when(&self, key: &Arc<str>) -> Duration {
        *self.0.lock().unwrap().entry(key.clone()).or_default() += 1;
        s(1000)
    }

    fn forget(&self, key: &Arc<str>) {
        self.0.lock().unwrap().remove(key);
    }

    fn num_requeues(&self, key: &Arc<str>) -> u32 {
        self.0.lock().unwrap().get(key).copied().unwrap_or_default()
    }
}

#[tokio::test(start_paused = true)]
async fn policy_keeps_no_key_of_a_deleted_object() {
    let server = with(&["a", "b"]);
    let counts = Counts::default();
    let mut tries = Tries::of(controller(&server).retry(counts.clone()), at_once, |_, _| FAILED);
    server.wait_for_watchers(1).await;
    assert_eq!(tries.polled.at_rest().await.len(), 2);
    let known = || counts.0.lock().unwrap().keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(known().len(), 2);
    server.delete(&Resource::config_maps(), "shop", "a").unwrap();
    idle().await;
    assert_eq!(known(), ["shop/b"]);
    assert_eq!(counts.num_requeues(&"shop/b".into()), 1);
}
