//! Dates in templates.
use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, Utc};
use minijinja::{Error, ErrorKind};
use std::time::SystemTime;

/// A UTC date formatted with the letters of `strftime`.
pub(super) fn date(format: &str, at: SystemTime) -> Result<String, Error> {
    let items: Vec<Item<'_>> = StrftimeItems::new(format).collect();
    if items.contains(&Item::Error) {
        let got = format!("strftime_now: {format:?} has a letter after % that is not one of strftime's");
        return Err(Error::new(ErrorKind::InvalidOperation, got));
    }
    Ok(DateTime::<Utc>::from(at).format_with_items(items.iter()).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

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
        assert_eq!(date("%-d %B, %I %p", UNIX_EPOCH).unwrap(), "1 January, 12 AM");
    }
}
