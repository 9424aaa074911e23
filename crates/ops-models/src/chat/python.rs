//! What Jinja has and minijinja has not, or has in another way: values as Python prints them, tests, filters and functions.
use super::{json, limits, methods, tags};
use minijinja::value::{Kwargs, Object, ObjectRepr, Rest, Value, ValueKind, from_args};
use minijinja::{Environment, Error, ErrorKind, Output, State};
use minijinja_contrib::{filters, globals};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Adds all of it.
pub(super) fn add(jinja: &mut Environment<'_>) {
    jinja.set_formatter(print);
    jinja.set_unknown_method_callback(methods::call);
    jinja.add_filter("tojson", json::tojson);
    jinja.add_filter("string", text);
    jinja.add_filter("truncate", truncate);
    jinja.add_filter("urlencode", urlencode);
    jinja.add_filter("wordcount", wordcount);
    jinja.add_filter("center", center);
    jinja.add_filter("striptags", filters::striptags);
    jinja.add_filter("forceescape", minijinja::filters::escape);
    jinja.add_filter(tags::STORED, limits::stored);
    jinja.add_filter(tags::PERCENT, percent);
    jinja.add_test("iterable", |value: &Value| has_items(value));
    jinja.add_test("sequence", |value: &Value| has_items(value));
    jinja.add_test("callable", is_callable);
    jinja.add_function("cycler", |items: Rest<Value>| match items.is_empty() {
        true => Err(Error::new(ErrorKind::InvalidOperation, "cycler: at least one item has to be provided")),
        false => Ok(Value::from_object(Cycler { items: items.0, at: AtomicUsize::new(0) })),
    });
    jinja.add_function("joiner", globals::joiner);
}

/// Jinja's `cycler`: returns one item after the other.
#[derive(Debug)]
struct Cycler {
    items: Vec<Value>,
    at: AtomicUsize,
}

impl Object for Cycler {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        (key.as_str() == Some("current")).then(|| self.items[self.at.load(Ordering::Relaxed)].clone())
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        let () = from_args(args)?;
        let at = self.at.load(Ordering::Relaxed);
        match method {
            "next" => self.at.store((at + 1) % self.items.len(), Ordering::Relaxed),
            "reset" => self.at.store(0, Ordering::Relaxed),
            _ => return Err(Error::from(ErrorKind::UnknownMethod)),
        }
        Ok(if method == "next" { self.items[at].clone() } else { Value::from(()) })
    }
}

/// Undefined values count: Jinja's have all methods of a list.
fn has_items(value: &Value) -> bool {
    use ValueKind::{Bytes, Iterable, Map, Seq, String, Undefined};
    matches!(value.kind(), Seq | Map | String | Iterable | Bytes | Undefined)
}

/// Functions and macros, and what `joiner` returns.
fn is_callable(value: &Value) -> bool {
    let is_function = |object: &minijinja::value::DynObject| {
        ["Function", "Macro", "Joiner"].iter().any(|name| object.type_name().contains(name))
    };
    value.is_undefined() || value.as_object().is_some_and(is_function)
}

/// Prints an expression.
fn print(out: &mut Output<'_>, _: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    limits::in_time()?;
    match value.as_str() {
        Some(text) => out.write_str(text)?,
        None => out.write_str(&text(value)?)?,
    }
    Ok(())
}

/// A value as Python's `str` writes it.
pub(super) fn text(value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    limits::check(value, &mut |_| {})?;
    let mut out = String::new();
    if !value.is_undefined() {
        repr(value, &mut out)?;
    }
    Ok(out)
}

