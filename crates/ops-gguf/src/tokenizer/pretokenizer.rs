//! Splits text into words before byte pair encoding, by the rules that each vocabulary was trained with.
//!
//! The names are those of `tokenizer.ggml.pre`; the patterns are the ones that the models' authors published.

use regex::Regex;

use crate::error::{Error, Result};
use rules::{AFMOE_GROUPS, CASCADE, CUTS, GROUPS};
pub(super) use rules::{LISTED, Rules};

mod rules;

/// Compiled rules.
pub(super) struct Splitter {
    patterns: Vec<Pattern>,
}

impl Splitter {
    /// Splits `text` and calls `word` with each word and its position, in order.
    pub(super) fn split(&self, text: &str, word: &mut dyn FnMut(usize, &str) -> Result<()>) -> Result<()> {
        split(&self.patterns, 0, text, word)
    }
}

fn split(
    patterns: &[Pattern],
    at: usize,
    text: &str,
    word: &mut dyn FnMut(usize, &str) -> Result<()>,
) -> Result<()> {
    let Some((first, rest)) = patterns.split_first() else {
        return if text.is_empty() { Ok(()) } else { word(at, text) };
    };
    let (mut done, mut from) = (0, 0);
    while let Some((start, end)) = first.find(text, from) {
        split(rest, at + done, &text[done..start], word)?;
        first.pieces(&text[start..end], &mut |i, piece| split(rest, at + start + i, piece, word))?;
        done = end;
        // A pattern may match nothing and only mark a cut.
        from = if start == end { end + text[end..].chars().next().map_or(0, char::len_utf8) } else { end };
    }
    split(rest, at + done, &text[done..], word)
}

/// A pattern without lookahead, so that it runs in linear time and without limits on the text.
enum Pattern {
    /// Most published patterns have one lookahead, at the end: `\s+(?!\S)|\s+`. A run of spaces leaves its last space to the word
    /// that follows, unless it has only one. This is done here after matching `\s+`. Such a run differs from the matches of the
    /// other alternatives in two ways: it is all spaces, and it does not end in a newline if one of them, `\s*[\r\n]+`, takes
    /// the spaces up to the last newline first.
    ///
    /// [`CASCADE`] in its place cuts the run that is left into pieces.
    Words { regex: Regex, leaves_last_space: bool, ends_at_newline: bool, cascades: bool },
    /// [`AFMOE_GROUPS`]: groups of three digits from the right. [`GROUPS`]: in runs of digits with no letter after them.
    Groups { run: Regex, letter: Option<Regex> },
    /// [`CUTS`]: a cut before every third digit from the right.
    Cuts { run: Regex },
}

impl Pattern {
    fn new(published: &str) -> Result<Self> {
        let compiled = |pattern: &str| {
            Regex::new(pattern).map_err(|e| Error::tokenizer("pre-tokenizer", e, "a pattern that compiles"))
        };
        let run = || compiled(r"\d+");
        if published == GROUPS {
            return Ok(Self::Groups { run: run()?, letter: Some(compiled(r"\A\w")?) });
        }
        if published == AFMOE_GROUPS {
            return Ok(Self::Groups { run: compiled(r"\p{N}+")?, letter: None });
        }
        if published == CUTS {
            return Ok(Self::Cuts { run: run()? });
        }
        let cascade = published.strip_suffix(CASCADE);
        let stem = published.strip_suffix(r"|\s+(?!\S)|\s+").or(cascade);
        Ok(Self::Words {
            regex: stem.map_or_else(|| compiled(published), |stem| compiled(&format!(r"{stem}|\s+")))?,
            leaves_last_space: stem.is_some(),
            ends_at_newline: published.contains(r"|\s*[\r\n]"),
            cascades: cascade.is_some(),
        })
    }

    /// The first match from `from` on.
    fn find(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        match self {
            Self::Words { regex, leaves_last_space, ends_at_newline, .. } => {
                let (start, end) = regex.find_at(text, from).map(|found| (found.start(), found.end()))?;
                let end = match *leaves_last_space && end < text.len() {
                    true => without_last_space(&text[start..end], *ends_at_newline) + start,
                    false => end,
                };
                Some((start, end))
            }
            Self::Groups { run, letter } => {
                let mut runs = run.find_iter(&text[from..]).map(|run| run.start() + from..run.end() + from);
                let followed =
                    |end: usize| letter.as_ref().is_some_and(|letter| letter.is_match(&text[end..]));
                let run = runs.find(|run| !followed(run.end))?;
                Some((run.start, run.end))
            }
            Self::Cuts { run } => {
                let mut runs = run.find_iter(&text[from..]).map(|run| (run.start() + from, run.as_str()));
                let (start, run) = runs.find(|(_, run)| run.chars().count() >= 3)?;
                let cut = start + length(run, run.chars().count() % 3);
                Some((cut, cut))
            }
        }
    }

    /// The words in a match, with their positions in it.
    fn pieces(&self, found: &str, piece: &mut dyn FnMut(usize, &str) -> Result<()>) -> Result<()> {
        match self {
            Self::Groups { .. } => pieces(found, |left| (left - 1) % 3 + 1, piece),
            Self::Words { cascades: true, .. }
                if !found.ends_with(['\r', '\n']) && found.chars().all(char::is_whitespace) =>
            {
                pieces(found, |left| 1 << left.min(512).ilog2(), piece)
            }
            _ => piece(0, found),
        }
    }
}

/// Pieces of as many characters as `size` gives for the number that is left.
fn pieces(
    text: &str,
    size: fn(usize) -> usize,
    piece: &mut dyn FnMut(usize, &str) -> Result<()>,
) -> Result<()> {
    let (mut at, mut left) = (0, text.chars().count());
    while left > 0 {
        let end = at + length(&text[at..], size(left));
        piece(at, &text[at..end])?;
        (at, left) = (end, left - size(left));
    }
    Ok(())
}

/// The length of a match, without its last space if it is a run of spaces.
fn without_last_space(found: &str, ends_at_newline: bool) -> usize {
    let last = found.chars().next_back().map_or(0, char::len_utf8);
    let by_newline = ends_at_newline && found.ends_with(['\r', '\n']);
    match by_newline || last == found.len() || !found.chars().all(char::is_whitespace) {
        true => found.len(),
        false => found.len() - last,
    }
}

/// Bytes of the first characters.
fn length(text: &str, characters: usize) -> usize {
    text.chars().take(characters).map(char::len_utf8).sum()
}

#[cfg(test)]
mod tests;
