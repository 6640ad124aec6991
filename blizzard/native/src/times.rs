//! Dates and times from their text: ISO forms, epochs and patterns of strptime's language.

use crate::cursor::{Number, Res, Stop, whole_number};

const DAY_US: i64 = 86_400_000_000;
/// The years 1 to 9999.
const FIRST_DAY: i64 = -719_162;
const LAST_DAY: i64 = 2_932_896;

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Microseconds since 1970, and whether digits beyond them were cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub micros: i64,
    pub cut: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Format {
    Iso,
    /// The number times ten to this power is microseconds.
    Epoch(i32),
    Pattern(Vec<Item>),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Item {
    Byte(u8),
    Year,
    /// A part of two digits; with the flag, of one or two.
    Part(Part, bool),
    /// The day, padded with a space.
    PaddedDay,
    MonthName {
        full: bool,
    },
    DayName {
        full: bool,
    },
    HalfDay,
    Fraction,
    Zone,
    ZoneOrGmt,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Part {
    Month,
    Day,
    Hour,
    Hour12,
    Minute,
    Second,
}

pub fn parse_format(name: &str) -> Option<Format> {
    Some(match name {
        "iso" => Format::Iso,
        "epoch_s" => Format::Epoch(6),
        "epoch_ms" => Format::Epoch(3),
        "epoch_us" => Format::Epoch(0),
        "epoch_ns" => Format::Epoch(-3),
        "clf" => Format::Pattern(items("%d/%b/%Y:%H:%M:%S %z")?),
        "rfc1123" => {
            let mut items = items("%a, %d %b %Y %H:%M:%S ")?;
            items.push(Item::ZoneOrGmt);
            Format::Pattern(items)
        }
        pattern => Format::Pattern(items(pattern)?),
    })
}

fn items(pattern: &str) -> Option<Vec<Item>> {
    let mut items = Vec::new();
    let mut bytes = pattern.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            items.push(Item::Byte(byte));
            continue;
        }
        let mut directive = bytes.next()?;
        let short = directive == b'-';
        if short {
            directive = bytes.next()?;
        }
        items.push(match directive {
            b'm' => Item::Part(Part::Month, short),
            b'd' => Item::Part(Part::Day, short),
            b'H' => Item::Part(Part::Hour, short),
            b'I' => Item::Part(Part::Hour12, short),
            b'M' => Item::Part(Part::Minute, short),
            b'S' => Item::Part(Part::Second, short),
            _ if short => return None,
            b'Y' => Item::Year,
            b'e' => Item::PaddedDay,
            b'b' => Item::MonthName { full: false },
            b'B' => Item::MonthName { full: true },
            b'a' => Item::DayName { full: false },
            b'A' => Item::DayName { full: true },
            b'p' => Item::HalfDay,
            b'f' => Item::Fraction,
            b'z' => Item::Zone,
            b'%' => Item::Byte(b'%'),
            _ => return None,
        });
    }
    Some(items)
}

/// Text in one of the forms, tried in order. `has_zone`: the type is an instant; else a zone is a misfit.
pub fn moment(text: &[u8], formats: &[Format], has_zone: bool) -> Res<Moment> {
    for format in formats {
        let found = match format {
            Format::Iso => iso(text, has_zone),
            Format::Epoch(power) => whole_number(text, |number| epoch(number, *power)),
            Format::Pattern(items) => by_pattern(text, items),
        };
        if found != Err(Stop::Misfit) {
            return found;
        }
    }
    Err(Stop::Misfit)
}

/// The day of a text in one of the forms.
pub fn day(text: &[u8], formats: &[Format]) -> Res<i32> {
    for format in formats {
        let found = match format {
            Format::Iso => {
                let mut clock = Clock::default();
                clock.iso_day(text).filter(|rest| rest.is_empty()).and_then(|_| clock.days())
            }
            Format::Epoch(_) => None,
            Format::Pattern(items) => pattern_clock(text, items).and_then(|clock| clock.days()),
        };
        if let Some(days) = found {
            return Ok(days as i32);
        }
    }
    Err(Stop::Misfit)
}

