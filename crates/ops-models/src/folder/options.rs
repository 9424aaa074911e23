//! Options of a JSON file, none of which is ignored.
use crate::{Error, Result};
use ops_gguf::ForeignFile;
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What is done with options that this program does not know, and warnings about a folder.
#[derive(Default)]
pub(crate) struct Notes {
    /// Whether an unknown option is a warning instead of an error.
    allow_unknown: bool,
    warnings: RefCell<Vec<String>>,
}

impl Notes {
    pub(crate) fn new(allow_unknown: bool) -> Self {
        Notes { allow_unknown, warnings: RefCell::default() }
    }
    pub(crate) fn warn(&self, warning: String) {
        self.warnings.borrow_mut().push(warning);
    }
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.borrow().clone()
    }
}

/// An object of a JSON file that keeps track of which options have been read. `null` counts as absent.
pub(crate) struct Options {
    path: PathBuf,
    /// The object's path in the file, with a final dot; empty for the whole file.
    prefix: String,
    map: Map<String, Value>,
    used: RefCell<HashSet<String>>,
    pub(crate) notes: Rc<Notes>,
}

impl Options {
    pub(crate) fn new(path: &Path, map: Map<String, Value>) -> Self {
        Options {
            path: path.to_owned(),
            prefix: String::new(),
            map,
            used: RefCell::default(),
            notes: Rc::default(),
        }
    }

    /// For each layer, whether it is of the first of these two kinds, from a list of their names.
    pub(crate) fn layers_of(&self, option: &str, [first, second]: [&str; 2]) -> Result<Option<Vec<bool>>> {
        let Some(kinds) = self.get(option) else { return Ok(None) };
        let kind = |kind: &Value| match kind.as_str()? {
            name if name == first => Some(true),
            name if name == second => Some(false),
            _ => None,
        };
        let all = kinds.as_array().and_then(|all| all.iter().map(kind).collect());
        all.map(Some).ok_or_else(|| self.wrong(option, kinds, format!("a list of {first} and {second}")))
    }

