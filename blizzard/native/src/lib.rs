//! The native parser of blizzard, as a Python extension.

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::*;

    /// The version of this crate. It must be the one of the Python package that loads it.
    #[pyfunction]
    fn version() -> &'static str {
        env!("CARGO_PKG_VERSION")
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_is_a_number() {
        assert_eq!(env!("CARGO_PKG_VERSION").split('.').count(), 3);
    }
}
