//! The newlines of a block: how many there are, and where.

use memchr::memchr_iter;

pub fn count(data: &[u8]) -> usize {
    memchr_iter(b'\n', data).count()
}

pub fn positions(data: &[u8]) -> Vec<i64> {
    memchr_iter(b'\n', data).map(|at| at as i64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_newline_is_found_wherever_it_is() {
        for size in 0..130 {
            let data: Vec<u8> = (0..size).map(|at| if at % 7 == 3 { b'\n' } else { b'x' }).collect();
            let expected: Vec<i64> = (0..size).filter(|at| at % 7 == 3).map(i64::from).collect();
            assert_eq!((count(&data), positions(&data)), (expected.len(), expected));
        }
    }
}
