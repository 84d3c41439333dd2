//! Informers against an API server in this process. Where time matters the clock is paused, and
//! nobody sleeps on another. The likes of client-go's own tests are among them:
//!
//! | client-go | here |
//! | --- | --- |
//! | **`shared_informer_test.go`** | |
//! | `TestIndexer` | `lifecycle::indexes_are_there_from_the_beginning_or_come_later` |
//! | `TestListenerResyncPeriods`, `…Delayed` | `resyncs::each_handler_has_its_own_period` |
//! | `TestResyncCheckPeriod` | `resyncs::a_handler_that_does_not_say_has_the_informers_period_and_a_late_one_its_own`, `a_period_of_nothing_or_for_ever_is_never` |
//! | `TestSharedInformerInitializationRace`, `…StartRace` | `late::a_handler_may_come_while_the_informer_starts`; the rest is chosen before an informer is built |
//! | `TestSharedInformerWatchDisruption` | `relists::after_a_disruption_who_resyncs_is_told_everything_and_who_does_not_what_has_changed` |
//! | `TestSharedInformerErrorHandling` | `lifecycle::errors_of_lists_are_told_and_it_goes_on` |
//! | `TestSharedInformerTransformer` | `lifecycle::a_transform_is_what_store_and_handlers_see` |
//! | `TestSharedInformerRemoveHandler`, `…MultipleRegistration` | `removal::one_handler_may_be_added_twice_and_each_is_told` |
//! | `TestSharedInformerRemoveForeignHandler` | none: a handle knows its informer, and removes nobody else |
//! | `TestRemovingRemovedSharedInformer` | `removal::to_remove_waits_for_the_running_call_and_none_follows` |
//! | `TestSharedInformerHandlerAbuse` | `abuse`, `stress` |
//! | `TestStateSharedInformer` | `lifecycle::it_runs_once` |
//! | `TestAddOnStoppedSharedInformer`, `TestRemoveOn…` | `lifecycle::stopped_it_takes_no_handlers_and_those_it_had_end` |
//! | `TestRemoveWhileActive` | `removal::a_handler_can_detach_itself_and_others_go_on`, `one_that_is_removed_while_it_walks_…` |
//! | `TestAddWhileActive` | `late::a_late_handler_is_told_what_is_known_and_then_what_changes` |
//! | `TestShutdown` | `lifecycle::to_stop_waits_for_running_calls`, `one_that_never_ran_can_be_stopped`, `the_last_handle_takes_its_handlers_along` |
//! | `TestEventPanics` | `handlers::a_handler_that_panics_is_told_what_comes_next_and_harms_no_other`; it has been told, so it syncs |
//! | `TestRemoveEventHandler_AsynchronousPanic` | `removal::one_that_was_detached_may_still_run_and_its_panic_is_reported` |
//! | `TestRemoveEventHandler_SynchronousShutdown` | `removal::to_remove_waits_for_the_running_call_and_none_follows` |
//! | `TestShutDownEventHandler_Lifecycles` | `removal::of_an_informer_that_never_ran_or_just_synced_a_handler_is_removed_at_once` |
//! | **`controller_test.go`** | |
//! | `Example`, `ExampleNewInformer` | `handlers::a_handler_may_write_to_the_server_and_is_told_what_comes_of_it` |
//! | `TestHammerController` | `stress` |
//! | `TestUpdate` | `handlers::a_handler_may_write_to_the_server_and_is_told_what_comes_of_it`, `stress` |
//! | `TestPanicPropagated` | as `TestEventPanics`: the informer goes on |
//! | `TestTransformingInformer`, `…Race` | `lifecycle::a_transform_is_made_once_of_each_object_whatever_is_told_again` |
//! | `TestDeletionHandlingObjectToName`, `TestDeletedObject…` | what a tombstone is called: `core/tests/in_order/real_fifo.rs` |
//! | `TestProcessDeltasInBatch` | transactions: `core/tests/engine/store.rs` |
//! | `TestReplaceEvents` | `relists::a_list_may_bring_everything_or_take_it`, `what_a_watch_missed_is_told_by_a_list_and_deletions_by_tombstones` |
//! | `TestResetWatch` | `relists::what_a_watch_missed_is_told_by_a_list_and_deletions_by_tombstones` |
//! | `TestStoreResourceVersion` | `lifecycle::a_version_can_be_waited_for_and_what_came_up_to_it_is_stored`; in order it cannot be waited for, and says so |
//! | `TestStoreResourceVersionWithNonMetaTransform` | `lifecycle::a_version_can_be_waited_for_that_a_transform_takes_away`: here it rises all the same |
//! | **of the factories** | |
//! | `TestDynamicSharedInformerFactory` | `factory::an_informer_of_a_kind_known_at_run_time_is_told_what_changes_in_its_scope` |
//! | `TestFilteredDynamicSharedInformerFactory` | the same, and `factory::informers_of_a_scope_have_only_its_objects` |
//! | `TestMetadataSharedInformerFactory` | differs in its requests only: `tests/server/kinds.rs` |
//! | `TestWatchListSemanticsSimple`, `TestUnSupportWatchListSemantics` | `factory::lists_are_streamed_or_not_as_the_server_can` |
//! | **elsewhere** | |
//! | `TestWaitFor`, `TestSyncResult` (`wait_test.go`) | `factory::which_have_not_synced_is_said` |
//! | `TestNameForHandler` | names are chosen: `tests/spans`, `metrics` |
//! | `synctrack_test.go` | `src/shared_informer/protocol/tests.rs`, `late::a_handler_of_an_informer_without_objects_syncs_too` |
//! | `informerwatcher_test.go` | streams: `handlers::each_form_of_a_handler_is_told_the_same`, `relists`, `removal` |

mod abuse;
mod buffers;
mod dashboard;
mod drops;
mod factory;
#[path = "../common/fragile.rs"]
mod fragile;
mod handlers;
mod late;
mod lifecycle;
mod metrics;
mod namespaces;
mod oracle;
mod relists;
mod removal;
mod resyncs;
mod rig;
mod shared;
mod stopped;
mod stress;
mod wakers;
mod workers;
