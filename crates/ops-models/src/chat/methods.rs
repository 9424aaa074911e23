//! Methods of Python's strings, lists and dictionaries that `minijinja_contrib::pycompat` lacks; it has the others.
use super::limits;
use minijinja::value::{Tuple, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat;

/// The longest padding of a text.
const MAX_WIDTH: usize = 1 << 16;

/// Calls a method of a value.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    limits::in_time()?;
    let own = match (value.kind(), value.as_str()) {
        (_, Some(text)) => of_text(text, method, args)?,
        (ValueKind::Map, _) if method == "copy" => Some(copy(value, args)?),
        (ValueKind::Seq | ValueKind::Iterable, _) => of_list(value, method, args)?,
        _ => None,
    };
    match own {
        Some(result) => Ok(result),
        None => pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// A copy, which is as good as the value: nothing can change either.
fn copy(value: &Value, args: &[Value]) -> Result<Value, Error> {
    let () = from_args(args)?;
    Ok(value.clone())
}

fn of_list(list: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(match method {
        "copy" => Some(copy(list, args)?),
        "index" => {
            let (item, start, end): (&Value, Option<i64>, Option<i64>) = from_args(args)?;
            let items: Vec<Value> = list.try_iter()?.collect();
            let (start, end) = range(items.len(), start, end);
            let at = items.iter().take(end).skip(start).position(|other| other == item);
            Some(Value::from(start + at.ok_or_else(|| wrong(format!("{item} is not in the list")))?))
        }
        _ => None,
    })
}

fn wrong(what: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, what)
}

/// Start and end of a slice, which count from the end if negative.
fn range(len: usize, start: Option<i64>, end: Option<i64>) -> (usize, usize) {
    let len = len as i64;
    let at = |place: i64| if place < 0 { (len + place).max(0) } else { place.min(len) } as usize;
    (at(start.unwrap_or(0)), at(end.unwrap_or(len)))
}

/// Where a part stands in a text, in characters, between these places.
fn find(text: &str, args: &[Value], from_right: bool) -> Result<Option<usize>, Error> {
    let (part, start, end): (&str, Option<i64>, Option<i64>) = from_args(args)?;
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let (start, end) = range(ends.len() - 1, start, end);
    if start > end {
        return Ok(None);
    }
    let within = &text[ends[start]..ends[end]];
    let at = if from_right { within.rfind(part) } else { within.find(part) };
    Ok(at.map(|at| start + within[..at].chars().count()))
}

fn of_text(text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let all = |is: fn(char) -> bool| -> Result<Value, Error> {
        let () = from_args(args)?;
        Ok(Value::from(!text.is_empty() && text.chars().all(is)))
    };
    Ok(Some(match method {
        "find" => Value::from(find(text, args, false)?.map_or(-1, |at| at as i64)),
        "rfind" => Value::from(find(text, args, true)?.map_or(-1, |at| at as i64)),
        "index" | "rindex" => {
            let at = find(text, args, method == "rindex")?;
            Value::from(at.ok_or_else(|| wrong(format!("{method}: substring not found")))?)
        }
        "partition" | "rpartition" => {
            let (part,): (&str,) = from_args(args)?;
            if part.is_empty() {
                return Err(wrong(format!("{method}: empty separator")));
            }
            let parts = match method {
                "partition" => text.split_once(part).map_or([text, "", ""], |(a, b)| [a, part, b]),
                _ => text.rsplit_once(part).map_or(["", "", text], |(a, b)| [a, part, b]),
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "rsplit" => {
            let (part, most): (Option<&str>, Option<i64>) = from_args(args)?;
            rsplit(text, part, most.filter(|most| *most >= 0).map_or(usize::MAX, |most| most as usize))?
        }
        "removeprefix" => {
            let (part,): (&str,) = from_args(args)?;
            Value::from(text.strip_prefix(part).unwrap_or(text))
        }
        "removesuffix" => {
            let (part,): (&str,) = from_args(args)?;
            Value::from(text.strip_suffix(part).unwrap_or(text))
        }
        "ljust" | "rjust" | "center" | "zfill" => Value::from(padded(text, method, args)?),
        "expandtabs" => {
            let (size,): (Option<usize>,) = from_args(args)?;
            Value::from(expand_tabs(text, width(size.unwrap_or(8))?))
        }
        "swapcase" => {
            let () = from_args(args)?;
            let swapped = |c: char| -> String {
                if c.is_uppercase() { c.to_lowercase().collect() } else { c.to_uppercase().collect() }
            };
            Value::from(text.chars().map(swapped).collect::<String>())
        }
        "casefold" => {
            let () = from_args(args)?;
            // What folding does beyond lower case, for letters that are likely.
            Value::from(text.to_lowercase().replace('ß', "ss").replace('ς', "σ").replace('ſ', "s"))
        }
        "isdecimal" => all(|c| c.is_numeric() && is_decimal(c))?,
        "isprintable" => {
            let () = from_args(args)?;
            Value::from(text.chars().all(|c| c == ' ' || !(c.is_whitespace() || c.is_control())))
        }
        "isidentifier" => {
            let () = from_args(args)?;
            let starts = |c: char| c.is_alphabetic() || c == '_';
            let goes_on = |c: char| starts(c) || c.is_numeric();
            Value::from(text.starts_with(starts) && text.chars().all(goes_on))
        }
        "istitle" => {
            let () = from_args(args)?;
            Value::from(is_title(text))
        }
        "format" => {
            limit_widths(text, args)?;
            return Ok(None);
        }
        _ => return Ok(None),
    }))
}

/// Whether a numeric character is a decimal digit. Superscripts, fractions, circled digits, Roman numerals and ideographs are none.
fn is_decimal(c: char) -> bool {
    !matches!(u32::from(c), 0xb2 | 0xb3 | 0xb9 | 0xbc..=0xbe | 0x2070..=0x218b | 0x2460..=0x24ff | 0x2776..=0x2793
        | 0x3007..=0x3029 | 0x3192..=0x3195 | 0x3220..=0x32bf)
}

fn is_title(text: &str) -> bool {
    let (mut cased, mut found) = (false, false);
    for c in text.chars() {
        if (c.is_uppercase() && cased) || (c.is_lowercase() && !cased) {
            return false;
        }
        cased = c.is_uppercase() || c.is_lowercase();
        found |= cased;
    }
    found
}

fn rsplit(text: &str, part: Option<&str>, most: usize) -> Result<Value, Error> {
    let mut parts: Vec<&str> = match part {
        Some("") => return Err(wrong("rsplit: empty separator".to_owned())),
        Some(part) => text.rsplitn(most.saturating_add(1), part).collect(),
        None => {
            let (mut parts, mut rest) = (Vec::new(), text.trim_end());
            while !rest.is_empty() {
                let at = rest.rfind(char::is_whitespace).filter(|_| parts.len() < most);
                let word = at.map_or(0, |at| at + rest[at..].chars().next().map_or(1, char::len_utf8));
                parts.push(&rest[word..]);
                rest = rest[..word].trim_end();
            }
            parts
        }
    };
    parts.reverse();
    Ok(parts.into_iter().map(Value::from).collect())
}

fn width(width: usize) -> Result<usize, Error> {
    match width <= MAX_WIDTH {
        true => Ok(width),
        false => Err(limits::limit(&format!("a width of {width}"))),
    }
}

fn padded(text: &str, method: &str, args: &[Value]) -> Result<String, Error> {
    let (wanted, fill): (i64, Option<&str>) = from_args(args)?;
    let missing = width(wanted.max(0) as usize)?.saturating_sub(text.chars().count());
    let pad = |count: usize| fill.unwrap_or(if method == "zfill" { "0" } else { " " }).repeat(count);
    if fill.is_some_and(|fill| fill.chars().count() != 1 || method == "zfill") {
        return Err(wrong(format!("{method}: the fill character must be exactly one character long")));
    }
    Ok(match method {
        "ljust" => format!("{text}{}", pad(missing)),
        "rjust" => format!("{}{text}", pad(missing)),
        "zfill" => {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            format!("{}{}{digits}", &text[..text.len() - digits.len()], pad(missing))
        }
        _ => {
            // Python puts the odd one on the left only if the width is odd, too.
            let left = missing / 2 + (missing & wanted as usize & 1);
            format!("{}{text}{}", pad(left), pad(missing - left))
        }
    })
}

fn expand_tabs(text: &str, size: usize) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for c in text.chars() {
        match c {
            '\t' if size > 0 => {
                let spaces = size - column % size;
                out.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            '\t' => {}
            _ => {
                out.push(c);
                column = if matches!(c, '\n' | '\r') { 0 } else { column + 1 };
            }
        }
    }
    out
}

/// Refuses widths that make a short format a long text.
fn limit_widths(format: &str, args: &[Value]) -> Result<(), Error> {
    for digits in format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty()) {
        width(digits.parse().unwrap_or(usize::MAX))?;
    }
    // A width may be an argument: `{:{}}`.
    let is_nested = format.split('{').skip(1).any(|part| part.contains(':') && !part.contains('}'));
    for number in args.iter().filter(|arg| is_nested && arg.is_integer()) {
        width(usize::try_from(number.clone()).unwrap_or(0))?;
    }
    Ok(())
}
