//! Fields that have no column: how often each was met, and what it held.
//!
//! What a line holds counts only once the line has become a row. Names are remembered up to a limit.

use std::collections::HashMap;

use crate::cursor::{Cursor, MAX_DEPTH, Res, Stop};
use crate::numbers::is_finite;
use crate::text::{decoded, skip_value};
use crate::times::{Suggests, suggested};

const MAX_NAMES: usize = 10_000;
/// Of all names together: a few long ones must not fill the memory either.
const MAX_NAME_BYTES: usize = 4 << 20;
/// Fields beyond the limit: they are counted, but not named.
pub const OTHERS: u32 = 0;

/// The bits of what a field held; `KINDS` in the Python face has their names in this order.
const NULL: u16 = 1;
const BOOLEAN: u16 = 1 << 1;
const LONG: u16 = 1 << 2;
const LARGE: u16 = 1 << 3;
const DECIMAL: u16 = 1 << 4;
const DOUBLE: u16 = 1 << 5;
const HUGE: u16 = 1 << 6;
const DATE: u16 = 1 << 7;
const TIMESTAMP: u16 = 1 << 8;
const TEXT: u16 = 1 << 9;
const OBJECT: u16 = 1 << 10;
const ARRAY: u16 = 1 << 11;
const TIMESTAMP_NS: u16 = 1 << 12;
const LOCAL: u16 = 1 << 13;
const LOCAL_NS: u16 = 1 << 14;

const EXACT_IN_DOUBLE: u64 = 1 << 53;
/// The path of what an array holds.
const ELEMENT: &[u8] = b"element";

struct Field {
    /// The number of the place or of the field around it.
    parent: Parent,
    name: String,
    /// How many names its path has.
    depth: usize,
    count: u64,
    kinds: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Parent {
    Place(u32),
    Field(u32),
}

/// A field that was met: the path of its struct, the names below that, how often, and what it held.
pub type Met = (Vec<String>, Vec<String>, u64, u16);

pub struct Undeclared {
    /// Paths of the structs of the schema.
    places: Vec<Vec<String>>,
    /// A column deeper than this cannot be.
    deepest: usize,
    fields: Vec<Field>,
    by_name: HashMap<(Parent, Box<[u8]>), u32>,
    name_bytes: usize,
    /// Of the line that is being read.
    met: Vec<u32>,
    held: Vec<(u32, u16)>,
    /// Something could not be named: what was observed is not all.
    pub is_incomplete: bool,
}

/// How much of a line was noted, to take back what came later.
#[derive(Debug, Clone, Copy)]
pub struct Noted(usize, usize);

impl Undeclared {
    pub fn new(deepest: usize) -> Self {
        let others = Field { parent: Parent::Place(0), name: String::new(), depth: 0, count: 0, kinds: 0 };
        let (places, fields, by_name) = (Vec::new(), vec![others], HashMap::new());
        let (met, held) = (Vec::new(), Vec::new());
        Undeclared { places, deepest, fields, by_name, name_bytes: 0, met, held, is_incomplete: false }
    }

    pub fn add_place(&mut self, path: Vec<String>) -> u32 {
        self.places.push(path);
        self.places.len() as u32 - 1
    }

    pub fn field(&mut self, place: u32, name: &[u8]) -> u32 {
        self.number_of(Parent::Place(place), name)
    }

    fn number_of(&mut self, parent: Parent, name: &[u8]) -> u32 {
        // A tuple of a parent and a slice cannot be looked up without a copy of the name; names are short.
        let key = (parent, name.into());
        if let Some(&number) = self.by_name.get(&key) {
            return number;
        }
        let Ok(name) = std::str::from_utf8(name) else { return OTHERS };
        if self.fields.len() > MAX_NAMES || self.name_bytes + name.len() > MAX_NAME_BYTES {
            return OTHERS;
        }
        self.name_bytes += name.len();
        let around = match parent {
            Parent::Place(place) => self.places[place as usize].len(),
            Parent::Field(field) => self.fields[field as usize].depth,
        };
        let number = self.fields.len() as u32;
        self.fields.push(Field { parent, name: name.into(), depth: around + 1, count: 0, kinds: 0 });
        self.by_name.insert(key, number);
        number
    }

    pub fn begin_line(&mut self) {
        self.met.clear();
        self.held.clear();
    }

    pub fn noted(&self) -> Noted {
        Noted(self.met.len(), self.held.len())
    }

    pub fn take_back(&mut self, noted: Noted) {
        self.met.truncate(noted.0);
        self.held.truncate(noted.1);
    }

    pub fn meet(&mut self, field: u32) {
        self.met.push(field);
    }

    pub fn end_line(&mut self) {
        for &field in &self.met {
            self.fields[field as usize].count += 1;
        }
        for &(field, kind) in &self.held {
            self.fields[field as usize].kinds |= kind;
        }
    }

