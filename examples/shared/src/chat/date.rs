//! Dates in templates.
use minijinja::{Error, ErrorKind};
use std::time::{SystemTime, UNIX_EPOCH};

/// A UTC date formatted with the usual letters.
pub(super) fn date(format: &str, at: SystemTime) -> Result<String, Error> {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[(days as usize + 4) % 7]);
    let (mut text, mut letters) = (String::new(), format.chars());
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        text += &match letters.next() {
            Some('Y') => year.to_string(),
            Some('m') => format!("{month:02}"),
            Some('d') => format!("{day:02}"),
            Some('B') => month_name.to_owned(),
            Some('b') => month_name[..3].to_owned(),
            Some('A') => day_name.to_owned(),
            Some('a') => day_name[..3].to_owned(),
            Some('H') => format!("{:02}", second / 3600),
            Some('M') => format!("{:02}", second / 60 % 60),
            Some('S') => format!("{:02}", second % 60),
            Some('%') => "%".to_owned(),
            other => {
                let got =
                    format!("strftime_now: %{} in {format:?}", other.map_or(String::new(), String::from));
                return Err(Error::new(ErrorKind::InvalidOperation, got));
            }
        };
    }
    Ok(text)
}

/// Year, month and day of a day since 1970 (Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + u64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let on = |days: u64| {
            date(
                "%Y-%m-%d %a %d %b %H:%M:%S %B %A %%",
                UNIX_EPOCH + Duration::from_secs(days * 86_400 + 3661),
            )
        };
        assert_eq!(on(0).unwrap(), "1970-01-01 Thu 01 Jan 01:01:01 January Thursday %");
        assert_eq!(on(19_782).unwrap(), "2024-02-29 Thu 29 Feb 01:01:01 February Thursday %");
        assert_eq!(on(20_454).unwrap(), "2026-01-01 Thu 01 Jan 01:01:01 January Thursday %");
    }
}
