//! One line into one row: values go straight from the bytes into the columns.
//!
//! Whatever is not certain stops the line. The caller then takes its row back and leaves the line to the reference.

use crate::columns::{Bytes, Column, Values};
use crate::cursor::{Cursor, MAX_DEPTH, Number, Res, SLACK, Stop, Text, whole_number};
use crate::fields::{Fields, Target};
use crate::numbers::{base64, decimal, double, float, integer};
use crate::rescue::{self, Rescue};
use crate::text::{append, copy_value, decoded, skip_value, unescape};
use crate::times::{Format, Moment, day, epoch, moment};
use crate::undeclared::{self, Undeclared};

/// What becomes of fields without a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unknown {
    Ignore,
    Bad,
    Rescue,
    Report,
}

#[derive(Debug, Clone, Copy)]
pub struct Policy {
    pub json_in_strings: bool,
    pub unknown: Unknown,
    pub rescue_values: bool,
    pub keeps_rest: bool,
    pub exact_timestamps: bool,
    /// The column that takes the record itself, if there is one.
    pub whole_record: Option<u32>,
}

impl Policy {
    pub fn rescues(&self) -> bool {
        self.rescue_values || self.unknown == Unknown::Rescue || self.keeps_rest
    }
}

/// What is known of the line that is being read, beside the columns.
pub struct Line {
    pub policy: Policy,
    pub undeclared: Undeclared,
    pub rescue: Rescue,
    /// The columns whose timestamps were cut on this line.
    pub cut: Vec<u32>,
    scratch: Vec<u8>,
}

/// How much was noted of the line before a value, to take it back if the value is rescued.
struct Before {
    undeclared: undeclared::Noted,
    rescue: rescue::Noted,
    cut: usize,
}

impl Line {
    pub fn new(policy: Policy, undeclared: Undeclared) -> Self {
        Line { policy, undeclared, rescue: Rescue::default(), cut: Vec::new(), scratch: Vec::new() }
    }

    pub fn begin(&mut self) {
        self.undeclared.begin_line();
        self.rescue.clear();
        self.cut.clear();
    }

    fn noted(&self) -> Before {
        Before { undeclared: self.undeclared.noted(), rescue: self.rescue.noted(), cut: self.cut.len() }
    }

    fn take_back(&mut self, before: &Before) {
        self.undeclared.take_back(before.undeclared);
        self.rescue.take_back(before.rescue);
        self.cut.truncate(before.cut);
    }

    /// The object at the cursor as the value of one column.
    pub fn whole(&mut self, cursor: &mut Cursor<'_>, fields: &mut Fields, row: usize, index: u32) -> Res {
        fields.begin_object();
        let column = fields.columns.get_mut(index as usize).ok_or(Stop::Doubt)?;
        column.pad_to(row)?;
        if cursor.peek() != b'{' {
            return Err(Stop::Doubt);
        }
        self.value(cursor, column, 0)?;
        fields.is_first(index);
        fields.end_object()
    }

    /// The object at the cursor as the row with this number.
    pub fn object(&mut self, cursor: &mut Cursor<'_>, fields: &mut Fields, row: usize, depth: u32) -> Res {
        if depth > MAX_DEPTH {
            return Err(Stop::Doubt);
        }
        cursor.expect(b'{')?;
        fields.begin_object();
        if !cursor.is_empty(b'}') {
            let (mut before, mut others) = (None, 0);
            loop {
                cursor.skip_space();
                let (target, key) = fields.key(cursor, &mut before, &mut self.undeclared)?;
                cursor.colon()?;
                match target {
                    Target::Column(index) => {
                        if !fields.is_first(index) {
                            return Err(Stop::Doubt);
                        }
                        self.field(cursor, &mut fields.columns[index as usize], row, (index, key), depth)?;
                    }
                    Target::Undeclared(number) => {
                        self.undeclared_field(cursor, number, (others, key), depth)?;
                        others += 1;
                    }
                }
                if !cursor.has_next(b'}')? {
                    break;
                }
            }
        }
        fields.end_object()
    }

