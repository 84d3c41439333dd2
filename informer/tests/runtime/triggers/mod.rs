//! Tests of controllers over streams. Each scenario is compiled twice: with kube's runtime and with
//! this project's.

mod kubes;
mod ours;

/// Asserts that both controllers yield the same in a scenario.
macro_rules! assert_both {
    ($scenario:ident, $expected:expr) => {
        assert_eq!(kubes::$scenario().await, $expected, "kube's");
        assert_eq!(ours::$scenario().await, $expected, "ours");
    };
}

#[tokio::test(start_paused = true)]
async fn item_whose_object_is_not_stored_yields_object_not_found() {
    assert_both!(item_of_a_missing_object, "a, no c");
}

#[tokio::test(start_paused = true)]
async fn error_of_a_stream_is_yielded_and_the_stream_continues() {
    assert_both!(failing_streams, ["a, queue error", "a, queue error", "b, queue error"]);
}

#[tokio::test(start_paused = true)]
async fn stream_that_fails_all_the_time_is_polled_with_backoff() {
    for errors in [kubes::errors_in_a_minute().await, ours::errors_in_a_minute().await] {
        assert!((2..=10).contains(&errors), "{errors}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_from_before_the_end_of_all_streams_are_yielded() {
    assert_both!(stream_that_fails_and_ends, ["queue error", "queue error"]);
}

#[tokio::test(start_paused = true)]
async fn stream_that_fails_faster_than_errors_are_taken_does_not_prevent_a_shutdown() {
    assert_both!(shutdown_while_a_stream_fails, true);
}

#[tokio::test(start_paused = true)]
async fn controller_ends_when_all_of_its_streams_have_ended() {
    assert_both!(ending_streams, ["", "a", "b", "ended"]);
}

#[tokio::test(start_paused = true)]
async fn end_of_all_streams_starts_no_reconcile_and_waits_for_running_ones() {
    assert_both!(stream_that_ends_during_a_reconcile, ["", "", "", "a, ended"]);
}

#[tokio::test(start_paused = true)]
async fn reconciles_wait_until_the_store_is_ready() {
    assert_both!(store_that_becomes_ready, ["", "a"]);
}

#[tokio::test(start_paused = true)]
async fn writer_that_is_dropped_before_the_initial_list_is_an_error() {
    assert_eq!(kubes::writer_that_is_dropped().await, "runner error", "hangs");
    assert_eq!(ours::writer_that_is_dropped().await, "runner error, ended");
}

#[tokio::test(start_paused = true)]
async fn texts_of_errors_are_kubes_and_contain_the_cause() {
    assert_both!(
        texts_of_errors,
        [
            "tried to reconcile object ConfigMap.v1./c.shop that was not found in local store",
            "reconciler for object ConfigMap.v1./a.shop failed: quota exceeded",
            "event queue error: no metadata.resourceVersion in watch result (does resource support watch?)",
            "runner error",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn graceful_shutdown_waits_for_running_reconciles_only() {
    assert_both!(graceful_shutdown, ["", "", "a, ended"]);
}

#[tokio::test(start_paused = true)]
async fn dropped_controller_drops_its_streams() {
    assert_both!(dropped_controller, true);
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_stream_or_a_mapper_panics_the_task_that_polls_the_controller() {
    assert_both!(panicking_stream, "panicked");
    assert_both!(panicking_mapper, "panicked");
}

#[tokio::test(start_paused = true)]
async fn panic_of_the_last_stream_panics_the_task_that_polls_the_controller() {
    assert_both!(panicking_last_stream, "panicked");
    assert_both!(panicking_mapper_of_the_last_stream, "panicked");
    assert_both!(panicking_stream_that_fills_the_store, "panicked");
}

#[tokio::test(start_paused = true)]
async fn streams_of_watchers_reconcile_changed_owned_and_mapped_objects() {
    let expected = ["a, b", "a, b", "no c, no d", "a", "a", "a", "", ""];
    assert_both!(watched_server, expected);
}

#[tokio::test(start_paused = true)]
async fn adapted_shared_streams_carry_new_states_only() {
    let expected = [["a, b", "a, b"], ["a", "b"], ["b", "a"], ["", ""], ["a", "b"], ["", ""]];
    assert_both!(adapted_shared_streams, expected);
}

#[tokio::test(start_paused = true)]
async fn only_our_controllers_take_old_states_and_deletions_out_of_handles() {
    let kubes = [["a, b", "a, b"], ["a", "b"], ["b", "a"], ["", ""], ["a", "b"], ["", ""]];
    assert_eq!(kubes::shared_streams().await, kubes);
    let both = ["a, b", "a, b"];
    let ours = [both, ["a", "b"], both, ["b", "a"], ["a", "b"], ["a", "b"]];
    assert_eq!(ours::shared_streams().await, ours);
}

#[tokio::test(start_paused = true)]
async fn controller_over_a_shared_stream_ends_with_the_root_stream() {
    assert_both!(root_that_ends, ["a", "ended"]);
}
