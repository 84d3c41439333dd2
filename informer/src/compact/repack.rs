//! Packs objects again whose base or dictionary was replaced.

use std::sync::Arc;

use super::compactor::Compactor;
use super::fields;
use super::groups::Relative;
use super::object::Compact;
use super::stored::{Reference, Stored};
use super::values::Document;

impl<K> Compactor<K> {
    /// Packs an object again if its group has a newer base, if few objects still hold its base, or
    /// if its dictionary was replaced. If the dictionary of its base was replaced, packs the base
    /// again. Call this method from time to time for all stored objects. Does nothing for an object
    /// of another compactor.
    pub fn repack(&self, object: &Arc<Compact<K>>) {
        let with = object.with();
        if !Arc::ptr_eq(&with.common, &self.common) {
            return;
        }
        let dictionary = self.dictionary();
        let keeps_base = match with.base() {
            Some(base) => {
                // After an error the base is unchanged. A later pass packs it.
                let _ = base.repack(&dictionary);
                // This handle does not count, but that of the object does.
                let is_used_up = base.is_used_up(Arc::strong_count(&with) - 1);
                if !is_used_up && !base.is_replaced() {
                    return;
                }
                !is_used_up
            }
            None if Arc::ptr_eq(&with, &dictionary) => return,
            None => false,
        };
        let Ok(text) = object.text() else { return };
        let fields = fields::read(&text).ok();
        let group = fields.and_then(|fields| fields.group(&self.common.state));
        let stored = match group.and_then(|group| self.groups.find(group)) {
            Some(Relative::Base(base)) if !Arc::ptr_eq(&base, &with) => {
                self.difference(&base, &Document::new(text.as_bytes(), object.own()))
            }
            // Another group has replaced the base. This group keeps it.
            _ if keeps_base => return,
            _ => None,
        };
        match stored {
            Some(stored) => object.replace(stored),
            None => Self::repack_with(object, &dictionary),
        }
    }

    fn repack_with(object: &Compact<K>, with: &Arc<Reference>) {
        let Ok(text) = object.text() else { return };
        // After an error the object keeps the form that it has, which takes less memory than the
        // whole text.
        if let Ok(stored) = Stored::try_pack(&Document::new(text.as_bytes(), object.own()), with) {
            object.replace(stored);
        }
    }
}
