//! Columns that grow value by value, can be cut back to any row, and become Arrow arrays without a copy.
//!
//! A column may be shorter than its table: what is missing at its end is null, and is filled in when the next value
//! comes, or at the end. So a record costs what it holds, not what it lacks.

use std::collections::HashSet;

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use crate::cursor::{Res, Stop};
use crate::fields::Fields;
use crate::times::Format;
use crate::variant::Variants;

/// Up to so many keys of a map are compared one by one.
const FEW_KEYS: usize = 16;

/// What a column takes beside the values of its type.
#[derive(Debug, Default, Clone, Copy)]
pub struct Coercions {
    pub numbers_in_strings: bool,
    pub integral_floats: bool,
    pub booleans_0_1: bool,
    pub empty_is_null: bool,
    pub parse_json_text: bool,
}

pub struct Column {
    pub data_type: DataType,
    pub nullable: bool,
    pub coercions: Coercions,
    pub formats: Vec<Format>,
    /// Of the column in the list of timestamps that may be cut.
    pub cut_id: u32,
    pub values: Values,
    len: usize,
    valid: Validity,
}

pub enum Values {
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal(Vec<i128>),
    Boolean(Bits),
    Text(Bytes),
    Binary(Bytes),
    Date(Vec<i32>),
    Timestamp(Vec<i64>),
    Struct(Box<Fields>),
    List { offsets: Offsets, element: Box<Column> },
    Map { offsets: Offsets, keys: Bytes, value: Box<Column> },
    Variant(Box<Variants>),
}

/// Appends one value. A failure to get memory is doubt, not the end of the process.
#[inline(always)]
pub fn push<T>(values: &mut Vec<T>, value: T) -> Res {
    if values.len() == values.capacity() {
        reserve(values, values.len().max(64))?;
    }
    values.push(value);
    Ok(())
}

pub fn reserve<T>(values: &mut Vec<T>, more: usize) -> Res {
    values.try_reserve(more).map_err(|_| Stop::Doubt)
}

fn fill<T: Clone + Default>(values: &mut Vec<T>, len: usize) -> Res {
    reserve(values, len.saturating_sub(values.len()))?;
    values.resize(len, T::default());
    Ok(())
}

impl Column {
    pub fn new(data_type: DataType, nullable: bool, values: Values) -> Self {
        let (coercions, formats) = (Coercions::default(), Vec::new());
        Column { data_type, nullable, coercions, formats, cut_id: 0, values, len: 0, valid: Validity::default() }
    }

    /// How many rows it has; those behind them are null.
    pub fn rows(&self) -> usize {
        self.len
    }

    /// The value itself has just been appended.
    #[inline(always)]
    pub fn mark_valid(&mut self) -> Res {
        self.len += 1;
        if self.valid.has_nulls { self.valid.bits.push(true) } else { Ok(()) }
    }

    /// Appends nulls until the column has this many values.
    #[inline(always)]
    pub fn pad_to(&mut self, len: usize) -> Res {
        if self.len < len { self.pad(len) } else { Ok(()) }
    }

    fn pad(&mut self, len: usize) -> Res {
        let more = len - self.len;
        self.valid.push_nulls(self.len, more)?;
        match &mut self.values {
            Values::Int8(values) => fill(values, len)?,
            Values::Int16(values) => fill(values, len)?,
            Values::Int32(values) | Values::Date(values) => fill(values, len)?,
            Values::Int64(values) | Values::Timestamp(values) => fill(values, len)?,
            Values::Float(values) => fill(values, len)?,
            Values::Double(values) => fill(values, len)?,
            Values::Decimal(values) => fill(values, len)?,
            Values::Boolean(bits) => bits.push_many(false, more)?,
            Values::Text(bytes) | Values::Binary(bytes) => bytes.offsets.repeat(more)?,
            Values::Struct(_) => {} // its columns are filled in when they are next written
            Values::List { offsets, .. } | Values::Map { offsets, .. } => offsets.repeat(more)?,
            Values::Variant(variants) => variants.pad(more)?,
        }
        self.len = len;
        Ok(())
    }

    /// Takes back everything from this row on, half-built values included.
    pub fn truncate(&mut self, rows: usize) {
        let rows = rows.min(self.len);
        self.len = rows;
        self.valid.truncate(rows);
        match &mut self.values {
            Values::Int8(values) => values.truncate(rows),
            Values::Int16(values) => values.truncate(rows),
            Values::Int32(values) | Values::Date(values) => values.truncate(rows),
            Values::Int64(values) | Values::Timestamp(values) => values.truncate(rows),
            Values::Float(values) => values.truncate(rows),
            Values::Double(values) => values.truncate(rows),
            Values::Decimal(values) => values.truncate(rows),
            Values::Boolean(bits) => bits.truncate(rows),
            Values::Text(bytes) | Values::Binary(bytes) => bytes.truncate(rows),
            Values::Struct(fields) => fields.truncate(rows),
            Values::Variant(variants) => variants.truncate(rows),
            Values::List { offsets, element } => element.truncate(offsets.truncate(rows)),
            Values::Map { offsets, keys, value } => {
                let entries = offsets.truncate(rows);
                keys.truncate(entries);
                value.truncate(entries);
            }
        }
    }

