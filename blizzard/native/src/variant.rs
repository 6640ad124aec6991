//! A column of variants: JSON values of any kind as the two binaries of the Parquet Variant encoding.
//!
//! The bytes are those of the reference, `blizzard.tasks.variant`. What that would refuse is doubt here.

use arrow_data::ArrayData;
use arrow_schema::{DataType, Field};

use crate::columns::{Bytes, push, reserve, taken};
use crate::cursor::{Cursor, MAX_DEPTH, Number, Res, Stop};
use crate::dictionary::Names;
use crate::numbers::double;
use crate::text::{append, decoded};

/// Spark 4.1 reads no larger one.
const MAX_BYTES: usize = 128 << 20;

/// The kind of a value is in the low two bits of its first byte.
const SHORT_TEXT: u8 = 1;
const OBJECT: u8 = 2;
const ARRAY: u8 = 3;
const LONGEST_SHORT_TEXT: usize = 63;
const NULL: u8 = 0;
const TRUE: u8 = 1 << 2;
const FALSE: u8 = 2 << 2;
const INTEGERS: [(u8, usize); 4] = [(3 << 2, 1), (4 << 2, 2), (5 << 2, 4), (6 << 2, 8)];
const DOUBLE: u8 = 7 << 2;
/// The type, its bytes, and the digits that it holds.
const DECIMALS: [(u8, usize, usize); 3] = [(8 << 2, 4, 9), (9 << 2, 8, 18), (10 << 2, 16, MAX_DIGITS)];
const MAX_DIGITS: usize = 38;
const LONG_TEXT: u8 = 16 << 2;

#[derive(Default)]
pub struct Variants {
    metadata: Bytes,
    value: Bytes,
    names: Names,
    /// Of the objects around the value that is being read.
    fields: Vec<Member>,
    /// Of the arrays around it: where their elements begin.
    elements: Vec<u32>,
    scratch: Vec<u8>,
}

/// A member of an object: the first bytes of its name, the name's number, and where the value begins.
#[derive(Clone, Copy)]
struct Member {
    prefix: u64,
    name: u32,
    offset: u32,
}

pub fn data_type() -> DataType {
    let part = |name: &str| Field::new(name, DataType::Binary, false);
    DataType::Struct(vec![part("metadata"), part("value")].into())
}

impl Variants {
    /// Appends the value at the cursor.
    pub fn read(&mut self, cursor: &mut Cursor<'_>, depth: u32) -> Res {
        self.names.begin_record();
        self.fields.clear();
        self.elements.clear();
        let start = self.value.data.len();
        self.any(cursor, depth)?;
        let name_start = self.metadata.data.len();
        self.names.write(&mut self.metadata.data)?;
        if (self.value.data.len() - start).max(self.metadata.data.len() - name_start) > MAX_BYTES {
            return Err(Stop::Doubt);
        }
        self.metadata.end_value()?;
        self.value.end_value()
    }

    /// Nulls of the column: both parts are empty there.
    pub fn pad(&mut self, more: usize) -> Res {
        self.metadata.offsets.repeat(more)?;
        self.value.offsets.repeat(more)
    }

    pub fn truncate(&mut self, rows: usize) {
        self.metadata.truncate(rows);
        self.value.truncate(rows);
    }

    pub fn finish(&mut self, rows: usize) -> Vec<ArrayData> {
        let part = |bytes: &mut Bytes| {
            let builder = ArrayData::builder(DataType::Binary).len(rows);
            let builder = builder.add_buffer(bytes.offsets.taken()).add_buffer(taken(&mut bytes.data));
            // SAFETY: both have that many values, and offsets never go down.
            unsafe { builder.build_unchecked() }
        };
        vec![part(&mut self.metadata), part(&mut self.value)]
    }

    fn any(&mut self, cursor: &mut Cursor<'_>, depth: u32) -> Res {
        let out = &mut self.value.data;
        match cursor.peek() {
            b'"' => {
                let text = cursor.string()?;
                write_text(decoded(text, &mut self.scratch)?, out)
            }
            b'{' => self.object(cursor, depth + 1),
            b'[' => self.array(cursor, depth + 1),
            b't' => cursor.literal(b"true").and_then(|()| push(out, TRUE)),
            b'f' => cursor.literal(b"false").and_then(|()| push(out, FALSE)),
            b'n' => cursor.literal(b"null").and_then(|()| push(out, NULL)),
            _ => write_number(cursor.number()?, out),
        }
    }

