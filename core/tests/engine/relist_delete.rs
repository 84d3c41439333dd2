//! What a relist deletes before its end, as a list that is streamed can say that something is gone again.

use deltafifo::StoreError;

use crate::common::{KNOWING, MODES, Rig, nameless, obj, tombstone};

#[test]
fn a_relist_deletes_what_is_gone_again_before_its_end() {
    for mode in KNOWING {
        let rig = Rig::knowing(mode, &[obj("a", 1), obj("b", 1)], |builder| builder);
        let mut relist = rig.fifo.begin_replace();
        relist.offer(vec![obj("a", 2), obj("c", 2), obj("d", 2)]).unwrap();
        relist.delete(obj("c", 3)).unwrap();
        relist.delete(tombstone("b", None)).unwrap();
        relist.delete(obj("unknown", 3)).unwrap();
        assert!(matches!(relist.delete(nameless()), Err(StoreError::Key(_))));
        relist.offer(vec![obj("b", 4)]).unwrap();
        assert_eq!(relist.commit("4").unwrap().deleted, 0);
        assert_eq!(rig.drain(), ["a: R2", "c: R2 D3", "d: R2", "b: D() R4"], "{mode:?}");
        assert_eq!(rig.stored(), ["a=2", "b=4", "d=2"]);
    }
}

/// It belongs to the relist as much as what that lists: only something else makes the queue populated.
#[test]
fn a_first_relist_that_deletes_and_is_abandoned_never_was() {
    for mode in MODES {
        let rig = Rig::knowing(mode, &[obj("known", 1)], |builder| builder);
        let mut relist = rig.fifo.begin_replace();
        relist.offer(vec![obj("a", 2)]).unwrap();
        relist.delete(obj("a", 3)).unwrap();
        relist.delete(tombstone("known", None)).unwrap();
        relist.delete(obj("unknown", 3)).unwrap();
        relist.abandon();
        assert!(!rig.fifo.has_synced(), "{mode:?}");
        let mut guard = rig.fifo.pop().unwrap();
        assert!(guard.is_in_initial_list(), "nothing has populated the queue, {mode:?}");
        rig.apply(&mut guard);
        guard.done();
        rig.drain();
        assert!(!rig.fifo.has_synced(), "{mode:?}");

        rig.fifo.replace(vec![obj("b", 4)], "4").unwrap();
        assert!(!rig.fifo.has_synced(), "the first list that is complete is not handled, {mode:?}");
        rig.drain();
        assert!(rig.fifo.has_synced(), "{mode:?}");
    }
}
