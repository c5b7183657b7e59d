//! JSON text read by hand, in one pass and with little ceremony: what a review is, nearly always.
//!
//! It takes what is plain and leaves the rest: `None` says that the text is not JSON, or of a kind that no API server
//! sends, and that somebody more thorough should look. What it does take, it takes as `serde_json` would; a test holds the
//! two against each other. It skips what no rule reads, and compares with a tree that is known instead of making another.

use std::borrow::Cow;

use serde_json::{Map, Number, Value};

/// Levels of nesting that are taken; `serde_json` takes a few more.
const DEEPEST: usize = 100;

/// Where a text is read.
pub(super) struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// The fields that are left out of an object, and out of its metadata.
#[derive(Clone, Copy, Default)]
pub(super) struct LeftOut {
    here: &'static [&'static str],
    in_metadata: &'static [&'static str],
}

impl LeftOut {
    /// What is left out of an object of Kubernetes: its managed fields, and its status unless it is to be kept.
    pub(super) fn of_object(with_status: bool) -> Self {
        Self {
            here: if with_status { &[] } else { &["status"] },
            in_metadata: &["managedFields"],
        }
    }

    /// What is left out of a field.
    fn below(self, field: &str) -> Self {
        Self {
            here: if field == "metadata" { self.in_metadata } else { &[] },
            in_metadata: &[],
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0 }
    }

    /// Whether nothing follows.
    pub(super) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The first byte of what comes next.
    pub(super) fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.byte() {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        let there = self.peek()? == byte;
        self.at += usize::from(there);
        there.then_some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let there = self.text.get(self.at..)?.starts_with(word);
        self.at += word.len();
        there.then_some(())
    }

    /// Goes through what stands between two brackets, separated by commas.
    fn list(&mut self, [open, close]: [u8; 2], mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.take(open)?;
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        if self.peek()? != close {
            each(self)?;
            while self.peek()? == b',' {
                self.at += 1;
                each(self)?;
            }
        }
        self.depth -= 1;
        self.take(close)
    }

    /// Goes through the fields of an object; `each` reads the value.
    pub(super) fn fields(&mut self, mut each: impl FnMut(&mut Self, Cow<'a, str>) -> Option<()>) -> Option<()> {
        self.list(*b"{}", |reader| {
            let name = reader.string()?;
            reader.take(b':')?;
            each(reader, name)
        })
    }

    /// A text between quotes, with them, and whether anything in it is escaped.
    fn quoted(&mut self) -> Option<(&'a str, bool)> {
        self.take(b'"')?;
        let (start, mut escaped) = (self.at - 1, false);
        loop {
            self.at += plain(self.text.as_bytes().get(self.at..)?);
            match self.byte()? {
                b'"' => {
                    self.at += 1;
                    return Some((self.text.get(start..self.at)?, escaped));
                }
                b'\\' => {
                    escaped = true;
                    let [_, kind, hex @ ..] = self.text.as_bytes().get(self.at..)? else {
                        return None;
                    };
                    self.at += match kind {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                        b'u' if hex.get(..4)?.iter().all(u8::is_ascii_hexdigit) => 6,
                        _ => return None,
                    };
                }
                // A control character.
                _ => return None,
            }
        }
    }

    /// A text.
    pub(super) fn string(&mut self) -> Option<Cow<'a, str>> {
        match self.quoted()? {
            (text, false) => text.get(1..text.len() - 1).map(Cow::Borrowed),
            (text, true) => serde_json::from_str(text).ok().map(Cow::Owned),
        }
    }

    fn number(&mut self) -> Option<Number> {
        let rest = self.text.get(self.at..)?;
        let in_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        let length = rest.as_bytes().iter().take_while(|byte| in_number(byte)).count();
        let text = rest.get(..length)?;
        self.at += length;
        let small =
            length < 19 && text.bytes().all(|byte| byte.is_ascii_digit()) && (length == 1 || !text.starts_with('0'));
        if small {
            return text.parse::<u64>().ok().map(Number::from);
        }
        serde_json::from_str(text).ok()
    }

