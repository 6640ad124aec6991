//! The face of the frame scanner to Python.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::frame::{FrameScanner, Framing, Sibling, join_records as join};

/// Scans the chunks of one file, in order. For one thread at a time.
#[pyclass(module = "blizzard.native._native", name = "FrameScanner")]
pub struct Scanner {
    scanner: FrameScanner,
}

/// What a chunk holds. Places are 64-bit integers in the order of this machine.
#[pyclass(module = "blizzard.native._native")]
pub struct Frames {
    #[pyo3(get)]
    starts: Py<PyBytes>,
    #[pyo3(get)]
    ends: Py<PyBytes>,
    #[pyo3(get)]
    string_newlines: Py<PyBytes>,
    #[pyo3(get)]
    open_at: Option<i64>,
    #[pyo3(get)]
    error: Option<(i64, usize)>,
    siblings: Vec<Sibling>,
}

#[pymethods]
impl Scanner {
    #[new]
    fn new(framing: &str, key: Option<Vec<u8>>, first_byte: i64) -> PyResult<Self> {
        let framing = match (framing, key) {
            ("concatenated", None) => Framing::Concatenated,
            ("array", None) => Framing::Array,
            (_, Some(key)) => Framing::Keyed(key),
            (other, None) => return Err(PyValueError::new_err(format!("no such framing: {other}"))),
        };
        Ok(Scanner { scanner: FrameScanner::new(framing, first_byte) })
    }

    fn scan(&mut self, py: Python<'_>, chunk: &Bound<'_, PyBytes>) -> PyResult<Frames> {
        let chunk = chunk.as_bytes();
        let scanner = &mut self.scanner;
        let found = py.detach(|| catch_unwind(AssertUnwindSafe(|| scanner.scan(chunk)))).map_err(panicked)?;
        Ok(Frames {
            starts: to_bytes(py, &found.starts),
            ends: to_bytes(py, &found.ends),
            string_newlines: to_bytes(py, &found.string_newlines),
            open_at: self.scanner.open_at(),
            error: self.scanner.error().map(|(place, expected)| (place, expected as usize)),
            siblings: found.siblings,
        })
    }

    /// Whether the file may end here.
    #[getter]
    fn is_between(&self) -> bool {
        self.scanner.is_between()
    }
}

#[pymethods]
impl Frames {
    /// Of each value beside the array: how many records came before it, its key, how often.
    #[getter]
    fn siblings<'py>(&self, py: Python<'py>) -> Vec<(i64, Bound<'py, PyBytes>, u64)> {
        self.siblings.iter().map(|(index, name, count)| (*index, PyBytes::new(py, name), *count)).collect()
    }
}

/// Each record as one line. `starts`, `ends` and `string_newlines` are 64-bit integers: places in `raw`.
#[pyfunction]
pub fn join_records<'py>(
    py: Python<'py>,
    raw: &Bound<'py, PyBytes>,
    starts: &[u8],
    ends: &[u8],
    string_newlines: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let raw = raw.as_bytes();
    let lines = py.detach(|| {
        catch_unwind(|| {
            let places = |bytes| from_bytes(bytes).map(|place| place as usize);
            let newlines: Vec<i64> = from_bytes(string_newlines).collect();
            join(raw, places(starts).zip(places(ends)), &newlines)
        })
    });
    Ok(PyBytes::new(py, &lines.map_err(panicked)?))
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> PyErr {
    PyRuntimeError::new_err("a defect in the native scanner of frames")
}

fn to_bytes(py: Python<'_>, places: &[i64]) -> Py<PyBytes> {
    let bytes: Vec<u8> = places.iter().flat_map(|place| place.to_ne_bytes()).collect();
    PyBytes::new(py, &bytes).unbind()
}

fn from_bytes(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.chunks_exact(8).map(|eight| i64::from_ne_bytes(eight.try_into().expect("eight bytes")))
}
