//! Finds similar texts by their content, for objects whose group has no other member.
//!
//! A text is cut at its quotes, and each three neighbouring pieces are hashed together, such as a
//! name, a colon and a value. Each hash falls into a bin, and each bin keeps its smallest hash.
//! Texts that share most of these triples have the same smallest hash in most bins (min-hash with
//! one permutation). A feature combines a few bins, so that texts with a common feature are very
//! similar.

/// The number of features of a text.
pub(super) const FEATURES: usize = 6;
/// The number of bins that a feature combines.
const JOINED: usize = 3;
const BINS: usize = FEATURES * JOINED;

/// Returns the features of `text`.
pub(super) fn features(text: &[u8]) -> [u64; FEATURES] {
    let mut least = [u64::MAX; BINS];
    let (mut from, mut before) = (0, [0u64; 2]);
    for quote in memchr::memchr_iter(b'"', text) {
        let piece = hash(&text[from..quote]);
        let triple = mix(mix(before[0] ^ before[1].rotate_left(21)) ^ piece.rotate_left(42));
        // The upper half chooses the bin, and the lower half comes first in the comparison.
        let bin = usize::try_from(((triple >> 32) * BINS as u64) >> 32).unwrap_or_default();
        least[bin] = least[bin].min(triple.rotate_left(32));
        (from, before) = (quote + 1, [before[1], piece]);
    }
    let mut bins = least.chunks_exact(JOINED);
    std::array::from_fn(|at| {
        let bins = bins.next().unwrap_or_default();
        bins.iter().fold(at as u64, |feature, bin| mix(feature ^ bin))
    })
}

/// Returns a hash that depends on neither the process nor the machine.
pub(super) fn hash(piece: &[u8]) -> u64 {
    let mut words = piece.chunks_exact(8);
    let mut hash = piece.len() as u64;
    for word in &mut words {
        hash = mix(hash ^ word.try_into().map_or(0, u64::from_le_bytes));
    }
    let mut last = [0; 8];
    last[..words.remainder().len()].copy_from_slice(words.remainder());
    mix(hash ^ u64::from_le_bytes(last))
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    value ^ (value >> 29)
}

#[cfg(test)]
mod tests {
    use super::features;

    /// The number of compared pairs. (Fewer under Miri.)
    const PAIRS: usize = if cfg!(miri) { 10 } else { 100 };

    /// Returns object number `own` of a workload: 60 values that all objects of the workload have,
    /// and 6 values that no other object has.
    fn object(workload: usize, own: usize) -> String {
        let common = (0..60).map(|at| format!(r#""key{at}":"{workload}-{at}""#));
        let own = (0..6).map(|at| format!(r#""own{at}":"{own}-{workload}-{at}""#));
        format!("{{{}}}", common.chain(own).collect::<Vec<_>>().join(","))
    }

    fn in_common(one: &str, other: &str) -> usize {
        let (one, other) = (features(one.as_bytes()), features(other.as_bytes()));
        one.iter().zip(&other).filter(|(one, other)| one == other).count()
    }

    #[test]
    fn siblings_share_features_and_other_objects_do_not() {
        let siblings = (0..PAIRS).filter(|at| in_common(&object(*at, 1), &object(*at, 2)) > 0);
        let siblings = siblings.count();
        assert!(siblings * 20 > PAIRS * 19, "{siblings} of {PAIRS} siblings are found");
        let others = (0..PAIRS).filter(|at| in_common(&object(*at, 1), &object(at + 1, 1)) > 0);
        let others = others.count();
        assert!(
            others * 20 < PAIRS,
            "{others} of {PAIRS} unrelated objects are taken for siblings"
        );
    }

    #[test]
    fn text_without_quotes_has_features() {
        assert_eq!(features(b""), features(b"{}"));
        assert_ne!(features(b"{}"), features(br#"{"a":1}"#));
    }
}
