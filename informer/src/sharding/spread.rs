//! Finds shards that have far more objects than others.

use super::hash::ShardBy;
use super::shards::ShardSet;

/// With fewer objects, it does not matter how they are spread.
const LEAST_OBJECTS: usize = 1_000;

/// A shard is large if it has more than this number of equal shares.
const SHARES: usize = 4;

/// Counts the objects of each shard.
pub(crate) struct Spread {
    by: ShardBy,
    counts: Vec<usize>,
    is_reported: bool,
}

/// A shard with far more objects than an equal share.
#[derive(Debug, PartialEq, Eq)]
struct LargeShard {
    shard: u8,
    objects: usize,
    /// The number of objects of all shards that were compared.
    all: usize,
}

impl Spread {
    pub(crate) fn new(by: ShardBy, shards: usize) -> Self {
        Self { by, counts: vec![0; shards], is_reported: false }
    }

    /// Begins another count.
    pub(crate) fn begin(&mut self) {
        self.counts.fill(0);
    }

    /// Counts an object of a shard.
    pub(crate) fn count(&mut self, shard: u8) {
        self.counts[usize::from(shard)] += 1;
    }

    /// Logs once that one of these shards has far more objects than others. All objects of these
    /// shards are counted. Only namespaces make such shards.
    pub(crate) fn warn_of_large_shard(&mut self, resource: &str, shards: ShardSet) {
        if self.by == ShardBy::Namespace
            && let Some(LargeShard { shard, objects, all }) = self.large(shards)
        {
            tracing::warn!(
                resource,
                shard,
                objects,
                all,
                "one shard has far more objects than others, so members have unequal shares of the \
                 work; namespaces with similar names are in few shards: use ShardBy::Key unless the \
                 objects of a namespace must stay together"
            );
        }
    }

    /// Returns the largest of these shards if it is large. Returns a shard only once.
    fn large(&mut self, shards: ShardSet) -> Option<LargeShard> {
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
    use crate::sharding::ObjectId;
    use crate::sharding::shards::ShardCount;

    /// Returns the large shard of 64, of objects in namespaces of these names.
    fn large(names: impl Iterator<Item = String>) -> Option<LargeShard> {
        let count = ShardCount::new(64).unwrap();
        let mut spread = Spread::new(ShardBy::Namespace, 64);
        let all = count.all().collect();
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
    fn second_count_replaces_the_first_one() {
        let count = ShardCount::new(8).unwrap();
        let all = count.all().collect();
        let mut spread = Spread::new(ShardBy::Namespace, 8);
        (0..10_000).for_each(|_| spread.count(0));
        spread.begin();
        count.all().for_each(|shard| (0..200).for_each(|_| spread.count(shard)));
        assert_eq!(spread.large(all), None);
    }
}
