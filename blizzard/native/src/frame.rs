//! Finds where the records of a file begin and end, chunk by chunk, if they are not one a line.
//!
//! `blizzard/source/frame_scan.py` has the rules, and finds the same places in any bytes. Brackets, quotes and
//! backslashes decide; at the level of the frame also commas and keys. Nothing of a chunk is kept but a few counters.

use std::collections::HashMap;

use memchr::{memchr, memchr3};

/// How many bytes of a key are kept.
const KEPT_OF_A_KEY: usize = 200;
/// How many keys beside the array are kept apart in one chunk.
const MAX_SIBLING_NAMES: usize = 1_000;
/// Stands for all other keys.
const OTHER_NAMES: &[u8] = b"\"";
/// What a newline in a string becomes: another character that JSON does not allow there.
const INSTEAD_OF_NEWLINE: u8 = 0x0b;

/// How the records lie in the file.
pub enum Framing {
    Concatenated,
    Array,
    /// The array at this key of each document.
    Keyed(Vec<u8>),
}

/// What was expected where something else stood. The order is that of `EXPECTED` in Python.
#[derive(Clone, Copy)]
pub enum Expected {
    Record,
    Array,
    Object,
    Comma,
    Key,
    Colon,
    Value,
    MemberEnd,
    KeyBeforeEnd,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Between,
    Element,
    Brackets,
    Scalar,
    KeyBegins,
    Key,
    Colon,
    ValueBegins,
    MemberEnds,
}

/// How many records came before it, its key, how often.
pub type Sibling = (i64, Vec<u8>, u64);

/// What a chunk holds. All places are bytes of the file.
#[derive(Default)]
pub struct Found {
    pub starts: Vec<i64>,
    pub ends: Vec<i64>,
    pub string_newlines: Vec<i64>,
    pub siblings: Vec<Sibling>,
    /// Which sibling a key is, among those after the same record.
    names: HashMap<Vec<u8>, usize>,
}

pub struct FrameScanner {
    framing: Framing,
    state: State,
    /// Of the file: where the next chunk begins.
    byte: i64,
    depth: u64,
    in_string: bool,
    /// An odd number of backslashes stands right before.
    is_odd: bool,
    in_array: bool,
    is_separated: bool,
    is_kept: bool,
    has_key: bool,
    name: Vec<u8>,
    open_at: i64,
    scalar_end: i64,
    records: i64,
    error: Option<(i64, Expected)>,
}

impl FrameScanner {
    pub fn new(framing: Framing, first_byte: i64) -> Self {
        FrameScanner {
            framing,
            state: State::Between,
            byte: first_byte,
            depth: 0,
            in_string: false,
            is_odd: false,
            in_array: false,
            is_separated: false,
            is_kept: true,
            has_key: false,
            name: Vec::new(),
            open_at: 0,
            scalar_end: 0,
            records: 0,
            error: None,
        }
    }

    /// Whether the file may end here.
    pub fn is_between(&self) -> bool {
        self.state == State::Between
    }

    pub fn error(&self) -> Option<(i64, Expected)> {
        self.error
    }

    /// Where the record begins that has not ended yet.
    pub fn open_at(&self) -> Option<i64> {
        let is_open = matches!(self.state, State::Brackets | State::Scalar);
        (is_open && self.is_kept).then_some(self.open_at)
    }

    pub fn scan(&mut self, chunk: &[u8]) -> Found {
        let mut found = Found::default();
        let mut at = 0;
        while at < chunk.len() && self.error.is_none() {
            at = match self.state {
                State::Brackets => self.pass_brackets(chunk, at, &mut found),
                State::Element => self.find_element(chunk, at),
                State::Between => self.find_document(chunk, at),
                State::Scalar => self.pass_scalar(chunk, at, &mut found),
                State::Key => self.pass_key(chunk, at, &mut found),
                _ => self.pass_member(chunk, at, &mut found),
            };
        }
        self.byte += chunk.len() as i64;
        found
    }

