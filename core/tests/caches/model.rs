//! Random operations on the queues of newest objects and on the caches, against plain ones.

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
    fn a_fifo_answers_as_a_list_does(ops in of_bytes(MOST)) {
        queues::run(Order::Arrival, &ops);
    }

    #[test]
    fn a_heap_answers_as_a_search_does(ops in of_bytes(MOST)) {
        queues::run(Order::Least, &ops);
    }

    #[test]
    fn an_expiration_cache_answers_as_a_map_of_times_does(
        expires in select(&[Expires::After(5), Expires::After(0), Expires::AsTheySay][..]),
        ops in of_bytes(MOST),
    ) {
        expiration::run(expires, &ops);
    }

    #[test]
    fn a_mutation_cache_answers_as_a_list_of_writes_does(setup in any::<u8>(), ops in of_bytes(MOST)) {
        mutation::run(setup.into(), &ops);
    }
}
