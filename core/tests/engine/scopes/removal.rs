//! Tests of removed scopes: their keys, and offers and relists during the removal.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, mpsc};

use super::rig::{Elsewhere, Fifo, Object, drain, fused, list, object, over, stored, two_scopes};
use deltafifo::{
    BoxError, DeltaFifo, DeltaObject, KeyScope, KnownObjects, RelistError, ScopeError,
};

#[test]
fn removed_scope_drops_its_keys_and_relists() {
    let fifo = fused();
    let [blue, green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 1), object("blue", "b", 1)], "1");
    list(&fifo, &green, &[object("green", "a", 1)], "1");
    drain(&fifo);
    fifo.update(object("blue", "c", 2)).unwrap(); // pending only
    let mut open = fifo.begin_replace_in(&blue);
    open.offer(vec![object("blue", "d", 2)]).unwrap();
    assert_eq!(fifo.remove_scope(&blue).unwrap().deleted, 4);
    assert!(matches!(open.commit("3"), Err(RelistError::Superseded)));
    drain(&fifo);
    assert_eq!(stored(&fifo), ["green/a"]);
    let unknown = |error: RelistError| matches!(error, RelistError::UnknownScope { scope } if scope == "blue");
    assert!(unknown(fifo.remove_scope(&blue).unwrap_err()));
    let mut late = fifo.begin_replace_in(&blue);
    assert!(unknown(late.offer(vec![object("blue", "a", 4)]).unwrap_err()));
    assert!(unknown(late.commit("4").unwrap_err()));
    // The namespace can be added again. The old handle stays without effect.
    let again = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    list(&fifo, &again, &[object("blue", "a", 5)], "5");
    assert!(unknown(fifo.begin_replace_in(&blue).commit("5").unwrap_err()));
    drain(&fifo);
    assert_eq!(stored(&fifo), ["blue/a", "green/a"]);
}

#[test]
fn tombstone_says_whether_its_scope_was_removed() {
    for with_objects_elsewhere in [false, true] {
        let known = Arc::new(Elsewhere::default());
        let fifo = if with_objects_elsewhere { over(known.clone()) } else { fused() };
        let [blue, green] = two_scopes(&fifo);
        let objects = [object("blue", "a", 1), object("green", "a", 1), object("green", "b", 1)];
        if with_objects_elsewhere {
            let named = objects.map(|one| (format!("{}/{}", one.namespace, one.name), one));
            known.0.lock().unwrap().extend(named);
        } else {
            list(&fifo, &blue, &objects[..1], "1");
            list(&fifo, &green, &objects[1..], "1");
            drain(&fifo);
        }
        list(&fifo, &blue, &[], "2");
        fifo.remove_scope(&green).unwrap();
        let mut popped = Vec::new();
        while let Some(item) = fifo.try_pop() {
            let DeltaObject::Tombstone(last) = &item.deltas()[0].object else { panic!("swept") };
            popped.push(format!("{} {}", last.key, last.scope_removed));
            item.done();
        }
        popped.sort();
        assert_eq!(popped, ["blue/a false", "green/a true", "green/b true"]);
    }
}

#[test]
fn deletion_by_a_list_before_or_behind_a_removal_keeps_its_own_cause() {
    let fifo = fused();
    let [blue, _green] = two_scopes(&fifo);
    list(&fifo, &blue, &[object("blue", "a", 1), object("blue", "b", 1)], "1");
    drain(&fifo);
    fifo.remove_scope(&blue).unwrap();
    let again = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    list(&fifo, &again, &[object("blue", "b", 1)], "2");
    // The new list does not have `a`: it is gone. `b` was there all the time.
    let expected = ["blue/a: removed false", "blue/b: removed true, listed"];
    assert_eq!(pop_causes(&fifo), expected);

    list(&fifo, &again, &[object("blue", "c", 3), object("blue", "d", 3)], "3");
    while let Some(mut item) = fifo.try_pop() {
        item.apply(|_| ()).unwrap();
    }
    list(&fifo, &again, &[object("blue", "d", 3)], "4");
    fifo.remove_scope(&again).unwrap();
    assert_eq!(pop_causes(&fifo), ["blue/c: removed false", "blue/d: removed true"]);
}

