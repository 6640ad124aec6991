//! A block of lines into columns. Lines that are not certain are named, and are no rows.

use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Fields as ArrowFields};
use memchr::memchr;

use crate::columns::{Bytes, Column, Values};
use crate::cursor::{Cursor, Res, SLACK};
use crate::fields::Fields;
use crate::record::{Line, Policy};
use crate::undeclared::{Met, Undeclared};

/// A line that is left to the reference: its number in the block, and where its bytes are.
pub type Doubtful = (usize, usize, usize);

#[derive(Default)]
pub struct Outcome {
    pub rows: usize,
    pub lines: usize,
    pub blank: usize,
    pub doubtful: Vec<Doubtful>,
    /// Rows that the reference reads as well, to compare: their number, and where their bytes are.
    pub witnessed: Vec<(usize, usize, usize)>,
    /// The line of each row; None: row i is line i.
    pub row_lines: Option<Vec<i64>>,
    pub undeclared: Vec<Met>,
    pub is_incomplete: bool,
    /// How many timestamps were cut, by the number of their column.
    pub cut: Vec<u64>,
}

/// The first rows of a parser are witnessed, and then one of so many.
const WITNESSED_FIRST: u64 = 100;
const WITNESSED_EVERY: u64 = 1000;

pub struct BlockParser {
    fields: Fields,
    rescued: Option<Column>,
    line: Line,
    cut: Vec<u64>,
    /// Since the parser was made.
    rows_read: u64,
}

impl BlockParser {
    pub fn new(fields: Fields, policy: Policy, undeclared: Undeclared, timestamps: usize) -> Self {
        let text = || Column::new(DataType::Utf8, true, Values::Text(Bytes::default()));
        let rescued = policy.rescues().then(text);
        BlockParser { fields, rescued, line: Line::new(policy, undeclared), cut: vec![0; timestamps], rows_read: 0 }
    }

    /// Reads the block. The rows are those of `finish`.
    pub fn read(&mut self, data: &[u8]) -> Outcome {
        self.discard();
        let is_utf8 = simdutf8::basic::from_utf8(data).is_ok();
        let mut outcome = Outcome::default();
        // Lines near the end of the block are read from a copy with room behind them, for wide loads.
        let far = data.len().saturating_sub(SLACK);
        let split = memchr::memrchr(b'\n', &data[..far]).map_or(0, |at| at + 1);
        self.read_lines(data, 0..split, 0, is_utf8, &mut outcome);
        let tail = &data[split..];
        if !tail.is_empty() {
            let mut copy = Vec::new();
            if copy.try_reserve_exact(tail.len() + 1 + SLACK).is_err() {
                leave_all(tail, split, &mut outcome);
            } else {
                copy.extend_from_slice(tail);
                if !tail.ends_with(b"\n") {
                    copy.push(b'\n');
                }
                let end = copy.len();
                copy.extend_from_slice(&[0; SLACK]);
                self.read_lines(&copy, 0..end, split, is_utf8, &mut outcome);
            }
        }
        outcome.undeclared = self.line.undeclared.taken();
        outcome.cut.clone_from(&self.cut);
        self.cut.fill(0);
        outcome
    }

    /// The columns as one struct array of all rows.
    pub fn finish(&mut self, rows: usize) -> Res<ArrayData> {
        let mut columns = self.fields.finish(rows)?;
        if let Some(rescued) = &mut self.rescued {
            columns.push(rescued.finish(rows)?);
        }
        let fields = columns.iter().map(|column| Field::new("", column.data_type().clone(), true));
        let data_type = DataType::Struct(fields.collect::<ArrowFields>());
        // SAFETY: every column has that many rows.
        Ok(unsafe { ArrayData::builder(data_type).len(rows).child_data(columns).build_unchecked() })
    }

    /// Forgets what an earlier block left behind, if it ended in a panic.
    fn discard(&mut self) {
        self.fields.truncate(0);
        if let Some(rescued) = &mut self.rescued {
            rescued.truncate(0);
        }
        self.line.undeclared.taken();
        self.cut.fill(0);
    }

