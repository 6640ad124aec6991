//! A place in the bytes of a block, and the tokens of JSON. No token ever passes a newline.

/// Why a line does not become a row here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Not certain: the reference reads the line.
    Doubt,
    /// Certainly no value of its column's type, if it is JSON at all.
    Misfit,
}

pub type Res<T = ()> = Result<T, Stop>;

/// The reference knows 500 levels. Lines deeper than this are rare enough to be left to it, and the stack stays small.
pub const MAX_DEPTH: u32 = 128;

/// A block must end with a newline and this many bytes more, so that a wide load never leaves it.
pub const SLACK: usize = 16;

pub struct Cursor<'a> {
    bytes: &'a [u8],
    pub at: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Text<'a> {
    /// What stands between the quotes.
    pub raw: &'a [u8],
    pub escaped: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct Number<'a> {
    pub text: &'a [u8],
    pub negative: bool,
    /// The digits before and after the point as one integer; only true if there are at most 19.
    pub mantissa: u64,
    pub whole_digits: usize,
    pub fraction_digits: usize,
    pub has_exponent: bool,
}

impl Number<'_> {
    pub fn is_integer(&self) -> bool {
        self.fraction_digits == 0 && !self.has_exponent
    }
}

impl<'a> Cursor<'a> {
    pub fn new(bytes: &'a [u8], at: usize) -> Self {
        Cursor { bytes, at }
    }

    #[inline(always)]
    pub fn peek(&self) -> u8 {
        self.bytes[self.at]
    }

    #[inline(always)]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    #[inline(always)]
    pub fn since(&self, start: usize) -> &'a [u8] {
        &self.bytes[start..self.at]
    }

    #[inline(always)]
    pub fn skip_space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\r') {
            self.at += 1;
        }
    }

    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Res {
        if self.peek() != byte {
            return Err(Stop::Doubt);
        }
        self.at += 1;
        Ok(())
    }

    #[inline(always)]
    pub fn literal(&mut self, word: &[u8]) -> Res {
        if !self.rest().starts_with(word) {
            return Err(Stop::Doubt);
        }
        self.at += word.len();
        Ok(())
    }

    /// After a value: true if another one follows, false at the end of the array or object.
    #[inline(always)]
    pub fn has_next(&mut self, end: u8) -> Res<bool> {
        self.skip_space();
        let byte = self.peek();
        if byte != b',' && byte != end {
            return Err(Stop::Doubt);
        }
        self.at += 1;
        Ok(byte == b',')
    }

    /// After the opening bracket: true if the array or object is empty, and then behind it.
    #[inline(always)]
    pub fn is_empty(&mut self, end: u8) -> bool {
        self.skip_space();
        let empty = self.peek() == end;
        self.at += usize::from(empty);
        empty
    }

    /// The colon behind a key.
    #[inline(always)]
    pub fn colon(&mut self) -> Res {
        self.skip_space();
        self.expect(b':')?;
        self.skip_space();
        Ok(())
    }

    /// From the opening quote to behind the closing one. Escapes are not checked yet.
    #[inline(always)]
    pub fn string(&mut self) -> Res<Text<'a>> {
        self.expect(b'"')?;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at = next_special(self.bytes, self.at);
            match self.peek() {
                b'"' => {
                    let raw = self.since(start);
                    self.at += 1;
                    return Ok(Text { raw, escaped });
                }
                // A backslash before a newline must not join two lines.
                b'\\' if self.bytes[self.at + 1] >= b' ' => {
                    escaped = true;
                    self.at += 2;
                }
                _ => return Err(Stop::Doubt),
            }
        }
    }

    /// The string that is written like this, quotes included: what is between them, and then behind it.
    #[inline(always)]
    pub fn quoted(&mut self, written: &[u8]) -> Option<&'a [u8]> {
        let size = written.len();
        let found = self.bytes.get(self.at..self.at + size)?;
        if !is_same(found, written) {
            return None;
        }
        self.at += size;
        Some(&found[1..size - 1])
    }

    #[inline(always)]
    pub fn number(&mut self) -> Res<Number<'a>> {
        let start = self.at;
        let negative = self.peek() == b'-';
        self.at += usize::from(negative);
        let first = self.at;
        let mut mantissa = 0;
        let whole_digits = self.digits(&mut mantissa);
        if whole_digits == 0 || (whole_digits > 1 && self.bytes[first] == b'0') {
            return Err(Stop::Doubt);
        }
        let mut fraction_digits = 0;
        if self.peek() == b'.' {
            self.at += 1;
            fraction_digits = self.digits(&mut mantissa);
            if fraction_digits == 0 {
                return Err(Stop::Doubt);
            }
        }
        let has_exponent = matches!(self.peek(), b'e' | b'E');
        if has_exponent {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), b'+' | b'-'));
            if self.digits(&mut 0) == 0 {
                return Err(Stop::Doubt);
            }
        }
        let text = self.since(start);
        Ok(Number { text, negative, mantissa, whole_digits, fraction_digits, has_exponent })
    }

    #[inline(always)]
    fn digits(&mut self, value: &mut u64) -> usize {
        let first = self.at;
        loop {
            let digit = self.peek().wrapping_sub(b'0');
            if digit > 9 {
                return self.at - first;
            }
            *value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            self.at += 1;
        }
    }
}

