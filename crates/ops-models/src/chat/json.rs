//! The filter `tojson`, which prints as Python's `json.dumps` does: chat templates are tested with that,
//! while minijinja's own filter uses other spaces and escapes HTML.
use super::limits;
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

/// Output format.
struct Style {
    /// Between items, and between a key and its value.
    separators: [String; 2],
    /// Spaces per level; each item is then on its own line.
    indent: Option<usize>,
    /// Whether non-ASCII characters are escaped.
    ascii: bool,
    sorted: bool,
}

/// `value | tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false)`, as in the Python package `transformers`.
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<String, Error> {
    limits::check(value, &mut |_| {})?;
    let indent: Option<usize> = options.get("indent")?;
    let separators: Option<Vec<String>> = options.get("separators")?;
    if let Some(indent) = indent.filter(|indent| *indent > 64) {
        return Err(limits::limit(&format!("tojson: an indent of {indent}")));
    }
    let item = if indent.is_some() { "," } else { ", " };
    let separators = separators.unwrap_or_else(|| vec![item.to_owned(), ": ".to_owned()]);
    let separators = separators.try_into().map_err(|_| invalid("tojson: separators are not two strings"))?;
    let (ascii, sorted): (Option<bool>, Option<bool>) =
        (options.get("ensure_ascii")?, options.get("sort_keys")?);
    options.assert_all_used()?;
    let style = Style { separators, indent, ascii: ascii == Some(true), sorted: sorted == Some(true) };
    let mut out = String::new();
    style.write(value, 0, &mut out)?;
    Ok(out)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

impl Style {
    fn write(&self, value: &Value, level: usize, out: &mut String) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)?),
            ValueKind::String => self.quote(value.as_str().unwrap_or_default(), out),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.map(|item| (None, item)).collect();
                self.items(['[', ']'], items, level, out)?;
            }
            ValueKind::Map => {
                let mut items = Vec::new();
                for key in value.try_iter()? {
                    items.push((Some(self.key(&key)?), value.get_item(&key)?));
                }
                if self.sorted {
                    items.sort_by(|a, b| a.0.cmp(&b.0));
                }
                self.items(['{', '}'], items, level, out)?;
            }
            kind => return Err(invalid(format!("tojson: a value that is {kind}"))),
        }
        Ok(())
    }

    fn items(
        &self,
        [open, close]: [char; 2],
        items: Vec<(Option<String>, Value)>,
        level: usize,
        out: &mut String,
    ) -> Result<(), Error> {
        let (empty, line) = (items.is_empty(), |level: usize, out: &mut String| {
            if let Some(indent) = self.indent {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent * level));
            }
        });
        out.push(open);
        for (at, (key, item)) in items.into_iter().enumerate() {
            if at > 0 {
                out.push_str(&self.separators[0]);
            }
            line(level + 1, out);
            if let Some(key) = key {
                self.quote(&key, out);
                out.push_str(&self.separators[1]);
            }
            self.write(&item, level + 1, out)?;
        }
        if !empty {
            line(level, out);
        }
        out.push(close);
        Ok(())
    }

    /// A key as text.
    fn key(&self, key: &Value) -> Result<String, Error> {
        match (key.as_str(), key.kind()) {
            (Some(text), _) => Ok(text.to_owned()),
            (None, ValueKind::None | ValueKind::Bool | ValueKind::Number) => {
                let mut text = String::new();
                self.write(key, 0, &mut text)?;
                Ok(text)
            }
            (None, kind) => Err(invalid(format!("tojson: a key that is {kind}"))),
        }
    }

    fn quote(&self, text: &str, out: &mut String) {
        out.push('"');
        for letter in text.chars() {
            match letter {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                ' '..='~' => out.push(letter),
                _ if letter >= ' ' && !self.ascii => out.push(letter),
                _ => {
                    for unit in letter.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
            }
        }
        out.push('"');
    }
}

/// A number as Python prints it: floats have a point or an exponent of at least two digits.
fn number(value: &Value) -> Result<String, Error> {
    if value.is_integer() {
        return Ok(value.to_string());
    }
    Ok(float(f64::try_from(value.clone())?, ["NaN", "Infinity"]))
}

/// A float as Python prints it, with these names for what is no number and for what is infinite.
pub(super) fn float(float: f64, [nan, infinity]: [&str; 2]) -> String {
    if !float.is_finite() {
        let name = if float.is_nan() { nan } else { infinity };
        return if float < 0.0 { format!("-{name}") } else { name.to_owned() };
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or_default();
    match power {
        -4..16 if float.fract() == 0.0 => format!("{float}.0"),
        -4..16 => float.to_string(),
        _ => format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs()),
    }
}

#[cfg(test)]
mod tests {
    use minijinja::{Environment, context};

    fn render(template: &str) -> String {
        let mut jinja = Environment::new();
        jinja.add_filter("tojson", super::tojson);
        let tool =
            context! { name => "f", parameters => context! { zero => 0, list => vec![1, 2] }, none => () };
        jinja.render_str(template, context! { tool }).unwrap_or_else(|e| e.to_string())
    }

    /// The right-hand sides are the output of Python 3.
    #[test]
    fn values_are_those_of_json_dumps() {
        for (value, want) in [
            ("[1, -2.5, 1.0, true, false, none]", "[1, -2.5, 1.0, true, false, null]"),
            ("[1e15, 1e16, 1e-4, 1e-5, 1.5e300]", "[1000000000000000.0, 1e+16, 0.0001, 1e-05, 1.5e+300]"),
            (r#"'a"b\\c\n\t<é&\'>'"#, r#""a\"b\\c\n\t<é&'>""#),
            ("{'b': 1, 'a': {'c': []}, 1: {}}", r#"{"b": 1, "a": {"c": []}, "1": {}}"#),
            ("tool", r#"{"name": "f", "parameters": {"zero": 0, "list": [1, 2]}, "none": null}"#),
        ] {
            assert_eq!(render(&format!("{{{{ {value} | tojson }}}}")), want);
        }
    }

    #[test]
    fn options_are_those_of_json_dumps() {
        let lines = "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {}\n}";
        assert_eq!(render("{{ {'a': [1, 2], 'b': {}} | tojson(indent=2) }}"), lines);
        assert_eq!(
            render("{{ {'b': 1, 'a': 2} | tojson(sort_keys=true, separators=[',', ':']) }}"),
            r#"{"a":2,"b":1}"#
        );
        assert_eq!(render("{{ 'é😀' | tojson(ensure_ascii=true) }}"), r#""\u00e9\ud83d\ude00""#);
        assert_eq!(render("{{ 'é😀' | tojson(ensure_ascii=false, indent=none) }}"), "\"é😀\"");
        assert!(render("{{ missing | tojson }}").contains("undefined"));
        assert!(render("{{ 1 | tojson(indented=2) }}").contains("indented"));
    }
}