    /// The options of a file; `None` if there is no such file.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>> {
        let Some(text) = read_text(path)? else { return Ok(None) };
        match parsed(path, &text)? {
            Value::Object(map) => Ok(Some(Self::new(path, map))),
            _ => Err(wrong(path, "contents", "another kind of value", "an object of options")),
        }
    }

    pub(crate) fn with_notes(self, notes: Notes) -> Self {
        Options { notes: Rc::new(notes), ..self }
    }

    pub(crate) fn get(&self, option: &str) -> Option<&Value> {
        self.used.borrow_mut().insert(option.to_owned());
        self.map.get(option).filter(|value| !value.is_null())
    }

    /// The first of these options that exists: options have had other names. Several must have the same value.
    pub(crate) fn any<'o>(&self, options: &[&'o str]) -> Result<Option<&'o str>> {
        let mut found = options.iter().filter_map(|option| Some((*option, self.get(option)?)));
        let Some((first, value)) = found.next() else { return Ok(None) };
        found.try_for_each(|(other, again)| self.same(other, again, first, value))?;
        Ok(Some(first))
    }

    /// Refuses different values of one option that stands at two places.
    fn same(&self, option: &str, value: &Value, place: &str, first: &Value) -> Result<()> {
        let equal = value == first || value.as_f64().is_some_and(|n| Some(n) == first.as_f64());
        let wanted = || format!("{}, as in `{place}`: the two mean the same option", shortened(first));
        if equal { Ok(()) } else { Err(self.wrong(option, value, wanted())) }
    }

    /// Refuses another value of an option than the other object has, if both have it. Reads neither.
    pub(crate) fn agree_on(&self, option: &str, other: &Self) -> Result<()> {
        let of = |all: &'_ Self| all.map.get(option).filter(|value| !value.is_null()).cloned();
        match (of(self), of(other)) {
            (Some(value), Some(first)) => {
                self.same(option, &value, &format!("{}{option}", other.prefix), &first)
            }
            _ => Ok(()),
        }
    }

    /// The options that both objects have.
    pub(crate) fn common<'s>(&'s self, other: &Self) -> Vec<&'s str> {
        self.map.keys().filter(|option| other.map.contains_key(*option)).map(String::as_str).collect()
    }

    /// The same object, with the options of another one that this one lacks.
    pub(crate) fn merged(self, other: &Self) -> Self {
        let missing = other.map.iter().filter(|(option, _)| self.map.get(*option).is_none_or(Value::is_null));
        let missing: Vec<(String, Value)> = missing.map(|(k, v)| (k.clone(), v.clone())).collect();
        missing.into_iter().fold(self, |all, (option, value)| all.with(&option, Some(value)))
    }

    /// Whether nothing has read this option yet.
    pub(crate) fn is_unread(&self, option: &str) -> bool {
        !self.used.borrow().contains(option)
    }

    fn typed<'s, T>(
        &'s self,
        option: &str,
        wanted: &str,
        read: impl Fn(&'s Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(option) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(option, value, wanted))
    }
    pub(crate) fn count(&self, option: &str) -> Result<Option<u32>> {
        self.typed(option, "a whole number that fits 32 bits", |v| {
            v.as_u64().and_then(|n| u32::try_from(n).ok())
        })
    }
    pub(crate) fn number(&self, option: &str) -> Result<Option<f64>> {
        self.typed(option, "a number", Value::as_f64)
    }
    pub(crate) fn flag(&self, option: &str) -> Result<Option<bool>> {
        self.typed(option, "true or false", Value::as_bool)
    }
    pub(crate) fn text(&self, option: &str) -> Result<Option<&str>> {
        self.typed(option, "a string", Value::as_str)
    }
    /// An object within this one.
    pub(crate) fn object(&self, option: &str) -> Result<Option<Self>> {
        let map = self.typed(option, "an object", Value::as_object)?;
        Ok(map.map(|map| Options {
            prefix: format!("{}{option}.", self.prefix),
            notes: Rc::clone(&self.notes),
            ..Options::new(&self.path, map.clone())
        }))
    }

    /// The same object, with another value of an option.
    pub(crate) fn with(mut self, option: &str, value: Option<Value>) -> Self {
        value.and_then(|value| self.map.insert(option.to_owned(), value));
        self
    }

    /// The same object, with these options where it has none. They need not be read.
    pub(crate) fn with_defaults(mut self, defaults: Value) -> Self {
        let Value::Object(defaults) = defaults else { return self };
        for (option, value) in defaults {
            if self.map.get(&option).is_none_or(Value::is_null) {
                self.used.get_mut().insert(option.clone());
                self.map.insert(option, value);
            }
        }
        self
    }

    pub(crate) fn required<T>(&self, option: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.wrong(option, "no such option", "a value"))
    }
    /// Refuses any value for which `fits` does not hold. The option may be absent.
    pub(crate) fn only(&self, option: &str, wanted: &str, fits: impl Fn(&Value) -> bool) -> Result<()> {
        match self.get(option) {
            Some(value) if !fits(value) => Err(self.wrong(option, value, wanted)),
            _ => Ok(()),
        }
    }
    /// Refuses options that were not read and are not `harmless`, or warns about them.
    pub(crate) fn finish(&self, harmless: &[&str]) -> Result<()> {
        let used = self.used.borrow();
        let unknown = |option: &str| !used.contains(option) && !harmless.contains(&option);
        let unknown = self.map.iter().filter(|(option, value)| !value.is_null() && unknown(option));
        let (names, values): (Vec<String>, Vec<String>) =
            unknown.map(|(option, value)| (format!("`{}{option}`", self.prefix), shortened(value))).unzip();
        let (option, them) = if names.len() == 1 { ("option", "it") } else { ("options", "them") };
        let what = format!("{option} {}", names.join(", "));
        if names.is_empty() {
            Ok(())
        } else if self.notes.allow_unknown {
            let path = self.path.display();
            let warning = format!("{path}: {what}: got {}, which has no effect here", values.join(", "));
            self.notes.warn(format!("{warning}; results may differ from those of the model's authors"));
            Ok(())
        } else {
            let wanted = format!(
                "no such {option}: this program does not know the effect on results; --allow-unknown-options runs without {them}"
            );
            Err(wrong(&self.path, what, values.join(", "), wanted))
        }
    }

    pub(crate) fn wrong(&self, option: &str, got: impl ToString, wanted: impl ToString) -> Error {
        wrong(&self.path, format!("option `{}{option}`", self.prefix), shortened(got), wanted)
    }
}

/// The text of a file; `None` if there is no such file.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>> {
    let bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(wrong(path, "file", e, "readable text")),
    };
    if let Some(ForeignFile { name, remedy, .. }) = ForeignFile::of(&bytes).filter(is_not_text) {
        return Err(wrong(path, "contents", name, format!("text; {remedy}")));
    }
    String::from_utf8(bytes).map(Some).map_err(|e| wrong(path, "contents", e, "text in UTF-8"))
}

/// Whether it cannot be text that the folder's author wrote. Templates may begin like HTML or JSON, or be empty.
fn is_not_text(kind: &ForeignFile) -> bool {
    let text = [&b"<"[..], b"{", b""].map(ForeignFile::of);
    !text.contains(&Some(*kind))
}

/// The JSON in a file.
pub(crate) fn parsed(path: &Path, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(|e| match ForeignFile::of(text.as_bytes()) {
        Some(kind) if !kind.is_json() => wrong(path, "contents", kind.name, format!("JSON; {}", kind.remedy)),
        _ => wrong(path, "contents", e, "JSON"),
    })
}

pub(crate) fn wrong(path: &Path, what: impl ToString, got: impl ToString, wanted: impl ToString) -> Error {
    let (what, got, wanted) = (what.to_string(), got.to_string(), wanted.to_string());
    Error::Folder { path: path.to_owned(), what, got, wanted }
}

fn shortened(got: impl ToString) -> String {
    let got = got.to_string();
    match got.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &got[..at]),
        None => got,
    }
}