    /// The array of so many rows. The column is empty afterwards.
    pub fn finish(&mut self, rows: usize) -> Res<ArrayData> {
        self.pad_to(rows)?;
        self.len = 0;
        let nulls = self.valid.finish(rows);
        let builder = ArrayData::builder(self.data_type.clone()).len(rows).nulls(nulls);
        let builder = match &mut self.values {
            Values::Int8(values) => builder.add_buffer(taken(values)),
            Values::Int16(values) => builder.add_buffer(taken(values)),
            Values::Int32(values) | Values::Date(values) => builder.add_buffer(taken(values)),
            Values::Int64(values) | Values::Timestamp(values) => builder.add_buffer(taken(values)),
            Values::Float(values) => builder.add_buffer(taken(values)),
            Values::Double(values) => builder.add_buffer(taken(values)),
            Values::Decimal(values) => builder.add_buffer(taken(values)),
            Values::Boolean(bits) => builder.add_buffer(bits.taken()),
            Values::Text(bytes) | Values::Binary(bytes) => {
                builder.add_buffer(bytes.offsets.taken()).add_buffer(taken(&mut bytes.data))
            }
            Values::Struct(fields) => builder.child_data(fields.finish(rows)?),
            Values::Variant(variants) => builder.child_data(variants.finish(rows)),
            Values::List { offsets, element } => {
                let elements = offsets.last();
                builder.add_buffer(offsets.taken()).add_child_data(element.finish(elements)?)
            }
            Values::Map { offsets, keys, value } => {
                let entries = entries(&self.data_type, offsets.last(), keys, value)?;
                builder.add_buffer(offsets.taken()).add_child_data(entries)
            }
        };
        // SAFETY: every buffer has the rows that were counted, offsets never go down, text was checked to be UTF-8.
        Ok(unsafe { builder.build_unchecked() })
    }
}

fn entries(map: &DataType, count: usize, keys: &mut Bytes, value: &mut Column) -> Res<ArrayData> {
    let DataType::Map(field, _) = map else { return Err(Stop::Doubt) };
    let key = ArrayData::builder(DataType::Utf8)
        .len(count)
        .add_buffer(keys.offsets.taken())
        .add_buffer(taken(&mut keys.data));
    // SAFETY: as in `Column::finish`.
    let key = unsafe { key.build_unchecked() };
    let children = vec![key, value.finish(count)?];
    // SAFETY: both children have that many values.
    Ok(unsafe { ArrayData::builder(field.data_type().clone()).len(count).child_data(children).build_unchecked() })
}

/// The values as a buffer. A vector of the same capacity takes their place: the next block will need as much.
pub fn taken<T: arrow_buffer::ArrowNativeType>(values: &mut Vec<T>) -> Buffer {
    let mut next = Vec::new();
    // Without memory the next block grows its vectors as it goes.
    _ = next.try_reserve_exact(values.len());
    Buffer::from_vec(std::mem::replace(values, next))
}

/// Where the text, elements or entries of each row end.
pub struct Offsets(Vec<i32>);

impl Default for Offsets {
    fn default() -> Self {
        Offsets(vec![0])
    }
}

impl Offsets {
    #[inline(always)]
    pub fn push(&mut self, end: usize) -> Res {
        push(&mut self.0, i32::try_from(end).map_err(|_| Stop::Doubt)?)
    }

    pub fn last(&self) -> usize {
        self.0.last().map_or(0, |&end| end as usize)
    }

    pub fn repeat(&mut self, times: usize) -> Res {
        let last = self.last() as i32;
        reserve(&mut self.0, times)?;
        self.0.resize(self.0.len() + times, last);
        Ok(())
    }

    /// Returns where the last row that stays ends.
    fn truncate(&mut self, rows: usize) -> usize {
        self.0.truncate(rows + 1);
        self.last()
    }

    pub fn taken(&mut self) -> Buffer {
        let buffer = taken(&mut self.0);
        self.0.push(0);
        buffer
    }
}

#[derive(Default)]
pub struct Bytes {
    pub offsets: Offsets,
    pub data: Vec<u8>,
}

impl Bytes {
    /// What is in `data` behind the last value becomes a value.
    #[inline(always)]
    pub fn end_value(&mut self) -> Res {
        self.offsets.push(self.data.len())
    }

