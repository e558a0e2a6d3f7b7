//! Durations and sizes in a file: a number and its unit.

use std::{ops::RangeInclusive, time::Duration};

/// A clock could overflow with longer ones.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// A smaller limit would refuse most answers to `initialize`.
const SMALLEST: u64 = 64 << 10;

/// A message of this size is in memory at once, on every platform.
const LARGEST: u64 = 2 << 30;

/// Reads a duration such as `"5m"`. The error says what was expected.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    const RIGHT: &str = "a duration such as \"5m\", in ms, s, m, or h";
    let (number, unit) = split(text).ok_or(RIGHT)?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(RIGHT.to_owned()),
    };
    let duration = number.checked_mul(millis).map(Duration::from_millis);
    duration.filter(|it| *it <= LONGEST).ok_or_else(|| format!("at most \"{}\"", show_duration(LONGEST)))
}

/// The shortest text that [`parse_duration`] reads as this.
pub(super) fn show_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    if millis == 0 || !millis.is_multiple_of(1000) && millis > 0 {
        return if millis == 0 { "0s".to_owned() } else { format!("{millis}ms") };
    }
    match millis / 1000 {
        s if s.is_multiple_of(3600) => format!("{}h", s / 3600),
        s if s.is_multiple_of(60) => format!("{}m", s / 60),
        s => format!("{s}s"),
    }
}

/// Reads a size such as `"256MiB"`, in bytes. The error says what was expected.
pub(super) fn parse_size(text: &str) -> Result<usize, String> {
    parse_bytes(text, SMALLEST..=LARGEST, "a size from \"64KiB\" to \"2GiB\"")
}

/// Reads the size of a text.
pub(super) fn parse_text_size(text: &str) -> Result<usize, String> {
    parse_bytes(text, 1 << 10..=1 << 20, "a size from \"1KiB\" to \"1MiB\"")
}

/// Reads the size of the memory of processes.
pub(super) fn parse_memory(text: &str) -> Result<usize, String> {
    parse_bytes(text, 1 << 20..=1 << 40, "a size from \"1MiB\" to \"1024GiB\"")
}

fn parse_bytes(text: &str, sensible: RangeInclusive<u64>, otherwise: &str) -> Result<usize, String> {
    const RIGHT: &str = "a size such as \"256MiB\", in B, KiB, MiB, or GiB";
    let (number, unit) = split(text).ok_or(RIGHT)?;
    let shift = match unit {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(RIGHT.to_owned()),
    };
    let bytes = number.checked_mul(1 << shift).filter(|it| sensible.contains(it));
    bytes.and_then(|it| usize::try_from(it).ok()).ok_or_else(|| otherwise.to_owned())
}

/// The shortest text that [`parse_size`] reads as this.
pub(super) fn show_size(bytes: usize) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let whole = units.into_iter().find(|(_, shift)| bytes != 0 && bytes.is_multiple_of(1 << shift));
    whole.map_or_else(|| format!("{bytes}B"), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_and_print_unchanged() {
        for text in ["0s", "1ms", "1500ms", "1s", "90s", "5m", "2h", "8760h"] {
            assert_eq!(show_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(parse_duration("300 s"), Ok(Duration::from_mins(5)));
        for text in ["", "5", "m", "-5m", "1.5h", "5M", "5min", "5m ", "9999999999999999999h"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_duration("8761h").unwrap_err(), "at most \"8760h\"");
    }

    #[test]
    fn sizes_parse_and_print_unchanged() {
        for text in ["65537B", "64KiB", "256MiB", "2GiB"] {
            assert_eq!(show_size(parse_size(text).unwrap()), text);
        }
        for text in ["", "1", "1MB", "1mib", "63KiB", "3GiB", "99999999999999999GiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