/// Pops all items. Returns a text for each, with its key and the causes of its deltas.
fn pop_causes(fifo: &Fifo) -> Vec<String> {
    let mut popped = Vec::new();
    while let Some(item) = fifo.try_pop() {
        let shown = item.deltas().iter().map(|delta| match &delta.object {
            DeltaObject::Tombstone(last) => format!("removed {}", last.scope_removed),
            DeltaObject::Object(_) => "listed".to_owned(),
        });
        popped.push(format!("{}: {}", item.key(), shown.collect::<Vec<_>>().join(", ")));
        item.done();
    }
    popped.sort();
    popped
}

/// An external store that runs an action when the queue asks for its keys.
#[derive(Default)]
struct Interrupted {
    objects: Elsewhere,
    action: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Interrupted {
    /// Creates the store with these objects, and a queue over it.
    fn over(objects: &[Arc<Object>]) -> (Arc<Self>, Arc<Fifo>) {
        let known = Arc::new(Self::default());
        for object in objects {
            let key = format!("{}/{}", object.namespace, object.name);
            known.objects.0.lock().unwrap().insert(key, Arc::clone(object));
        }
        let fifo = Arc::new(over(known.clone()));
        (known, fifo)
    }

    /// Sets `action` to run when the queue next asks for the keys.
    fn when_asked(&self, action: impl FnOnce() + Send + 'static) {
        *self.action.lock().unwrap() = Some(Box::new(action));
    }

    /// Sets `action` to run when the queue next asks for the keys. Returns the receiver of its
    /// result.
    fn result_when_asked<R: Send + 'static>(
        &self,
        action: impl FnOnce() -> R + Send + 'static,
    ) -> mpsc::Receiver<R> {
        let (sender, result) = mpsc::channel();
        self.when_asked(move || sender.send(action()).unwrap());
        result
    }

    /// Handles all pending keys, and returns the keys of the store.
    fn handle(&self, fifo: &Fifo) -> Vec<String> {
        while let Some(item) = fifo.try_pop() {
            self.objects.apply(item.key(), item.deltas());
            item.done();
        }
        self.objects.list_keys()
    }
}

impl KnownObjects<Object> for Interrupted {
    fn list_keys(&self) -> Vec<String> {
        let action = self.action.lock().unwrap().take();
        if let Some(action) = action {
            action();
        }
        self.objects.list_keys()
    }

    fn get_by_key(&self, key: &str) -> Result<Option<Arc<Object>>, BoxError> {
        self.objects.get_by_key(key)
    }
}

#[test]
fn removal_deletes_no_key_of_a_scope_that_is_added_again_during_it() {
    let (known, fifo) = Interrupted::over(&[object("blue", "a", 1), object("blue", "b", 1)]);
    let blue = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    known.when_asked({
        let (known, fifo) = (known.clone(), fifo.clone());
        move || {
            let again = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
            assert_eq!(list(&fifo, &again, &[object("blue", "a", 2)], "2"), 1);
            assert_eq!(known.handle(&fifo), ["blue/a"]);
            // By the watch that follows the list.
            fifo.add(object("blue", "c", 3)).unwrap();
            known.handle(&fifo);
        }
    });
    assert_eq!(fifo.remove_scope(&blue).unwrap().deleted, 0);
    assert_eq!(known.handle(&fifo), ["blue/a", "blue/c"]);
}

#[test]
fn relist_of_the_whole_queue_is_not_ended_by_the_removal_of_the_last_scope() {
    let (known, fifo) = Interrupted::over(&[object("blue", "a", 1), object("blue", "b", 1)]);
    let blue = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    let whole = known.result_when_asked({
        let (known, fifo) = (known.clone(), fifo.clone());
        move || {
            let mut relist = DeltaFifo::begin_replace_owned(&fifo);
            relist.offer(vec![object("blue", "a", 2)]).unwrap();
            known.handle(&fifo);
            relist
        }
    });
    assert_eq!(fifo.remove_scope(&blue).unwrap().deleted, 1);
    let mut whole = whole.try_recv().unwrap();
    assert!(matches!(
        fifo.add_scope(KeyScope::namespace("blue")),
        Err(ScopeError::RelistOpen { .. })
    ));
    whole.offer(vec![object("green", "a", 2)]).unwrap();
    fifo.add(object("green", "b", 3)).unwrap();
    assert_eq!(known.handle(&fifo), ["blue/a", "green/a", "green/b"]);
    assert_eq!(whole.commit("3").unwrap().deleted, 0);
    assert_eq!(known.handle(&fifo), ["blue/a", "green/a", "green/b"]);
}

