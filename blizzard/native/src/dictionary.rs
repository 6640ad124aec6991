//! The names of the members of variants: known from record to record, and the dictionary that each record has of its own.

use std::collections::HashMap;

use crate::columns::{push, reserve};
use crate::cursor::{Cursor, Res, Text};
use crate::text::{append, decoded};
use crate::variant::{open_gap, width};

/// Names are remembered from record to record up to these limits.
const MAX_NAMES: usize = 10_000;
const MAX_NAME_BYTES: usize = 4 << 20;
const NONE: u32 = u32::MAX;
const VERSION: u8 = 1;

/// The names of members, known from record to record, and the dictionary of the record that is being read.
pub struct Names {
    pub known: Vec<Known>,
    by_text: HashMap<Box<[u8]>, u32>,
    bytes: usize,
    record: u64,
    /// The names of this record, in the order in which it has them.
    dictionary: Vec<u32>,
    before: u32,
    first: u32,
    /// The dictionary that was written last, and its bytes.
    written: (Vec<u32>, Vec<u8>),
}

pub struct Known {
    pub text: Box<[u8]>,
    quoted: Box<[u8]>,
    /// The first bytes of the text, to compare most names by.
    pub prefix: u64,
    /// The last record that had it, and its place in the dictionary of that record.
    record: u64,
    pub id: u32,
    /// The name that came after it the last time.
    next: u32,
}

impl Default for Names {
    fn default() -> Self {
        let (known, by_text, dictionary, written) = (vec![], HashMap::new(), vec![], (vec![], vec![]));
        Names { known, by_text, bytes: 0, record: 0, dictionary, before: NONE, first: NONE, written }
    }
}

impl Names {
    pub fn begin_record(&mut self) {
        if self.known.len() > MAX_NAMES || self.bytes > MAX_NAME_BYTES {
            *self = Names { record: self.record, ..Names::default() };
        }
        self.record += 1;
        self.dictionary.clear();
        self.before = NONE;
    }

    /// Reads a name and finds its number among the known ones.
    #[inline(always)]
    pub fn read(&mut self, cursor: &mut Cursor<'_>, scratch: &mut Vec<u8>) -> Res<u32> {
        let guess = self.known.get(self.before as usize).map_or(self.first, |known| known.next);
        let name = match self.known.get(guess as usize) {
            Some(known) if cursor.quoted(&known.quoted).is_some() => guess,
            _ => {
                let text = cursor.string()?;
                let name = self.find(text, scratch)?;
                match self.known.get_mut(self.before as usize) {
                    Some(before) => before.next = name,
                    None => self.first = name,
                }
                name
            }
        };
        self.before = name;
        let known = &mut self.known[name as usize];
        if known.record != self.record {
            (known.record, known.id) = (self.record, self.dictionary.len() as u32);
            push(&mut self.dictionary, name)?;
        }
        Ok(name)
    }

    fn find(&mut self, text: Text<'_>, scratch: &mut Vec<u8>) -> Res<u32> {
        let name = decoded(text, scratch)?;
        if let Some(&number) = self.by_text.get(name) {
            return Ok(number);
        }
        let mut prefix = [0; 8];
        let size = name.len().min(8);
        prefix[..size].copy_from_slice(&name[..size]);
        let number = self.known.len() as u32;
        let quoted = [b"\"", text.raw, b"\""].concat().into(); // as it is written, escapes and all
        let prefix = u64::from_be_bytes(prefix);
        push(&mut self.known, Known { text: name.into(), quoted, prefix, record: 0, id: 0, next: NONE })?;
        self.by_text.insert(name.into(), number);
        self.bytes += name.len();
        Ok(number)
    }

    /// Appends the dictionary of the record. Most records have that of the record before.
    pub fn write(&mut self, out: &mut Vec<u8>) -> Res {
        if self.dictionary != self.written.0 || self.written.1.is_empty() {
            self.written.0.clone_from(&self.dictionary);
            self.written.1 = self.encoded()?;
        }
        append(out, &self.written.1)
    }

    fn encoded(&self) -> Res<Vec<u8>> {
        let texts = || self.dictionary.iter().map(|&name| &self.known[name as usize].text);
        let (count, size) = (self.dictionary.len(), texts().map(|text| text.len()).sum::<usize>());
        let width = width(size.max(count));
        let mut out = Vec::new();
        let room = 1 + (count + 2) * width;
        reserve(&mut out, room + size)?;
        let mut gap = open_gap(&mut out, 0, room)?;
        gap.put(usize::from(VERSION | (width as u8 - 1) << 6), 1);
        gap.put(count, width);
        gap.put(0, width);
        let mut end = 0;
        for text in texts() {
            end += text.len();
            gap.put(end, width);
        }
        texts().for_each(|text| out.extend_from_slice(text));
        Ok(out)
    }
}
