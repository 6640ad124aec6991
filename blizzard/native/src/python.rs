//! The face to Python: a parser of blocks whose rows are handed over without a copy.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow_data::ArrayData;
use arrow_data::ffi::FFI_ArrowArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};

use crate::block::{BlockParser, Doubtful, Outcome, leave_all};
use crate::frame_python::{Frames, Scanner, join_records};
use crate::newlines;
use crate::record::{Policy, Unknown};
use crate::schema::{Node, make_parser};
use crate::undeclared::Met;

#[derive(FromPyObject)]
struct Settings {
    json_in_strings: bool,
    unknown: String,
    rescue_values: bool,
    keeps_rest: bool,
    exact_timestamps: bool,
    whole_record: Option<u32>,
}

/// Reads blocks of one schema under one policy. For one thread at a time.
#[pyclass(module = "blizzard.native._native")]
struct Parser {
    parser: BlockParser,
    timestamps: Vec<Vec<String>>,
}

/// The rows of a block and what became of its other lines.
#[pyclass(module = "blizzard.native._native")]
struct Parsed {
    array: Option<ArrayData>,
    #[pyo3(get)]
    rows: usize,
    #[pyo3(get)]
    lines: usize,
    #[pyo3(get)]
    blank: usize,
    /// Of each: its number in the block, where it starts, where it ends.
    #[pyo3(get)]
    doubtful: Vec<Doubtful>,
    /// Rows to compare with the reference. Of each: its number, where its line starts, where it ends.
    #[pyo3(get)]
    witnessed: Vec<Doubtful>,
    /// Of each: the path of its struct, the names below, how often it was met, the bits of what it held.
    #[pyo3(get)]
    undeclared: Vec<Met>,
    #[pyo3(get)]
    is_incomplete: bool,
    #[pyo3(get)]
    cut: Vec<(Vec<String>, u64)>,
    row_lines: Option<Vec<i64>>,
}

#[pymethods]
impl Parser {
    #[new]
    fn new(root: Node, settings: Settings, deepest: usize) -> PyResult<Self> {
        let unknown = match settings.unknown.as_str() {
            "ignore" => Unknown::Ignore,
            "bad" => Unknown::Bad,
            "rescue" => Unknown::Rescue,
            "report" => Unknown::Report,
            other => return Err(PyValueError::new_err(format!("no such policy: {other}"))),
        };
        let policy = Policy {
            json_in_strings: settings.json_in_strings,
            unknown,
            rescue_values: settings.rescue_values,
            keeps_rest: settings.keeps_rest,
            exact_timestamps: settings.exact_timestamps,
            whole_record: settings.whole_record,
        };
        let (parser, timestamps) = make_parser(&root, policy, deepest)
            .ok_or_else(|| PyValueError::new_err("the schema or a format is not one that this module knows"))?;
        Ok(Parser { parser, timestamps })
    }

    /// A block of whole lines, without a byte order mark.
    fn parse(&mut self, py: Python<'_>, data: &Bound<'_, PyBytes>) -> Parsed {
        let data = data.as_bytes();
        let parser = &mut self.parser;
        let read = || catch_unwind(AssertUnwindSafe(|| read_block(parser, data)));
        let (outcome, array) = py.detach(read).ok().flatten().unwrap_or_else(|| all_doubtful(data));
        let timestamps = self.timestamps.iter().cloned().zip(outcome.cut);
        Parsed {
            array,
            rows: outcome.rows,
            lines: outcome.lines,
            blank: outcome.blank,
            doubtful: outcome.doubtful,
            witnessed: outcome.witnessed,
            undeclared: outcome.undeclared,
            is_incomplete: outcome.is_incomplete,
            cut: timestamps.filter(|(_, count)| *count > 0).collect(),
            row_lines: outcome.row_lines,
        }
    }
}

fn read_block(parser: &mut BlockParser, data: &[u8]) -> Option<(Outcome, Option<ArrayData>)> {
    let outcome = parser.read(data);
    let array = parser.finish(outcome.rows).ok()?;
    Some((outcome, Some(array)))
}

/// After a panic, or where there was no memory for the columns.
fn all_doubtful(data: &[u8]) -> (Outcome, Option<ArrayData>) {
    let mut outcome = Outcome::default();
    leave_all(data, 0, &mut outcome);
    (outcome, None)
}

#[pymethods]
impl Parsed {
    /// The rows as a capsule of Arrow's C data interface; None if there are none to hand over. Can be called once.
    fn take_array<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyCapsule>>> {
        let Some(array) = self.array.take() else { return Ok(None) };
        PyCapsule::new_with_value(py, FFI_ArrowArray::new(&array), c"arrow_array").map(Some)
    }

    /// The line of each row as 64-bit integers; None if row i is line i.
    fn row_lines<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.row_lines.as_ref().map(|lines| integers(py, lines))
    }
}

fn integers<'py>(py: Python<'py>, values: &[i64]) -> Bound<'py, PyBytes> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    PyBytes::new(py, &bytes)
}

#[pyfunction]
fn count_newlines(py: Python<'_>, data: &Bound<'_, PyBytes>) -> usize {
    let data = data.as_bytes();
    py.detach(|| newlines::count(data))
}

/// Where they are, as 64-bit integers.
#[pyfunction]
fn newline_positions<'py>(py: Python<'py>, data: &Bound<'py, PyBytes>) -> Bound<'py, PyBytes> {
    let data = data.as_bytes();
    integers(py, &py.detach(|| newlines::positions(data)))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Parser>()?;
    module.add_class::<Parsed>()?;
    module.add_class::<Scanner>()?;
    module.add_class::<Frames>()?;
    module.add_function(wrap_pyfunction!(join_records, module)?)?;
    module.add_function(wrap_pyfunction!(count_newlines, module)?)?;
    module.add_function(wrap_pyfunction!(newline_positions, module)?)
}
