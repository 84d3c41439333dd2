//! Trains the dictionaries of a compactor.

use super::codec::Dictionary;
use super::compactor::Compactor;
use super::stored::{Material, Reference};
use super::sync::{FEWEST_SAMPLES, FIRST_TRAINING, Ordering};
use super::values::Document;

/// The factor by which the number of groups must grow after a training before packing an object
/// trains the next dictionary. [`Compactor::end_list`] may train it earlier.
const GROWTH: usize = 8;
/// The value of `train_at` while a training is due.
const TRAINING_DUE: usize = usize::MAX;
/// The largest number of bytes of samples. Training takes about 100 ms for each MiB.
const SAMPLE_BYTES: usize = 1 << 20;
/// The largest size of a text that is a sample, in bytes. Larger texts would leave room for too few
/// others.
const LARGEST_SAMPLE: usize = SAMPLE_BYTES / FEWEST_SAMPLES;

impl<K> Compactor<K> {
    /// Trains a dictionary, or asks for a training, if the number of `groups` makes one due.
    pub(super) fn train_if_due(&self, groups: usize) {
        let train_at = self.train_at.load(Ordering::Relaxed);
        // Only one of the threads that reach the number trains, or asks for a training.
        let exchange = |at| {
            self.train_at.compare_exchange(at, TRAINING_DUE, Ordering::Relaxed, Ordering::Relaxed)
        };
        if groups >= train_at && exchange(train_at).is_ok() {
            // Until the initial list has ended, objects are packed on threads that may block. Later
            // ones may be packed in the task of a watch, so the training is left to the background.
            if *self.lists.borrow() > 0 {
                self.lists.send_modify(|lists| *lists += 1);
            } else {
                let _guard = self.training.lock();
                self.train();
            }
        }
    }

    /// Trains a dictionary on the text of each base and of the first member of each group without a
    /// base, or on each n-th of these texts if all of them would exceed [`SAMPLE_BYTES`]. Texts of
    /// more than [`LARGEST_SAMPLE`] bytes are left out. Trains nothing if dictionaries are switched
    /// off, or if there are fewer than [`FEWEST_SAMPLES`] texts. The caller must hold `training`.
    fn train(&self) {
        let groups = self.groups.count();
        self.train_at.store((groups * GROWTH).max(FIRST_TRAINING), Ordering::Relaxed);
        if !self.train {
            return;
        }
        let (bases, mut firsts) = self.groups.all();
        let mut bases: Vec<_> = bases.iter().filter_map(|base| base.base()).collect();
        bases.retain(|base| base.length <= LARGEST_SAMPLE);
        firsts.retain(|first| first.raw_size() <= LARGEST_SAMPLE);
        let texts = bases.len() + firsts.len();
        if texts < FEWEST_SAMPLES {
            return;
        }
        // The samples are spread over all groups: a list comes in key order, and its first objects
        // belong to one namespace.
        let lengths = bases.iter().map(|base| base.length);
        let bytes: usize = lengths.chain(firsts.iter().map(|first| first.raw_size())).sum();
        let text = |at: usize| match bases.get(at) {
            Some(base) => Some(base.text().ok()?.to_vec()),
            None => Some(firsts.get(at - bases.len())?.text().ok()?.into_bytes()),
        };
        let (mut samples, mut lengths) = (Vec::new(), Vec::new());
        let step = bytes.div_ceil(SAMPLE_BYTES).max(1);
        for text in (0..texts).step_by(step).filter_map(text) {
            let text = Document::plain(&text).cut(None).text;
            samples.extend_from_slice(&text);
            lengths.push(text.len());
            if samples.len() >= SAMPLE_BYTES {
                break;
            }
        }
        if let Some(dictionary) = Dictionary::train(&samples, &lengths) {
            let dictionary = Reference::new(&self.common, Some(dictionary));
            let _old = std::mem::replace(&mut *self.dictionary.write(), dictionary);
        }
    }

    /// Does the work that is due at the end of a list. Frees the memory that is still used for
    /// groups whose objects were all dropped. Trains a dictionary if there is none, or if there are
    /// more than 48 groups, and more than 1.5 times as many as at the last training. Training takes
    /// about 100 ms. So call this method on a thread that may block. Then pass all stored objects
    /// to [`repack`](Self::repack).
    pub fn end_list(&self) {
        self.groups.purge();
        let _guard = self.training.lock();
        let train_at = self.train_at.load(Ordering::Relaxed);
        let is_untrained = matches!(self.dictionary().kind, Material::Nothing);
        let has_grown = || self.groups.count() * 2 > train_at / GROWTH * 3;
        if train_at == TRAINING_DUE || is_untrained || has_grown() {
            self.train();
        }
    }
}