    fn fail(&mut self, at: usize, expected: Expected) -> usize {
        self.error = Some((self.byte + at as i64, expected));
        at
    }

    fn begin(&mut self, at: usize, is_kept: bool, is_scalar: bool) -> usize {
        self.open_at = self.byte + at as i64;
        self.scalar_end = self.open_at;
        self.is_kept = is_kept;
        (self.in_string, self.is_odd) = (false, false);
        if is_scalar {
            self.state = State::Scalar;
            return at;
        }
        self.state = State::Brackets;
        self.depth = 1;
        at + 1
    }

    /// The value ends before this byte of the file.
    fn end(&mut self, end: i64, found: &mut Found) {
        if self.is_kept {
            found.starts.push(self.open_at);
            found.ends.push(end);
            self.records += 1;
        }
        self.is_separated = false;
        self.state = match self.framing {
            _ if self.in_array => State::Element,
            Framing::Keyed(_) => State::MemberEnds,
            _ => State::Between,
        };
    }

    fn find_document(&mut self, chunk: &[u8], at: usize) -> usize {
        let at = skip(chunk, at, |byte| is_space(byte) || byte == 0x1e);
        let Some(&byte) = chunk.get(at) else { return at };
        match (&self.framing, byte) {
            (Framing::Concatenated, b'{' | b'[') => self.begin(at, true, false),
            (Framing::Concatenated, _) => self.fail(at, Expected::Record),
            (Framing::Array, b'[') => self.enter_array(at),
            (Framing::Array, _) => self.fail(at, Expected::Array),
            (Framing::Keyed(_), b'{') => {
                (self.state, self.has_key) = (State::KeyBegins, false);
                at + 1
            }
            (Framing::Keyed(_), _) => self.fail(at, Expected::Object),
        }
    }

    fn enter_array(&mut self, at: usize) -> usize {
        (self.state, self.in_array, self.is_separated) = (State::Element, true, true);
        at + 1
    }