    #[inline(always)]
    fn field(
        &mut self,
        cursor: &mut Cursor<'_>,
        column: &mut Column,
        row: usize,
        key: (u32, &[u8]),
        depth: u32,
    ) -> Res {
        column.pad_to(row)?;
        if !self.policy.rescues() {
            return self.value(cursor, column, depth);
        }
        self.rescue.enter_column(key.0, key.1)?;
        let (start, before) = (cursor.at, self.noted());
        let found = match self.value(cursor, column, depth) {
            Err(Stop::Misfit) if self.policy.rescue_values && column.nullable => {
                // The whole value is rescued, and with it what was noted inside of it.
                self.take_back(&before);
                cursor.at = start;
                column.truncate(row);
                column.pad_to(row + 1)?;
                self.rescue.add(|text| copy_value(cursor, text, depth))
            }
            // A field further out must not be rescued in the place of this one.
            Err(_) => Err(Stop::Doubt),
            Ok(()) => Ok(()),
        };
        self.rescue.leave();
        found
    }

    fn undeclared_field(&mut self, cursor: &mut Cursor<'_>, number: u32, key: (u32, &[u8]), depth: u32) -> Res {
        let start = cursor.at;
        if self.policy.unknown == Unknown::Bad {
            return Err(Stop::Doubt);
        }
        self.undeclared.meet(number);
        if self.policy.unknown == Unknown::Report {
            self.undeclared.observe(cursor, number, depth)?;
            if !self.policy.keeps_rest || cursor.since(start) == b"null" {
                return Ok(());
            }
            cursor.at = start;
        } else if self.policy.unknown == Unknown::Ignore {
            return skip_value(cursor, depth);
        }
        self.rescue.enter_other(key.0, key.1)?;
        self.rescue.add(|text| copy_value(cursor, text, depth))?;
        self.rescue.leave();
        Ok(())
    }

    /// Appends the value at the cursor to the column.
    fn value(&mut self, cursor: &mut Cursor<'_>, column: &mut Column, depth: u32) -> Res {
        let first = cursor.peek();
        if first == b'n' {
            cursor.literal(b"null")?;
            return push_null(column);
        }
        if column.coercions.empty_is_null && cursor.rest().starts_with(b"\"\"") {
            cursor.at += 2;
            return push_null(column);
        }
        match &mut column.values {
            Values::Int64(values) => {
                let takes = column.coercions;
                let read = |number: Number<'_>| integer(number, i64::MIN, i64::MAX, takes.integral_floats);
                let value = self.number(cursor, takes.numbers_in_strings, read)?;
                crate::columns::push(values, value)?;
            }
            Values::Text(bytes) => self.string(cursor, bytes, depth)?,
            Values::Double(values) => {
                let value = self.number(cursor, column.coercions.numbers_in_strings, double)?;
                crate::columns::push(values, value)?;
            }
            Values::Timestamp(_) => return self.timestamp(cursor, column),
            Values::Struct(_) | Values::List { .. } | Values::Map { .. } => {
                return self.nested(cursor, column, depth);
            }
            Values::Variant(variants) => variants.read(cursor, depth)?,
            _ => self.other_scalar(cursor, column)?,
        }
        column.mark_valid()
    }

