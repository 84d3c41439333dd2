//! Splits a LIST response into its items while its bytes arrive: an initial list may be one body of
//! a gigabyte, whatever page size was requested. Only the part of the current item or member that
//! has arrived is kept in memory. Items, and members that are used, have the same size limit.

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::budget::Share;
use super::large::{CompleteText, Large};
use super::outline::Outline;
use super::scan::Scan;
use super::space::is_space;
use super::{LARGE, WireError};
use crate::lister_watcher::PageMeta;

/// A splitter of one response. Items and the list's own fields may come in any order.
pub(crate) struct ListSplitter {
    /// The bytes that have arrived and are not split off yet.
    bytes: BytesMut,
    /// The number of these bytes that have been scanned.
    seen: usize,
    at: ListPosition,
    scan: Scan,
    /// The current item, once it is large. Then `bytes` is empty.
    large: Option<Large>,
    /// The maximum size of an item or member, in bytes.
    limit: usize,
    /// The raw value of the list's own `kind`. Only `metadata` and `items` of the list's other
    /// fields are used.
    kind: Option<Bytes>,
    metadata: Option<Bytes>,
    has_items: bool,
}

/// The position of the splitter.
enum ListPosition {
    /// Before the list.
    Start,
    /// Before a member.
    Member,
    /// After a member.
    MemberEnd,
    /// In the name of a member.
    Name,
    /// After the name of a member.
    Colon(String),
    /// Before or in the value of a member.
    Value(String),
    /// In the value of a member that is not used.
    Ignored,
    /// Before an item.
    Items,
    /// In an item.
    Item,
    /// After an item.
    ItemEnd,
    /// After the list.
    End,
}

/// The fields of a list's `metadata` that are used.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta<'a> {
    #[serde(default)]
    resource_version: Option<String>,
    #[serde(default)]
    r#continue: Option<String>,
    /// The estimated number of items on later pages. Because it is an estimate, an invalid value
    /// must not fail the list. It is kept raw because a number out of the range of f64 would be a
    /// decode error.
    #[serde(borrow, default)]
    remaining_item_count: Option<&'a RawValue>,
    /// The selector of a server that shards (KEP-5866).
    #[serde(borrow, default)]
    shard_info: Option<&'a RawValue>,
}

