//! Tests of label selectors: the labels that they match, their printed form, and the errors of
//! invalid ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use deltafifo::{Selector, SelectorError};
use deltafifo_oracle::selectors::{Labelled, Requirement, check, run};
use deltafifo_oracle::strategy::config;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::select;

fn selector(text: &str) -> Selector {
    text.parse().unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn matches(text: &str, labels: &[(&str, &'static str)]) -> bool {
    selector(text)
        .matches(|key| labels.iter().find(|(label, _)| *label == key).map(|(_, value)| *value))
}

#[test]
fn selector_has_one_printed_form() {
    let written = [
        ("", ""),
        (" \t\r\n", ""),
        ("x=a,y=b,z=c", "x=a,y=b,z=c"),
        ("x = a , y == b", "x=a,y=b"),
        ("x!=a,y=b", "x!=a,y=b"),
        ("x=", "x="),
        ("x= ,z= ", "x=,z="),
        ("!x", "!x"),
        ("! x", "!x"),
        ("\rx", "x"),
        ("a ", "a"),
        ("x>1,z<5", "x>1,z<5"),
        ("x>007", "x>7"),
        ("x=a,a=x", "a=x,x=a"),
        ("foo  in\t (abc)", "foo=abc"),
        ("x notin\n (abc)", "x!=abc"),
        ("x in (def,abc)", "x in (abc,def)"),
        ("x in (abc,abc)", "x=abc"),
        ("x in ()", "x="),
        ("x in (a,)", "x in (,a)"),
        ("x notin (, a)", "x notin (,a)"),
        ("x in (a,,a,,a,,a,,)", "x in (,a)"),
        ("x notin (abc,,def),bar,z in (),w", "bar,w,x notin (,abc,def),z="),
        ("x,y in (a)", "x,y=a"),
        ("a in (x,y,notin, z,in)", "a in (in,notin,x,y,z)"),
        ("notin=in,in in (in)", "in=in,notin=in"),
        ("this-is-a-dns.domain.com/key-with-dash", "this-is-a-dns.domain.com/key-with-dash"),
        (
            "0.1.2.domain/99 notin (10.10.100.1, tick.tack.clock)",
            "0.1.2.domain/99 notin (10.10.100.1,tick.tack.clock)",
        ),
    ];
    for (text, form) in written {
        let selector = selector(text);
        assert_eq!(selector.to_string(), form, "{text:?}");
        assert_eq!(form.parse(), Ok(selector), "{text:?}");
    }
}

#[test]
fn object_matches_if_all_requirements_match() {
    let all: [(&str, &[(&str, &str)]); 20] = [
        ("", &[("x", "y")]),
        ("x=y", &[("x", "y")]),
        ("x=y,z=w", &[("x", "y"), ("z", "w")]),
        ("x!=y,z!=w", &[("x", "z"), ("z", "a")]),
        ("x!=y", &[]),
        ("notin=in", &[("notin", "in")]),
        ("x", &[("x", "z")]),
        ("x", &[("x", "")]),
        ("!x", &[("y", "z")]),
        ("x=", &[("x", "")]),
        ("x>1", &[("x", "2")]),
        ("x<1", &[("x", "0")]),
        ("x<1", &[("x", "-7")]),
        ("x in (foo),y notin (alpha)", &[("x", "foo"), ("y", "baz")]),
        ("x in (foo,bar)", &[("x", "bar")]),
        ("x notin (),y", &[("y", "")]),
        ("!x,y", &[("y", "")]),
        ("foo=bar", &[("foo", "bar"), ("baz", "blah")]),
        ("x>9223372036854775806", &[("x", "9223372036854775807")]),
        ("x in (a,)", &[("x", "")]),
    ];
    for (text, labels) in all {
        assert!(matches(text, labels), "{text:?} {labels:?}");
    }
    let none: [(&str, &[(&str, &str)]); 18] = [
        ("x=z", &[]),
        ("x=", &[]),
        ("x=y", &[("x", "z")]),
        ("x=y,z=w", &[("x", "w"), ("z", "w")]),
        ("x!=y,z!=w", &[("x", "z"), ("z", "w")]),
        ("x", &[("y", "z")]),
        ("!x", &[("x", "z")]),
        ("!x", &[("x", "")]),
        ("x>1", &[("x", "0")]),
        ("x>1", &[("x", "1")]),
        ("x<1", &[("x", "2")]),
        ("x<1", &[("x", "1")]),
        ("x>1", &[("x", "v2")]),
        ("x<1", &[]),
        ("x in (foo),y in (alpha)", &[("x", "foo"), ("y", "baz")]),
        ("x notin (),!y", &[("y", "")]),
        ("x in ()", &[("y", "baz")]),
        ("foo=bar,foobar=bar,baz=blah", &[("foo", "bar"), ("baz", "blah")]),
    ];
    for (text, labels) in none {
        assert!(!matches(text, labels), "{text:?} {labels:?}");
    }
}

#[test]
fn error_names_the_position_and_the_expected_text() {
    let errors = [
        ("x==a==b", "character 5 of the selector: found \"==\", expected a comma or the end"),
        ("!x=a", "character 3 of the selector: found \"=\", expected a comma or the end"),
        ("!", "character 2 of the selector: found the end, expected a label key"),
        ("!!x", "character 2 of the selector: found \"!\", expected a label key"),
        ("x,,y", "character 3 of the selector: found \",\", expected a label key or '!'"),
        (",x,y", "character 1 of the selector: found \",\", expected a label key or '!'"),
        ("a in (xyz),", "character 12 of the selector: found the end, expected a label key or '!'"),
        (
            "a in (xyz)b notin ()",
            "character 11 of the selector: found \"b\", expected a comma or the end",
        ),
        (
            "x nott in (y)",
            "character 3 of the selector: found \"nott\", expected =, ==, !=, in, notin, > or <",
        ),
        ("a (", "character 3 of the selector: found \"(\", expected =, ==, !=, in, notin, > or <"),
        ("(", "character 1 of the selector: found \"(\", expected a label key or '!'"),
        ("a in (xyz abc)", "character 11 of the selector: found \"abc\", expected ',' or ')'"),
        ("a notin(", "character 9 of the selector: found the end, expected a value, ',' or ')'"),
        ("a in (x,", "character 9 of the selector: found the end, expected a value, ',' or ')'"),
        ("a in (x=", "character 8 of the selector: found \"=\", expected ',' or ')'"),
        ("a in x", "character 6 of the selector: found \"x\", expected '('"),
        ("a=(b)", "character 3 of the selector: found \"(\", expected a value"),
        ("a=b c", "character 5 of the selector: found \"c\", expected a comma or the end"),
        ("a= =b", "character 4 of the selector: found \"=\", expected a value"),
        ("ä ö", "character 3 of the selector: found \"ö\", expected =, ==, !=, in, notin, > or <"),
        (
            "x<a",
            "label \"x\" is compared with \"a\": after > or < write a whole number of at most 64 bits",
        ),
        (
            "x>",
            "label \"x\" is compared with \"\": after > or < write a whole number of at most 64 bits",
        ),
        (
            "x>9223372036854775808",
            "label \"x\" is compared with \"9223372036854775808\": after > or < write a whole number of at most 64 bits",
        ),
    ];
    for (text, message) in errors {
        assert_eq!(text.parse::<Selector>().unwrap_err().to_string(), message, "{text:?}");
    }
}

#[test]
fn keys_and_values_follow_the_rules_of_labels() {
    let fault = |text: &str| match text.parse::<Selector>() {
        Ok(_) => None,
        Err(SelectorError::Key { fault, .. } | SelectorError::Value { fault, .. }) => {
            Some(fault.to_owned())
        }
        Err(error) => panic!("{text:?}: {error}"),
    };
    let (at_most, too_long) = ("a".repeat(63), "a".repeat(64));
    let prefix = |length: usize| format!("{}/x", "a".repeat(length));
    for text in [
        "a/b",
        "9",
        "A_b.C-d",
        "x=A_b.C-9",
        "a.b-c.d/x",
        &at_most,
        &format!("x={at_most}"),
        &prefix(253),
    ] {
        assert_eq!(fault(text), None, "{text:?}");
    }
    let faults: [(&str, &str); 19] = [
        ("a/b/c", "has more than one '/'"),
        ("/b", "starts with '/'"),
        ("a/", "has no name"),
        ("A/b", "has a prefix that is no DNS subdomain"),
        ("a_b/c", "has a prefix that is no DNS subdomain"),
        ("-a/c", "has a prefix that is no DNS subdomain"),
        ("a-/c", "has a prefix that is no DNS subdomain"),
        ("a..b/c", "has a prefix that is no DNS subdomain"),
        (".a/c", "has a prefix that is no DNS subdomain"),
        (&prefix(254), "has a prefix of more than 253 characters"),
        (&too_long, "has more than 63 characters"),
        ("-a", "has other characters than"),
        ("a.", "has other characters than"),
        ("a~b", "has other characters than"),
        ("ä", "has other characters than"),
        ("x=a||y=b", "has other characters than"),
        ("x=_a", "has other characters than"),
        ("x in (a/b)", "has other characters than"),
        ("x!=-", "has other characters than"),
    ];
    for (text, start) in faults {
        let fault = fault(text).unwrap_or_else(|| panic!("{text:?} is taken"));
        assert!(fault.starts_with(start), "{text:?}: {fault}");
    }
    assert_eq!(
        "x=-".parse::<Selector>().unwrap_err().to_string(),
        "value \"-\" of label \"x\" has other characters than letters, digits, '-', '_' and '.', or no letter or digit at \
         both ends, as in my-value, my_value or 12345"
    );
    assert_eq!(
        "/x".parse::<Selector>().unwrap_err().to_string(),
        "label key \"/x\" starts with '/': write a prefix before it, or leave the '/' out, as in example.com/my-name or \
         my-name"
    );
    assert!(fault(&format!("x={too_long}")).unwrap().starts_with("has more than 63"));
}

#[test]
fn selector_of_labels_requires_each_label() {
    let selector = Selector::of_labels([("tier", "front"), ("app", "web")]).unwrap();
    assert_eq!(selector.to_string(), "app=web,tier=front");
    assert_eq!(Selector::of_labels::<&str, &str>([]).unwrap(), Selector::default());
    assert!(matches!(Selector::of_labels([("a,b", "c")]), Err(SelectorError::Key { .. })));
    assert!(matches!(Selector::of_labels([("a", "c,d")]), Err(SelectorError::Value { .. })));
}

const LABELS: [&str; 4] = ["a", "in", "notin", "example.com/b"];
const VALUES: [&str; 6] = ["", "x", "in", "notin", "3", "4"];
/// The bytes of random selectors. The first ones stand for operators and words of many lengths,
/// the others for themselves.
const BYTES: &[u8] = b"\x01\x02\x03\x04\x05\x06\x07\x10\x11\x12\x13x1-./=!<>(), ";

fn wanted() -> impl Strategy<Value = Requirement> {
    let label = || select(&LABELS[..]).prop_map(str::to_owned);
    let value = || select(&VALUES[..]).prop_map(str::to_owned);
    prop_oneof![
        (label(), select(&["=", "==", "!="][..]), value())
            .prop_map(|(key, sign, value)| Requirement::Is(key, sign, value)),
        (label(), any::<bool>(), vec(value(), 1..4))
            .prop_map(|(key, is_in, values)| Requirement::OneOf(key, is_in, values)),
        (label(), any::<bool>()).prop_map(|(key, there)| Requirement::Exists(key, there)),
        (label(), any::<bool>(), 0..6_i64)
            .prop_map(|(key, above, bound)| Requirement::Compare(key, above, bound)),
    ]
}

/// Formats a requirement, with `blank` at each place where a blank is allowed.
fn written(wanted: &Requirement, blank: &str) -> String {
    match wanted {
        Requirement::Is(key, sign, value) => {
            format!("{blank}{key}{blank}{sign}{blank}{value}{blank}")
        }
        Requirement::OneOf(key, is_in, values) => {
            let values = values.join(&format!("{blank},{blank}"));
            let operator = if *is_in { "in" } else { "notin" };
            format!("{blank}{key} {blank}{operator}{blank}({blank}{values}{blank}){blank}")
        }
        Requirement::Exists(key, true) => format!("{blank}{key}{blank}"),
        Requirement::Exists(key, false) => format!("{blank}!{blank}{key}{blank}"),
        Requirement::Compare(key, above, bound) => {
            format!("{blank}{key}{blank}{}{blank}{bound}{blank}", if *above { ">" } else { "<" })
        }
    }
}

fn objects() -> impl Strategy<Value = Vec<Arc<Labelled>>> {
    let labels = || btree_map(select(&LABELS[..]), select(&VALUES[..]), 0..4);
    let labelled =
        |(number, (labels, is_in_one)): (usize, (BTreeMap<&str, &str>, bool))| Labelled {
            namespace: if is_in_one { "ns" } else { "" },
            name: number.to_string(),
            labels: labels
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        };
    vec((labels(), any::<bool>()), 0..16)
        .prop_map(move |all| all.into_iter().enumerate().map(labelled).map(Arc::new).collect())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn selector_matches_as_its_text_and_survives_printing(
        all in vec((wanted(), select(&["", " ", "\t \n"][..])), 0..4),
        objects in objects(),
    ) {
        let text = all.iter().map(|(wanted, blank)| written(wanted, blank)).collect::<Vec<_>>().join(",");
        prop_assert_eq!(Requirement::read(&text), Some(all.into_iter().map(|(wanted, _)| wanted).collect()));
        check(&text, &objects);
    }

    #[test]
    fn arbitrary_text_is_a_selector_or_an_error(
        text in "([a-c/.\\-0-9]|in|notin|==|[=!<>(), ]|\\PC){0,12}",
        objects in objects(),
    ) {
        check(&text, &objects);
    }

    #[test]
    fn arbitrary_bytes_select_as_the_plain_parser_does(
        text in vec(prop_oneof![8 => select(BYTES), 1 => any::<u8>()], 0..12),
        labels in vec(any::<u8>(), 0..40),
    ) {
        run(&[&text[..], &[0], &labels].concat());
    }
}