    /// A number, or a string that holds one if the column takes that.
    #[inline(always)]
    fn number<T>(
        &mut self,
        cursor: &mut Cursor<'_>,
        in_strings: bool,
        read: impl FnOnce(Number<'_>) -> Res<T>,
    ) -> Res<T> {
        match cursor.peek() {
            b'-' | b'0'..=b'9' => read(cursor.number()?),
            b'"' if in_strings => {
                let text = cursor.string()?;
                whole_number(decoded(text, &mut self.scratch)?, read)
            }
            _ => Err(Stop::Misfit),
        }
    }

    #[inline(always)]
    fn string(&mut self, cursor: &mut Cursor<'_>, bytes: &mut Bytes, depth: u32) -> Res {
        if cursor.peek() == b'"' {
            let text = cursor.string()?;
            if text.escaped { unescape(text.raw, &mut bytes.data)? } else { append(&mut bytes.data, text.raw)? }
        } else if self.policy.json_in_strings {
            copy_value(cursor, &mut bytes.data, depth)?;
        } else {
            return Err(Stop::Misfit);
        }
        bytes.end_value()
    }

    fn other_scalar(&mut self, cursor: &mut Cursor<'_>, column: &mut Column) -> Res {
        let takes = column.coercions;
        let whole =
            |least: i64, most: i64| move |number: Number<'_>| integer(number, least, most, takes.integral_floats);
        let in_strings = takes.numbers_in_strings;
        match &mut column.values {
            Values::Int8(values) => {
                let value = self.number(cursor, in_strings, whole(i8::MIN.into(), i8::MAX.into()))?;
                crate::columns::push(values, value as i8)
            }
            Values::Int16(values) => {
                let value = self.number(cursor, in_strings, whole(i16::MIN.into(), i16::MAX.into()))?;
                crate::columns::push(values, value as i16)
            }
            Values::Int32(values) => {
                let value = self.number(cursor, in_strings, whole(i32::MIN.into(), i32::MAX.into()))?;
                crate::columns::push(values, value as i32)
            }
            Values::Float(values) => {
                let value = self.number(cursor, in_strings, float)?;
                crate::columns::push(values, value)
            }
            Values::Decimal(values) => {
                let arrow_schema::DataType::Decimal128(precision, scale) = column.data_type else {
                    return Err(Stop::Doubt);
                };
                let (precision, scale) = (precision.into(), scale.into());
                let value = match cursor.peek() {
                    b'-' | b'0'..=b'9' => decimal(cursor.number()?.text, precision, scale)?,
                    b'"' => decimal(text_at(cursor, &mut self.scratch)?, precision, scale)?,
                    _ => return Err(Stop::Misfit),
                };
                crate::columns::push(values, value)
            }
            Values::Boolean(bits) => {
                let value = match cursor.peek() {
                    b't' => cursor.literal(b"true").map(|()| true)?,
                    b'f' => cursor.literal(b"false").map(|()| false)?,
                    _ if takes.booleans_0_1 => {
                        self.number(cursor, in_strings, |number| integer(number, 0, 1, false))? == 1
                    }
                    _ => return Err(Stop::Misfit),
                };
                bits.push(value)
            }
            Values::Binary(bytes) => {
                if cursor.peek() != b'"' {
                    return Err(Stop::Misfit);
                }
                base64(text_at(cursor, &mut self.scratch)?, &mut bytes.data)?;
                bytes.end_value()
            }
            Values::Date(values) => {
                if cursor.peek() != b'"' {
                    return Err(Stop::Misfit);
                }
                let value = day(text_at(cursor, &mut self.scratch)?, &column.formats)?;
                crate::columns::push(values, value)
            }
            _ => Err(Stop::Doubt),
        }
    }

    fn timestamp(&mut self, cursor: &mut Cursor<'_>, column: &mut Column) -> Res {
        let Values::Timestamp(values) = &mut column.values else { return Err(Stop::Doubt) };
        let has_zone = matches!(column.data_type, arrow_schema::DataType::Timestamp(_, Some(_)));
        let found: Moment = match cursor.peek() {
            b'"' => moment(text_at(cursor, &mut self.scratch)?, &column.formats, has_zone)?,
            b'-' | b'0'..=b'9' => {
                let power = column.formats.iter().find_map(|format| match format {
                    Format::Epoch(power) => Some(*power),
                    _ => None,
                });
                epoch(cursor.number()?, power.ok_or(Stop::Misfit)?)?
            }
            _ => return Err(Stop::Misfit),
        };
        if found.cut {
            if self.policy.exact_timestamps {
                return Err(Stop::Misfit);
            }
            self.cut.push(column.cut_id);
        }
        crate::columns::push(values, found.micros)?;
        column.mark_valid()
    }

    fn nested(&mut self, cursor: &mut Cursor<'_>, column: &mut Column, depth: u32) -> Res {
        if cursor.peek() == b'"' && column.coercions.parse_json_text {
            return self.json_text(cursor, column, depth);
        }
        let row = column.rows();
        match &mut column.values {
            Values::Struct(fields) if cursor.peek() == b'{' => self.object(cursor, fields, row, depth + 1)?,
            Values::List { offsets, element } if cursor.peek() == b'[' => {
                self.array(cursor, element, offsets.last(), depth + 1)?;
                offsets.push(element.rows())?;
            }
            Values::Map { offsets, keys, value } if cursor.peek() == b'{' => {
                self.map(cursor, keys, value, offsets.last(), depth + 1)?;
                offsets.push(value.rows())?;
            }
            _ => return Err(Stop::Misfit),
        }
        column.mark_valid()
    }

    /// A string that holds the JSON text of the value.
    fn json_text(&mut self, cursor: &mut Cursor<'_>, column: &mut Column, depth: u32) -> Res {
        let text = cursor.string()?;
        let mut inner = Vec::new();
        inner.try_reserve(text.raw.len() + 1 + SLACK).map_err(|_| Stop::Doubt)?;
        if text.escaped {
            unescape(text.raw, &mut inner)?
        } else {
            inner.extend_from_slice(text.raw)
        }
        if inner.contains(&b'\n') {
            return Err(Stop::Doubt); // there it is whitespace, here it would end the line
        }
        inner.push(b'\n');
        inner.extend_from_slice(&[0; SLACK]);
        let mut within = Cursor::new(&inner, 0);
        within.skip_space();
        if !matches!(within.peek(), b'{' | b'[') {
            return Err(Stop::Doubt); // not JSON, or another kind of value: the reference says which
        }
        // Only whole JSON is unwrapped: an error behind a misfit would make the misfit a wrong reason.
        self.nested(&mut within, column, depth).map_err(|_| Stop::Doubt)?;
        within.skip_space();
        within.expect(b'\n')
    }

    fn array(&mut self, cursor: &mut Cursor<'_>, element: &mut Column, start: usize, depth: u32) -> Res {
        if depth > MAX_DEPTH {
            return Err(Stop::Doubt);
        }
        cursor.expect(b'[')?;
        if cursor.is_empty(b']') {
            return Ok(());
        }
        loop {
            cursor.skip_space();
            if self.policy.rescues() {
                self.rescue.enter_element(element.rows() - start)?;
                self.value(cursor, element, depth)?;
                self.rescue.leave();
            } else {
                self.value(cursor, element, depth)?;
            }
            if !cursor.has_next(b']')? {
                return Ok(());
            }
        }
    }

    fn map(&mut self, cursor: &mut Cursor<'_>, keys: &mut Bytes, value: &mut Column, start: usize, depth: u32) -> Res {
        if depth > MAX_DEPTH {
            return Err(Stop::Doubt);
        }
        cursor.expect(b'{')?;
        if cursor.is_empty(b'}') {
            return Ok(());
        }
        loop {
            cursor.skip_space();
            let Text { raw, escaped } = cursor.string()?;
            if escaped {
                unescape(raw, &mut keys.data)?
            } else {
                append(&mut keys.data, raw)?
            }
            keys.end_value()?;
            cursor.colon()?;
            if self.policy.rescues() {
                self.rescue.enter_entry(keys.last(), value.rows() - start)?;
            }
            // A key that was given twice makes the line bad; a misfit behind it must not hide that.
            self.value(cursor, value, depth)
                .map_err(|stop| if keys.repeat_from(start) { Stop::Doubt } else { stop })?;
            if self.policy.rescues() {
                self.rescue.leave();
            }
            if !cursor.has_next(b'}')? {
                return if keys.repeat_from(start) { Err(Stop::Doubt) } else { Ok(()) };
            }
        }
    }
}

/// A NOT NULL column makes the line bad, which the reference says.
fn push_null(column: &mut Column) -> Res {
    if !column.nullable {
        return Err(Stop::Doubt);
    }
    let rows = column.rows() + 1;
    column.pad_to(rows)
}

fn text_at<'s, 'c: 's>(cursor: &mut Cursor<'c>, scratch: &'s mut Vec<u8>) -> Res<&'s [u8]> {
    let text = cursor.string()?;
    decoded(text, scratch)
}