#[test]
fn removal_during_a_new_scope_does_not_end_the_wait_for_its_first_list() {
    let (known, fifo) = Interrupted::over(&[]);
    let green = fifo.add_scope(KeyScope::namespace("green")).unwrap();
    let red = known.result_when_asked({
        let fifo = fifo.clone();
        move || fifo.add_scope(KeyScope::namespace("red")).unwrap()
    });
    fifo.remove_scope(&green).unwrap();
    assert!(!fifo.has_synced(), "red is not listed");
    let red = red.try_recv().unwrap();
    assert_eq!(list(&fifo, &red, &[object("red", "a", 1)], "1"), 0);
    assert!(!fifo.has_synced(), "its list was not handled");
    assert_eq!(known.handle(&fifo), ["red/a"]);
    assert!(fifo.has_synced());
}

#[test]
fn removal_during_a_relist_of_the_whole_queue_does_not_sync_it() {
    let (known, fifo) = Interrupted::over(&[]);
    let green = fifo.add_scope(KeyScope::namespace("green")).unwrap();
    let whole = known.result_when_asked({
        let fifo = fifo.clone();
        move || DeltaFifo::begin_replace_owned(&fifo)
    });
    fifo.remove_scope(&green).unwrap();
    assert!(!fifo.has_synced(), "the relist is open");
    let whole = whole.try_recv().unwrap();
    whole.commit("1").unwrap();
    assert!(fifo.has_synced());
}

/// Checks that a key that is offered during the removal of its scope stays, although an older
/// relist of the whole queue is superseded during that removal.
#[test]
fn key_offered_during_a_removal_and_a_superseded_relist_stays() {
    let (known, fifo) = Interrupted::over(&[object("blue", "a", 1)]);
    let blue = fifo.add_scope(KeyScope::namespace("blue")).unwrap();
    known.when_asked({
        let (known, fifo) = (known.clone(), fifo.clone());
        move || {
            let older = DeltaFifo::begin_replace_owned(&fifo);
            drop(DeltaFifo::begin_replace_owned(&fifo));
            assert!(matches!(older.commit("1"), Err(RelistError::Superseded)));
            fifo.add(object("blue", "c", 3)).unwrap();
            known.handle(&fifo);
        }
    });
    fifo.remove_scope(&blue).unwrap();
    assert_eq!(known.handle(&fifo), ["blue/c"]);
}

#[test]
fn scope_is_removed_after_a_failed_commit_and_by_a_failing_removal() {
    let (known, fifo) = Interrupted::over(&[object("blue", "a", 1), object("blue", "b", 1)]);
    let namespace = || KeyScope::namespace("blue");
    let panics = || {
        known.when_asked(|| resume_unwind(Box::new("expected by this test")));
    };
    let unknown = |error: RelistError| matches!(error, RelistError::UnknownScope { .. });

    // The commit is superseded, or the store fails.
    let blue = fifo.add_scope(namespace()).unwrap();
    let older = fifo.begin_replace_in(&blue);
    drop(fifo.begin_replace_in(&blue));
    assert!(matches!(older.commit("1"), Err(RelistError::Superseded)));
    panics();
    catch_unwind(AssertUnwindSafe(|| list(&fifo, &blue, &[], "2"))).unwrap_err();
    assert_eq!(known.handle(&fifo), ["blue/a", "blue/b"]);
    assert_eq!(fifo.remove_scope(&blue).unwrap().deleted, 2);
    assert!(unknown(fifo.remove_scope(&blue).unwrap_err()));

    // The store fails at the removal. The keys stay until the scope is listed again.
    let again = fifo.add_scope(namespace()).unwrap();
    list(&fifo, &again, &[object("blue", "b", 3)], "3");
    assert_eq!(known.handle(&fifo), ["blue/b"]);
    panics();
    catch_unwind(AssertUnwindSafe(|| fifo.remove_scope(&again))).unwrap_err();
    assert!(unknown(fifo.remove_scope(&again).unwrap_err()));
    assert_eq!(known.handle(&fifo), ["blue/b"]);
    let last = fifo.add_scope(namespace()).unwrap();
    assert_eq!(list(&fifo, &last, &[], "4"), 1);
    assert_eq!(known.handle(&fifo), [""; 0]);
    assert_eq!(fifo.remove_scope(&last).unwrap().deleted, 0);
    // No scope is left behind.
    fifo.replace(vec![object("green", "a", 5)], "5").unwrap();
    assert_eq!(known.handle(&fifo), ["green/a"]);
}
