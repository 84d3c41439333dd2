//! The compactor, and the objects that are packed and not dropped yet, with their texts.

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard};

use deltafifo_informer::compact::{Compact, CompactStats, Compactor};
use serde::Deserialize;
use shuttle::rand::{Rng, thread_rng};

/// The number of groups of siblings.
const GROUPS: usize = 2;
/// The number of siblings after which the content of a group changes.
const CHANGES_AFTER: usize = 6;
/// The number of strings in the content of an object.
const STRINGS: usize = 8;
/// A number of bytes that the objects of a schedule never reach together. A count above it has
/// wrapped around below zero.
const MOST_BYTES: usize = 1 << 20;

#[derive(Deserialize)]
pub struct CompactObject {
    data: Vec<String>,
}

/// A packed object and its text.
#[derive(Clone)]
pub struct Packed {
    pub object: Arc<Compact<CompactObject>>,
    name: Arc<str>,
    text: Arc<str>,
}

pub struct CompactWorld {
    pub compactor: Compactor<CompactObject>,
    /// The objects that are alive, behind a std lock: a lock of shuttle could synchronise threads
    /// that the compactor fails to synchronise. No shuttle operation may run while the lock is
    /// held, so no object may be packed or dropped then.
    objects: Mutex<Vec<Packed>>,
    /// The number of objects that were packed so far in each group, and without a group.
    counts: Mutex<[usize; GROUPS + 1]>,
}

impl CompactWorld {
    pub fn new() -> Self {
        let base_cache = text(0, 0, 0).1.len() * thread_rng().gen_range(0..4) / 2;
        Self {
            compactor: Compactor::builder().train(true).base_cache(base_cache).build(),
            objects: Mutex::default(),
            counts: Mutex::default(),
        }
    }

    pub fn objects(&self) -> MutexGuard<'_, Vec<Packed>> {
        self.objects.lock().unwrap()
    }

    /// Returns one of the objects that are alive.
    pub fn any(&self) -> Option<Packed> {
        let objects = self.objects();
        let count = objects.len();
        (count > 0).then(|| objects[thread_rng().gen_range(0..count)].clone())
    }

    /// Packs the next object of a group, or an object without a group.
    pub fn pack_next(&self) -> Packed {
        let group = thread_rng().gen_range(0..=GROUPS);
        let mut counts = self.counts.lock().unwrap();
        let number = counts[group];
        counts[group] += 1;
        drop(counts);
        let content = if group < GROUPS { number / CHANGES_AFTER } else { number };
        let (name, text) = text(group, content, number);
        let object = self.compactor.pack(text.as_bytes()).unwrap();
        Packed { object, name: name.into(), text: text.into() }
    }

    /// Checks that no count has become negative.
    pub fn check_counts(&self) {
        let stats = self.compactor.stats();
        let CompactStats { bytes, raw_bytes, base_bytes, unpacked_base_bytes, .. } = stats;
        let all = [bytes, raw_bytes, base_bytes, unpacked_base_bytes, stats.dictionary_bytes];
        assert!(all.iter().all(|count| *count < MOST_BYTES), "a count is negative: {stats:?}");
    }

    /// Checks the objects and the statistics, and then drops the objects. No other thread may use
    /// the compactor.
    pub fn check_at_rest(&self) {
        let objects = std::mem::take(&mut *self.objects());
        objects.iter().for_each(Packed::check);
        let stats = self.compactor.stats();
        assert_eq!(stats.objects, objects.len());
        assert_eq!(stats.bytes, objects.iter().map(|packed| packed.object.size()).sum::<usize>());
        assert_eq!(stats.raw_bytes, objects.iter().map(|packed| packed.text.len()).sum::<usize>());
        assert_eq!(stats.failed_decodes, 0);
        drop(objects);
        let stats = self.compactor.stats();
        let CompactStats { packed, dictionary_bytes, decodes, decode_time, .. } = stats;
        let mut zero = CompactStats::default();
        (zero.packed, zero.dictionary_bytes) = (packed, dictionary_bytes);
        (zero.decodes, zero.decode_time) = (decodes, decode_time);
        assert_eq!(stats, zero, "all objects are dropped");
    }
}

impl Packed {
    /// Checks that the object is read as it was packed.
    pub fn check(&self) {
        let object = &self.object;
        assert_eq!(object.name(), Some(&*self.name));
        assert_eq!(object.raw_size(), self.text.len());
        if thread_rng().gen_bool(0.7) {
            assert_eq!(object.raw_json().unwrap(), *self.text);
        } else {
            assert_eq!(object.decode().unwrap().data.len(), STRINGS);
        }
    }
}

/// Returns the name and the text of an object. Texts with different `content` have little in
/// common.
fn text(group: usize, content: usize, number: usize) -> (String, String) {
    let mut strings = String::new();
    for at in 0..STRINGS {
        let seed = (group * 1000 + content) * 1000 + at;
        let noise = (seed as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let _ = write!(strings, "{}\"{noise:016x}\"", if at == 0 { "" } else { "," });
    }
    let name = format!("g{group}-{number}");
    let group = if group < GROUPS {
        format!(r#""generateName":"g{group}-""#)
    } else {
        format!(r#""labels":{{"alone":"{number}"}}"#)
    };
    let text = format!(
        r#"{{"metadata":{{"namespace":"shop","name":"{name}","resourceVersion":"{number}",{group}}},"data":[{strings}]}}"#
    );
    (name, text)
}