    fn object(&mut self, cursor: &mut Cursor<'_>, depth: u32) -> Res {
        enter(cursor, depth)?;
        let (start, first) = (self.value.data.len(), self.fields.len());
        if !cursor.is_empty(b'}') {
            loop {
                cursor.skip_space();
                let name = self.names.read(cursor, &mut self.scratch)?;
                cursor.colon()?;
                let offset = (self.value.data.len() - start) as u32;
                push(&mut self.fields, Member { prefix: self.names.known[name as usize].prefix, name, offset })?;
                self.any(cursor, depth)?;
                if !cursor.has_next(b'}')? {
                    break;
                }
            }
        }
        self.end_object(start, first)
    }

    fn end_object(&mut self, start: usize, first: usize) -> Res {
        let (fields, known) = (&mut self.fields[first..], &self.names.known);
        let text = |field: &Member| &known[field.name as usize].text;
        fields.sort_unstable_by(|one, other| one.prefix.cmp(&other.prefix).then_with(|| text(one).cmp(text(other))));
        if fields.windows(2).any(|pair| pair[0].name == pair[1].name) {
            return Err(Stop::Doubt); // a repeated key
        }
        let (count, size) = (fields.len(), self.value.data.len() - start);
        let id = |field: &Member| known[field.name as usize].id as usize;
        let id_width = width(fields.iter().map(id).max().unwrap_or(0));
        let (is_large, offset_width) = (count > 0xff, width(size));
        let header = (u8::from(is_large) << 4 | (id_width as u8 - 1) << 2 | (offset_width as u8 - 1)) << 2 | OBJECT;
        let count_width = if is_large { 4 } else { 1 };
        let room = 1 + count_width + count * id_width + (count + 1) * offset_width;
        let mut gap = open_gap(&mut self.value.data, start, room)?;
        gap.put(header.into(), 1);
        gap.put(count, count_width);
        fields.iter().for_each(|field| gap.put(id(field), id_width));
        fields.iter().for_each(|field| gap.put(field.offset as usize, offset_width));
        gap.put(size, offset_width);
        self.fields.truncate(first);
        Ok(())
    }

    fn array(&mut self, cursor: &mut Cursor<'_>, depth: u32) -> Res {
        enter(cursor, depth)?;
        let (start, first) = (self.value.data.len(), self.elements.len());
        if !cursor.is_empty(b']') {
            loop {
                cursor.skip_space();
                push(&mut self.elements, (self.value.data.len() - start) as u32)?;
                self.any(cursor, depth)?;
                if !cursor.has_next(b']')? {
                    break;
                }
            }
        }
        let (count, size) = (self.elements.len() - first, self.value.data.len() - start);
        let (is_large, offset_width) = (count > 0xff, width(size));
        let header = (u8::from(is_large) << 2 | (offset_width as u8 - 1)) << 2 | ARRAY;
        let count_width = if is_large { 4 } else { 1 };
        let mut gap = open_gap(&mut self.value.data, start, 1 + count_width + (count + 1) * offset_width)?;
        gap.put(header.into(), 1);
        gap.put(count, count_width);
        self.elements[first..].iter().for_each(|&offset| gap.put(offset as usize, offset_width));
        gap.put(size, offset_width);
        self.elements.truncate(first);
        Ok(())
    }
}

fn enter(cursor: &mut Cursor<'_>, depth: u32) -> Res {
    if depth > MAX_DEPTH {
        return Err(Stop::Doubt);
    }
    cursor.at += 1;
    Ok(())
}

/// The bytes of an unsigned integer, at least one.
pub fn width(number: usize) -> usize {
    match number {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xff_ffff => 3,
        _ => 4,
    }
}

/// Room for a header before what has just been written.
pub struct Gap<'a>(&'a mut [u8]);

pub fn open_gap(out: &mut Vec<u8>, start: usize, room: usize) -> Res<Gap<'_>> {
    let end = out.len();
    if end - start + room > u32::MAX as usize / 2 {
        return Err(Stop::Doubt); // offsets are kept in 32 bits
    }
    reserve(out, room)?;
    out.resize(end + room, 0);
    out.copy_within(start..end, start + room);
    Ok(Gap(&mut out[start..start + room]))
}

impl Gap<'_> {
    pub fn put(&mut self, number: usize, width: usize) {
        let (here, rest) = std::mem::take(&mut self.0).split_at_mut(width);
        here.copy_from_slice(&number.to_le_bytes()[..width]);
        self.0 = rest;
    }
}

