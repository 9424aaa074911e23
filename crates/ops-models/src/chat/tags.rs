//! Templates as minijinja reads them: differences from Jinja that only show in the text of a template are written another way.
//!
//! - `{% generation %}`, which marks answers for training and prints nothing, becomes a plain block.
//! - Strings get the value that Python gives them.
//! - `'..' % x` becomes a call of a filter, since minijinja has no such operator for strings.
//! - What `{% set %}` stores goes through the filter [`STORED`], which limits it.
use std::fmt::Write as _;

/// The filter for values that are stored.
pub(super) const STORED: &str = "_stored";
/// The filter for the operator `%` after a string.
pub(super) const PERCENT: &str = "_percent";

/// The template for minijinja. Lines stay lines, so that errors name the right one.
pub(super) fn prepare(template: &str) -> String {
    let mut scan = Scan { rest: template, out: String::with_capacity(template.len() + 64) };
    scan.template();
    scan.out
}

struct Scan<'t> {
    rest: &'t str,
    out: String,
}

impl<'t> Scan<'t> {
    fn template(&mut self) {
        while let Some(at) = self.rest.find('{') {
            self.copy(at);
            match self.rest.as_bytes().get(1) {
                Some(b'#') => self.copy_to("#}"),
                Some(b'%') => self.block(),
                Some(b'{') => {
                    self.copy(2);
                    self.expression("}}");
                }
                _ => self.copy(1),
            }
        }
        self.copy(self.rest.len());
    }

    fn copy(&mut self, len: usize) {
        let part = self.take(len);
        self.out.push_str(part);
    }

    fn take(&mut self, len: usize) -> &'t str {
        let (part, rest) = self.rest.split_at(len);
        self.rest = rest;
        part
    }

    /// Copies everything up to the end of this mark.
    fn copy_to(&mut self, mark: &str) {
        self.copy(self.rest.find(mark).map_or(self.rest.len(), |at| at + mark.len()));
    }

    /// A block tag, from `{%` to `%}`.
    fn block(&mut self) {
        self.copy(2);
        let is_space = |c: char| c.is_whitespace() || c == '-' || c == '+';
        self.copy(self.rest.len() - self.rest.trim_start_matches(is_space).len());
        let name = self.rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        match name {
            "generation" | "endgeneration" => {
                self.take(name.len());
                self.out.push_str(if name == "generation" { "if true" } else { "endif" });
                self.expression("%}");
            }
            "raw" => {
                let ends =
                    |at: &usize| self.rest[at + 2..].trim_start_matches(is_space).starts_with("endraw");
                let end = self.rest.match_indices("{%").map(|(at, _)| at).find(ends);
                self.copy(end.unwrap_or(self.rest.len()));
                self.copy_to("%}");
            }
            "set" => {
                self.copy(name.len());
                let target = self.rest.find(['=', '%', '\'', '"', '|']).unwrap_or(self.rest.len());
                let inside = self.rest[..target].contains('.');
                self.copy(target);
                if !self.rest.starts_with('=') {
                    return self.expression("%}");
                }
                self.copy(1);
                self.out.push('(');
                let start = self.out.len();
                self.expression("%}");
                self.store(start, inside);
            }
            _ => self.expression("%}"),
        }
    }

    /// Puts the value of a `set`, which begins at `start`, through the filter; `inside` if it goes into a namespace.
    fn store(&mut self, start: usize, inside: bool) {
        let Some(value) = self.out[start..].strip_suffix("%}") else { return };
        let value = value.trim_end_matches(['-', '+']).trim_end();
        if value.trim_start().is_empty() {
            return;
        }
        let end = value.len() + start;
        self.out.insert_str(end, &format!(")|{STORED}({inside})"));
    }

    /// Everything to the end of a tag, which lies outside brackets and strings.
    fn expression(&mut self, end: &str) {
        let mut depth = 0_usize;
        while let Some(first) = self.rest.chars().next() {
            if depth == 0 && self.rest.starts_with(end) {
                return self.copy(end.len());
            }
            match first {
                '\'' | '"' => {
                    self.string(first);
                    self.percent();
                    continue;
                }
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.copy(first.len_utf8());
        }
    }

    /// The operator `%` after a string, with the operand that follows.
    fn percent(&mut self) {
        while let Some(operand) =
            self.rest.trim_start().strip_prefix('%').filter(|rest| !rest.starts_with('}'))
        {
            let space = self.rest.len() - operand.len() - 1;
            self.copy(space);
            self.take(1);
            let _ = write!(self.out, "|{PERCENT}(");
            self.copy_space();
            self.operand();
            self.out.push(')');
        }
    }

    fn copy_space(&mut self) {
        self.copy(self.rest.len() - self.rest.trim_start().len());
    }

    /// A name, number, string or bracket, with what is called, looked up or filtered on it.
    fn operand(&mut self) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let mut is_first = true;
        loop {
            match self.rest.chars().next() {
                Some(c) if is_word(c) || (is_first && c == '-') => self.copy(c.len_utf8()),
                Some(quote @ ('\'' | '"')) if is_first => self.string(quote),
                Some(open @ ('(' | '[' | '{')) if is_first || open != '{' => self.bracket(),
                _ => break,
            }
            is_first = false;
        }
        while self.rest.trim_start().starts_with('|') {
            self.copy_space();
            self.copy(1);
            self.copy_space();
            self.copy(self.rest.len() - self.rest.trim_start_matches(is_word).len());
            if self.rest.starts_with('(') {
                self.bracket();
            }
        }
    }

    /// From an opening bracket to the closing one.
    fn bracket(&mut self) {
        let close = match self.rest.as_bytes().first() {
            Some(b'(') => ")",
            Some(b'[') => "]",
            _ => "}",
        };
        self.copy(1);
        self.expression(close);
    }

    /// A string, with the value that Python gives it.
    fn string(&mut self, quote: char) {
        let text = &self.rest[1..];
        let mut escaped = false;
        let end = text.find(|c: char| {
            let ends = c == quote && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        });
        let Some(end) = end else { return self.copy(self.rest.len()) };
        self.copy(1);
        let text = self.take(end);
        unescape(text, &mut self.out);
        self.copy(1);
    }
}

/// Writes the escapes of Python that minijinja reads another way as it reads them.
fn unescape(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut letters = rest[at + 1..].chars();
        let letter = letters.next();
        let after = letters.as_str();
        let wide =
            after.get(..8).and_then(|code| u32::from_str_radix(code, 16).ok()).and_then(char::from_u32);
        rest = after;
        match (letter, wide) {
            (Some('U'), Some(c)) if c != '\\' && c != '\'' && c != '"' => {
                out.push(c);
                rest = &after[8..];
            }
            (Some('a'), _) => out.push_str("\\x07"),
            (Some('v'), _) => out.push_str("\\x0b"),
            (Some('\n'), _) => {}
            // Python knows no such escape, and keeps both characters.
            (Some('/'), _) => out.push_str("\\\\/"),
            (Some(letter), _) => {
                out.push('\\');
                out.push(letter);
            }
            (None, _) => out.push('\\'),
        }
    }
    out.push_str(rest);
}