/// A value as Python's `repr` writes it.
fn repr(value: &Value, out: &mut String) -> Result<(), Error> {
    let items = |out: &mut String, [open, close]: [char; 2]| -> Result<(), Error> {
        out.push(open);
        for (at, item) in value.try_iter()?.enumerate() {
            out.push_str(if at > 0 { ", " } else { "" });
            repr(&item, out)?;
        }
        out.push_str(if open == '(' && value.len() == Some(1) { "," } else { "" });
        out.push(close);
        Ok(())
    };
    match value.kind() {
        ValueKind::Number if !value.is_integer() => {
            out.push_str(&json::float(f64::try_from(value.clone())?, ["nan", "inf"]))
        }
        ValueKind::Seq if value.is_tuple() => items(out, ['(', ')'])?,
        ValueKind::Seq => items(out, ['[', ']'])?,
        ValueKind::Iterable if value.len().is_some() => items(out, ['[', ']'])?,
        ValueKind::Map if value.as_object().is_some_and(|object| object.type_name().contains("Map<")) => {
            out.push('{');
            for (at, key) in value.try_iter()?.enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                repr(&key, out)?;
                out.push_str(": ");
                repr(&value.get_item(&key)?, out)?;
            }
            out.push('}');
        }
        ValueKind::String => drop(write!(out, "{value:?}")),
        _ => drop(write!(out, "{value}")),
    }
    Ok(())
}

/// `'..' % value`: a tuple has several values.
fn percent(state: &mut State<'_, '_>, format: &Value, operand: &Value) -> Result<Value, Error> {
    let mut args = vec![format.clone()];
    match operand.is_tuple() {
        true => args.extend(operand.try_iter()?),
        false => args.push(operand.clone()),
    }
    state.apply_filter("format", &args)
}

fn wordcount(text: &str) -> usize {
    text.split_whitespace().count()
}

fn center(state: &mut State<'_, '_>, value: &Value, width: Option<u64>) -> Result<Value, Error> {
    methods::call(state, value, "center", &[Value::from(width.unwrap_or(80))])
}

/// Jinja's `truncate(s, length=255, killwords=false, end='...', leeway=5)`.
fn truncate(text: &str, args: Rest<Value>, options: Kwargs) -> Result<String, Error> {
    let arg = |at: usize, name: &str| -> Result<Option<Value>, Error> {
        Ok(options.get::<Option<Value>>(name)?.or_else(|| args.get(at).cloned()))
    };
    let number = |value: Option<Value>, default: usize| match value.filter(|value| !value.is_none()) {
        Some(value) => usize::try_from(value),
        None => Ok(default),
    };
    let length = number(arg(0, "length")?, 255)?;
    let kill = arg(1, "killwords")?.is_some_and(|kill| kill.is_true());
    let end = arg(2, "end")?.map_or("...".to_owned(), |end| end.to_string());
    let leeway = number(arg(3, "leeway")?, 5)?;
    options.assert_all_used()?;
    let end_length = end.chars().count();
    if length < end_length {
        let what = format!("truncate: expected length >= {end_length}, got {length}");
        return Err(Error::new(ErrorKind::InvalidOperation, what));
    }
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text.to_owned());
    }
    let kept: String = text.chars().take(length - end_length).collect();
    let kept = if kill { &kept } else { kept.rsplit_once(' ').map_or(&*kept, |(words, _)| words) };
    Ok(format!("{kept}{end}"))
}

/// Jinja's `urlencode`: a text, or pairs of names and values as in a query.
fn urlencode(value: &Value) -> Result<String, Error> {
    let quote = |value: &Value, safe: &str| -> Result<String, Error> {
        let mut out = String::new();
        for byte in text(value)?.bytes() {
            match byte.is_ascii_alphanumeric()
                || "_.-~".contains(char::from(byte))
                || safe.contains(char::from(byte))
            {
                true => out.push(char::from(byte)),
                false => drop(write!(out, "%{byte:02X}")),
            }
        }
        Ok(out)
    };
    let pair = |name: &Value, value: &Value| -> Result<String, Error> {
        Ok(format!("{}={}", quote(name, "")?.replace("%20", "+"), quote(value, "")?.replace("%20", "+")))
    };
    let pairs: Result<Vec<String>, Error> = match value.kind() {
        ValueKind::Map => value.try_iter()?.map(|name| pair(&name, &value.get_item(&name)?)).collect(),
        ValueKind::Seq | ValueKind::Iterable => value
            .try_iter()?
            .map(|item| pair(&item.get_item_by_index(0)?, &item.get_item_by_index(1)?))
            .collect(),
        _ => return quote(value, "/"),
    };
    Ok(pairs?.join("&"))
}