    /// Passes over a value; the text of it.
    pub(super) fn skip(&mut self) -> Option<&'a str> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'{' => self.list(*b"{}", |reader| {
                reader.quoted()?;
                reader.take(b':')?;
                reader.skip().map(|_| ())
            })?,
            b'[' => self.list(*b"[]", |reader| reader.skip().map(|_| ()))?,
            b'"' => self.quoted().map(|_| ())?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            _ => self.number().map(|_| ())?,
        }
        self.text.get(start..self.at)
    }

    /// A value, without what is left out.
    pub(super) fn value(&mut self, left_out: LeftOut) -> Option<Value> {
        match self.peek()? {
            b'{' => {
                let mut fields = Map::new();
                self.fields(|reader, name| {
                    if left_out.here.contains(&&*name) {
                        return reader.skip().map(|_| ());
                    }
                    let value = reader.value(left_out.below(&name))?;
                    fields.insert(name.into_owned(), value);
                    Some(())
                })?;
                Some(Value::Object(fields))
            }
            b'[' => {
                let mut items = Vec::new();
                self.list(*b"[]", |reader| {
                    items.push(reader.value(LeftOut::default())?);
                    Some(())
                })?;
                Some(Value::Array(items))
            }
            b'"' => self.string().map(|text| Value::String(text.into_owned())),
            b't' => self.word("true").map(|()| Value::Bool(true)),
            b'f' => self.word("false").map(|()| Value::Bool(false)),
            b'n' => self.word("null").map(|()| Value::Null),
            _ => self.number().map(Value::Number),
        }
    }

    /// Passes over a value, if it is one that is known, without what is left out. Otherwise the reader stays where it was.
    /// The names of fields have to come in their order, in which an API server writes them.
    pub(super) fn pass(&mut self, known: &Value, left_out: LeftOut) -> Option<()> {
        let (at, depth) = (self.at, self.depth);
        let passed = self.same(known, left_out);
        if passed.is_none() {
            (self.at, self.depth) = (at, depth);
        }
        passed
    }

    fn same(&mut self, known: &Value, left_out: LeftOut) -> Option<()> {
        let only = |same: bool| same.then_some(());
        match (self.peek()?, known) {
            (b'{', Value::Object(known)) => {
                let mut known = known.iter();
                self.fields(|reader, name| {
                    if left_out.here.contains(&&*name) {
                        return reader.skip().map(|_| ());
                    }
                    let (expected, value) = known.next()?;
                    only(*expected == name)?;
                    reader.same(value, left_out.below(&name))
                })?;
                only(known.next().is_none())
            }
            (b'[', Value::Array(known)) => {
                let mut known = known.iter();
                self.list(*b"[]", |reader| reader.same(known.next()?, LeftOut::default()))?;
                only(known.next().is_none())
            }
            (b'"', Value::String(known)) => only(self.string()? == *known),
            (b't', Value::Bool(true)) => self.word("true"),
            (b'f', Value::Bool(false)) => self.word("false"),
            (b'n', Value::Null) => self.word("null"),
            (b'-' | b'0'..=b'9', Value::Number(known)) => only(self.number()? == *known),
            _ => None,
        }
    }
}

