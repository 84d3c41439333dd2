//! Reads files of arbitrary content, as pods for a benchmark and as conformance vectors. An
//! unusable file must cause an error, and no panic. Usable vectors are replayed on the model, on
//! this project's queue, and on client-go's design with one mutex, which must all agree.
#![no_main]

use std::path::Path;

use deltafifo_bench::data::{Pods, Source};
use deltafifo_conformance::vectors::{Engine, Op, Tally, cases, compare};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(pods) = Pods::decode(Path::new("input"), bytes) {
        assert!(pods.make(0, None).metadata.name.is_some());
    }
    let Ok(cases) = cases(Path::new("input"), bytes) else { return };
    for case in cases.map_while(Result::ok) {
        // All engines set up a case by the same rules: either every engine can, or none.
        let replayed: Vec<_> = [Engine::Deltafifo, Engine::Mutex, Engine::Model]
            .map(|engine| Tally::default().replay(&case, engine).is_ok())
            .into();
        let ops: Vec<Op> = case.steps.into_iter().map(|step| step.op).collect();
        match compare(&case.config, &ops) {
            Ok(()) => assert_eq!(replayed, [true; 3]),
            Err(error) => assert_eq!(replayed, [false; 3], "{error}"),
        }
    }
});
