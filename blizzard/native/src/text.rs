//! JSON strings and the compact text of JSON values, as the reference writes them.

use memchr::memchr;

use crate::cursor::{Cursor, MAX_DEPTH, Res, Stop, Text};

/// The characters of a string: straight from the block, or unescaped into `scratch`.
#[inline(always)]
pub fn decoded<'a>(text: Text<'a>, scratch: &'a mut Vec<u8>) -> Res<&'a [u8]> {
    if !text.escaped {
        return Ok(text.raw);
    }
    scratch.clear();
    unescape(text.raw, scratch)?;
    Ok(scratch)
}

/// Appends what the string means. Raises doubt for an unknown escape and for half of a surrogate pair.
pub fn unescape(raw: &[u8], out: &mut Vec<u8>) -> Res {
    out.try_reserve(raw.len()).map_err(|_| Stop::Doubt)?;
    let mut rest = raw;
    while let Some(at) = memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let (character, size) = escape(&rest[at..])?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = &rest[at + size..];
    }
    out.extend_from_slice(rest);
    Ok(())
}

/// The character of the escape that this text starts with, and the length of the escape.
fn escape(text: &[u8]) -> Res<(char, usize)> {
    let plain = match text.get(1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return code_point(text),
        _ => return Err(Stop::Doubt),
    };
    Ok((plain, 2))
}

fn code_point(text: &[u8]) -> Res<(char, usize)> {
    let high = hex4(text)?;
    let (point, size) = match high {
        0xd800..=0xdbff => {
            let low = hex4(text.get(6..).ok_or(Stop::Doubt)?)?;
            if !(0xdc00..=0xdfff).contains(&low) {
                return Err(Stop::Doubt);
            }
            (0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), 12)
        }
        _ => (high, 6),
    };
    Ok((char::from_u32(point).ok_or(Stop::Doubt)?, size))
}

fn hex4(text: &[u8]) -> Res<u32> {
    let [b'\\', b'u', digits @ ..] = text else { return Err(Stop::Doubt) };
    let digits = digits.get(..4).ok_or(Stop::Doubt)?;
    digits.iter().try_fold(0, |value, &byte| {
        let digit = char::from(byte).to_digit(16).ok_or(Stop::Doubt)?;
        Ok(value * 16 + digit)
    })
}

/// Appends the characters as a JSON string, escaped only where JSON requires it.
pub fn write_string(characters: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in characters {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            0..=31 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Passes one value of any kind, with the full check of its syntax.
pub fn skip_value(cursor: &mut Cursor<'_>, depth: u32) -> Res {
    walk::<false>(cursor, &mut Vec::new(), depth)
}

/// Appends one value as JSON without whitespace: numbers as written, members in order, repeated ones too.
pub fn copy_value(cursor: &mut Cursor<'_>, out: &mut Vec<u8>, depth: u32) -> Res {
    walk::<true>(cursor, out, depth)
}

fn walk<const COPY: bool>(cursor: &mut Cursor<'_>, out: &mut Vec<u8>, depth: u32) -> Res {
    let start = cursor.at;
    match cursor.peek() {
        b'"' => return walk_string::<COPY>(cursor, out),
        b'{' => return walk_items::<COPY>(cursor, out, depth, b'}'),
        b'[' => return walk_items::<COPY>(cursor, out, depth, b']'),
        b't' => cursor.literal(b"true")?,
        b'f' => cursor.literal(b"false")?,
        b'n' => cursor.literal(b"null")?,
        _ => _ = cursor.number()?,
    }
    if COPY {
        append(out, cursor.since(start))?;
    }
    Ok(())
}

fn walk_string<const COPY: bool>(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Res {
    let start = cursor.at;
    let text = cursor.string()?;
    if text.escaped {
        let mut characters = Vec::new();
        unescape(text.raw, &mut characters)?;
        if COPY {
            // Never longer than the escaped form.
            out.try_reserve(text.raw.len() + 2).map_err(|_| Stop::Doubt)?;
            write_string(&characters, out);
        }
    } else if COPY {
        append(out, cursor.since(start))?;
    }
    Ok(())
}

fn walk_items<const COPY: bool>(cursor: &mut Cursor<'_>, out: &mut Vec<u8>, depth: u32, end: u8) -> Res {
    if depth >= MAX_DEPTH {
        return Err(Stop::Doubt);
    }
    if COPY {
        append(out, cursor.rest().get(..1).unwrap_or_default())?;
    }
    cursor.at += 1;
    if !cursor.is_empty(end) {
        loop {
            cursor.skip_space();
            if end == b'}' {
                walk_string::<COPY>(cursor, out)?;
                cursor.colon()?;
                if COPY {
                    append(out, b":")?;
                }
            }
            walk::<COPY>(cursor, out, depth + 1)?;
            if !cursor.has_next(end)? {
                break;
            }
            if COPY {
                append(out, b",")?;
            }
        }
    }
    if COPY {
        append(out, &[end])?;
    }
    Ok(())
}

#[inline(always)]
pub fn append(out: &mut Vec<u8>, bytes: &[u8]) -> Res {
    if out.capacity() - out.len() < bytes.len() {
        out.try_reserve(bytes.len()).map_err(|_| Stop::Doubt)?;
    }
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::SLACK;

    fn compact(text: &str) -> Res<String> {
        let bytes = [text.as_bytes(), b"\n", &[0; SLACK]].concat();
        let (mut cursor, mut out) = (Cursor::new(&bytes, 0), Vec::new());
        copy_value(&mut cursor, &mut out, 1)?;
        let mut again = Cursor::new(&bytes, 0);
        skip_value(&mut again, 1)?;
        assert_eq!(cursor.at, again.at);
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn whitespace_goes_and_everything_else_stays() {
        let text = r#"{ "a" : [ 1.50 , "\u00e9\/" , { } ] , "a":null }"#;
        assert_eq!(compact(text).unwrap(), r#"{"a":[1.50,"é/",{}],"a":null}"#);
        assert_eq!(compact(r#""\u0001\"\\\n\ud83d\ude00""#).unwrap(), r#""\u0001\"\\\n😀""#);
    }

    #[test]
    fn what_is_not_json_is_doubtful() {
        let texts = [r#""\q""#, r#""\ud800""#, r#""\ud800\u0041""#, r#""\udc00""#, r#""\u12g4""#, "[1,]", "{\"a\":1,}"];
        for text in [&texts[..], &["{\"\\x\":1}", "tru", "[1 2]", "{1:2}", "{\"a\"}", "\u{1}"]].concat() {
            assert_eq!(compact(text), Err(Stop::Doubt), "{text}");
        }
    }
}