impl ListSplitter {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            bytes: BytesMut::new(),
            seen: 0,
            at: ListPosition::Start,
            scan: Scan::default(),
            large: None,
            limit,
            kind: None,
            metadata: None,
            has_items: false,
        }
    }

    /// Appends bytes of the body, and pushes the items that are complete now to `items`.
    pub(crate) fn push(
        &mut self,
        mut chunk: &[u8],
        items: &mut Vec<CompleteText>,
    ) -> Result<(), WireError> {
        if let Some(mut large) = self.large.take() {
            let Some((rest_of_it, behind)) =
                self.scan.end(chunk).and_then(|end| chunk.split_at_checked(end))
            else {
                large.push(chunk)?;
                self.large = Some(large);
                return Ok(());
            };
            large.push(rest_of_it)?;
            items.push(large.finish());
            (self.scan, self.at) = (Scan::default(), ListPosition::ItemEnd);
            chunk = behind;
        }
        self.bytes.extend_from_slice(chunk);
        while self.step(items)? {}
        match self.at {
            ListPosition::Item if self.bytes.len() > LARGE.min(self.limit) => {
                self.large = Some(Large::new(&self.bytes, self.limit, Outline::of_item)?);
                (self.bytes, self.seen) = (BytesMut::new(), 0);
            }
            ListPosition::Item => {}
            _ if self.bytes.len() > self.limit => return Err(WireError::TooLong),
            _ => {}
        }
        Ok(())
    }

    /// Returns the largest size that the current item may have, if it is large and has no share of
    /// the budget.
    pub(crate) fn wants_share(&self) -> Option<usize> {
        self.large.as_ref().and_then(Large::wants_share)
    }

    /// Sets the share of the current item.
    pub(crate) fn give(&mut self, share: Share) {
        if let Some(large) = &mut self.large {
            large.give(share);
        }
    }

    /// Returns whether the body so far ends within an item.
    pub(crate) fn is_within_item(&self) -> bool {
        self.large.is_some() || matches!(self.at, ListPosition::Item)
    }

    /// Returns the list's metadata once it has arrived. Go servers write it before the items.
    pub(crate) fn meta(&self) -> Result<Option<PageMeta>, WireError> {
        let Some(raw) = &self.metadata else { return Ok(None) };
        let meta: Option<ListMeta<'_>> =
            serde_json::from_slice(raw).map_err(|e| WireError::not_that(e.to_string(), raw))?;
        let meta = meta.unwrap_or_default();
        let version = meta.resource_version.filter(|version| !version.is_empty());
        Ok(Some(PageMeta {
            resource_version: version
                .ok_or_else(|| WireError::not_that("a list without its version", raw))?,
            continue_token: meta.r#continue.filter(|token| !token.is_empty()),
            remaining: meta.remaining_item_count.and_then(|count| count.get().parse().ok()),
            is_sharded: meta.shard_info.is_some(),
        }))
    }

    /// Ends the body, and returns the list's metadata.
    pub(crate) fn finish(self) -> Result<PageMeta, WireError> {
        if !matches!(self.at, ListPosition::End) {
            return Err(WireError::CutShort { of: "a list" });
        }
        let kind: &[u8] = self.kind.as_deref().unwrap_or_default();
        // The list of a custom resource may have any kind, set in `spec.names.listKind`.
        if !self.has_items && !kind.ends_with(b"List\"") {
            return Err(WireError::not_that(
                "not a list: it has no items, and its kind does not end in List",
                kind,
            ));
        }
        let without = || WireError::not_that("a list without metadata", kind);
        self.meta()?.ok_or_else(without)
    }

    /// Advances by one step. Returns false if more bytes are needed.
    fn step(&mut self, items: &mut Vec<CompleteText>) -> Result<bool, WireError> {
        match &self.at {
            ListPosition::Value(name) if self.seen == 0 => match self.bytes.first() {
                None => return Ok(false),
                Some(byte) if is_space(*byte) => self.skip(1),
                Some(b'[') if name == "items" => {
                    self.skip(1);
                    (self.at, self.has_items) = (ListPosition::Items, true);
                }
                Some(_) if !matches!(name.as_str(), "kind" | "metadata" | "items") => {
                    self.at = ListPosition::Ignored;
                }
                Some(_) => return self.scan_on(items),
            },
            ListPosition::Ignored => {
                let Some(end) = self.scan.end(&self.bytes) else {
                    self.bytes.clear();
                    return Ok(false);
                };
                self.skip(end);
                (self.scan, self.at) = (Scan::default(), ListPosition::MemberEnd);
            }
            ListPosition::Name | ListPosition::Value(_) | ListPosition::Item => {
                return self.scan_on(items);
            }
            ListPosition::Start
            | ListPosition::Member
            | ListPosition::MemberEnd
            | ListPosition::Colon(_)
            | ListPosition::Items
            | ListPosition::ItemEnd
            | ListPosition::End => {
                let Some(&byte) = self.bytes.first() else { return Ok(false) };
                if is_space(byte) {
                    self.skip(1);
                } else {
                    self.between(byte)?;
                }
            }
        }
        Ok(true)
    }

    /// Scans the bytes of a value that have arrived. Returns false if more bytes are needed.
    fn scan_on(&mut self, items: &mut Vec<CompleteText>) -> Result<bool, WireError> {
        let Some(end) = self.scan.end(self.bytes.get(self.seen..).unwrap_or_default()) else {
            self.seen = self.bytes.len();
            return Ok(false);
        };
        self.value_ends(end, items)?;
        Ok(true)
    }

    /// Handles a byte between values.
    fn between(&mut self, byte: u8) -> Result<(), WireError> {
        let next = match (&mut self.at, byte) {
            (ListPosition::Start, b'{') | (ListPosition::MemberEnd, b',') => ListPosition::Member,
            (ListPosition::Member | ListPosition::MemberEnd, b'}') => ListPosition::End,
            (ListPosition::ItemEnd, b',') => ListPosition::Items,
            (ListPosition::Items | ListPosition::ItemEnd, b']') => ListPosition::MemberEnd,
            (ListPosition::Colon(name), b':') => ListPosition::Value(std::mem::take(name)),
            (ListPosition::Member, b'"') => {
                self.at = ListPosition::Name;
                return Ok(());
            }
            (ListPosition::Items, b'{') => {
                self.at = ListPosition::Item;
                return Ok(());
            }
            _ => return Err(WireError::not_that("not a list", &self.bytes)),
        };
        self.skip(1);
        self.at = next;
        Ok(())
    }

    /// Splits off the current value. It ends `end` bytes after the bytes that were scanned before.
    fn value_ends(&mut self, end: usize, items: &mut Vec<CompleteText>) -> Result<(), WireError> {
        let value = self.bytes.split_to(self.seen + end).freeze();
        (self.seen, self.scan) = (0, Scan::default());
        self.at = match std::mem::replace(&mut self.at, ListPosition::MemberEnd) {
            ListPosition::Item => {
                items.push(if value.len() > self.limit {
                    Large::new(&value, self.limit, Outline::of_item)?.finish()
                } else {
                    CompleteText::Read(value, None)
                });
                ListPosition::ItemEnd
            }
            _ if value.len() > self.limit => return Err(WireError::TooLong),
            ListPosition::Value(name) => {
                match name.as_str() {
                    "kind" => self.kind = Some(value),
                    // Choosing one of two would make the result depend on how the body is cut.
                    "metadata" if self.metadata.is_some() => {
                        return Err(WireError::not_that("a list with metadata twice", &value));
                    }
                    "metadata" => self.metadata = Some(value),
                    // If this were read as an empty list, all known objects would be deleted.
                    "items" if value != "null" => {
                        let fault = "a list whose items are not an array";
                        return Err(WireError::not_that(fault, &value));
                    }
                    _ => self.has_items = true,
                }
                ListPosition::MemberEnd
            }
            _ => ListPosition::Colon(
                serde_json::from_slice(&value)
                    .map_err(|e| WireError::not_that(e.to_string(), &value))?,
            ),
        };
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        let _ = self.bytes.split_to(bytes);
        self.seen = 0;
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::ListSplitter;
    use crate::lister_watcher::PageMeta;
    use crate::wire::{CompleteText, LARGE, WireError};

    fn split<'a>(
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(Vec<Bytes>, PageMeta), WireError> {
        let (items, meta) = split_within(usize::MAX, chunks)?;
        let read = |whole| match whole {
            CompleteText::Read(item, _) => item,
            CompleteText::Skipped(_) => unreachable!("there is no limit"),
        };
        Ok((items.into_iter().map(read).collect(), meta))
    }

    fn split_within<'a>(
        limit: usize,
        chunks: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(Vec<CompleteText>, PageMeta), WireError> {
        let (mut splitter, mut items) = (ListSplitter::new(limit), Vec::new());
        for chunk in chunks {
            splitter.push(chunk, &mut items)?;
        }
        Ok((items, splitter.finish()?))
    }

    const LIST: &str = r#"{ "kind": "PodList", "apiVersion": "v1",
        "metadata": {"resourceVersion": "7", "continue": "abc", "remainingItemCount": 3},
        "items": [ {"metadata":{"name":"a \"]}"}} , {"b":[{}]}
        ] }
    "#;

    #[test]
    fn items_are_unchanged_however_the_body_is_split() {
        for size in 1..LIST.len() {
            let (items, meta) = split(LIST.as_bytes().chunks(size)).unwrap();
            assert_eq!(
                items,
                [r#"{"metadata":{"name":"a \"]}"}}"#, r#"{"b":[{}]}"#],
                "pieces of {size}"
            );
            let expected = PageMeta {
                resource_version: "7".to_owned(),
                continue_token: Some("abc".to_owned()),
                remaining: Some(3),
                is_sharded: false,
            };
            assert_eq!(meta, expected);
        }
    }

    #[test]
    fn metadata_may_follow_the_items() {
        let list =
            r#"{"items":[{}],"metadata":{"resourceVersion":"9","continue":""},"kind":"PodList"}"#;
        let (items, meta) = split([list.as_bytes()]).unwrap();
        assert_eq!(
            (items.len(), meta.resource_version.as_str(), meta.continue_token),
            (1, "9", None)
        );
    }

    #[test]
    fn list_without_items_is_empty() {
        for items in ["", r#","items":null"#, r#","items":[]"#] {
            let list =
                format!(r#"{{"kind":"PodList","metadata":{{"resourceVersion":"9"}}{items}}}"#);
            assert!(split([list.as_bytes()]).unwrap().0.is_empty(), "{list}");
        }
    }

    #[test]
    fn list_of_any_kind_is_accepted() {
        for items in ["null", "[]", "[{}]"] {
            let list = format!(
                r#"{{"kind":"Flock","metadata":{{"resourceVersion":"9"}},"items":{items}}}"#
            );
            assert!(split([list.as_bytes()]).is_ok(), "{list}");
        }
    }

    #[test]
    fn list_that_ends_early_is_an_error() {
        let end = LIST.trim_end().len();
        for cut in 0..end {
            let error = split([&LIST.as_bytes()[..cut]]).unwrap_err();
            assert_eq!(error, WireError::CutShort { of: "a list" }, "cut at {cut}");
        }
    }

    #[test]
    fn body_that_is_not_a_list_is_an_error() {
        let status = br#"{"kind":"Status","metadata":{},"code":500}"#;
        let lists: [&[u8]; 6] = [
            b"\x0c{\"kind\":\"PodList\",\"metadata\":{},\"items\":[]}",
            b"{\"kind\":\"PodList\",\"metadata\":{},\"items\":\x0c[]}",
            br#"{"items":[1]}"#,
            br#"{"items":[{} {}]}"#,
            br#"{"items":[,{}]}"#,
            br#"{"items":[]"kind":"#,
        ];
        for body in [&b"<html>"[..], b"[]", br#"{"kind" 1}"#, status, br#"{"kind":"PodList"}"#]
            .into_iter()
            .chain(lists)
        {
            assert!(
                matches!(split([body]), Err(WireError::NotThat { .. })),
                "{}",
                String::from_utf8_lossy(body)
            );
        }
    }

    #[test]
    fn items_of_another_type_are_an_error() {
        for items in ["{}", r#""x""#, "x y z", "7", "false", "nul"] {
            let list = format!(
                r#"{{"kind":"PodList","metadata":{{"resourceVersion":"9"}},"items":{items}}}"#
            );
            for size in 1..list.len() {
                let error = split(list.as_bytes().chunks(size)).unwrap_err();
                assert!(matches!(error, WireError::NotThat { .. }), "{list}: {error}");
            }
        }
    }

    #[test]
    fn list_metadata_is_read_once_however_the_body_is_split() {
        let list =
            r#"{"kind":"PodList","metadata":no,"metadata":{"resourceVersion":"9"},"items":[]}"#;
        for size in 1..=list.len() {
            assert!(split(list.as_bytes().chunks(size)).is_err(), "pieces of {size}");
        }
    }

    #[test]
    fn list_without_a_version_is_an_error() {
        for metadata in ["null", "{}", r#"{"resourceVersion":null}"#, r#"{"resourceVersion":""}"#] {
            let list = format!(r#"{{"kind":"PodList","metadata":{metadata},"items":[]}}"#);
            let error = split([list.as_bytes()]).unwrap_err();
            assert!(
                matches!(&error, WireError::NotThat { what, .. } if what.contains("version")),
                "{list}: {error}"
            );
        }
    }

    #[test]
    fn invalid_remaining_item_count_fails_no_list() {
        for remaining in ["-1", "null", "1e30", "1e400", "\"7\""] {
            let list = format!(
                r#"{{"metadata":{{"resourceVersion":"9","remainingItemCount":{remaining}}},"items":[]}}"#
            );
            assert_eq!(split([list.as_bytes()]).unwrap().1.remaining, None, "{remaining}");
        }
    }

    /// Returns a list with an item of this many bytes between two small ones, and its metadata
    /// last.
    fn list_with(bytes: usize) -> String {
        let (begin, end) = (r#"{"metadata":{"name":"big"},"data":""#, r#""}"#);
        let escaped = format!(r"\\{}", "x".repeat(98));
        let data = bytes - begin.len() - end.len();
        let (data, pad) = (escaped.repeat(data / 100), "x".repeat(data % 100));
        let big = format!("{begin}{data}{pad}{end}");
        assert_eq!(big.len(), bytes);
        format!(
            r#"{{"items":[{{"a":1}}, {big} ,{{"b":2}}],"x":{big},"metadata":{{"resourceVersion":"9"}}}}"#
        )
    }

    fn shown(items: &[CompleteText]) -> Vec<String> {
        let shown = |whole: &CompleteText| match whole {
            CompleteText::Read(item, _) if item.len() < 100 => {
                String::from_utf8_lossy(item).into_owned()
            }
            CompleteText::Read(item, _) => format!("{} bytes", item.len()),
            CompleteText::Skipped(outline) => {
                format!("{:?} skipped of {} bytes", outline.name, outline.size)
            }
        };
        items.iter().map(shown).collect()
    }

    #[test]
    fn oversized_item_is_skipped_however_the_body_is_split() {
        for limit in [200, 1000, LARGE - 1, LARGE, LARGE + 1, 2 * LARGE] {
            for (bytes, is_read) in
                [(limit - 1, true), (limit, true), (limit + 1, false), (2 * limit, false)]
            {
                let list = list_with(bytes);
                let expected = if is_read {
                    format!("{bytes} bytes")
                } else {
                    format!("Some(\"big\") skipped of {bytes} bytes")
                };
                for size in [7, 4096, LARGE, list.len()]
                    .into_iter()
                    .filter(|size| limit < LARGE - 1 || *size > 7)
                {
                    let (items, _) = split_within(limit, list.as_bytes().chunks(size)).unwrap();
                    let expected = [r#"{"a":1}"#, &expected, r#"{"b":2}"#];
                    assert_eq!(shown(&items)[1..2], expected[1..2], "limit {limit}, by {size}");
                    assert_eq!(shown(&items), expected, "limit {limit}, by {size}");
                }
            }
        }
    }

    #[test]
    fn members_of_a_list_have_the_same_limit_however_the_body_is_split() {
        let list = |member: &str, bytes: usize| {
            let metadata = format!(r#"{{"resourceVersion":"9","x":"{}"}}"#, "y".repeat(bytes - 30));
            assert_eq!(metadata.len(), bytes);
            format!(
                r#"{{"kind":"List","items":[],"{member}":{metadata},"z":{{"resourceVersion":"9"}}}}"#
            )
        };
        for size in [1, 64, 300, 10_000] {
            let within = list("metadata", 300);
            assert!(split_within(300, within.as_bytes().chunks(size)).is_ok(), "by {size}");
            let beyond = list("metadata", 301);
            let error = split_within(300, beyond.as_bytes().chunks(size)).err();
            assert_eq!(error, Some(WireError::TooLong), "by {size}");
            let ignored = list("x", 5000).replace("\"z\"", "\"metadata\"");
            assert!(
                split_within(300, ignored.as_bytes().chunks(size)).is_ok(),
                "what does not count is not kept"
            );
        }
    }

    #[test]
    fn incomplete_large_item_is_an_error() {
        let list = list_with(3 * LARGE);
        for limit in [LARGE, 4 * LARGE] {
            let error = split_within(limit, list.as_bytes()[..2 * LARGE].chunks(4096)).err();
            assert_eq!(error, Some(WireError::CutShort { of: "a list" }));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_body_does_not_panic(body in proptest::collection::vec(proptest::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"", "\\", "\"items\":", "\"metadata\":", "\"kind\":\"XList\"", "1", " ",
        ]), 0..40)) {
            let _ = split(body.iter().map(|piece| piece.as_bytes()));
        }
    }
}
