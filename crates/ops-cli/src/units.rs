//! Sizes and times as people write and read them.
use crate::exit::Failure;

/// `64K`, `4M`, `256MiB`, `1G` or a number of bytes, from 1 to `largest`.
///
/// # Errors
/// The text has another form.
pub(crate) fn parse_size(text: &str, largest: usize) -> Result<usize, Failure> {
    let wrong = || {
        let up_to = largest >> 30;
        Failure::Usage(format!("`{text}` is not a size: write bytes as 1K, 64K, 4M or 256M, up to {up_to}G"))
    };
    let trimmed = text.trim().trim_end_matches(['B', 'b']).trim_end_matches('i');
    let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &trimmed[digits.len()..] {
        "" => 1,
        "K" | "k" => 1 << 10,
        "M" | "m" => 1 << 20,
        "G" | "g" => 1 << 30,
        _ => return Err(wrong()),
    };
    let number: usize = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(unit).filter(|n| (1..=largest).contains(n)).ok_or_else(wrong)
}

/// Nanoseconds in a suitable unit.
pub(crate) fn time(ns: f64) -> String {
    match ns {
        ns if ns < 1e4 => format!("{ns:.1} ns"),
        ns if ns < 1e7 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let parse_size = |text| parse_size(text, 4 << 30);
        assert_eq!(parse_size("1K").unwrap(), 1024);
        assert_eq!(parse_size("256MiB").unwrap(), 256 << 20);
        assert_eq!(parse_size("100").unwrap(), 100);
        for bad in ["", "K", "0", "-1K", "1.5M", "1T", "99999999999G", "x"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!([12.34, 12_340.0, 12_340_000.0].map(time), ["12.3 ns", "12.3 us", "12.34 ms"]);
    }
}
