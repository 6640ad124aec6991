//! The fields of a struct: which column a key means, and the columns themselves.

use std::collections::HashMap;

use arrow_data::ArrayData;

use crate::columns::Column;
use crate::cursor::{Cursor, Res, Stop, Text};
use crate::text::decoded;
use crate::undeclared::Undeclared;

/// Keys that one struct remembers. Beyond that every key is looked up by its name.
const MAX_KNOWN: usize = 10_000;
/// No longer key is remembered: together they could fill the memory.
const MAX_KNOWN_BYTES: usize = 1024;
const NONE: u32 = u32::MAX;

/// What a key stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Column(u32),
    /// A field without a column, by its number among them.
    Undeclared(u32),
}

pub struct Fields {
    pub columns: Vec<Column>,
    names: Names,
    /// The columns that may not be null.
    required: Vec<u32>,
    /// When each column was last written: the number of the object.
    seen: Vec<u64>,
    object: u64,
    /// Where the struct is, for its fields without a column.
    place: u32,
    known: Vec<Known>,
    by_key: HashMap<Box<[u8]>, u32>,
    first: u32,
}

/// A key with its quotes, what it meant, and which key came next the last time.
struct Known {
    quoted: Box<[u8]>,
    target: Target,
    next: u32,
}

impl Fields {
    pub fn new(columns: Vec<Column>, names: Names, place: u32) -> Self {
        let required = (0..).zip(&columns).filter(|(_, column)| !column.nullable).map(|(index, _)| index).collect();
        let seen = vec![0; columns.len()];
        let (known, by_key) = (Vec::new(), HashMap::new());
        Fields { columns, names, required, seen, object: 0, place, known, by_key, first: NONE }
    }

    pub fn begin_object(&mut self) {
        self.object += 1;
    }

    /// False if this object has given the column before.
    #[inline(always)]
    pub fn is_first(&mut self, column: u32) -> bool {
        std::mem::replace(&mut self.seen[column as usize], self.object) != self.object
    }

    pub fn end_object(&self) -> Res {
        let missing = self.required.iter().any(|&column| self.seen[column as usize] != self.object);
        if missing { Err(Stop::Doubt) } else { Ok(()) }
    }

    /// Reads a key and finds what it stands for. `before` is the key before it, and becomes this one.
    #[inline(always)]
    pub fn key<'a>(
        &mut self,
        cursor: &mut Cursor<'a>,
        before: &mut Option<u32>,
        undeclared: &mut Undeclared,
    ) -> Res<(Target, &'a [u8])> {
        let guess = before.map_or(self.first, |index| self.known[index as usize].next);
        if let Some(known) = self.known.get(guess as usize)
            && let Some(raw) = cursor.quoted(&known.quoted)
        {
            *before = Some(guess);
            return Ok((known.target, raw));
        }
        let text = cursor.string()?;
        let (target, index) = self.find(text, undeclared)?;
        if let Some(index) = index {
            match before {
                Some(before) => self.known[*before as usize].next = index,
                None => self.first = index,
            }
            *before = Some(index);
        }
        Ok((target, text.raw))
    }

    fn find(&mut self, text: Text<'_>, undeclared: &mut Undeclared) -> Res<(Target, Option<u32>)> {
        if let Some(&index) = self.by_key.get(text.raw) {
            return Ok((self.known[index as usize].target, Some(index)));
        }
        let mut scratch = Vec::new();
        let name = decoded(text, &mut scratch)?;
        let target = match self.names.find(name) {
            Some(column) => Target::Column(column),
            None => Target::Undeclared(undeclared.field(self.place, name)),
        };
        if self.known.len() >= MAX_KNOWN || text.raw.len() > MAX_KNOWN_BYTES {
            return Ok((target, None));
        }
        let index = self.known.len() as u32;
        self.by_key.insert(text.raw.into(), index);
        self.known.push(Known { quoted: [b"\"", text.raw, b"\""].concat().into(), target, next: NONE });
        Ok((target, Some(index)))
    }

    pub fn truncate(&mut self, rows: usize) {
        for column in &mut self.columns {
            column.truncate(rows);
        }
    }

    pub fn finish(&mut self, rows: usize) -> Res<Vec<ArrayData>> {
        self.columns.iter_mut().map(|column| column.finish(rows)).collect()
    }
}