/// Whether two slices of one length are equal. Keys are short: a call of memcmp costs more than the comparison.
#[inline(always)]
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let word = |bytes: &[u8], at: usize| bytes[at..].first_chunk::<8>().map(|chunk| u64::from_le_bytes(*chunk));
    let size = one.len();
    match size {
        0..=3 => one == other,
        4..=7 => {
            let half = |bytes: &[u8], at: usize| bytes[at..].first_chunk::<4>().copied();
            half(one, 0) == half(other, 0) && half(one, size - 4) == half(other, size - 4)
        }
        // The last word overlaps the one before it.
        8..=32 => {
            (0..size - 8).step_by(8).all(|at| word(one, at) == word(other, at))
                && word(one, size - 8) == word(other, size - 8)
        }
        _ => one == other,
    }
}

/// The number that is all of this text, if it is one. The text must be without a newline.
pub fn whole_number<T>(text: &[u8], read: impl FnOnce(Number<'_>) -> Res<T>) -> Res<T> {
    // Long enough for every number that a column takes; longer ones are left to the reference.
    let mut padded = [b'\n'; 64];
    if text.len() > padded.len() - 1 {
        return Err(Stop::Doubt);
    }
    padded[..text.len()].copy_from_slice(text);
    let mut cursor = Cursor::new(&padded, 0);
    match cursor.number() {
        Ok(number) if number.text.len() == text.len() => read(number),
        _ => Err(Stop::Misfit),
    }
}

/// Where the next quote, backslash or control character is. There is one: the newline that ends the line.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
fn next_special(bytes: &[u8], mut at: usize) -> usize {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    while at + 16 <= bytes.len() {
        // SAFETY: SSE2 is part of x86_64, and the 16 bytes lie within the slice.
        let found = unsafe {
            let chunk = _mm_loadu_si128(bytes.as_ptr().add(at).cast::<__m128i>());
            let quote = _mm_cmpeq_epi8(chunk, _mm_set1_epi8(b'"' as i8));
            let backslash = _mm_cmpeq_epi8(chunk, _mm_set1_epi8(b'\\' as i8));
            let control = _mm_cmpeq_epi8(_mm_min_epu8(chunk, _mm_set1_epi8(0x1f)), chunk);
            _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, backslash), control))
        };
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += 16;
    }
    next_special_bytewise(bytes, at)
}

#[inline(always)]
#[cfg(not(target_arch = "x86_64"))]
fn next_special(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    while let Some(chunk) = bytes.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        let is_zero = |x: u64| x.wrapping_sub(ONES) & !x & HIGH;
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        // A borrow can mark a wrong byte only behind a right one, and the first one counts.
        let found = is_zero(word ^ (ONES * u64::from(b'"'))) | is_zero(word ^ (ONES * u64::from(b'\\'))) | control;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    next_special_bytewise(bytes, at)
}

fn next_special_bytewise(bytes: &[u8], at: usize) -> usize {
    let special = |&byte: &u8| byte == b'"' || byte == b'\\' || byte < b' ';
    bytes[at..].iter().position(special).map_or(bytes.len() - 1, |found| at + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn padded(text: &str) -> Vec<u8> {
        [text.as_bytes(), b"\n", &[0; SLACK]].concat()
    }

    #[test]
    fn a_string_ends_at_its_quote_wherever_that_is() {
        for size in 0..70 {
            let bytes = padded(&format!("\"{}\",", "x".repeat(size)));
            let mut cursor = Cursor::new(&bytes, 0);
            assert_eq!(cursor.string().unwrap().raw.len(), size);
            assert_eq!(cursor.peek(), b',');
        }
    }

    #[test]
    fn keys_of_every_length_are_compared_whole() {
        for size in 0..70 {
            let key = format!("\"{}\"", "k".repeat(size));
            let bytes = padded(&key);
            assert_eq!(Cursor::new(&bytes, 0).quoted(key.as_bytes()).unwrap().len(), size);
            for at in 0..key.len() {
                let mut other = key.clone().into_bytes();
                other[at] ^= 1;
                assert!(Cursor::new(&bytes, 0).quoted(&other).is_none(), "{size} {at}");
            }
            assert!(Cursor::new(&bytes[..key.len() - 1], 0).quoted(key.as_bytes()).is_none());
        }
    }

    #[test]
    fn no_string_passes_a_newline() {
        for text in ["\"abc", "\"abc\\", "\"\\\\\\", "\"a\u{1}b\""] {
            assert_eq!(Cursor::new(&padded(text), 0).string().unwrap_err(), Stop::Doubt, "{text}");
        }
    }

    #[test]
    fn bytewise_and_wide_search_agree() {
        let bytes = padded("plain text with a \\ and a \" and more, then \u{7f}, é and the end");
        for at in 0..bytes.len() - SLACK {
            assert_eq!(next_special(&bytes, at), next_special_bytewise(&bytes, at));
        }
    }

    #[test]
    fn numbers_follow_the_grammar() {
        for text in ["0", "-0", "12", "1.5", "-1.25e-7", "1E+9", "1e0"] {
            assert_eq!(Cursor::new(&padded(text), 0).number().unwrap().text, text.as_bytes());
        }
        for text in ["", "-", "01", "-01", "1.", ".5", "1e", "1e+", "+1", "NaN", "Infinity"] {
            assert!(Cursor::new(&padded(text), 0).number().is_err(), "{text}");
        }
    }
}
