//! Runs the models against every mutant, each in a process of its own, because a process chooses
//! its defect once and a defect may abort it.
//!
//! The first model that fails kills the mutant: a model that panics, deadlocks or leaks, or that
//! has other outcomes. The printed table names the model and the reason. A model that only
//! explores fewer schedules, that does not end, or that makes loom itself fail kills nothing. The
//! models that are expected to detect a mutant are tried first, the shortest ones at the start.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Instant;

use deltafifo::mutants::{ALL, Mutant};

use crate::cores::{on_every_core, this_program};
use crate::explore::{BROKEN, FAILED, Model, PANICKED, is_model_failure};
use crate::models;

const SURVIVED: &str = "SURVIVED";
const LONGEST_REASON: usize = 160;

/// Tries all mutants, as many at a time as there are cores.
pub fn run() -> ExitCode {
    let killers = Mutex::new(vec![None; ALL.len()]);
    on_every_core(ALL.iter().enumerate(), |(place, (mutant, _))| {
        let began = Instant::now();
        let killer = killer(*mutant);
        let name = killer.as_ref().map_or(SURVIVED, |(name, _)| name);
        eprintln!("{mutant:?}: {name}, {:.1} s", began.elapsed().as_secs_f64());
        killers.lock().unwrap()[place] = killer;
    });
    let killers = killers.into_inner().unwrap();
    println!("\nmutant: defect\n    model that fails: reason");
    for ((mutant, defect), killer) in ALL.iter().zip(&killers) {
        println!("{mutant:?}: {defect}");
        match killer {
            Some((name, why)) => {
                println!("    {name}: {}", why.chars().take(LONGEST_REASON).collect::<String>())
            }
            None => println!("    {SURVIVED}"),
        }
    }
    let killed = killers.iter().flatten().count();
    println!("{killed} of {} mutants killed", ALL.len());
    if killed == ALL.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the first model that fails with the mutant, and the reason.
fn killer(mutant: Mutant) -> Option<(&'static str, String)> {
    let mut models = models::all();
    let wanted = seen_by(mutant);
    let place = |model: &Model| wanted.iter().position(|subject| model.name.starts_with(subject));
    models.sort_by_key(|model| (place(model).unwrap_or(wanted.len()), model.at_least));
    models.into_iter().find_map(|model| Some((model.name, defect(model, mutant)?)))
}

/// Returns the names of models, or of their subjects, that are expected to detect a mutant. They
/// only set the order of the search: any model may kill a mutant.
fn seen_by(mutant: Mutant) -> &'static [&'static str] {
    match mutant {
        Mutant::WordWithoutRelease | Mutant::WordWithoutAcquire => &["two_consumers", "push_take"],
        Mutant::WordLoadsRelaxed => &["running", "two_consumers"],
        Mutant::KnownWithoutRelease | Mutant::KnownWithoutAcquire | Mutant::KnownReadUnlocked => {
            &["store"]
        }
        Mutant::StampIsStored
        | Mutant::OldPageContinues
        | Mutant::BegunBeforeItWaits
        | Mutant::BeginPassesNoLock
        | Mutant::SkipIgnoresTheHandler
        | Mutant::NoteReadBeforeTheWord
        | Mutant::NoteIgnoresTheWriter
        | Mutant::KnownReadBeforeTheWord
        | Mutant::RunWakesOne
        | Mutant::RunPublishedLate => &["relist"],
        Mutant::OffersDoNotStamp => &["relist::a_new_key_between"],
        Mutant::BatchesDoNotStamp => &["relist::a_batch_of_a_new_key_between"],
        Mutant::DeltasDoNotStamp => &["relist::deltas_of_a_new_key_between"],
        Mutant::SweepChecksNothing => &["relist::commit_superseded"],
        Mutant::SweepDecidesByFirstRead => &["relist::an_update_between"],
        Mutant::OldDeleteCounts => &["relist::delete_superseded"],
        Mutant::JoinedIsQueuedToo => &["push_take", "two_consumers"],
        Mutant::IdleIsStored => &["push_settle"],
        Mutant::PeekIsATake | Mutant::KnownIsReadAfterThePeek | Mutant::HandledIsUnknown => {
            &["peek"]
        }
        Mutant::RunningDecidesNothing => &["running"],
        Mutant::RunningIsDecidedAtOnce => &["running::delete_while_it_adds"],
        Mutant::RetireFromEmpty => &["retire::two_consumers"],
        Mutant::PutBackBehind | Mutant::CancelledIsLost => &["requeue"],
        Mutant::OffersLetOffersIn | Mutant::QueuedAfterUnlock | Mutant::ResyncQueuesAfterUnlock => {
            &["order"]
        }
        Mutant::CloseIsNotifiedFirst => &["waiting"],
        Mutant::MarksPassNothingOn => &["waiting::two_handlers"],
        Mutant::WalkWakesOne => &["sleep::sweep"],
        Mutant::WriteEndsUnnotified => &["alone::two_writers"],
        Mutant::OldValuesLeftEarly | Mutant::IndexReadByValues => {
            &["store::index_of_either_value_and_update"]
        }
        Mutant::MovingIsNotChecked | Mutant::MoveCheckedAfterOnly => {
            &["store::index_and_gain_of_a_value"]
        }
        Mutant::MoveCheckedBeforeOnly => &["store::index_and_loss_of_a_value"],
        Mutant::SettleDoesNotWake
        | Mutant::SettledBacklogWakesNoConsumer
        | Mutant::OfferDoesNotWake
        | Mutant::NoSecondCheck
        | Mutant::AsyncNoSecondCheck
        | Mutant::PlainNotify
        | Mutant::ClosedPassesNothingOn
        | Mutant::ResyncWakesNoConsumer
        | Mutant::CloseWakesNoWaiter
        | Mutant::ClosedIsReadLast => &["sleep"],
        Mutant::MarksEndBeforeCommit
        | Mutant::AbandonForgetsTheOffer
        | Mutant::OfferForgetsTheClaim
        | Mutant::AbandonWakesNoWaiter
        | Mutant::DeletionsAreNotMarked
        | Mutant::LeftOutKeepsItsMark
        | Mutant::DrainedIsAskedOnce
        | Mutant::TakesAreCounted
        | Mutant::MarksEndAtTake => &["synced"],
        Mutant::GivenBackWakesNoConsumer | Mutant::GivenBackBehind => &["batch"],
        Mutant::SweepReadsUnlocked => &["elsewhere::commit_superseded"],
        Mutant::ScopeEndsAll
        | Mutant::ScopeSweepsAll
        | Mutant::GreatestScopeApplies
        | Mutant::NewScopeIsAhead
        | Mutant::ScopeCheckedOnce
        | Mutant::AnyOpenScopeIsCurrent
        | Mutant::SweepPassesHandlers
        | Mutant::OldEndCounts
        | Mutant::WaivedScopeSyncs
        | Mutant::ListedScopeIsNotWaived
        | Mutant::AnyListIsTheFirst
        | Mutant::UnmarkedListEndsTheWait
        | Mutant::UncountedListCounts
        | Mutant::AwaitedScopeIsAhead
        | Mutant::ListIsOfTheCurrentHistory
        | Mutant::RemovalEndsTheWait
        | Mutant::NewKeyHasNoNamespace
        | Mutant::FirstScopeSyncs => &["scopes::"],
        Mutant::OlderListWins
        | Mutant::BeginForgetsOtherScopes
        | Mutant::EndForgetsOtherScopes
        | Mutant::ListedByAnotherScope
        | Mutant::SweptCountsAsUnlisted
        | Mutant::RemovalIsNotOpen
        | Mutant::RemovalIgnoresLists => &["scopes::elsewhere"],
        Mutant::ListedAfterTheRemoval | Mutant::WholeListBesideScopes => &["scopes_in_order"],
        Mutant::PassLeavesTheEntry
        | Mutant::StaleIsTaken
        | Mutant::StaleIsLeftThere
        | Mutant::RetiredInBacklog
        | Mutant::NoteOutlivesTheObject
        | Mutant::PassWakesNoConsumer
        | Mutant::RevivedTwice => &["lane"],
        Mutant::NoticeLeavesNothing
        | Mutant::BuiltUnlocked
        | Mutant::WrittenUnlocked
        | Mutant::BuiltFromOldObject => &["build"],
        Mutant::HandlersHoldNothing
        | Mutant::QueuedAgainIsNotParked
        | Mutant::PushedOverCountsFromTheEnd
        | Mutant::GivenBackIsNotParked
        | Mutant::LateRunIsNotParked
        | Mutant::JoinedAheadOfItsPlace
        | Mutant::ClaimHoldsNothing
        | Mutant::PassedIsNotParked
        | Mutant::AppliedWakesNoWaiter
        | Mutant::RewindWakesNoWaiter
        | Mutant::CommitMarksLate
        | Mutant::AppliedCloseWakesNoWaiter => &["applied"],
        Mutant::ScopeIsMarkedFirst => &["scopes::superseded_within_its_commit"],
        Mutant::CommitIsMarkedFirst => &["applied::commit_superseded"],
        Mutant::BatchKeepsItsMarks
        | Mutant::BatchKeepsMarksForOthers
        | Mutant::StaleEndKeepsMarks
        | Mutant::StaleEndKeepsTrackedMarks => &["batch::marks"],
        Mutant::OfferWakesUnderLock
        | Mutant::ResyncWakesUnderLock
        | Mutant::PeekReleasesUnderLock
        | Mutant::UnchangedReleasedUnderLock
        | Mutant::ProbeReleasesUnderLock
        | Mutant::FoundReleasedUnderLock
        | Mutant::RefusedListReleasedUnderLock
        | Mutant::RefusedScopeListReleasedUnderLock => &["user_code"],
        Mutant::PlainNotifyInOrder => &["in_order::notified_and_not_polled"],
        Mutant::TurnEndNotifiesPlainly => &["in_order::notified_before_a_turn_ends"],
        Mutant::AdmitsInTwoSteps
        | Mutant::JoinsIdleGate
        | Mutant::LeavesWithoutRelease
        | Mutant::AdmitsWithoutAcquire
        | Mutant::ClosedIsReadBeforeLeaving => &["admission"],
        Mutant::AdmitsBeforePublication
        | Mutant::EndedHoldIsContinued
        | Mutant::ReopeningEndsTheHold
        | Mutant::FormerHoldContinues
        | Mutant::HoldEndsUnderLock
        | Mutant::ClosedGateIsNotedFirst
        | Mutant::ClosesOwnStripe
        | Mutant::OwnStripeIsEnough
        | Mutant::RevokedHoldContinues
        | Mutant::ReportedHoldContinues
        | Mutant::ReportedGateIsReportedAgain
        | Mutant::EndedWorkWakesNoOwner
        | Mutant::FirstGateIsAwaited
        | Mutant::IdleGateReportsTheFirst
        | Mutant::OneReportForIdleGates
        | Mutant::DroppedWaitLosesItsGate
        | Mutant::LaterCloseIsNotAwaited
        | Mutant::AllIdleReportsNone
        | Mutant::JoinsOwnStripe
        | Mutant::JoinsEndedHold
        | Mutant::DroppedGatesKeepHolds => &["gate"],
        Mutant::HeldIsCheckedBeforeAdmission
        | Mutant::AdmissionIsEnough
        | Mutant::WallIsMovedLast
        | Mutant::DeadlineWithoutRelease
        | Mutant::PassedDeadlineComesBack => &["tenure"],
        Mutant::IndexReadByShards | Mutant::IndexLeftInOwnShard => &["store::index_of_two_threads"],
        Mutant::BuildEndsUnnoticed => &["build::second_user"],
        Mutant::RefusedWriteStaysJoined => &["build::function_fails_once"],
        Mutant::BuiltIsJoinedAgain => &["build::update_within_a_value"],
        Mutant::DroppedQueueForgets => &["handles"],
        Mutant::TurnsOverlap
        | Mutant::TurnHidesRemainingEvents
        | Mutant::TurnEndWakesNoConsumer
        | Mutant::LastTurnWakesNoWaiter
        | Mutant::AppendWakesNoConsumer
        | Mutant::SyncedAfterTheTurn
        | Mutant::CommittedWhenQueued => &["in_order"],
    }
}

/// Returns the reason why a model fails with the mutant. Returns `None` if the model holds or
/// there is no verdict.
fn defect(model: &Model, mutant: Mutant) -> Option<String> {
    let output = this_program()
        .args(["--mutant", &format!("{mutant:?}"), "--exact", model.name])
        .output()
        .expect("this program can be started");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let after =
        |text: String, mark: &str| Some(text.split_once(mark)?.1.lines().next()?.to_owned());
    match output.status.code() {
        Some(code) if code == i32::from(BROKEN) => after(text(&output.stdout), FAILED),
        // A panic during another panic's unwinding aborts the process; the first panic has
        // printed the reason.
        None => after(text(&output.stderr), PANICKED).filter(|message| is_model_failure(message)),
        Some(_) => None,
    }
}