/// The moment of a number. What is beyond a microsecond is cut towards the past.
pub fn epoch(number: Number<'_>, power: i32) -> Res<Moment> {
    if number.has_exponent {
        return Err(Stop::Doubt);
    }
    if number.whole_digits > 24 {
        return Err(Stop::Misfit);
    }
    // The point moves by the power: digits before it are microseconds, digits behind it are cut.
    let point = number.whole_digits as i32 + power;
    let digits = number.text.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| i128::from(byte - b'0'));
    let (mut micros, mut cut) = (0i128, false);
    let mut taken = 0;
    for digit in digits {
        if taken < point {
            micros = micros * 10 + digit;
        } else {
            cut |= digit != 0;
        }
        taken += 1;
    }
    for _ in taken..point {
        micros *= 10;
    }
    if number.negative {
        micros = -micros - i128::from(cut);
    }
    let micros = i64::try_from(micros).map_err(|_| Stop::Misfit)?;
    within_years(Moment { micros, cut })
}

fn within_years(moment: Moment) -> Res<Moment> {
    let first = FIRST_DAY * DAY_US;
    let last = (LAST_DAY + 1) * DAY_US - 1;
    if (first..=last).contains(&moment.micros) { Ok(moment) } else { Err(Stop::Misfit) }
}

#[derive(Debug, Default, Clone, Copy)]
struct Clock {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    cut: bool,
    afternoon: Option<bool>,
    ahead_minutes: i64,
}

impl Clock {
    /// Days since 1970, if there is such a day.
    #[inline(always)]
    fn days(&self) -> Option<i64> {
        let leap = (self.year % 4 == 0 && self.year % 100 != 0) || self.year % 400 == 0;
        let longest = match self.month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 if leap => 29,
            2 => 28,
            _ => return None,
        };
        if self.year < 1 || self.day < 1 || self.day > longest {
            return None;
        }
        // Years that begin in March: the leap day is the last of its year.
        let (year, month) = if self.month <= 2 { (self.year - 1, self.month + 9) } else { (self.year, self.month - 3) };
        let (era, of_era) = (year / 400, year % 400);
        let of_year = (153 * month + 2) / 5 + self.day - 1;
        Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
    }

    #[inline(always)]
    fn moment(&self) -> Res<Moment> {
        let days = self.days().ok_or(Stop::Misfit)?;
        let hour = match self.afternoon {
            None => self.hour,
            Some(_) if !(1..=12).contains(&self.hour) => return Err(Stop::Misfit),
            Some(afternoon) => self.hour % 12 + if afternoon { 12 } else { 0 },
        };
        if hour > 23 || self.minute > 59 || self.second > 59 {
            return Err(Stop::Misfit);
        }
        let minutes = (days * 24 + hour) * 60 + self.minute - self.ahead_minutes;
        let micros = (minutes * 60 + self.second) * 1_000_000 + self.micros;
        within_years(Moment { micros, cut: self.cut })
    }

    /// Reads `YYYY-MM-DD`; returns what follows.
    #[inline(always)]
    fn iso_day<'a>(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let (head, rest) = text.split_at_checked(10)?;
        if head[4] != b'-' || head[7] != b'-' {
            return None;
        }
        self.year = two(head)? * 100 + two(&head[2..])?;
        self.month = two(&head[5..])?;
        self.day = two(&head[8..])?;
        Some(rest)
    }

    #[inline(always)]
    fn fraction<'a>(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return None;
        }
        let (kept, cut) = text[..count].split_at(count.min(6));
        self.micros = kept.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
        self.micros *= [1, 100_000, 10_000, 1_000, 100, 10, 1][kept.len()];
        self.cut = cut.iter().any(|&digit| digit != b'0');
        Some(&text[count..])
    }

    /// `Z`, `±HH`, `±HHMM` or `±HH:MM`.
    #[inline(always)]
    fn zone<'a>(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let sign = match text.first()? {
            b'Z' => return Some(&text[1..]),
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let hours = two(&text[1..])?;
        let rest = &text[3..];
        let (minutes, rest) = match rest {
            [b':', more @ ..] => (two(more)?, &more[2..]),
            [digit, ..] if digit.is_ascii_digit() => (two(rest)?, &rest[2..]),
            _ => (0, rest),
        };
        if hours > 23 || minutes > 59 {
            return None;
        }
        self.ahead_minutes = sign * (hours * 60 + minutes);
        Some(rest)
    }
}

#[inline(always)]
fn two(text: &[u8]) -> Option<i64> {
    let (tens, ones) = (text.first()?.wrapping_sub(b'0'), text.get(1)?.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| i64::from(tens) * 10 + i64::from(ones))
}

