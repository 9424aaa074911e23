//! Options of a JSON file, none of which is ignored.
use crate::{Error, Result};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// An object of a JSON file that keeps track of which options have been read. `null` counts as absent.
pub(super) struct Options {
    path: PathBuf,
    /// The object's path in the file, with a final dot; empty for the whole file.
    prefix: String,
    map: Map<String, Value>,
    used: RefCell<HashSet<String>>,
}

impl Options {
    pub(super) fn new(path: &Path, map: Map<String, Value>) -> Self {
        Options { path: path.to_owned(), prefix: String::new(), map, used: RefCell::default() }
    }

    /// The options of a file; `None` if there is no such file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>> {
        let Some(text) = read_text(path)? else { return Ok(None) };
        match serde_json::from_str(&text) {
            Ok(Value::Object(map)) => Ok(Some(Self::new(path, map))),
            Ok(_) => Err(wrong(path, "contents", "another kind of value", "an object of options")),
            Err(e) => Err(wrong(path, "contents", e, "JSON")),
        }
    }

    pub(super) fn get(&self, option: &str) -> Option<&Value> {
        self.used.borrow_mut().insert(option.to_owned());
        self.map.get(option).filter(|value| !value.is_null())
    }

    /// The first of these options that exists: options have had other names.
    pub(super) fn any<'o>(&self, options: &[&'o str]) -> Option<&'o str> {
        options.iter().filter(|option| self.get(option).is_some()).copied().next()
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
    pub(super) fn count(&self, option: &str) -> Result<Option<u32>> {
        self.typed(option, "a whole number that fits 32 bits", |v| {
            v.as_u64().and_then(|n| u32::try_from(n).ok())
        })
    }
    pub(super) fn number(&self, option: &str) -> Result<Option<f64>> {
        self.typed(option, "a number", Value::as_f64)
    }
    pub(super) fn flag(&self, option: &str) -> Result<Option<bool>> {
        self.typed(option, "true or false", Value::as_bool)
    }
    pub(super) fn text(&self, option: &str) -> Result<Option<&str>> {
        self.typed(option, "a string", Value::as_str)
    }
    /// An object within this one.
    pub(super) fn object(&self, option: &str) -> Result<Option<Self>> {
        let map = self.typed(option, "an object", Value::as_object)?;
        Ok(map.map(|map| Options {
            prefix: format!("{}{option}.", self.prefix),
            ..Options::new(&self.path, map.clone())
        }))
    }

    /// The same object, with these options where it has none. They need not be read.
    pub(super) fn with_defaults(mut self, defaults: Value) -> Self {
        let Value::Object(defaults) = defaults else { return self };
        for (option, value) in defaults {
            if self.map.get(&option).is_none_or(Value::is_null) {
                self.used.get_mut().insert(option.clone());
                self.map.insert(option, value);
            }
        }
        self
    }

    pub(super) fn required<T>(&self, option: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.wrong(option, "no such option", "a value"))
    }
    /// Refuses any value for which `fits` does not hold. The option may be absent.
    pub(super) fn only(&self, option: &str, wanted: &str, fits: impl Fn(&Value) -> bool) -> Result<()> {
        match self.get(option) {
            Some(value) if !fits(value) => Err(self.wrong(option, value, wanted)),
            _ => Ok(()),
        }
    }
    /// Refuses options that were not read and are not `harmless`.
    pub(super) fn finish(&self, harmless: &[&str]) -> Result<()> {
        let used = self.used.borrow();
        let known = |option: &str| used.contains(option) || harmless.contains(&option);
        match self.map.iter().find(|(option, value)| !value.is_null() && !known(option)) {
            Some((option, value)) => Err(self.wrong(
                option,
                value,
                "no such option: this program does not know its effect on results",
            )),
            None => Ok(()),
        }
    }

    pub(super) fn wrong(&self, option: &str, got: impl ToString, wanted: impl ToString) -> Error {
        wrong(&self.path, format!("option `{}{option}`", self.prefix), shortened(got), wanted)
    }
}

/// The text of a file; `None` if there is no such file.
pub(super) fn read_text(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(wrong(path, "file", e, "readable text")),
    }
}

pub(super) fn wrong(path: &Path, what: impl ToString, got: impl ToString, wanted: impl ToString) -> Error {
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
