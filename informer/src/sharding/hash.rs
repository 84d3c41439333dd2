//! The shard of an object, and the selector of a server that shards.
//!
//! A server with the feature `ShardedListAndWatch` (KEP-5866) hashes the uid or the namespace of an
//! object by FNV-1a with 64 bits, and selects objects by ranges of this hash. [`ShardBy::Uid`] and
//! [`ShardBy::Namespace`] use the same hash. FNV-1a distributes similar strings badly over ranges:
//! its high bits hardly depend on the last byte. [`ShardBy::Key`] therefore mixes the hash with the
//! finalizer of `MurmurHash3`, which no server does.

use deltafifo::Meta;

use super::shards::{ShardCount, ShardSet};

/// The property that decides to which shard of a group an object belongs. All members of a group
/// must have the same.
///
/// | | a shard has | the server can select | an object that is deleted and created again |
/// | --- | --- | --- | --- |
/// | [`Key`](Self::Key) | an equal share of the objects | no | stays in its shard |
/// | [`Namespace`](Self::Namespace) | whole namespaces, distributed badly | yes | stays in its shard |
/// | [`Uid`](Self::Uid) | an equal share of the objects | yes | comes into another shard |
///
/// A server can select objects if its feature `ShardedListAndWatch` is on (KEP-5866, off by default
/// in Kubernetes 1.36). Then an informer [of a member's
/// shards](crate::SharedInformer::in_shards) receives only their objects. From any other server it
/// receives all objects, and drops the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ShardBy {
    /// The namespace and the name. This is the default, and the right choice for nearly all kinds.
    #[default]
    Key,
    /// The namespace. All objects of a namespace are in one shard, so that one member reconciles
    /// all of them. Cluster-scoped objects have no shard, because all of them would be in one: a
    /// controller and an informer refuse them, and [`admit`](crate::sharding::ShardGroup::admit)
    /// returns no permit. Choose another property for them.
    ///
    /// The shards differ in size, even if the namespaces do not, because the server's hash
    /// distributes similar names badly: of the namespaces `ns-0` to `ns-999` in four shards, one
    /// shard has none and another has twice its share. Use it only if the namespaces have random
    /// names, or if the objects of a namespace must be reconciled by one member.
    ///
    /// A controller logs one warning, once it owns a shard that has more than four times as many
    /// objects as the other shards have on average, which no shard of this example has. With fewer
    /// than 1,000 objects in all, it logs nothing. An informer [of a member's
    /// shards](crate::SharedInformer::in_shards) counts the objects of the other shards in each of
    /// its lists before it drops them. The controller compares the numbers of the last list, even
    /// if shards have left since. If the server selects, a list has only the objects of the
    /// member's shards, unless the member holds all shards. Lists of metadata and of custom
    /// resources do not say whether it does, so their numbers are not used either. (Nor are those
    /// of built-in kinds whose group has a dot, such as `Ingress`.) Without the
    /// numbers of other shards, the controller compares only the shards that the member owns, and
    /// logs nothing if it owns one.
    Namespace,
    /// The uid. "No two reconciles of an object at once" is promised for each uid: an object that
    /// is deleted and created again is another object, and its first reconcile may begin on one
    /// member while the last one of its predecessor ends on another.
    Uid,
}

/// The properties of an object that can decide its shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectId<'a> {
    /// Empty if the object is cluster-scoped.
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

impl ObjectId<'_> {
    /// Calls `call` with the properties of an object. A property that the object does not have is
    /// empty.
    pub(crate) fn of_object<K, M: Meta<K>, R>(
        meta: &M,
        object: &K,
        call: impl FnOnce(ObjectId<'_>) -> R,
    ) -> R {
        let namespace = meta.namespace(object).unwrap_or_default();
        let name = meta.name(object).unwrap_or_default();
        // The short uid of a compact object has another hash.
        let uid = meta.written_uid(object).unwrap_or_default();
        call(ObjectId { namespace, name, uid: &uid })
    }
}

impl ShardBy {
    /// Returns the name of the property, as the Leases of a group have it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Namespace => "namespace",
            Self::Uid => "uid",
        }
    }

    /// Returns the shard of an object, or `None` if the object does not have the property: all such
    /// objects would be in one shard.
    pub(crate) fn shard_of(self, object: ObjectId<'_>, shards: ShardCount) -> Option<u8> {
        let ObjectId { namespace, name, uid } = object;
        let hash = match self {
            Self::Key if namespace.is_empty() => fmix64(fnv1a(&[name])),
            Self::Key => fmix64(fnv1a(&[namespace, "/", name])),
            Self::Namespace if namespace.is_empty() => return None,
            Self::Namespace => fnv1a(&[namespace]),
            Self::Uid if uid.is_empty() => return None,
            Self::Uid => fnv1a(&[uid]),
        };
        Some(shards.shard_of(hash))
    }

    /// Returns the `shardSelector` of lists and watches of these shards: one range for each run of
    /// neighbours. Returns `None` if no server can select by this property. Without a shard the
    /// selector is empty, which a server takes for all objects.
    pub(crate) fn selector(self, selected: ShardSet, shards: ShardCount) -> Option<String> {
        let field = match self {
            Self::Key => return None,
            Self::Namespace => "object.metadata.namespace",
            Self::Uid => "object.metadata.uid",
        };
        let all: Vec<u8> = (0..=u8::MAX).take(shards.get()).collect();
        let runs = all.chunk_by(|a, b| selected.contains(*a) == selected.contains(*b));
        let ranges = runs.filter(|run| selected.contains(run[0])).map(|run| {
            let from = shards.first_hash(run[0]);
            let to = shards.first_hash(run[run.len() - 1] + 1);
            format!("shardRange({field},'{from:#018x}','{to:#018x}')")
        });
        Some(ranges.collect::<Vec<_>>().join(" || "))
    }
}