    fn find_element(&mut self, chunk: &[u8], mut at: usize) -> usize {
        while let Some(&byte) = chunk.get(at) {
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {}
                b',' => self.is_separated = true,
                b']' => {
                    self.in_array = false;
                    let is_keyed = matches!(self.framing, Framing::Keyed(_));
                    self.state = if is_keyed { State::MemberEnds } else { State::Between };
                    return at + 1;
                }
                b'}' => return self.fail(at, Expected::Comma),
                _ if !self.is_separated => return self.fail(at, Expected::Comma),
                _ => return self.begin(at, true, !matches!(byte, b'{' | b'[')),
            }
            at += 1;
        }
        at
    }

    fn pass_brackets(&mut self, chunk: &[u8], mut at: usize, found: &mut Found) -> usize {
        while at < chunk.len() {
            if self.in_string {
                at = self.pass_string(chunk, at, found);
                continue;
            }
            // Outside of strings few bytes stand between two that matter.
            let next = skip(chunk, at, |byte| !MATTERS[byte as usize]);
            self.is_odd &= next == at;
            let Some(&byte) = chunk.get(next) else { return next };
            at = next + 1;
            match byte {
                b'"' if !self.is_odd => self.in_string = true,
                b'\\' => {
                    self.is_odd = !self.is_odd;
                    continue;
                }
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        self.end(self.byte + at as i64, found);
                        return at;
                    }
                }
                _ => {} // a quote that does not count
            }
            self.is_odd = false;
        }
        at
    }

    /// Up to the end of the string, which is in it at `at`; or to the end of the chunk.
    fn pass_string(&mut self, chunk: &[u8], mut at: usize, found: &mut Found) -> usize {
        while at < chunk.len() {
            if self.is_odd {
                // After a backslash: a quote or a backslash does not count.
                self.is_odd = false;
                if matches!(chunk[at], b'"' | b'\\') {
                    at += 1;
                    continue;
                }
            }
            let Some(next) = memchr3(b'"', b'\\', b'\n', &chunk[at..]) else { return chunk.len() };
            at += next + 1;
            match chunk[at - 1] {
                b'"' => {
                    self.in_string = false;
                    return at;
                }
                b'\\' => self.is_odd = true,
                _ => found.string_newlines.push(self.byte + at as i64 - 1),
            }
        }
        at
    }

    fn pass_scalar(&mut self, chunk: &[u8], mut at: usize, found: &mut Found) -> usize {
        while at < chunk.len() {
            if self.in_string {
                at = self.pass_string(chunk, at, found);
                self.scalar_end = self.byte + at as i64;
                continue;
            }
            let byte = chunk[at];
            match byte {
                b'"' if !self.is_odd => self.in_string = true,
                b'\\' => {
                    self.is_odd = !self.is_odd;
                    at += 1;
                    self.scalar_end = self.byte + at as i64;
                    continue;
                }
                b',' => return self.end_scalar(at, found),
                b']' if self.in_array => return self.end_scalar(at, found),
                b'}' if !self.in_array => return self.end_scalar(at, found),
                b'{' | b'[' | b'}' | b']' => {
                    let expected = if self.in_array { Expected::Comma } else { Expected::MemberEnd };
                    return self.fail(at, expected);
                }
                _ => {}
            }
            self.is_odd = false;
            at += 1;
            if !is_space(byte) {
                self.scalar_end = self.byte + at as i64;
            }
        }
        at
    }

    fn end_scalar(&mut self, at: usize, found: &mut Found) -> usize {
        self.end(self.scalar_end, found);
        at
    }

    fn pass_key(&mut self, chunk: &[u8], at: usize, found: &mut Found) -> usize {
        let end = self.pass_string(chunk, at, found);
        let text = if self.in_string { &chunk[at..end] } else { &chunk[at..end - 1] };
        let room = KEPT_OF_A_KEY - self.name.len();
        self.name.extend_from_slice(&text[..text.len().min(room)]);
        if !self.in_string {
            self.state = State::Colon;
        }
        end
    }

    fn pass_member(&mut self, chunk: &[u8], at: usize, found: &mut Found) -> usize {
        let begins = self.state == State::KeyBegins;
        let at = skip(chunk, at, |byte| is_space(byte) || (begins && byte == b','));
        let Some(&byte) = chunk.get(at) else { return at };
        self.state = match (self.state, byte) {
            (State::KeyBegins, b'"') => {
                self.name.clear();
                (self.in_string, self.is_odd) = (true, false);
                State::Key
            }
            (State::Colon, b':') => State::ValueBegins,
            (State::MemberEnds, b',') => State::KeyBegins,
            (State::KeyBegins | State::MemberEnds, b'}') if self.has_key => State::Between,
            (State::KeyBegins | State::MemberEnds, b'}') => return self.fail(at, Expected::KeyBeforeEnd),
            (State::ValueBegins, b',' | b']' | b'}') => return self.fail(at, Expected::Value),
            (State::ValueBegins, _) => return self.begin_value(byte, at, found),
            (State::KeyBegins, _) => return self.fail(at, Expected::Key),
            (State::Colon, _) => return self.fail(at, Expected::Colon),
            _ => return self.fail(at, Expected::MemberEnd),
        };
        at + 1
    }

    fn begin_value(&mut self, byte: u8, at: usize, found: &mut Found) -> usize {
        let is_wanted = matches!(&self.framing, Framing::Keyed(key) if *key == self.name);
        if !is_wanted {
            self.count_sibling(found);
            return self.begin(at, false, !matches!(byte, b'{' | b'['));
        }
        self.has_key = true;
        if byte == b'[' { self.enter_array(at) } else { self.begin(at, true, byte != b'{') }
    }

    fn count_sibling(&mut self, found: &mut Found) {
        if found.siblings.last().is_none_or(|met| met.0 != self.records) {
            found.names.clear();
        }
        let is_full = found.siblings.len() >= MAX_SIBLING_NAMES;
        let is_new = !found.names.contains_key(&self.name);
        let name = if is_new && is_full { OTHER_NAMES } else { &self.name };
        if let Some(&index) = found.names.get(name) {
            found.siblings[index].2 += 1;
            return;
        }
        found.names.insert(name.to_vec(), found.siblings.len());
        found.siblings.push((self.records, name.to_vec(), 1));
    }
}