    /// What was met since the last time.
    pub fn taken(&mut self) -> Vec<Met> {
        let found = (0..self.fields.len()).filter(|&field| {
            let field = &self.fields[field];
            field.count > 0 || field.kinds > 0
        });
        let met = found.map(|field| {
            let (place, names) = self.path_of(field);
            (place, names, self.fields[field].count, self.fields[field].kinds)
        });
        let met = met.collect();
        for field in &mut self.fields {
            (field.count, field.kinds) = (0, 0);
        }
        self.is_incomplete = false;
        met
    }

    fn path_of(&self, field: usize) -> (Vec<String>, Vec<String>) {
        if field == OTHERS as usize {
            return (vec![], vec![]);
        }
        let mut names = vec![self.fields[field].name.clone()];
        let mut parent = self.fields[field].parent;
        loop {
            match parent {
                Parent::Field(field) => {
                    names.push(self.fields[field as usize].name.clone());
                    parent = self.fields[field as usize].parent;
                }
                Parent::Place(place) => {
                    names.reverse();
                    return (self.places[place as usize].clone(), names);
                }
            }
        }
    }

    /// Passes a value and notes what it held, also inside of it.
    pub fn observe(&mut self, cursor: &mut Cursor<'_>, field: u32, depth: u32) -> Res {
        if field == OTHERS {
            self.is_incomplete = true;
            return skip_value(cursor, depth);
        }
        let is_deepest = self.fields[field as usize].depth >= self.deepest;
        let kind = match cursor.peek() {
            b'{' | b'[' if is_deepest => {
                skip_value(cursor, depth)?;
                TEXT
            }
            b'{' => {
                self.observe_object(cursor, field, depth)?;
                OBJECT
            }
            b'[' => {
                self.observe_array(cursor, field, depth)?;
                ARRAY
            }
            _ => scalar_kind(cursor)?,
        };
        self.held.push((field, kind));
        Ok(())
    }

    fn observe_object(&mut self, cursor: &mut Cursor<'_>, field: u32, depth: u32) -> Res {
        enter(cursor, depth)?;
        if cursor.is_empty(b'}') {
            return Ok(());
        }
        loop {
            cursor.skip_space();
            let text = cursor.string()?;
            let mut scratch = Vec::new();
            let member = self.number_of(Parent::Field(field), decoded(text, &mut scratch)?);
            cursor.colon()?;
            self.observe(cursor, member, depth + 1)?;
            if !cursor.has_next(b'}')? {
                return Ok(());
            }
        }
    }

    fn observe_array(&mut self, cursor: &mut Cursor<'_>, field: u32, depth: u32) -> Res {
        enter(cursor, depth)?;
        if cursor.is_empty(b']') {
            return Ok(());
        }
        let element = self.number_of(Parent::Field(field), ELEMENT);
        loop {
            cursor.skip_space();
            self.observe(cursor, element, depth + 1)?;
            if !cursor.has_next(b']')? {
                return Ok(());
            }
        }
    }
}

fn enter(cursor: &mut Cursor<'_>, depth: u32) -> Res {
    if depth >= MAX_DEPTH {
        return Err(Stop::Doubt);
    }
    cursor.at += 1;
    Ok(())
}

fn scalar_kind(cursor: &mut Cursor<'_>) -> Res<u16> {
    Ok(match cursor.peek() {
        b'"' => {
            let (text, mut scratch) = (cursor.string()?, Vec::new());
            match suggested(decoded(text, &mut scratch)?) {
                Suggests::Date => DATE,
                Suggests::Time { local: false, cut: false } => TIMESTAMP,
                Suggests::Time { local: false, cut: true } => TIMESTAMP_NS,
                Suggests::Time { local: true, cut: false } => LOCAL,
                Suggests::Time { local: true, cut: true } => LOCAL_NS,
                Suggests::Text => TEXT,
            }
        }
        b't' => cursor.literal(b"true").map(|()| BOOLEAN)?,
        b'f' => cursor.literal(b"false").map(|()| BOOLEAN)?,
        b'n' => cursor.literal(b"null").map(|()| NULL)?,
        _ => {
            let number = cursor.number()?;
            match number.whole_digits {
                _ if !number.is_integer() => {
                    if is_finite(number)? {
                        DOUBLE
                    } else {
                        HUGE
                    }
                }
                0..=19 if number.mantissa <= EXACT_IN_DOUBLE => LONG,
                0..=19 if number.mantissa <= i64::MAX as u64 + u64::from(number.negative) => LARGE,
                0..=38 => DECIMAL,
                _ => HUGE,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_remembered_up_to_a_limit_of_their_own() {
        let mut undeclared = Undeclared::new(30);
        let place = undeclared.add_place(vec![]);
        let long = |first: u8| [vec![first], vec![b'x'; MAX_NAME_BYTES / 2]].concat();
        let known = undeclared.field(place, &long(b'a'));
        assert_ne!(known, OTHERS);
        assert_eq!(undeclared.field(place, &long(b'b')), OTHERS);
        assert_eq!(undeclared.field(place, &long(b'a')), known);
        assert_ne!(undeclared.field(place, b"short"), OTHERS);
    }
}