/// Returns the hash of the concatenated strings by FNV-1a with 64 bits.
pub(super) fn fnv1a(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Mixes the bits of a hash: the finalizer of `MurmurHash3`.
pub(super) fn fmix64(mut hash: u64) -> u64 {
    hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

#[cfg(test)]
mod tests {
    use super::{ObjectId, ShardBy, ShardCount, ShardSet, fmix64, fnv1a};

    /// A string, its hash by FNV-1a, and that hash after `fmix64`. The hashes were computed by
    /// another program; those of the first three strings by FNV-1a are also published by its
    /// authors.
    const HASHES: [(&str, u64, u64); 10] = [
        ("", 0xcbf2_9ce4_8422_2325, 0xefd0_1f60_ba99_2926),
        ("a", 0xaf63_dc4c_8601_ec8c, 0x82a2_a958_a9be_ce5b),
        ("foobar", 0x8594_4171_f739_67e8, 0x2c22_1949_22d1_672b),
        ("default", 0xebad_a516_8620_c5fe, 0xd470_84e0_f7c5_d5ad),
        ("kube-system", 0xdf65_c7bc_1d82_b35e, 0xe313_d0e7_4eaa_50dc),
        ("shop", 0x46dc_5e18_e28e_2409, 0xbd4a_b545_86fb_fbcb),
        ("6e6c2f0b-1f6e-4b0e-9d3a-0f2d5b7c8e11", 0x7372_337c_c207_d0fd, 0xe89c_920b_9b98_eadf),
        ("shop/cart-1", 0xf055_4477_8754_97fa, 0x226b_dca4_45ea_48de),
        ("cluster-scoped", 0x030a_2d19_974f_4d00, 0x506b_688f_cf71_1427),
        ("ns-1/ü", 0xc0d4_e274_e13f_f8b2, 0x1aed_b04b_7fab_1a8c),
    ];

    fn shards(count: u32) -> ShardCount {
        ShardCount::new(count).unwrap()
    }

    #[test]
    fn hashes_are_those_of_another_program() {
        for (text, hash, mixed) in HASHES {
            assert_eq!(fnv1a(&[text]), hash, "{text}");
            assert_eq!(fmix64(hash), mixed, "{text}");
            let (head, tail) = text.split_at(text.find('/').unwrap_or(0));
            assert_eq!(fnv1a(&[head, tail]), hash, "{text} in two parts");
        }
    }

    #[test]
    fn shard_is_the_first_bits_of_the_hash_of_the_property() {
        let cart = ObjectId {
            namespace: "shop",
            name: "cart-1",
            uid: "6e6c2f0b-1f6e-4b0e-9d3a-0f2d5b7c8e11",
        };
        let of = |by: ShardBy, count| by.shard_of(cart, shards(count)).unwrap();
        assert_eq!([1, 2, 16, 64, 128].map(|count| of(ShardBy::Key, count)), [0, 0, 2, 8, 17]);
        assert_eq!(
            [1, 2, 16, 64, 128].map(|count| of(ShardBy::Namespace, count)),
            [0, 0, 4, 17, 35]
        );
        assert_eq!([1, 2, 16, 64, 128].map(|count| of(ShardBy::Uid, count)), [0, 0, 7, 28, 57]);
        let node = ObjectId { namespace: "", name: "cluster-scoped", uid: "" };
        assert_eq!(ShardBy::Key.shard_of(node, shards(64)), Some(20));
        assert_eq!(ShardBy::Namespace.shard_of(node, shards(64)), None);
        assert_eq!(ShardBy::Uid.shard_of(node, shards(64)), None);
    }

    #[test]
    fn namespaces_with_similar_names_are_distributed_badly_and_their_keys_well() {
        let quarters = |by: ShardBy| {
            let mut counts = [0; 4];
            for number in 0..1_000 {
                let namespace = format!("ns-{number}");
                let object = ObjectId { namespace: &namespace, name: "a", uid: "" };
                counts[usize::from(by.shard_of(object, shards(4)).unwrap())] += 1;
            }
            counts.sort_unstable();
            counts
        };
        let [none, .., most] = quarters(ShardBy::Namespace);
        assert_eq!(none, 0);
        assert!(most >= 500, "{most}");
        let [least, .., most] = quarters(ShardBy::Key);
        assert!(least > 200 && most < 300, "{least} to {most}");
    }

    #[test]
    fn selector_has_one_range_for_each_run_of_neighbours() {
        let selector = |by: ShardBy, selected: &[u8], count| {
            by.selector(selected.iter().copied().collect::<ShardSet>(), shards(count)).unwrap()
        };
        assert_eq!(
            selector(ShardBy::Uid, &[0], 2),
            "shardRange(object.metadata.uid,'0x0000000000000000','0x8000000000000000')"
        );
        assert_eq!(
            selector(ShardBy::Namespace, &[0, 1, 3], 4),
            "shardRange(object.metadata.namespace,'0x0000000000000000','0x8000000000000000') || \
             shardRange(object.metadata.namespace,'0xc000000000000000','0x10000000000000000')"
        );
        let all: Vec<u8> = (0..128).collect();
        assert_eq!(
            selector(ShardBy::Uid, &all, 128),
            "shardRange(object.metadata.uid,'0x0000000000000000','0x10000000000000000')"
        );
        let every_second: Vec<u8> = (0..128).step_by(2).collect();
        let selector = selector(ShardBy::Uid, &every_second, 128);
        assert_eq!(selector.matches("shardRange").count(), 64, "the most that a server accepts");
        assert_eq!(ShardBy::Key.selector([0].into_iter().collect(), shards(2)), None);
    }
}
