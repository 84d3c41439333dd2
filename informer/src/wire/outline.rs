//! The names and the version of a JSON object, which are found while its bytes are received. The
//! other bytes of the object are not kept.

use super::members::text;

/// A parser that finds `metadata.namespace`, `metadata.name` and `metadata.resourceVersion` of an
/// object, wherever they are in it, and the `type` of the event if the input is a line of a watch.
/// The first of duplicate members wins. It keeps no other bytes than these strings.
#[derive(Default)]
pub(crate) struct Outline {
    pub(crate) kind: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    /// The length of the object in bytes, set at its end.
    pub(crate) size: usize,
    /// Whether the input is a line of a watch, whose member `object` is the object.
    is_line: bool,
    /// Whether one of the strings could not be read: it is not valid JSON, or is longer than any
    /// that an API server accepts.
    is_overlong: bool,
    /// The number of bytes pushed so far.
    passed: usize,
    /// The offset of the object in the input.
    begin: usize,
    /// The number of open brackets.
    depth: usize,
    /// The number of open brackets, counted from the outermost, that are on the path to the
    /// metadata.
    on_path: usize,
    /// The name of the current member of the innermost object on the path to the metadata.
    member: Vec<u8>,
    /// Whether the next string on the path is the name of a member.
    expects_name: bool,
    at: OutlinePosition,
    /// The current string with its quotes, if it is a member name or a value on the path.
    string: Option<Vec<u8>>,
}

/// The position of the parser.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum OutlinePosition {
    /// Outside strings.
    #[default]
    Between,
    /// In a string.
    String,
    /// After a backslash in a string.
    Escaped,
}

/// The largest number of bytes that are kept of a string, with its quotes. No name, namespace or
/// version is as long.
const LONGEST: usize = 1024;

impl Outline {
    /// Creates an outline of an item of a list.
    pub(crate) fn of_item() -> Self {
        Self::default()
    }

    /// Creates an outline of a line of a watch.
    pub(super) fn of_line() -> Self {
        Self { is_line: true, ..Self::default() }
    }

    /// Returns namespace, name and version; `None` for each that is missing or could not be read.
    /// The name is also `None` if any other string could not be read: without its namespace, it
    /// would be the name of another object.
    pub(crate) fn head(self) -> [Option<String>; 3] {
        [self.namespace, self.name.filter(|_| !self.is_overlong), self.version]
    }

