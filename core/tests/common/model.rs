//! client-go's `DeltaFIFO` as plainly as it can be written: one thread, no locks, one map and one queue. Objects are
//! their numbers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MDelta {
    /// `A`, `U`, `D`, `R` or `S`.
    pub kind: char,
    pub tombstone: bool,
    pub n: Option<u64>,
}

impl MDelta {
    pub fn object(kind: char, n: u64) -> Self {
        Self { kind, tombstone: false, n: Some(n) }
    }

    pub fn tombstone(n: Option<u64>) -> Self {
        Self { kind: 'D', tombstone: true, n }
    }

    /// As `common::show_one`.
    pub fn show(&self) -> String {
        let n = self.n.map_or(String::new(), |n| n.to_string());
        if self.tombstone { format!("{}({n})", self.kind) } else { format!("{}{n}", self.kind) }
    }
}

pub fn show(deltas: &[MDelta]) -> String {
    deltas.iter().map(MDelta::show).collect::<Vec<_>>().join(" ")
}

#[derive(Default)]
pub struct Model {
    /// Whether there are known objects at all.
    pub knows: bool,
    pub known: BTreeMap<String, u64>,
    pub items: BTreeMap<String, Vec<MDelta>>,
    pub queue: VecDeque<String>,
    pub populated: bool,
    pub initial: usize,
    pub emit_replaced: bool,
}

pub struct MPopped {
    pub key: String,
    pub deltas: Vec<MDelta>,
    pub is_initial: bool,
}

impl Model {
    pub fn has_synced(&self) -> bool {
        self.populated && self.initial == 0
    }

    fn queue_action(&mut self, key: &str, delta: MDelta) {
        if !self.items.contains_key(key) {
            self.queue.push_back(key.to_owned());
        }
        let deltas = self.items.entry(key.to_owned()).or_default();
        deltas.push(delta);
        if let [.., older, newer] = deltas.as_slice()
            && older.kind == 'D'
            && newer.kind == 'D'
        {
            let dropped = if older.tombstone { deltas.len() - 2 } else { deltas.len() - 1 };
            deltas.remove(dropped);
        }
    }

    /// `None`: an object without a key.
    pub fn offer(&mut self, kind: char, key: Option<&str>, n: u64) {
        self.populated = true;
        if let Some(key) = key {
            self.queue_action(key, MDelta::object(kind, n));
        }
    }

    pub fn delete(&mut self, key: Option<&str>, delta: MDelta) {
        let Some(key) = key else { return };
        self.populated = true;
        if self.items.contains_key(key) || self.knows && self.known.contains_key(key) {
            self.queue_action(key, delta);
        }
    }

    /// Queues the list up to an object without a key; whether it was queued whole.
    pub fn queue_list(&mut self, list: &[(Option<&str>, u64)]) -> bool {
        let kind = if self.emit_replaced { 'R' } else { 'S' };
        for (key, n) in list {
            let Some(key) = key else { return false };
            self.queue_action(key, MDelta::object(kind, *n));
        }
        true
    }

    /// How many deletions were queued; `None` when an object had no key.
    pub fn replace(&mut self, list: &[(Option<&str>, u64)]) -> Option<usize> {
        if !self.queue_list(list) {
            return None;
        }
        let listed: BTreeSet<&str> = list.iter().filter_map(|(key, _)| *key).collect();
        let mut deletions = 0;
        for key in self.items.keys().cloned().collect::<Vec<_>>() {
            if !listed.contains(key.as_str()) {
                let newest = self.items[&key].last().unwrap().n;
                self.queue_action(&key, MDelta::tombstone(newest));
                deletions += 1;
            }
        }
        if self.knows {
            for (key, n) in self.known.clone() {
                if !listed.contains(key.as_str()) && !self.items.contains_key(&key) {
                    self.queue_action(&key, MDelta::tombstone(Some(n)));
                    deletions += 1;
                }
            }
        }
        if !self.populated {
            self.populated = true;
            self.initial = listed.len() + deletions;
        }
        Some(deletions)
    }

    pub fn resync(&mut self) {
        if self.knows {
            for (key, n) in self.known.clone() {
                if !self.items.contains_key(&key) {
                    self.queue_action(&key, MDelta::object('S', n));
                }
            }
        }
    }

    pub fn add_if_not_present(&mut self, key: &str, deltas: Vec<MDelta>) {
        self.populated = true;
        self.put_back(key, deltas);
    }

    /// A requeue: what it puts back came before, so that it does not populate.
    pub fn put_back(&mut self, key: &str, deltas: Vec<MDelta>) {
        if !self.items.contains_key(key) {
            self.queue.push_back(key.to_owned());
            self.items.insert(key.to_owned(), deltas);
        }
    }

    pub fn pop(&mut self) -> Option<MPopped> {
        let is_initial = !self.has_synced();
        let key = self.queue.pop_front()?;
        self.initial = self.initial.saturating_sub(1);
        let deltas = self.items.remove(&key).unwrap();
        Some(MPopped { key, deltas, is_initial })
    }

    /// What a handler does.
    pub fn apply(&mut self, popped: &MPopped) {
        for delta in self.knows.then_some(&popped.deltas).into_iter().flatten() {
            match delta.n {
                Some(n) if delta.kind != 'D' => drop(self.known.insert(popped.key.clone(), n)),
                _ => drop(self.known.remove(&popped.key)),
            }
        }
    }
}
