//! Numbers and bytes from their text, exactly as the reference takes them.

use crate::cursor::{Number, Res, Stop};

/// Exact in a double, as is the product or quotient of two such numbers before its one rounding.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
/// So many digits are always exact in a double.
const EXACT_DIGITS: usize = 15;
const FLOAT_POWERS: [f32; 11] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];
const EXACT_FLOAT_DIGITS: usize = 7;
/// More digits than any decimal has, with room for zeros at both ends.
const MAX_DECIMAL_DIGITS: usize = 128;

#[inline(always)]
pub fn integer(number: Number<'_>, least: i64, most: i64, takes_integral: bool) -> Res<i64> {
    if !number.is_integer() {
        return if takes_integral { integral(number, least, most) } else { Err(Stop::Misfit) };
    }
    if number.whole_digits > 19 {
        return Err(Stop::Misfit);
    }
    let value = if number.negative { -i128::from(number.mantissa) } else { i128::from(number.mantissa) };
    in_range(value, least, most)
}

#[inline(always)]
fn in_range(value: i128, least: i64, most: i64) -> Res<i64> {
    match i64::try_from(value) {
        Ok(value) if least <= value && value <= most => Ok(value),
        _ => Err(Stop::Misfit),
    }
}

/// More than three digits. `fast_float2` leaves out digits of the longest ones, which a number with as many zeros needs.
fn has_long_exponent(number: Number<'_>) -> bool {
    let digits = number.text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    number.has_exponent && digits > 3
}

/// `1.0` or `1e2`, if it is a whole number.
fn integral(number: Number<'_>, least: i64, most: i64) -> Res<i64> {
    if has_long_exponent(number) {
        return Err(Stop::Doubt);
    }
    in_range(decimal(number.text, 38, 0)?, least, most)
}

#[inline(always)]
pub fn double(number: Number<'_>) -> Res<f64> {
    let digits = number.whole_digits + number.fraction_digits;
    if !number.has_exponent && digits <= EXACT_DIGITS {
        let value = number.mantissa as f64 / POWERS[number.fraction_digits];
        return Ok(if number.negative { -value } else { value });
    }
    if has_long_exponent(number) {
        return Err(Stop::Doubt);
    }
    finite(fast_float2::parse::<f64, _>(number.text))
}

#[inline(always)]
pub fn float(number: Number<'_>) -> Res<f32> {
    let digits = number.whole_digits + number.fraction_digits;
    if !number.has_exponent && digits <= EXACT_FLOAT_DIGITS {
        let value = number.mantissa as f32 / FLOAT_POWERS[number.fraction_digits];
        return Ok(if number.negative { -value } else { value });
    }
    if has_long_exponent(number) {
        return Err(Stop::Doubt);
    }
    let value = fast_float2::parse::<f32, _>(number.text).map_err(|_| Stop::Doubt)?;
    if value.is_finite() { Ok(value) } else { Err(Stop::Misfit) }
}

fn finite(value: Result<f64, fast_float2::Error>) -> Res<f64> {
    match value {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(Stop::Misfit),
        Err(_) => Err(Stop::Doubt),
    }
}

/// Whether a double can hold this number at all.
pub fn is_finite(number: Number<'_>) -> Res<bool> {
    match double(number) {
        Ok(_) => Ok(true),
        Err(Stop::Misfit) => Ok(false),
        Err(Stop::Doubt) => Err(Stop::Doubt),
    }
}

/// The value times ten to the power of the scale, if it is exact: `[+-]digits[.digits][e[+-]digits]`.
pub fn decimal(text: &[u8], precision: usize, scale: i32) -> Res<i128> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let mut digits = [0u8; MAX_DECIMAL_DIGITS];
    let (mut count, mut fraction_digits, mut has_point, mut seen) = (0, 0i32, false, 0);
    let mut exponent = None;
    for (at, &byte) in rest.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                seen += 1;
                fraction_digits += i32::from(has_point);
                if count > 0 || byte != b'0' {
                    *digits.get_mut(count).ok_or(Stop::Doubt)? = byte - b'0';
                    count += 1;
                }
            }
            b'.' if !has_point => has_point = true,
            b'e' | b'E' => {
                exponent = Some(&rest[at + 1..]);
                break;
            }
            _ => return Err(Stop::Misfit),
        }
    }
    if seen == 0 {
        return Err(Stop::Misfit);
    }
    let exponent = exponent.map_or(Ok(Some(0)), small_exponent)?;
    let significant = digits[..count].iter().rposition(|&digit| digit != 0).map_or(0, |last| last + 1);
    if significant == 0 {
        return Ok(0);
    }
    if significant > precision {
        return Err(Stop::Misfit);
    }
    let Some(exponent) = exponent else { return Err(Stop::Doubt) };
    let power = exponent - fraction_digits + (count - significant) as i32;
    if power < -scale || significant as i32 + power > precision as i32 - scale {
        return Err(Stop::Misfit);
    }
    let value = digits[..significant].iter().fold(0i128, |value, &digit| value * 10 + i128::from(digit));
    let value = value * 10i128.pow((power + scale) as u32);
    Ok(if negative { -value } else { value })
}