/// Each record as one line. `string_newlines` are places in `raw`, in order.
pub fn join_records(raw: &[u8], spans: impl Iterator<Item = (usize, usize)>, string_newlines: &[i64]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(raw.len() + raw.len() / 64 + 16);
    let mut in_strings = string_newlines;
    for (start, end) in spans {
        let first = lines.len();
        lines.extend_from_slice(&raw[start..end]);
        let line = &mut lines[first..];
        let mut at = 0;
        while let Some(next) = memchr(b'\n', &line[at..]) {
            at += next + 1;
            line[at - 1] = b' ';
        }
        while let [place, rest @ ..] = in_strings {
            if *place >= end as i64 {
                break;
            }
            if *place >= start as i64 {
                line[*place as usize - start] = INSTEAD_OF_NEWLINE;
            }
            in_strings = rest;
        }
        lines.push(b'\n');
    }
    lines
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn skip(chunk: &[u8], at: usize, is_skipped: impl Fn(u8) -> bool) -> usize {
    chunk[at..].iter().position(|&byte| !is_skipped(byte)).map_or(chunk.len(), |next| at + next)
}

/// The bytes that matter inside of brackets and outside of strings.
static MATTERS: [bool; 256] = {
    let mut matters = [false; 256];
    let mut i = 0;
    while i < 6 {
        matters[b"\"\\{[}]"[i] as usize] = true;
        i += 1;
    }
    matters
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The records of all chunks, and whether the file may end there.
    fn records(framing: Framing, chunks: &[&str]) -> (Vec<String>, bool) {
        let whole = chunks.concat();
        let mut scanner = FrameScanner::new(framing, 0);
        let mut spans = Vec::new();
        for chunk in chunks {
            let found = scanner.scan(chunk.as_bytes());
            spans.extend(found.starts.into_iter().zip(found.ends));
        }
        let texts = spans.iter().map(|&(start, end)| whole[start as usize..end as usize].to_owned()).collect();
        (texts, scanner.is_between() && scanner.error().is_none())
    }

    fn owned(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| text.to_string()).collect()
    }

    #[test]
    fn a_record_ends_where_its_brackets_are_closed() {
        let found = records(Framing::Concatenated, &["{\"a\":\"}\\", "\"\\\\\"}{\"", "b\":[]}\n"]);
        assert_eq!(found, (owned(&["{\"a\":\"}\\\"\\\\\"}", "{\"b\":[]}"]), true));
    }

    #[test]
    fn elements_of_every_kind_are_records() {
        let found = records(Framing::Array, &["[1, \"a,", "]\" ,{},", "null ][[", "2]]"]);
        assert_eq!(found, (owned(&["1", "\"a,]\"", "{}", "null", "[2]"]), true));
    }

    #[test]
    fn only_the_array_at_the_key_has_records() {
        let found = records(Framing::Keyed(b"k".to_vec()), &["{\"a\":[{}],\"", "k\":[{\"k\":1}],\"b\":\"k\"}"]);
        assert_eq!(found, (owned(&["{\"k\":1}"]), true));
    }

    #[test]
    fn an_open_bracket_at_the_end_is_no_end() {
        assert_eq!(records(Framing::Array, &["[{}"]), (owned(&["{}"]), false));
        assert_eq!(records(Framing::Array, &["[{} {}]"]), (owned(&["{}"]), false));
    }

    #[test]
    fn a_newline_in_a_string_becomes_what_json_forbids_too() {
        let raw = b"{\n\"a\":\"\n\"} {}";
        assert_eq!(join_records(raw, [(0, 10), (11, 13)].into_iter(), &[7]), b"{ \"a\":\"\x0b\"}\n{}\n");
    }
}