/// How many bytes come before a quote, a backslash or a control character; eight at a time.
fn plain(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 255;
    const HIGH: u64 = ONES << 7;
    let mut length = 0;
    for chunk in bytes.chunks_exact(8) {
        let word = chunk.try_into().map_or(0, u64::from_le_bytes);
        // The lowest byte that is marked is one that is meant; those above it may be marked by mistake.
        let is = |byte: u8| (word ^ (ONES * u64::from(byte))).wrapping_sub(ONES) & !(word ^ (ONES * u64::from(byte)));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let found = (is(b'"') | is(b'\\') | control) & HIGH;
        if found != 0 {
            return length + (found.trailing_zeros() / 8) as usize;
        }
        length += 8;
    }
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
    let rest = bytes.get(length..).unwrap_or_default();
    length + rest.iter().position(special).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Option<Value> {
        let mut reader = Reader::new(text);
        let value = reader.value(LeftOut::default())?;
        reader.is_at_end().then_some(value)
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[a-z\"\\\\\n\t/é]{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            let name = prop_oneof!["status|metadata|managedFields|spec", "[a-z\"\\\\é]{0,12}"];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(name, inner, 0..6).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_json_is_read_as_it_is(value in values()) {
            for text in [value.to_string(), format!(" {value:#}\n")] {
                prop_assert_eq!(read(&text), serde_json::from_str(&text).ok());
                prop_assert_eq!(Reader::new(&text).skip(), Some(text.trim()));
                // A float may be read as its neighbour.
                let known = serde_json::from_str(&text).unwrap();
                prop_assert!(Reader::new(&text).pass(&known, LeftOut::default()).is_some());
            }
        }

        #[test]
        fn only_the_same_is_passed(one in values(), other in values()) {
            let passed = Reader::new(&one.to_string()).pass(&other, LeftOut::default()).is_some();
            prop_assert_eq!(passed, one == other);
        }

        #[test]
        fn what_is_broken_is_left_to_somebody_more_thorough(value in values(), at in any::<prop::sample::Index>(), byte in 0_u8..128) {
            let mut text = value.to_string().into_bytes();
            let position = at.index(text.len());
            text[position] = byte;
            let Ok(text) = String::from_utf8(text) else { return Ok(()) };
            if let Some(value) = read(&text) {
                prop_assert_eq!(Ok(value), serde_json::from_str::<Value>(&text).map_err(|error| error.to_string()));
            }
            let mut reader = Reader::new(&text);
            let skipped = reader.skip().is_some() && reader.is_at_end();
            let thorough = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert!(!skipped || thorough, "{}", text);
        }

        #[test]
        fn plain_is_what_comes_before_the_first_special_byte(bytes in prop::collection::vec(0_u8.., 0..40)) {
            let first = bytes.iter().position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\');
            prop_assert_eq!(plain(&bytes), first.unwrap_or(bytes.len()));
        }
    }

    #[test]
    fn numbers_are_what_serde_json_makes_of_them() {
        for text in [
            "0",
            "-0",
            "7",
            "007",
            "-1",
            "1.0",
            "1e3",
            "1E+2",
            "999999999999999999",
            "1000000000000000000",
            "18446744073709551615",
            "18446744073709551616",
            "-9223372036854775808",
            "1.",
            ".5",
            "-",
            "+1",
            "1e",
            "1e999",
            "--1",
        ] {
            assert_eq!(read(text), serde_json::from_str(text).ok(), "{text}");
        }
    }

    #[test]
    fn what_no_rule_reads_is_left_out_where_it_stands_and_nowhere_else() {
        let text = r#"{"metadata":{"managedFields":[{"k:{\"a\"}":{}}],"name":"n","status":1},"spec":{"managedFields":3,"status":2},"status":{}}"#;
        let without = json!({"metadata": {"name": "n", "status": 1}, "spec": {"status": 2, "managedFields": 3}});
        let mut with_status = without.clone();
        with_status["status"] = json!({});
        for (status, expected) in [(false, &without), (true, &with_status)] {
            let left_out = LeftOut::of_object(status);
            assert_eq!(Reader::new(text).value(left_out).as_ref(), Some(expected));
            assert!(Reader::new(text).pass(expected, left_out).is_some());
        }
        assert!(Reader::new(text).pass(&without, LeftOut::of_object(true)).is_none());
    }

    #[test]
    fn a_reader_that_does_not_pass_stays_where_it_was() {
        let mut reader = Reader::new(r#"{"a":{"b":[1,2]}} 7"#);
        assert!(reader.pass(&json!({"a": {"b": [1, 3]}}), LeftOut::default()).is_none());
        assert_eq!(reader.value(LeftOut::default()), Some(json!({"a": {"b": [1, 2]}})));
        assert!(!reader.is_at_end());
    }

    #[test]
    fn what_is_nested_too_deep_is_left_to_somebody_more_thorough() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert!(Reader::new(&nested(DEEPEST)).skip().is_some());
        assert!(Reader::new(&nested(DEEPEST + 1)).skip().is_none());
        assert!(Reader::new(&nested(100_000)).value(LeftOut::default()).is_none());
    }
}
