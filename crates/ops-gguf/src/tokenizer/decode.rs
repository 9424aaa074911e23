//! Decodes token ids to text.

use super::huggingface::Pieces;
use super::vocab::{TokenKind, byte_of};
use super::{Engine, Tokenizer, byte_level, panicked, sentencepiece};
use crate::error::{Error, Result};
use crate::panics;

/// Options for decoding.
#[derive(Clone, Copy, Debug, Default)]
pub struct DecodeOptions {
    /// Write control and unknown tokens as they appear in the vocabulary, such as `</s>`. By default they produce no text.
    pub special: bool,
}

/// Decodes ids as they arrive, and holds back incomplete characters.
///
/// Concatenating the pieces and the result of [`DecodeStream::finish`] gives what [`Tokenizer::decode`] returns for all ids
/// at once.
///
/// ```no_run
/// # let gguf = rocm_ops::gguf::Gguf::open("model.gguf")?;
/// let tokenizer = gguf.tokenizer()?;
/// let prompt = tokenizer.encode("In the beginning")?;
/// let mut stream = tokenizer.decode_stream_after(&prompt)?;
/// # let generated = [1_u32, 2, 3];
/// for id in generated {
///     if let Some(text) = stream.push(id)? {
///         print!("{text}");
///     }
/// }
/// print!("{}", stream.finish());
/// # Ok::<(), rocm_ops::gguf::Error>(())
/// ```
pub struct DecodeStream<'t> {
    tokenizer: &'t Tokenizer,
    options: DecodeOptions,
    /// Bytes of an incomplete character.
    pending: Vec<u8>,
    /// Whether the next text is the first one; the space that the encoder prepended is then removed.
    at_start: bool,
}

impl DecodeStream<'_> {
    /// Adds the next id and returns the text that it completes, if any.
    ///
    /// # Errors
    /// [`Error::TokenId`] if the vocabulary has no such id; the stream remains usable.
    pub fn push(&mut self, id: u32) -> Result<Option<String>> {
        self.push_bytes(id)?;
        let text = take_whole_characters(&mut self.pending);
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    /// Returns the rest: U+FFFD if the ids ended within a character, otherwise nothing.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }

    fn push_bytes(&mut self, id: u32) -> Result<()> {
        let before = self.pending.len();
        let tokenizer = self.tokenizer;
        let appended = panics::catch(|| tokenizer.append_bytes(id, self.options, &mut self.pending));
        let is_text = appended.unwrap_or_else(|message| Err(tokenizer.files.name(panicked(&message))))?;
        if is_text && std::mem::take(&mut self.at_start) && self.pending.get(before) == Some(&b' ') {
            self.pending.remove(before);
        }
        Ok(())
    }
}

/// Takes everything except an incomplete character at the end. Invalid bytes become U+FFFD, as in
/// [`String::from_utf8_lossy`].
fn take_whole_characters(bytes: &mut Vec<u8>) -> String {
    let unfinished = bytes.utf8_chunks().last().map_or(0, |chunk| {
        // Only at the end can an invalid sequence still become valid.
        match std::str::from_utf8(chunk.invalid()) {
            Err(e) if e.error_len().is_none() => chunk.invalid().len(),
            _ => 0,
        }
    });
    let rest = bytes.split_off(bytes.len() - unfinished);
    let whole = std::mem::replace(bytes, rest);
    String::from_utf8(whole).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

impl Tokenizer {
    /// The text of ids. Control tokens produce none; invalid UTF-8 becomes U+FFFD.
    ///
    /// # Errors
    /// [`Error::TokenId`] if the vocabulary has no such id.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.decode_with(ids, DecodeOptions::default())
    }

    /// [`Tokenizer::decode`] with options.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn decode_with(&self, ids: &[u32], options: DecodeOptions) -> Result<String> {
        let mut stream = DecodeStream { options, ..self.decode_stream() };
        ids.iter().try_for_each(|&id| stream.push_bytes(id))?;
        Ok(stream.finish())
    }

    /// A stream for the start of a text.
    pub fn decode_stream(&self) -> DecodeStream<'_> {
        let at_start = match &self.engine {
            Engine::SentencePiece(sp) => sp.space_prefix,
            Engine::HuggingFace(engine) => engine.strips_space,
            Engine::ByteLevel { .. } => false,
        };
        DecodeStream { tokenizer: self, options: DecodeOptions::default(), pending: Vec::new(), at_start }
    }

    /// [`Tokenizer::decode_stream`] with options.
    pub fn decode_stream_with(&self, options: DecodeOptions) -> DecodeStream<'_> {
        DecodeStream { options, ..self.decode_stream() }
    }

    /// A stream that continues after these ids without returning their text: for text generated after a prompt.
    ///
    /// # Errors
    /// [`Error::TokenId`] if the vocabulary has no such id.
    pub fn decode_stream_after(&self, ids: &[u32]) -> Result<DecodeStream<'_>> {
        let mut stream = self.decode_stream();
        ids.iter().try_for_each(|&id| stream.push(id).map(drop))?;
        Ok(stream)
    }

    /// Appends the bytes of a token and returns whether it was text.
    fn append_bytes(&self, id: u32, options: DecodeOptions, bytes: &mut Vec<u8>) -> Result<bool> {
        let (Some(text), Some(kind)) = (self.vocab.text(id), self.vocab.kind(id)) else {
            return if (id as usize) < self.rows {
                Ok(false)
            } else {
                Err(Error::TokenId { id, vocab_size: self.rows })
            };
        };
        if kind.is_control() {
            if options.special {
                bytes.extend_from_slice(text.as_bytes());
            }
            return Ok(false);
        }
        let pieces = match &self.engine {
            Engine::SentencePiece(_) => &Pieces::Spaces,
            Engine::HuggingFace(engine) => &engine.pieces,
            Engine::ByteLevel { .. } => &Pieces::Bytes,
        };
        match (kind, byte_of(text), pieces) {
            (TokenKind::Unused, ..) => return Ok(false),
            (TokenKind::Byte, Some(byte), _) => bytes.push(byte),
            (_, _, Pieces::Replaced(all)) => Pieces::append_replaced(all, text, bytes),
            (_, _, Pieces::Spaces) => sentencepiece::decode(text, bytes),
            (_, _, Pieces::Words(form)) => Pieces::append_word(form, text, bytes),
            (TokenKind::UserDefined, _, Pieces::Bytes) => bytes.extend_from_slice(text.as_bytes()),
            (_, _, Pieces::Bytes) => byte_level::decode(text, bytes),
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_given_when_they_are_whole() {
        let mut pending = Vec::new();
        let mut feed = |bytes: &[u8]| {
            pending.extend_from_slice(bytes);
            take_whole_characters(&mut pending)
        };
        assert_eq!(feed(b"a\xf0\x9f"), "a");
        assert_eq!(feed(b"\x98"), "");
        assert_eq!(feed(b"\x80b"), "😀b");
        assert_eq!(feed(b"\xff"), "\u{fffd}");
        assert_eq!(feed(b"\xe2\x96"), "");
        assert_eq!(feed(b"x\xc3"), "\u{fffd}x");
        assert_eq!(feed(b"\xa9"), "é");
        assert_eq!(feed(b""), "");
    }
}