/// None for an exponent of more than three digits, which is for the reference; an error if it is no exponent.
fn small_exponent(text: &[u8]) -> Res<Option<i32>> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err(Stop::Misfit);
    }
    if digits.len() > 3 {
        return Ok(None);
    }
    let value = digits.iter().fold(0, |value, digit| value * 10 + i32::from(digit - b'0'));
    Ok(Some(if negative { -value } else { value }))
}

/// Appends the bytes, if the text is their one canonical base64 form: padded, no spare bits, nothing else.
pub fn base64(text: &[u8], out: &mut Vec<u8>) -> Res {
    if !text.len().is_multiple_of(4) {
        return Err(Stop::Misfit);
    }
    out.try_reserve(text.len() / 4 * 3).map_err(|_| Stop::Doubt)?;
    let padding = text.iter().rev().take(2).take_while(|&&byte| byte == b'=').count();
    let body = &text[..text.len() - padding];
    for group in body.chunks(4) {
        let mut bits = 0u32;
        for &byte in group {
            bits = bits << 6 | sextet(byte).ok_or(Stop::Misfit)?;
        }
        bits <<= 6 * (4 - group.len());
        let [_, first, second, third] = bits.to_be_bytes();
        let (bytes, spare): (&[u8], u8) = match group.len() {
            4 => (&[first, second, third], 0),
            3 => (&[first, second], third),
            2 => (&[first], second),
            _ => return Err(Stop::Misfit),
        };
        if spare != 0 {
            return Err(Stop::Misfit);
        }
        out.extend_from_slice(bytes);
    }
    Ok(())
}

fn sextet(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::whole_number;

    #[test]
    fn integers_stay_in_their_range() {
        let read = |text: &str, bits: u32| {
            let most = (1i64 << (bits - 1)).wrapping_sub(1);
            whole_number(text.as_bytes(), |number| integer(number, -most - 1, most, false))
        };
        assert_eq!(read("-9223372036854775808", 64), Ok(i64::MIN));
        assert_eq!(read("9223372036854775807", 64), Ok(i64::MAX));
        for (text, bits) in
            [("9223372036854775808", 64), ("-129", 8), ("128", 8), ("99999999999999999999", 64), ("1.0", 64)]
        {
            assert_eq!(read(text, bits), Err(Stop::Misfit), "{text}");
        }
    }

    #[test]
    fn integral_numbers_are_integers_if_that_is_allowed() {
        let read = |text: &str| whole_number(text.as_bytes(), |number| integer(number, -1000, 1000, true));
        assert_eq!(read("1.0"), Ok(1));
        assert_eq!(read("-0.0"), Ok(0));
        assert_eq!(read("1e2"), Ok(100));
        assert_eq!(read("10000e-2"), Ok(100));
        assert_eq!(read("1.5"), Err(Stop::Misfit));
        assert_eq!(read("1e9"), Err(Stop::Misfit));
    }

    #[test]
    fn decimals_are_exact_or_misfits() {
        let cases = [
            ("1.500", 150),
            ("1e2", 10000),
            ("-.5", -50),
            ("+5.", 500),
            ("000", 0),
            ("0e9", 0),
            ("99999999.99", 9999999999),
        ];
        for (text, value) in cases {
            assert_eq!(decimal(text.as_bytes(), 10, 2), Ok(value), "{text}");
        }
        for text in ["1.555", "1e8", "", ".", "e1", "1e", "1e+", "1x", "--1", "1.2.3", "100000000"] {
            assert_eq!(decimal(text.as_bytes(), 10, 2), Err(Stop::Misfit), "{text}");
        }
    }

    #[test]
    fn only_canonical_base64_is_read() {
        let read = |text: &str| {
            let mut out = Vec::new();
            base64(text.as_bytes(), &mut out).map(|()| out)
        };
        assert_eq!(read(""), Ok(vec![]));
        assert_eq!(read("AAE="), Ok(vec![0, 1]));
        assert_eq!(read("/+8A"), Ok(vec![255, 239, 0]));
        for text in ["AAE", "AAF=", "A===", "====", "AA\n=", "-_8A", "AAE=AAE=", "=AAE"] {
            assert_eq!(read(text), Err(Stop::Misfit), "{text}");
        }
    }
}
