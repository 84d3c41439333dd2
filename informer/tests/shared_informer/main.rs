//! Tests of informers against an API server in this process. Tests that depend on time have a
//! paused clock. The counterparts of client-go's own tests are:
//!
//! | client-go | here |
//! | --- | --- |
//! | **`shared_informer_test.go`** | |
//! | `TestIndexer` | `lifecycle::indexes_can_be_given_at_build_or_added_later` |
//! | `TestListenerResyncPeriods`, `…Delayed` | `resyncs::each_handler_has_its_own_resync_period` |
//! | `TestResyncCheckPeriod` | `resyncs::handler_without_a_period_has_the_informers_and_a_late_one_its_own`, `handler_period_of_zero_or_max_means_never` |
//! | `TestSharedInformerInitializationRace`, `…StartRace` | `late::handler_can_be_added_while_the_informer_starts`; everything else is configured before an informer is built |
//! | `TestSharedInformerWatchDisruption` | `relists::after_a_disruption_resyncing_handlers_get_everything_and_others_only_changes` |
//! | `TestSharedInformerErrorHandling` | `lifecycle::list_errors_are_reported_and_the_informer_continues` |
//! | `TestSharedInformerTransformer` | `lifecycle::store_and_handlers_see_transformed_objects` |
//! | `TestSharedInformerRemoveHandler`, `…MultipleRegistration` | `removal::handler_added_twice_is_notified_twice` |
//! | `TestSharedInformerRemoveForeignHandler` | none: a handle belongs to its informer and removes only its own handler |
//! | `TestRemovingRemovedSharedInformer` | `removal::remove_waits_for_the_running_call_and_none_follows` |
//! | `TestSharedInformerHandlerAbuse` | `abuse`, `stress` |
//! | `TestStateSharedInformer` | `lifecycle::informer_runs_only_once` |
//! | `TestAddOnStoppedSharedInformer`, `TestRemoveOn…` | `lifecycle::stopped_informer_refuses_handlers_and_ends_existing_ones` |
//! | `TestRemoveWhileActive` | `removal::handler_can_detach_itself_and_others_continue`, `handler_removed_during_its_walk_…` |
//! | `TestAddWhileActive` | `late::late_handler_gets_known_objects_and_then_changes` |
//! | `TestShutdown` | `lifecycle::stop_waits_for_running_calls`, `informer_that_never_ran_can_be_stopped`, `drop_of_the_last_handle_stops_the_informer_and_its_handlers` |
//! | `TestEventPanics` | `handlers::panicking_handler_gets_later_notifications_and_affects_no_other`; the notification counts as delivered, so the handler syncs |
//! | `TestRemoveEventHandler_AsynchronousPanic` | `removal::detached_handler_may_still_run_and_its_panic_is_reported` |
//! | `TestRemoveEventHandler_SynchronousShutdown` | `removal::remove_waits_for_the_running_call_and_none_follows` |
//! | `TestShutDownEventHandler_Lifecycles` | `removal::handler_of_an_informer_that_never_ran_or_is_idle_is_removed_at_once` |
//! | **`controller_test.go`** | |
//! | `Example`, `ExampleNewInformer` | `handlers::handler_may_write_to_the_server_and_is_notified_of_the_result` |
//! | `TestHammerController` | `stress` |
//! | `TestUpdate` | `handlers::handler_may_write_to_the_server_and_is_notified_of_the_result`, `stress` |
//! | `TestPanicPropagated` | as `TestEventPanics`: the informer continues |
//! | `TestTransformingInformer`, `…Race` | `lifecycle::each_object_is_transformed_once_despite_repeated_deliveries` |
//! | `TestDeletionHandlingObjectToName`, `TestDeletedObject…` | the key of a tombstone: `core/tests/in_order/real_fifo.rs` |
//! | `TestProcessDeltasInBatch` | transactions: `core/tests/engine/store/objects.rs` |
//! | `TestReplaceEvents` | `relists::list_can_add_or_delete_all_objects`, `list_delivers_missed_changes_and_deletions_as_tombstones` |
//! | `TestResetWatch` | `relists::list_delivers_missed_changes_and_deletions_as_tombstones` |
//! | `TestStoreResourceVersion` | `lifecycle::awaited_version_implies_that_earlier_changes_are_stored`; with the in-order queue the wait returns an error |
//! | `TestStoreResourceVersionWithNonMetaTransform` | `lifecycle::version_removed_by_a_transform_can_be_awaited`: here the version still advances |
//! | **of the factories** | |
//! | `TestDynamicSharedInformerFactory` | `factory::dynamic_informer_delivers_changes_of_its_scope` |
//! | `TestFilteredDynamicSharedInformerFactory` | as above, and `factory::informers_of_a_scope_have_only_its_objects` |
//! | `TestMetadataSharedInformerFactory` | differs in its requests only: `tests/server/kinds.rs` |
//! | `TestWatchListSemanticsSimple`, `TestUnSupportWatchListSemantics` | `factory::lists_are_streamed_if_the_server_supports_it` |
//! | **elsewhere** | |
//! | `TestWaitFor`, `TestSyncResult` (`wait_test.go`) | `factory::wait_for_sync_names_the_unsynced_informers` |
//! | `TestNameForHandler` | the caller supplies names: `tests/spans`, `metrics` |
//! | `synctrack_test.go` | `src/shared_informer/delivery/protocol/tests.rs`, `late::handler_of_an_informer_without_objects_syncs` |
//! | `informerwatcher_test.go` | streams: `handlers::every_form_of_handler_gets_equal_notifications`, `relists`, `removal` |

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
#[path = "../../src/sharding/tests/messages.rs"]
mod messages;
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
#[path = "../common/without.rs"]
mod without;
mod workers;