    pub fn truncate(&mut self, rows: usize) {
        self.data.truncate(self.offsets.truncate(rows));
    }

    pub fn last(&self) -> &[u8] {
        self.get(self.rows() - 1)
    }

    pub fn rows(&self) -> usize {
        self.offsets.0.len() - 1
    }

    fn get(&self, row: usize) -> &[u8] {
        &self.data[self.offsets.0[row] as usize..self.offsets.0[row + 1] as usize]
    }

    /// Whether two of the values from this row on are equal.
    pub fn repeat_from(&self, start: usize) -> bool {
        let rows = start..self.rows();
        if rows.len() > FEW_KEYS {
            let mut seen = HashSet::with_capacity(rows.len());
            return !rows.into_iter().all(|row| seen.insert(self.get(row)));
        }
        rows.clone().any(|row| (start..row).any(|earlier| self.get(earlier) == self.get(row)))
    }
}

#[derive(Default)]
pub struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    #[inline(always)]
    pub fn push(&mut self, bit: bool) -> Res {
        if self.len.is_multiple_of(8) {
            push(&mut self.bytes, 0)?;
        }
        self.bytes[self.len / 8] |= u8::from(bit) << (self.len % 8);
        self.len += 1;
        Ok(())
    }

    fn push_many(&mut self, bit: bool, count: usize) -> Res {
        let end = self.len + count;
        let more = end.div_ceil(8) - self.bytes.len();
        reserve(&mut self.bytes, more)?;
        while self.len < end && !self.len.is_multiple_of(8) {
            self.push(bit)?;
        }
        self.bytes.resize(self.bytes.len() + (end - self.len) / 8, if bit { 0xff } else { 0 });
        self.len += (end - self.len) / 8 * 8;
        while self.len < end {
            self.push(bit)?;
        }
        Ok(())
    }

    /// Clears the bits that go: a bit that stayed would turn the next null into a value.
    fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        self.len = len;
        self.bytes.truncate(len.div_ceil(8));
        if let Some(last) = self.bytes.last_mut().filter(|_| !len.is_multiple_of(8)) {
            *last &= (1 << (len % 8)) - 1;
        }
    }

    fn taken(&mut self) -> Buffer {
        self.len = 0;
        taken(&mut self.bytes)
    }
}

/// Which values are not null. No bits are kept until the first null comes.
#[derive(Default)]
struct Validity {
    has_nulls: bool,
    bits: Bits,
}

impl Validity {
    fn push_nulls(&mut self, len: usize, count: usize) -> Res {
        if !self.has_nulls {
            self.bits.push_many(true, len)?;
            self.has_nulls = true;
        }
        self.bits.push_many(false, count)
    }

    fn truncate(&mut self, len: usize) {
        if self.has_nulls {
            self.bits.truncate(len);
        }
    }

    fn finish(&mut self, len: usize) -> Option<NullBuffer> {
        if !std::mem::take(&mut self.has_nulls) {
            return None;
        }
        let nulls = NullBuffer::new(BooleanBuffer::new(self.bits.taken(), 0, len));
        (nulls.null_count() > 0).then_some(nulls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bools(column: &mut Column, rows: usize) -> Vec<Option<bool>> {
        let data = column.finish(rows).unwrap();
        data.validate_full().unwrap();
        let bits = BooleanBuffer::new(data.buffers()[0].clone(), 0, rows);
        (0..rows).map(|row| (!data.is_null(row)).then(|| bits.value(row))).collect()
    }

    fn push_bool(column: &mut Column, value: bool) {
        let Values::Boolean(bits) = &mut column.values else { panic!("a boolean column") };
        bits.push(value).unwrap();
        column.mark_valid().unwrap();
    }

    #[test]
    fn a_row_that_was_taken_back_leaves_no_trace() {
        for kept in 0..20 {
            let mut column = Column::new(DataType::Boolean, true, Values::Boolean(Bits::default()));
            for row in 0..kept {
                if row % 3 == 2 { column.pad_to(row + 1).unwrap() } else { push_bool(&mut column, true) }
            }
            for _ in 0..10 {
                push_bool(&mut column, true);
            }
            column.truncate(kept);
            column.pad_to(kept + 9).unwrap();
            push_bool(&mut column, false);
            let expected: Vec<_> = (0..kept).map(|row| (row % 3 != 2).then_some(true)).collect();
            let expected = [expected, vec![None; 9], vec![Some(false)]].concat();
            assert_eq!(bools(&mut column, kept + 10), expected);
            assert_eq!(bools(&mut column, 2), [None, None]);
        }
    }

    #[test]
    fn offsets_beyond_32_bits_are_doubt() {
        assert_eq!(Offsets::default().push(1 << 31), Err(Stop::Doubt));
    }
}