    /// `bytes[lines]` are whole lines; `offset` is where the bytes are in the block.
    fn read_lines(
        &mut self,
        bytes: &[u8],
        lines: std::ops::Range<usize>,
        offset: usize,
        is_utf8: bool,
        outcome: &mut Outcome,
    ) {
        let mut start = lines.start;
        while start < lines.end {
            let mut cursor = Cursor::new(bytes, start);
            cursor.skip_space();
            let end;
            if cursor.peek() == b'\n' {
                end = cursor.at;
                outcome.blank += 1;
                outcome.leave_out_line();
            } else if self.read_line(&mut cursor, start, is_utf8, outcome.rows).is_ok() {
                end = cursor.at;
                if self.rows_read < WITNESSED_FIRST || self.rows_read.is_multiple_of(WITNESSED_EVERY) {
                    outcome.witnessed.push((outcome.rows, offset + start, offset + end));
                }
                self.rows_read += 1;
                outcome.add_row();
            } else {
                self.take_back(outcome.rows);
                end = start + memchr(b'\n', &bytes[start..]).unwrap_or(lines.end - 1 - start);
                outcome.doubtful.push((outcome.lines, offset + start, offset + end));
                outcome.leave_out_line();
            }
            outcome.is_incomplete |= self.line.undeclared.is_incomplete;
            outcome.lines += 1;
            start = end + 1;
        }
    }

    #[inline(always)]
    fn read_line(&mut self, cursor: &mut Cursor<'_>, start: usize, is_utf8: bool, row: usize) -> Res {
        self.line.begin();
        match self.line.policy.whole_record {
            None => self.line.object(cursor, &mut self.fields, row, 1)?,
            Some(index) => self.line.whole(cursor, &mut self.fields, row, index)?,
        }
        cursor.skip_space();
        if cursor.peek() != b'\n' || !(is_utf8 || simdutf8::basic::from_utf8(cursor.since(start)).is_ok()) {
            return Err(crate::cursor::Stop::Doubt);
        }
        if let Some(column) = &mut self.rescued {
            let Values::Text(bytes) = &mut column.values else { return Err(crate::cursor::Stop::Doubt) };
            if self.line.rescue.write(&mut bytes.data)? {
                // Behind the nulls of the rows before.
                let value = bytes.data.split_off(bytes.offsets.last());
                column.pad_to(row)?;
                let Values::Text(bytes) = &mut column.values else { return Err(crate::cursor::Stop::Doubt) };
                crate::text::append(&mut bytes.data, &value)?;
                bytes.end_value()?;
                column.mark_valid()?;
            }
        }
        self.line.undeclared.end_line();
        for &column in &self.line.cut {
            self.cut[column as usize] += 1;
        }
        Ok(())
    }

    fn take_back(&mut self, rows: usize) {
        self.fields.truncate(rows);
        if let Some(rescued) = &mut self.rescued {
            rescued.truncate(rows);
        }
    }
}

impl Outcome {
    #[inline(always)]
    fn add_row(&mut self) {
        if let Some(row_lines) = &mut self.row_lines {
            row_lines.push(self.lines as i64);
        }
        self.rows += 1;
    }

    /// This line is no row: from here on rows and lines have different numbers.
    fn leave_out_line(&mut self) {
        if self.row_lines.is_none() {
            self.row_lines = Some((0..self.rows as i64).collect());
        }
    }
}

/// Every line as a doubtful one, but for blank ones, which are no records for the reference to read.
pub fn leave_all(data: &[u8], offset: usize, outcome: &mut Outcome) {
    let mut start = 0;
    while start < data.len() {
        let end = memchr(b'\n', &data[start..]).map_or(data.len(), |at| start + at);
        outcome.leave_out_line();
        if data[start..end].iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
            outcome.blank += 1;
        } else {
            outcome.doubtful.push((outcome.lines, offset + start, offset + end));
        }
        outcome.lines += 1;
        start = end + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blank_line_is_never_left_to_the_reference() {
        let mut outcome = Outcome::default();
        leave_all(b"{}\n \t\r\n\n[", 10, &mut outcome);
        assert_eq!((outcome.lines, outcome.blank, outcome.rows), (4, 2, 0));
        assert_eq!(outcome.doubtful, [(0, 10, 12), (3, 18, 19)]);
    }
}