/// Which column a key means. The rules are those of `blizzard.schema.names.FieldNames`, which makes both tables.
pub struct Names {
    exact: HashMap<Box<[u8]>, Option<u32>>,
    folded: HashMap<Box<[u8]>, u32>,
    snake: bool,
}

impl Names {
    pub fn new(exact: &[(String, i64)], folded: &[(String, i64)], snake: bool) -> Self {
        let column = |index: &i64| u32::try_from(*index).ok();
        let exact = exact.iter().map(|(key, index)| (key.as_bytes().into(), column(index))).collect();
        let folded = folded.iter().filter_map(|(key, index)| Some((key.as_bytes().into(), column(index)?))).collect();
        Names { exact, folded, snake }
    }

    fn find(&self, key: &[u8]) -> Option<u32> {
        if let Some(&column) = self.exact.get(key) {
            return column;
        }
        if let Some(&column) = self.folded.get(key.to_ascii_lowercase().as_slice()) {
            return Some(column);
        }
        // With snake case no field has another new name: what is written as a column is that column.
        if self.snake { self.exact.get(snake(key).as_slice()).copied().flatten() } else { None }
    }
}

/// `userID` → `user_id`. The same rule as `blizzard.schema.names.snake`.
fn snake(name: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(name.len() + 8);
    for (at, &byte) in name.iter().enumerate() {
        let before = if at > 0 { name[at - 1] } else { 0 };
        let after = name.get(at + 1).copied().unwrap_or(0);
        let starts_a_word = byte.is_ascii_uppercase()
            && (before.is_ascii_lowercase()
                || before.is_ascii_digit()
                || (before.is_ascii_uppercase() && after.is_ascii_lowercase()));
        if starts_a_word && out.last() != Some(&b'_') {
            out.push(b'_');
        }
        let byte = if byte.is_ascii_alphanumeric() || !byte.is_ascii() { byte.to_ascii_lowercase() } else { b'_' };
        if byte != b'_' || out.last() != Some(&b'_') {
            out.push(byte);
        }
    }
    if out.len() > 1 && out.last() == Some(&b'_') {
        out.pop();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_words_with_underscores() {
        let cases = [
            ("userID", "user_id"),
            ("HTTPServer", "http_server"),
            ("_id", "_id"),
            ("First Name", "first_name"),
            ("$date", "_date"),
            ("a.b-c", "a_b_c"),
            ("a__b_", "a_b"),
            ("__", "_"),
            ("v2Name", "v2_name"),
            ("Änderung", "Änderung"),
        ];
        for (name, expected) in cases {
            assert_eq!(String::from_utf8(snake(name.as_bytes())).unwrap(), expected);
        }
    }

    #[test]
    fn the_exact_name_comes_first_and_an_unclear_one_means_nothing() {
        let key = |name: &str, column| (String::from(name), column);
        let exact = [key("id", 0), key("Name", 1), key("x", 2), key("NAME", 2), key("Old Id", 0), key("Later", -1)];
        let names = Names::new(&exact, &[key("id", 0), key("old id", 0), key("x", 2)], true);
        assert_eq!(names.find(b"ID"), Some(0));
        assert_eq!(names.find(b"old id"), Some(0));
        assert_eq!(names.find(b"Name"), Some(1));
        assert_eq!(names.find(b"NAME"), Some(2));
        assert_eq!(names.find(b"name"), None); // the column Name, or x
        assert_eq!(names.find(b"Later"), None);
        assert_eq!(names.find(b"$X_"), None);
        assert_eq!(names.find(b"Id "), Some(0));
    }
}
