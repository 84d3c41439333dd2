//! Finds shards that have far more objects than others.

use super::hash::ShardBy;
use super::shards::ShardSet;

/// With fewer objects, it does not matter how they are spread.
const LEAST_OBJECTS: usize = 1_000;

/// A shard is large if it has more than this number of times the mean of the others.
const TIMES: usize = 4;

/// Counts the objects of each shard.
pub(crate) struct Spread {
    by: ShardBy,
    counts: Vec<usize>,
    is_reported: bool,
}

/// A shard with far more objects than others.
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

    /// Sets the number of objects of a shard that were counted elsewhere.
    pub(crate) fn set(&mut self, shard: u8, objects: usize) {
        self.counts[usize::from(shard)] = objects;
    }

    /// Logs once that one of the `owned` shards has far more objects than others. All objects of
    /// the `known` shards are counted, and these contain the owned ones. Only namespaces make such
    /// shards.
    pub(crate) fn warn_of_large_shard(&mut self, resource: &str, owned: ShardSet, known: ShardSet) {
        if self.by == ShardBy::Namespace
            && let Some(LargeShard { shard, objects, all }) = self.large(owned, known)
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

    /// Returns the largest of the owned shards if it is large among the known ones. Returns a shard
    /// only once.
    fn large(&mut self, owned: ShardSet, known: ShardSet) -> Option<LargeShard> {
        let counted = |shard: u8| self.counts[usize::from(shard)];
        let all = known.iter().map(counted).sum();
        let (objects, shard) = owned.iter().map(|shard| (counted(shard), shard)).max()?;
        let others = known.len() - 1;
        let is_large = all >= LEAST_OBJECTS && objects * others > (all - objects) * TIMES;
        let is_new = is_large && !std::mem::replace(&mut self.is_reported, is_large);
        is_new.then_some(LargeShard { shard, objects, all })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharding::ObjectId;
    use crate::sharding::shards::ShardCount;

    fn shards(count: u32) -> (ShardCount, ShardSet) {
        let count = ShardCount::new(count).unwrap();
        (count, count.all().collect())
    }

    /// Returns a count of objects in namespaces of these names, in 64 shards.
    fn counted(names: impl Iterator<Item = String>) -> Spread {
        let (count, _) = shards(64);
        let mut spread = Spread::new(ShardBy::Namespace, 64);
        for namespace in names {
            let id = ObjectId { namespace: &namespace, name: "a", uid: "" };
            spread.count(ShardBy::Namespace.shard_of(id, count).unwrap());
        }
        spread
    }

    fn similar(namespaces: usize) -> Spread {
        counted((0..namespaces).map(|number| format!("ns-{number}")))
    }

    /// Returns a count of shards with these numbers of objects.
    fn with_objects(numbers: &[usize]) -> Spread {
        Spread { by: ShardBy::Namespace, counts: numbers.to_vec(), is_reported: false }
    }

    #[test]
    fn similar_names_of_namespaces_make_a_large_shard_and_random_ones_do_not() {
        let (_, all) = shards(64);
        let mut spread = similar(1_000);
        let large = spread.large(all, all).unwrap();
        assert_eq!(large.all, 1_000);
        assert!(large.objects > 1_000 / 64 * TIMES, "{large:?}");
        assert_eq!(spread.large(all, all), None, "it is returned once");
        let mut random = fastrand::Rng::with_seed(7);
        let mut random = counted((0..1_000).map(|_| format!("{:x}", random.u64(..))));
        assert_eq!(random.large(all, all), None);
        assert_eq!(similar(100).large(all, all), None, "few objects");
    }

    #[test]
    fn large_shard_is_found_by_its_owner_even_if_that_owns_no_other() {
        let (count, all) = shards(64);
        let large = similar(1_000).large(all, all).unwrap();
        let finds = |shard: &u8| {
            let owned = ShardSet::from_iter([*shard]);
            similar(1_000).large(owned, all).is_some_and(|found| found.shard == *shard)
        };
        assert!(finds(&large.shard));
        let found = count.all().filter(finds).count();
        assert!(found < 16, "few shards are large: {found}");
    }

    #[test]
    fn large_shard_among_few_owned_ones_is_found_if_only_these_are_known() {
        for (numbers, expected) in [
            (&[801, 200][..], Some(0)),
            (&[800, 200], None),
            (&[200, 250, 3_000, 250], Some(2)),
            (&[0, 500, 250, 250], None),
            (&[5_000], None),
            (&[790, 100], None),
        ] {
            let owned = (0..u8::try_from(numbers.len()).unwrap()).collect();
            let large = with_objects(numbers).large(owned, owned);
            assert_eq!(large.map(|large| large.shard), expected, "{numbers:?}");
        }
    }

    #[test]
    fn second_count_replaces_the_first_one() {
        let (count, all) = shards(8);
        let mut spread = Spread::new(ShardBy::Namespace, 8);
        (0..10_000).for_each(|_| spread.count(0));
        spread.begin();
        count.all().for_each(|shard| (0..200).for_each(|_| spread.count(shard)));
        assert_eq!(spread.large(all, all), None);
    }
}
