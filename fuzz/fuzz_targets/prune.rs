//! Leaves members out of arbitrary texts in two ways: compact objects cut them out of the text, and
//! the decoder of typed objects skips them. Both must leave the same members, or both must fail.
//! Only compact objects may also refuse a text because of its metadata. The first line of an input
//! has the paths of the members, separated by spaces.
#![no_main]

use deltafifo_informer::compact::{Compactor, PackError};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

fuzz_target!(|input: &[u8]| {
    let Ok(input) = std::str::from_utf8(input) else { return };
    let Some((paths, text)) = input.split_once('\n') else { return };
    let mut builder = Compactor::<Map<String, Value>>::builder();
    for path in paths.split(' ').filter(|path| !path.is_empty()) {
        let path: Vec<_> = path.split('/').collect();
        builder = builder.without(&path);
    }
    let compactor = builder.build();
    let skipped = compactor.decode(text).ok();
    match compactor.pack(text.as_bytes()) {
        Ok(object) => {
            let cut = object.raw_json().expect("it is not damaged");
            assert_eq!(serde_json::from_str(&cut).ok(), skipped);
        }
        // Metadata that the header cannot store, such as duplicate fields.
        Err(PackError::Metadata(error)) => {
            assert!(skipped.is_none_or(|members| members.contains_key("metadata")), "{error}");
        }
        Err(error) => assert_eq!(skipped, None, "{error}"),
    }
});
