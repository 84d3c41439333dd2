//! Random operations on the caches and on the queues of newest objects, compared with the oracle's
//! plain models of them.

use deltafifo_oracle::caches::expiration::Expires;
use deltafifo_oracle::caches::queues::Order;
use deltafifo_oracle::caches::{expiration, mutation, queues};
use deltafifo_oracle::strategy::{config, of_bytes};
use proptest::prelude::*;
use proptest::sample::select;

const MOST: usize = if cfg!(miri) { 20 } else { 100 };

proptest! {
    #![proptest_config(config())]

    #[test]
    fn fifo_answers_as_a_plain_list(ops in of_bytes(MOST)) {
        queues::run(Order::Arrival, &ops);
    }

    #[test]
    fn heap_answers_as_a_full_search(ops in of_bytes(MOST)) {
        queues::run(Order::Least, &ops);
    }

    #[test]
    fn expiration_cache_answers_as_a_map_of_times(
        expires in select(&[Expires::After(5), Expires::After(0), Expires::ByNumber][..]),
        ops in of_bytes(MOST),
    ) {
        expiration::run(expires, &ops);
    }

    #[test]
    fn mutation_cache_answers_as_a_list_of_writes(setup in any::<u8>(), ops in of_bytes(MOST)) {
        mutation::run(setup.into(), &ops);
    }
}
