//! The head of an object whose bytes are not kept: its names and version, found as the bytes pass.

use super::members::text;

/// Reads `metadata.namespace`, `metadata.name` and `metadata.resourceVersion` of an object,
/// wherever in it they are, and of a watch line also the event's `type`. Of a member that is
/// written twice the first counts. It keeps no more than those strings.
#[derive(Default)]
pub(crate) struct Outline {
    pub(crate) kind: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) version: Option<String>,
    /// Bytes of the object, once it has ended.
    pub(crate) size: usize,
    /// Whether the object is the member `object` of a line.
    is_line: bool,
    /// One of those strings is longer than any that an API server accepts.
    is_overlong: bool,
    /// Bytes that have passed.
    passed: usize,
    /// Where the object begins.
    begin: usize,
    /// Open brackets.
    depth: usize,
    /// How many of them, from the outermost, lead to the metadata.
    on_path: usize,
    /// The last name of a member of the innermost object on the path.
    member: Vec<u8>,
    expects_name: bool,
    at: At,
    /// The string in hand, from its first quote, if it is a member or name on the path.
    string: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum At {
    #[default]
    Between,
    String,
    Escaped,
}

/// Longer than any name, namespace or version.
const LONGEST: usize = 1024;

impl Outline {
    /// Of a list's item.
    pub(crate) fn of_item() -> Self {
        Self::default()
    }

    /// Of a watch's line.
    pub(super) fn of_line() -> Self {
        Self { is_line: true, ..Self::default() }
    }

    /// Namespace, name and version. It has no name if the namespace could not be read.
    pub(crate) fn head(self) -> [Option<String>; 3] {
        [self.namespace, self.name.filter(|_| !self.is_overlong), self.version]
    }

    /// Reads on.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut next = 0;
        while let Some(&byte) = bytes.get(next) {
            next += 1;
            match self.at {
                At::Between => self.between(byte, self.passed + next),
                At::Escaped => {
                    self.at = At::String;
                    self.keep(&[byte]);
                }
                At::String => {
                    let rest = bytes.get(next - 1..).unwrap_or_default();
                    let plain = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
                    self.keep(rest.get(..=plain).unwrap_or(rest));
                    next += plain;
                    match rest.get(plain) {
                        Some(b'"') => self.string_ends(),
                        Some(_) => self.at = At::Escaped,
                        None => {}
                    }
                }
            }
        }
        self.passed += bytes.len();
    }

    /// Open brackets around the object's members.
    fn base(&self) -> usize {
        1 + usize::from(self.is_line)
    }

    fn is_on_path(&self) -> bool {
        self.depth == self.on_path
    }

    fn between(&mut self, byte: u8, end: usize) {
        match byte {
            b'"' => {
                self.at = At::String;
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

    /// Whether the object that begins here is the next on the path.
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
        self.at = At::Between;
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
                // Cut, or no JSON.
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
