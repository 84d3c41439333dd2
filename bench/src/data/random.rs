//! Random numbers as a hash of a number, so that this crate and the peer in Go (`peers/client-go`)
//! draw equal numbers.

/// Returns the output of Sebastiano Vigna's splitmix64 for a state.
pub fn splitmix64(state: u64) -> u64 {
    let z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Returns the index of the object that event number `event` updates if all objects are equally
/// popular.
#[expect(clippy::cast_possible_truncation, reason = "the remainder is an index")]
pub fn uniform_key(event: usize, objects: usize) -> usize {
    (splitmix64(event as u64 + 0xE000_0000) % objects as u64) as usize
}

/// A distribution of object indexes in which the popularity of an object falls with the power 1.1
/// of its rank. Ranks are spread over the indexes, so that popular objects are not neighbours.
pub struct Zipf {
    cumulative: Vec<f64>,
}

impl Zipf {
    /// Creates a distribution over this many objects.
    #[expect(clippy::cast_precision_loss, reason = "ranks are far below 2^53")]
    pub fn new(objects: usize) -> Self {
        let mut sum = 0.0;
        let cumulative = (1..=objects)
            .map(|rank| {
                sum += 1.0 / (rank as f64).powf(1.1);
                sum
            })
            .collect();
        Self { cumulative }
    }

    /// Returns the index of the object that event number `event` updates.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "53 bits fit a float whole"
    )]
    pub fn key(&self, event: usize) -> usize {
        let objects = self.cumulative.len();
        let share = (splitmix64(event as u64 + 0x21F0_0000) >> 11) as f64 * 2f64.powi(-53);
        let limit = share * self.cumulative[objects - 1];
        let rank = self.cumulative.partition_point(|sum| *sum < limit);
        (splitmix64(rank as u64) % objects as u64) as usize
    }
}
