//! Random bytes, decoded as changes of an indexed store and as keys. The store is compared with a
//! map that is searched from end to end.

use deltafifo_oracle::strategy::config;
use deltafifo_oracle::{indexed, keys};
use proptest::collection::vec;
use proptest::prelude::*;

const MOST: usize = if cfg!(miri) { 30 } else { 400 };
const TEXTS: usize = if cfg!(miri) { 3 } else { 20 };

proptest! {
    #![proptest_config(config())]

    #[test]
    fn indexer_answers_as_a_full_search(bytes in vec(any::<u8>(), 0..MOST)) {
        indexed::run(&bytes);
    }

    #[test]
    fn arbitrary_text_is_a_valid_key(
        texts in vec(
            prop_oneof![3 => "[a-c]{0,3}", 3 => "[a-c/]{35,45}", 2 => "[a-c]{60,130}", 1 => "\\PC{0,9}"],
            0..TEXTS,
        ),
    ) {
        let spelled = |text: &String| [&[u8::try_from(text.len()).unwrap_or(0)], text.as_bytes()].concat();
        keys::run(&texts.iter().flat_map(spelled).collect::<Vec<_>>());
    }
}
