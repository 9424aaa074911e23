//! Tables and JSON lines for standard output; progress for standard error.
use ops_command::stderr;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Aligned columns of text.
pub(crate) struct Table {
    columns: Vec<Column>,
}

struct Column {
    title: &'static str,
    width: usize,
    right: bool,
}

impl Table {
    /// Columns with these titles. A title with a leading `>` is right-aligned, for numbers.
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        let column = |title: &&'static str| {
            let (right, title) = title.strip_prefix('>').map_or((false, *title), |t| (true, t));
            Column { title, width: title.chars().count(), right }
        };
        Table { columns: titles.iter().map(column).collect() }
    }

    /// Widens the columns to fit a row that will be written.
    pub(crate) fn fit<S: AsRef<str>>(&mut self, row: &[S]) {
        for (column, cell) in self.columns.iter_mut().zip(row) {
            column.width = column.width.max(cell.as_ref().chars().count());
        }
    }

    /// The titles as a line.
    pub(crate) fn head(&self) -> String {
        self.line(&self.columns.iter().map(|c| c.title).collect::<Vec<_>>())
    }

    /// A row as a line.
    pub(crate) fn line<S: AsRef<str>>(&self, row: &[S]) -> String {
        let mut line = String::new();
        for (column, cell) in self.columns.iter().zip(row) {
            let (cell, width) = (cell.as_ref(), column.width);
            line += &if column.right { format!("{cell:>width$}  ") } else { format!("{cell:<width$}  ") };
        }
        line.trim_end().to_owned()
    }

    /// Writes the titles and all rows.
    ///
    /// # Errors
    /// Errors of the writer.
    pub(crate) fn print(
        titles: &[&'static str],
        rows: &[Vec<String>],
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut table = Table::new(titles);
        rows.iter().for_each(|row| table.fit(row));
        writeln!(out, "{}", table.head())?;
        rows.iter().try_for_each(|row| writeln!(out, "{}", table.line(row)))
    }
}

/// A line on standard error that shows the progress of a long run.
///
/// It appears after one second, if standard error is a terminal or progress was requested.
pub(crate) struct Progress {
    /// Progress was requested, so every detail is written.
    always: bool,
    shown: bool,
    rewrites: bool,
    start: Instant,
    last: Option<Instant>,
}

impl Progress {
    /// Shown on a terminal, and also elsewhere if `always`.
    pub(crate) fn new(always: bool) -> Self {
        let rewrites = io::stderr().is_terminal();
        Progress { always, shown: always || rewrites, rewrites, start: Instant::now(), last: None }
    }

    /// Shows that `done` of `all` are finished and `what` is next; at most ten times a second.
    pub(crate) fn step(&mut self, done: usize, all: usize, what: &str) {
        let now = Instant::now();
        let soon = self.last.is_some_and(|last| now - last < Duration::from_millis(100));
        if !self.shown || soon || now - self.start < Duration::from_secs(1) {
            return;
        }
        self.last = Some(now);
        let end = if self.rewrites { "" } else { "\n" };
        write!(stderr(), "{}[{done}/{all}] {what}{end}", self.start_of_line());
        stderr().flush();
    }

    /// If progress was requested, writes each next step as a line: the last line shows what a process died
    /// of.
    pub(crate) fn detail(&mut self, what: &str) {
        if self.always {
            self.clear();
            writeln!(stderr(), "{what}");
        }
    }

    /// Clears the line so that something else can be written.
    pub(crate) fn clear(&mut self) {
        if self.last.take().is_some() {
            write!(stderr(), "{}", self.start_of_line());
        }
    }

    fn start_of_line(&self) -> &'static str {
        if self.rewrites { "\r\x1b[K" } else { "" }
    }
}

/// Version of all JSON that this program writes, the field `schema` of each object. It grows when a field is removed or gets another
/// meaning, not when one is added (`docs/json.md`).
const SCHEMA: u32 = 1;

/// An object for JSON output, with the version of its form.
#[derive(Serialize)]
pub(crate) struct Versioned<'a, T> {
    schema: u32,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T: Serialize> Versioned<'a, T> {
    /// The object, in the form that this program writes. It must not have a field `schema`.
    pub(crate) fn new(object: &'a T) -> Self {
        Versioned { schema: SCHEMA, object }
    }
}

/// Writes an object of the `--json` output as one line, with its version.
///
/// # Errors
/// Errors of the writer.
pub(crate) fn json_line(object: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &Versioned::new(object))?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align() {
        let mut out = Vec::new();
        let rows = [vec!["a".to_owned(), "1".to_owned()], vec!["long".to_owned(), "22".to_owned()]];
        Table::print(&["op", ">n"], &rows, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "op     n\na      1\nlong  22\n");
    }

    #[test]
    fn lines_of_json_begin_with_the_version_of_their_form() {
        let mut out = Vec::new();
        json_line(&serde_json::json!({"op": "add"}), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\"schema\":1,\"op\":\"add\"}\n");
    }
}