fn write_text(text: &[u8], out: &mut Vec<u8>) -> Res {
    if text.len() <= LONGEST_SHORT_TEXT {
        push(out, (text.len() as u8) << 2 | SHORT_TEXT)?;
    } else {
        push(out, LONG_TEXT)?;
        append(out, &u32::try_from(text.len()).map_err(|_| Stop::Doubt)?.to_le_bytes())?;
    }
    append(out, text)
}

fn write_number(number: Number<'_>, out: &mut Vec<u8>) -> Res {
    if number.has_exponent {
        return write_double(number, out);
    }
    let Some((digits, magnitude)) = digits_of(number) else {
        // An integer would lose digits, which the reference calls bad.
        return if number.is_integer() { Err(Stop::Doubt) } else { write_double(number, out) };
    };
    let (value, scale) = (if number.negative { -magnitude } else { magnitude }, number.fraction_digits);
    if scale == 0 {
        for (header, size) in INTEGERS {
            let most = (1i128 << (8 * size - 1)) - 1;
            if -most - 1 <= value && value <= most {
                push(out, header)?;
                return append(out, &value.to_le_bytes()[..size]);
            }
        }
    }
    for (header, size, most) in DECIMALS {
        if digits <= most && scale <= most {
            append(out, &[header, scale as u8])?;
            return append(out, &value.to_le_bytes()[..size]);
        }
    }
    write_double(number, out)
}

/// How many digits it has without zeros at its front, and what they are worth without the point. None: too many.
fn digits_of(number: Number<'_>) -> Option<(usize, i128)> {
    if number.whole_digits + number.fraction_digits <= 19 {
        let count = number.mantissa.checked_ilog10().map_or(1, |log| log as usize + 1);
        return Some((count, number.mantissa.into()));
    }
    let (mut count, mut value) = (0, 0i128);
    for &byte in number.text.iter().filter(|byte| byte.is_ascii_digit()) {
        if count > 0 || byte != b'0' {
            count += 1;
            if count > MAX_DIGITS {
                return None;
            }
            value = value * 10 + i128::from(byte - b'0');
        }
    }
    Some((count.max(1), value))
}

fn write_double(number: Number<'_>, out: &mut Vec<u8>) -> Res {
    // Beyond the range of a double is bad, which the reference says.
    let value = double(number).map_err(|_| Stop::Doubt)?;
    push(out, DOUBLE)?;
    append(out, &value.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::SLACK;

    fn encoded(variants: &mut Variants, text: &str) -> Res<(Vec<u8>, Vec<u8>)> {
        let bytes = [text.as_bytes(), b"\n", &[0; SLACK]].concat();
        let rows = variants.value.rows();
        let outcome = variants.read(&mut Cursor::new(&bytes, 0), 0);
        if outcome.is_err() {
            variants.truncate(rows);
        }
        outcome.map(|()| (variants.metadata.last().to_vec(), variants.value.last().to_vec()))
    }

    #[test]
    fn the_example_of_the_specification_and_of_spark() {
        let (metadata, value) = encoded(&mut Variants::default(), r#"{"b":2,"a":[1,null,true,"x"]}"#).unwrap();
        assert_eq!(metadata, b"\x01\x02\x00\x01\x02ba");
        let array = b"\x03\x04\x00\x02\x03\x04\x06\x0c\x01\x00\x04\x05x";
        assert_eq!(value, [&b"\x02\x02\x01\x00\x02\x00\x0f"[..], b"\x0c\x02", array].concat());
    }

    #[test]
    fn what_came_before_changes_nothing() {
        let texts = [r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, r#"{"\u0061":1,"b":2}"#, "{}", r#"{"a":{"a":1}}"#, "[]"];
        let mut variants = Variants::default();
        for text in texts.iter().chain(texts.iter().rev()) {
            _ = encoded(&mut variants, r#"{"c":[{"a":1"#);
            assert_eq!(encoded(&mut variants, text), encoded(&mut Variants::default(), text), "{text}");
        }
    }

    #[test]
    fn what_the_reference_calls_bad_is_doubt() {
        let (long, deep) = ("1".repeat(39), "[".repeat(200) + &"]".repeat(200));
        for text in
            [r#"{"a":1,"\u0061":2}"#, r#"[{"a":{"b":1,"c":2,"b":3}}]"#, "1e400", &long, &deep, "[1,]", "\"\\q\""]
        {
            assert_eq!(encoded(&mut Variants::default(), text), Err(Stop::Doubt), "{text}");
        }
    }
}