    /// Parses the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut next = 0;
        while let Some(&byte) = bytes.get(next) {
            next += 1;
            match self.at {
                OutlinePosition::Between => self.between(byte, self.passed + next),
                OutlinePosition::Escaped => {
                    self.at = OutlinePosition::String;
                    self.keep(&[byte]);
                }
                OutlinePosition::String => {
                    let rest = bytes.get(next - 1..).unwrap_or_default();
                    let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    self.keep(rest.get(..=plain).unwrap_or(rest));
                    next += plain;
                    match rest.get(plain) {
                        Some(b'"') => self.string_ends(),
                        Some(_) => self.at = OutlinePosition::Escaped,
                        None => {}
                    }
                }
            }
        }
        self.passed += bytes.len();
    }

    /// Returns the number of brackets around the object's members.
    fn base(&self) -> usize {
        1 + usize::from(self.is_line)
    }

    fn is_on_path(&self) -> bool {
        self.depth == self.on_path
    }

    fn between(&mut self, byte: u8, end: usize) {
        match byte {
            b'"' => {
                self.at = OutlinePosition::String;
                self.string = self.is_on_path().then(|| vec![b'"']);
            }
            b'{' | b'[' => {
                if byte == b'{' && self.is_on_path() && self.leads_on() {
                    self.on_path += 1;
                    (self.expects_name, self.member) = (true, Vec::new());
                    if self.on_path == self.base() {
                        self.begin = end - 1;
                    }
                }
                self.depth += 1;
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth < self.on_path {
                    if self.on_path == self.base() && self.size == 0 {
                        self.size = end - self.begin;
                    }
                    (self.on_path, self.expects_name) = (self.depth, false);
                }
            }
            b',' if self.is_on_path() => self.expects_name = true,
            b':' if self.is_on_path() => self.expects_name = false,
            _ => {}
        }
    }

    /// Returns whether the object that begins here is the next one on the path.
    fn leads_on(&self) -> bool {
        let next = match (self.depth, self.is_line) {
            (0, _) => return true,
            (1, true) => "object",
            (1, false) | (2, true) => "metadata",
            _ => return false,
        };
        text(&self.member).is_ok_and(|member| member == next)
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(string) = &mut self.string {
            string.extend_from_slice(
                bytes.get(..LONGEST.saturating_sub(string.len())).unwrap_or(bytes),
            );
        }
    }

    fn string_ends(&mut self) {
        self.at = OutlinePosition::Between;
        let Some(string) = self.string.take() else { return };
        if self.expects_name {
            self.member = string;
            return;
        }
        let Ok(member) = text(&self.member) else { return };
        let field = match (self.depth.checked_sub(self.base()), member.as_ref()) {
            (Some(1), "namespace") => &mut self.namespace,
            (Some(1), "name") => &mut self.name,
            (Some(1), "resourceVersion") => &mut self.version,
            (None, "type") => &mut self.kind,
            _ => return,
        };
        if field.is_none() {
            match text(&string) {
                Ok(value) => *field = Some(value.into_owned()),
                // The string was cut at [`LONGEST`], or is not valid JSON.
                Err(_) => self.is_overlong = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Outline;

    fn read(mut outline: Outline, json: &str, size: usize) -> Outline {
        json.as_bytes().chunks(size).for_each(|piece| outline.push(piece));
        outline
    }

    #[test]
    fn names_are_found_at_any_position_however_the_object_is_split() {
        let objects = [
            r#"{"kind":"Pod","metadata":{"name":"a","namespace":"n","resourceVersion":"7","labels":{"name":"no"}},"x":[{}]}"#,
            r#"{"a":[{"metadata":{"name":"no"}}],"m\"":"}","metadata" : { "annotations":{"namespace":"no"}, "resourceVersion":"7","name":"a","namespace":"n" } }"#,
            r#"{"metadata":{"n\u0061me":"\u0061","namespace":"n","name":"twice","resourceVersion":"7"},"spec":{"metadata":{"name":"no"}}}"#,
        ];
        let expected = ["n", "a", "7"].map(|field| Some(field.to_owned()));
        for object in objects {
            for size in 1..=object.len() {
                let found = read(Outline::of_item(), object, size);
                assert_eq!(found.size, object.len(), "{object}");
                assert_eq!(found.head(), expected, "{object} by {size}");
                let line = format!(r#"{{"type":"ADDED","object": {object} }}"#);
                let found = read(Outline::of_line(), &line, size);
                assert_eq!(
                    (found.kind.as_deref(), found.size),
                    (Some("ADDED"), object.len()),
                    "{line}"
                );
                assert_eq!(found.head(), expected, "{line} by {size}");
            }
        }
    }

    #[test]
    fn object_without_a_name_or_with_an_overlong_one_has_no_key() {
        let long = "x".repeat(2000);
        for metadata in [
            "{}".to_owned(),
            "null".to_owned(),
            r#"{"name":7}"#.to_owned(),
            format!(r#"{{"name":"{long}"}}"#),
            format!(r#"{{"namespace":"{long}","name":"a"}}"#),
        ] {
            let object = format!(r#"{{"metadata":{metadata},"name":"a"}}"#);
            for size in [1, 7, object.len()] {
                assert_eq!(read(Outline::of_item(), &object, size).head()[1], None, "{object}");
            }
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic() {
        for bytes in ["}}]]", "{{[:,\"", "\\\"", "{\"metadata\":{\"name\":\"", "{]{}[}"] {
            for size in 1..=bytes.len() {
                read(Outline::of_item(), bytes, size);
                read(Outline::of_line(), bytes, size);
            }
        }
    }
}