/// A date, or a date, `T` or a space, and `HH[:MM[:SS[.fraction]]]`, then a zone if the type has one.
#[inline(always)]
fn iso(text: &[u8], has_zone: bool) -> Res<Moment> {
    let mut clock = Clock::default();
    match iso_clock(text, has_zone, &mut clock) {
        Some(()) => clock.moment(),
        None => Err(Stop::Misfit),
    }
}

#[inline(always)]
fn iso_clock(text: &[u8], has_zone: bool, clock: &mut Clock) -> Option<()> {
    let rest = clock.iso_day(text)?;
    let Some((b'T' | b' ', mut rest)) = rest.split_first() else { return rest.is_empty().then_some(()) };
    clock.hour = two(rest)?;
    rest = &rest[2..];
    if let [b':', more @ ..] = rest {
        clock.minute = two(more)?;
        rest = &more[2..];
        if let [b':', more @ ..] = rest {
            clock.second = two(more)?;
            rest = &more[2..];
            if let [b'.', more @ ..] = rest {
                rest = clock.fraction(more)?;
            }
        }
    }
    if has_zone && !rest.is_empty() {
        rest = clock.zone(rest)?;
    }
    rest.is_empty().then_some(())
}

fn by_pattern(text: &[u8], items: &[Item]) -> Res<Moment> {
    pattern_clock(text, items).ok_or(Stop::Misfit)?.moment()
}

fn pattern_clock(text: &[u8], items: &[Item]) -> Option<Clock> {
    let (mut clock, mut rest) = (Clock::default(), text);
    for item in items {
        rest = take_item(&mut clock, rest, *item)?;
    }
    rest.is_empty().then_some(clock)
}

fn take_item<'a>(clock: &mut Clock, text: &'a [u8], item: Item) -> Option<&'a [u8]> {
    match item {
        Item::Byte(byte) => (*text.first()? == byte).then(|| &text[1..]),
        Item::Year => {
            clock.year = two(text)? * 100 + two(text.get(2..)?)?;
            Some(&text[4..])
        }
        Item::Part(part, short) => {
            let (value, size) = match two(text) {
                Some(value) => (value, 2),
                None if short && text.first()?.is_ascii_digit() => (i64::from(text[0] - b'0'), 1),
                None => return None,
            };
            *match part {
                Part::Month => &mut clock.month,
                Part::Day => &mut clock.day,
                Part::Hour | Part::Hour12 => &mut clock.hour,
                Part::Minute => &mut clock.minute,
                Part::Second => &mut clock.second,
            } = value;
            Some(&text[size..])
        }
        Item::PaddedDay => {
            clock.day = match text {
                [b' ', digit, ..] if digit.is_ascii_digit() => i64::from(digit - b'0'),
                _ => two(text)?,
            };
            Some(&text[2..])
        }
        Item::MonthName { full } => {
            let (month, rest) = take_name(text, &MONTHS, full)?;
            clock.month = month as i64 + 1;
            Some(rest)
        }
        Item::DayName { full } => take_name(text, &DAYS, full).map(|(_, rest)| rest),
        Item::HalfDay => {
            let (half, rest) = text.split_at_checked(2)?;
            clock.afternoon = Some(match half.to_ascii_uppercase().as_slice() {
                b"AM" => false,
                b"PM" => true,
                _ => return None,
            });
            Some(rest)
        }
        Item::Fraction => clock.fraction(text),
        Item::Zone => clock.zone(text),
        Item::ZoneOrGmt => match text {
            b"GMT" | b"UTC" => Some(&[]),
            _ => clock.zone(text),
        },
    }
}

fn take_name<'a>(text: &'a [u8], names: &[&str], full: bool) -> Option<(usize, &'a [u8])> {
    names.iter().enumerate().find_map(|(index, name)| {
        let name = if full { name } else { &name[..3] };
        let (head, rest) = text.split_at_checked(name.len())?;
        head.eq_ignore_ascii_case(name.as_bytes()).then_some((index, rest))
    })
}

/// What a field of text suggests for a new column. A local time has no zone; `cut`: it has digits beyond a microsecond.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Suggests {
    Date,
    Time { local: bool, cut: bool },
    Text,
}

/// Every form that `iso` reads makes a time.
pub fn suggested(text: &[u8]) -> Suggests {
    let Ok(moment) = iso(text, true) else { return Suggests::Text };
    match &text[10..] {
        [] => Suggests::Date,
        clock => {
            let local = !clock.iter().any(|byte| matches!(byte, b'Z' | b'+' | b'-'));
            Suggests::Time { local, cut: moment.cut }
        }
    }
}
