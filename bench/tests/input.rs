//! Tests of a LIST response as input: it is repeated under new names, and rejected with a clear
//! message if it is not a list of pods.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use deltafifo::Meta;
use deltafifo_bench::data::{Pods, Source};
use deltafifo_informer::KubeMeta;
use flate2::Compression;
use flate2::write::GzEncoder;

const TWO_PODS: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
    {"metadata":{"name":"a","namespace":"x","resourceVersion":"3"}},
    {"metadata":{"name":"b","namespace":"x","resourceVersion":"4"}}]}"#;

fn file(name: &str, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).expect("the directory for tests is there");
    path
}

fn zipped(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).expect("memory takes it")
}

#[test]
fn pods_repeat_under_new_names() {
    for content in [TWO_PODS.as_bytes().to_vec(), zipped(TWO_PODS)] {
        let pods = Pods::read(&file("two-pods", &content)).expect("it is a list of pods");
        let made = (0..5).map(|index| {
            let pod = pods.make(index, (index == 4).then(|| "2000004".to_owned()));
            let [namespace, name, version] =
                [KubeMeta.namespace(&pod), KubeMeta.name(&pod), KubeMeta.version(&pod)]
                    .map(Option::unwrap_or_default);
            format!("{namespace}/{name}@{version}")
        });
        assert_eq!(
            made.collect::<Vec<_>>(),
            ["x/a@3", "x/b@4", "x/a-r1@3", "x/b-r1@4", "x/a-r2@2000004"]
        );
    }
}

#[test]
fn the_real_list_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/pods.json.gz");
    let pods = Pods::read(&path).expect("it is a list of pods");
    let first = pods.make(0, None);
    assert!(KubeMeta.name(&first).is_some() && KubeMeta.uid(&first).is_some());
    assert!(first.spec.is_some(), "whole pods, not their metadata");
    assert_eq!(
        pods.make(1500, None).metadata.name,
        first.metadata.name.map(|name| name + "-r1"),
        "1500 pods"
    );
}

#[test]
fn useless_input_is_refused() {
    let whole = zipped(TWO_PODS);
    let cases: [(&[u8], &str); 10] = [
        (b"", "truncated"),
        (&TWO_PODS.as_bytes()[..100], "truncated"),
        (&whole[..whole.len() / 2], "truncated"),
        (br#"{"kind":"Pod","apiVersion":"v1"}"#, "not a List"),
        (b"{}", "not a List"),
        (br#"{"kind":"NodeList","apiVersion":"v1","items":[{}]}"#, "NodeList"),
        (br#"{"kind":"PodList","apiVersion":"v1","items":[]}"#, "empty"),
        (br#"{"kind":"PodList","apiVersion":"v1"}"#, "empty"),
        (br#"{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{}}]}"#, "item 0"),
        (br#"{"kind":"PodList","apiVersion":"v1","items":{"a":1}}"#, "not pods"),
    ];
    for (index, (content, about)) in cases.into_iter().enumerate() {
        let path = file(&format!("useless-{index}"), content);
        let message = Pods::read(&path).expect_err(about).to_string();
        assert!(message.contains(about) && message.contains("useless-"), "case {index}: {message}");
    }
    let message = Pods::read(Path::new("no-such-file")).expect_err("there is none").to_string();
    assert!(message.contains("no-such-file"), "{message}");
}
