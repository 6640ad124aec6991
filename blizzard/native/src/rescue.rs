//! What no column takes, as one JSON object of paths and values, in the order of the reference.

use crate::cursor::{Res, Stop};
use crate::text::{append, write_string};

/// In the order of a struct its declared fields come after the others.
const DECLARED: u32 = 1 << 31;

#[derive(Default)]
pub struct Rescue {
    entries: Vec<Entry>,
    /// The path to where the reader is, as it is written.
    path: Vec<u8>,
    /// The place in the order of the reference.
    order: Vec<u32>,
    /// How long the path was before each step.
    steps: Vec<usize>,
}

/// How much of a line was noted.
#[derive(Debug, Clone, Copy)]
pub struct Noted {
    entries: usize,
    steps: usize,
}

struct Entry {
    order: Vec<u32>,
    path: Vec<u8>,
    value: Vec<u8>,
}

impl Rescue {
    pub fn clear(&mut self) {
        self.entries.clear();
        self.path.clear();
        self.order.clear();
        self.steps.clear();
    }

    pub fn noted(&self) -> Noted {
        Noted { entries: self.entries.len(), steps: self.steps.len() }
    }

    /// Forgets what came later. A value that stopped halfway did not leave what it had entered: that is done here.
    pub fn take_back(&mut self, noted: Noted) {
        self.entries.truncate(noted.entries);
        while self.steps.len() > noted.steps {
            self.leave();
        }
    }

    /// A declared field; `raw` is its key as it stands in the line.
    pub fn enter_column(&mut self, column: u32, raw: &[u8]) -> Res {
        self.enter_key(DECLARED | column, raw)
    }

    /// A field without a column, by its number in its object.
    pub fn enter_other(&mut self, number: u32, raw: &[u8]) -> Res {
        self.enter_key(number, raw)
    }

    pub fn enter_element(&mut self, index: usize) -> Res {
        self.steps.push(self.path.len());
        self.order.push(u32::try_from(index).map_err(|_| Stop::Doubt)?);
        append(&mut self.path, format!("[{index}]").as_bytes())
    }

    /// An entry of a map; `name` is its key as it means.
    pub fn enter_entry(&mut self, name: &[u8], index: usize) -> Res {
        self.steps.push(self.path.len());
        self.order.push(u32::try_from(index).map_err(|_| Stop::Doubt)?);
        self.write_name(name)
    }

    fn enter_key(&mut self, order: u32, raw: &[u8]) -> Res {
        self.steps.push(self.path.len());
        self.order.push(order);
        if raw.contains(&b'\\') {
            let mut name = Vec::new();
            crate::text::unescape(raw, &mut name)?;
            return self.write_name(&name);
        }
        self.write_name(raw)
    }

    /// As `blizzard.schema.quote_name` writes it.
    fn write_name(&mut self, name: &[u8]) -> Res {
        if !self.path.is_empty() {
            append(&mut self.path, b".")?;
        }
        let plain = name.first().is_some_and(|first| first.is_ascii_alphabetic() || *first == b'_')
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        if plain {
            return append(&mut self.path, name);
        }
        append(&mut self.path, b"`")?;
        for &byte in name {
            append(&mut self.path, if byte == b'`' { b"``" } else { std::slice::from_ref(&byte) })?;
        }
        append(&mut self.path, b"`")
    }

    pub fn leave(&mut self) {
        self.path.truncate(self.steps.pop().unwrap_or(0));
        self.order.pop();
    }

    pub fn add(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Res) -> Res {
        let mut value = Vec::new();
        write(&mut value)?;
        self.entries.push(Entry { order: self.order.clone(), path: self.path.clone(), value });
        Ok(())
    }

    /// Appends the object. False if there is nothing to write.
    pub fn write(&mut self, out: &mut Vec<u8>) -> Res<bool> {
        if self.entries.is_empty() {
            return Ok(false);
        }
        self.entries.sort_by(|one, other| one.order.cmp(&other.order));
        let mut separator = b"{";
        for entry in &self.entries {
            // Escaped, a character of the path takes six at most.
            out.try_reserve(entry.path.len() * 6 + entry.value.len() + 4).map_err(|_| Stop::Doubt)?;
            out.extend_from_slice(separator);
            write_string(&entry.path, out);
            out.push(b':');
            out.extend_from_slice(&entry.value);
            separator = b",";
        }
        append(out, b"}")?;
        Ok(true)
    }
}
