//! The text of generated tokens, and when it ends.
use super::options::{GenerateOptions, Overflow};
use crate::Result;
use crate::decoder::Draw;
use ops_gguf::{DecodeStream, Tokenizer};

/// A generated token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// The text that it completes; often empty, since bytes of an incomplete character and what may begin a stop text are held back.
    /// Bytes that never become a character are left out.
    pub text: String,
}

/// Why a text has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finish {
    /// The model generated an end token.
    End,
    /// The text has reached one of [`GenerateOptions::stop`].
    Stop,
    /// It has [`GenerateOptions::max_tokens`].
    Length,
    /// The context is full.
    Context,
}

/// What a text has generated so far.
pub(super) struct Text<'m> {
    pub(super) options: GenerateOptions,
    pub(super) generated: usize,
    tokenizer: Option<&'m Tokenizer>,
    stream: Option<DecodeStream<'m>>,
    stops: Stops,
}

impl<'m> Text<'m> {
    pub(super) fn new(
        tokenizer: Option<&'m Tokenizer>,
        prompt: &[u32],
        options: GenerateOptions,
    ) -> Result<Self> {
        let stream = tokenizer.map(|tokenizer| tokenizer.decode_stream_after(prompt)).transpose()?;
        let stops = Stops { texts: options.stop.clone(), held: String::new() };
        Ok(Text { options, generated: 0, tokenizer, stream, stops })
    }

    /// How the token after these is drawn.
    pub(super) fn draw<'d>(&'d self, tokens: &'d [u32]) -> Draw<'d> {
        let change = |logits: &mut [f32]| self.options.change(logits, tokens);
        Draw {
            op: self.options.sample(),
            counter: self.generated as i64,
            change: self.options.changes_logits().then(|| Box::new(change) as Box<_>),
        }
    }

    /// Adds a drawn token, and says whether the text ends. `full` is whether the context has no room for it.
    pub(super) fn accept(&mut self, id: u32, full: bool) -> Result<(Token, Option<Finish>)> {
        let piece = self.stream.as_mut().map(|stream| stream.push(id)).transpose()?.flatten();
        self.generated += 1;
        let (mut text, stops) = self.stops.push(&piece.unwrap_or_default());
        let ends = self.tokenizer.is_some_and(|tokenizer| tokenizer.is_end(id));
        let finish = match &self.options {
            _ if stops => Some(Finish::Stop),
            options if ends && !options.ignore_eos => Some(Finish::End),
            options if self.generated >= options.max_tokens => Some(Finish::Length),
            options => (full && options.overflow == Overflow::Stop).then_some(Finish::Context),
        };
        if finish.is_some() && !stops {
            text += &std::mem::take(&mut self.stops.held);
        }
        Ok((Token { id, text }, finish))
    }
}

/// Finds the texts that end generation.
struct Stops {
    texts: Vec<String>,
    /// The beginning of one of them, or nothing.
    held: String,
}

impl Stops {
    /// What may be printed once `piece` has been added, and whether a stop text follows it.
    fn push(&mut self, piece: &str) -> (String, bool) {
        let mut text = std::mem::take(&mut self.held) + piece;
        if let Some(at) = self.texts.iter().filter_map(|stop| text.find(stop.as_str())).min() {
            text.truncate(at);
            return (text, true);
        }
        let begins = |at: &usize| self.texts.iter().any(|stop| stop.starts_with(&text[*at..]));
        if let Some(at) = text.char_indices().map(|(at, _)| at).find(begins) {
            self.held = text.split_off(at);
        }
        (text, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(stops: &[&str], pieces: &[&str]) -> (Vec<(String, bool)>, String) {
        let texts = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut stops = Stops { texts, held: String::new() };
        let out = pieces.iter().map(|piece| stops.push(piece)).collect();
        (out, stops.held)
    }
    fn goes_on(texts: &[&str]) -> Vec<(String, bool)> {
        texts.iter().map(|text| ((*text).to_owned(), false)).collect()
    }

    #[test]
    fn text_that_may_begin_a_stop_text_is_held_back() {
        assert_eq!(pushed(&["</s>"], &["a<", "/", "b", "<"]), (goes_on(&["a", "", "</b", ""]), "<".into()));
        // What begins later may still be one.
        assert_eq!(pushed(&["aab"], &["a", "a", "a"]), (goes_on(&["", "", "a"]), "aa".into()));
        assert_eq!(pushed(&["éa", "é!"], &["é", "é?"]), (goes_on(&["", "éé?"]), String::new()));
        assert_eq!(pushed(&[], &["a", ""]), (goes_on(&["a", ""]), String::new()));
    }

    #[test]
    fn text_ends_before_the_first_stop_text() {
        assert_eq!(pushed(&["</s>"], &["a<", "/s> b"]).0[1], (String::new(), true));
        assert_eq!(pushed(&["c", "bc"], &["abc"]).0, [("a".to_owned(), true)]);
        assert_eq!(pushed(&["aab"], &["a", "a", "a", "b"]).0[3], (String::new(), true));
        assert_eq!(
            pushed(&["\n\n"], &["one\n", "two\n", "\nthree"]).0[1..],
            [("\ntwo".to_owned(), false), (String::new(), true)]
        );
    }
}
