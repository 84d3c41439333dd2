//! Finds shards that have far more objects than others.

use crate::sharding::shards::{ShardCount, ShardSet};

/// With fewer objects, it does not matter how they are spread.
const LEAST_OBJECTS: usize = 1_000;

/// A shard is large if it has more than this number of equal shares.
const SHARES: usize = 4;

/// Counts the listed objects of each shard.
pub(super) struct Spread {
    counts: Vec<usize>,
    is_reported: bool,
}

/// A shard with far more objects than an equal share.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LargeShard {
    pub(super) shard: u8,
    pub(super) objects: usize,
    /// The number of objects of all shards that were compared.
    pub(super) all: usize,
}

impl Spread {
    pub(super) fn new(count: ShardCount) -> Self {
        Self { counts: vec![0; count.get()], is_reported: false }
    }

    /// Begins a list of these shards.
    pub(super) fn begin(&mut self, shards: ShardSet) {
        shards.iter().for_each(|shard| self.counts[usize::from(shard)] = 0);
    }

    /// Counts an object of a list.
    pub(super) fn count(&mut self, shard: u8) {
        self.counts[usize::from(shard)] += 1;
    }

    /// Returns the largest of these shards if it is large. Returns a shard only once.
    pub(super) fn large(&mut self, shards: ShardSet) -> Option<LargeShard> {
        let counted = || shards.iter().map(|shard| (self.counts[usize::from(shard)], shard));
        let all = counted().map(|(objects, _)| objects).sum();
        let (objects, shard) = counted().max()?;
        let is_large = all >= LEAST_OBJECTS && objects * shards.len() > all * SHARES;
        let is_new = is_large && !std::mem::replace(&mut self.is_reported, is_large);
        is_new.then_some(LargeShard { shard, objects, all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharding::{ObjectId, ShardBy};

    /// Returns the large shard of 64, of objects in namespaces of these names.
    fn large(names: impl Iterator<Item = String>) -> Option<LargeShard> {
        let count = ShardCount::new(64).unwrap();
        let mut spread = Spread::new(count);
        let all = count.all().collect();
        spread.begin(all);
        for namespace in names {
            let id = ObjectId { namespace: &namespace, name: "a", uid: "" };
            spread.count(ShardBy::Namespace.shard_of(id, count));
        }
        let large = spread.large(all);
        assert_eq!(spread.large(all), None, "it is returned once");
        large
    }

    #[test]
    fn similar_names_of_namespaces_make_a_large_shard_and_random_ones_do_not() {
        let large_shard = large((0..1_000).map(|number| format!("ns-{number}"))).unwrap();
        assert_eq!(large_shard.all, 1_000);
        assert!(large_shard.objects > 1_000 / 64 * SHARES, "{large_shard:?}");
        let mut random = fastrand::Rng::with_seed(7);
        assert_eq!(large((0..1_000).map(|_| format!("{:x}", random.u64(..)))), None);
        assert_eq!(large((0..100).map(|number| format!("ns-{number}"))), None, "few objects");
    }

    #[test]
    fn second_list_of_a_shard_replaces_the_first_one() {
        let count = ShardCount::new(8).unwrap();
        let (all, first) = (count.all().collect(), ShardSet::from_iter([0]));
        let mut spread = Spread::new(count);
        for _ in 0..10 {
            spread.begin(first);
            (0..200).for_each(|_| spread.count(0));
        }
        (1..8).for_each(|shard| (0..200).for_each(|_| spread.count(shard)));
        assert_eq!(spread.large(all), None);
    }
}
