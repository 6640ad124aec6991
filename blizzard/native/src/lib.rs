//! Reads blocks of NDJSON into Arrow columns, one pass over the bytes, driven by the schema.
//!
//! It is sound and nothing else: a line becomes a row only if every value is certain. Any other line is *doubtful*; the
//! reference in Python reads it and has the last word. No newline is passed, no panic crosses to Python.

pub mod block;
pub mod columns;
pub mod cursor;
pub mod dictionary;
pub mod fields;
pub mod frame;
mod frame_python;
pub mod newlines;
pub mod numbers;
mod python;
pub mod record;
pub mod rescue;
pub mod schema;
pub mod text;
pub mod times;
pub mod undeclared;
pub mod variant;
