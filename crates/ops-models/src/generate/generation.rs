//! A text that grows, as an iterator over its tokens.
use super::text::Text;
use super::{Finish, GenerateOptions, TextModel, Token};
use crate::{Error, Result, Row, State};
use ops_core::model::Transformer;
use ops_core::{Backend, Float};

/// The tokens that continue a prompt, from [`TextModel::generate`].
///
/// An iterator that ends where the text ends ([`finish`](Self::finish)) or after an error.
///
/// ```no_run
/// # use rocm_ops::models::{GenerateOptions, TextModel};
/// # let (cpu, file) = (rocm_ops::Cpu::new(), rocm_ops::models::open("Qwen3-0.6B")?);
/// let model = TextModel::<f32, _>::load(&cpu, &file, 4096)?;
/// let text = model.generate(&cpu, "Once upon a time", GenerateOptions::default())?;
/// let text: String = text.map(|token| Ok(token?.text)).collect::<rocm_ops::models::Result<_>>()?;
/// # Ok::<(), rocm_ops::models::Error>(())
/// ```
pub struct Generation<'m, T: Float, B: Backend> {
    model: &'m TextModel<T, B>,
    backend: &'m B,
    state: State<B::Space, T>,
    /// The tokens in the state, and those of the next step.
    tokens: Vec<u32>,
    text: Text<'m>,
    finish: Option<Finish>,
    /// Whether there is no next token, because the text has ended or one of its steps has failed.
    ended: bool,
    dropped: usize,
}

impl<'m, T: Float, B: Transformer<T>> Generation<'m, T, B> {
    pub(super) fn new(
        model: &'m TextModel<T, B>,
        backend: &'m B,
        tokens: Vec<u32>,
        options: GenerateOptions,
    ) -> Result<Self> {
        options.check(model.decoder.vocabulary())?;
        // The last token is never fed back, so the state needs no room for it.
        let room = tokens.len().saturating_add(options.max_tokens).min(model.decoder.context());
        let state = model.decoder.state(backend, room)?;
        let ended = options.max_tokens == 0;
        let finish = ended.then_some(Finish::Length);
        let text = Text::new(model.tokenizer(), &tokens, options)?;
        Ok(Generation { model, backend, state, tokens, text, finish, ended, dropped: 0 })
    }

    /// The next token of each of several texts of one model, in one pass through its weights. `None` for a text that has ended, and
    /// an error for one whose next token cannot be drawn ([`Error::Nan`]), which ends it.
    ///
    /// ```no_run
    /// # use rocm_ops::models::{GenerateOptions, Generation, TextModel};
    /// # let (cpu, file) = (rocm_ops::Cpu::new(), rocm_ops::models::open("Qwen3-0.6B")?);
    /// # let model = TextModel::<f32, _>::load(&cpu, &file, 4096)?;
    /// let begin = |prompt| model.generate(&cpu, prompt, GenerateOptions::default());
    /// let mut texts = [begin("Once upon a time")?, begin("In the end")?];
    /// while texts.iter().any(|text| !text.has_ended()) {
    ///     for (at, token) in Generation::step(&mut texts)?.into_iter().enumerate() {
    ///         let Some(token) = token else { continue };
    ///         println!("{at}: {:?}", token?.text);
    ///     }
    /// }
    /// # Ok::<(), rocm_ops::models::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Option`] for texts of different models; those of the backend, after which all have ended.
    pub fn step(texts: &mut [Self]) -> Result<Vec<Option<Result<Token>>>> {
        let Some(first) = texts.iter().find(|text| !text.ended) else {
            return Ok(texts.iter().map(|_| None).collect());
        };
        let (model, backend) = (first.model, first.backend);
        if texts.iter().any(|text| !std::ptr::eq(text.model, model)) {
            let (got, wanted) = ("those of several models".to_owned(), "texts of one model".to_owned());
            return Err(Error::Option { name: "texts", got, wanted });
        }
        let growing = texts.iter_mut().filter(|text| !text.ended);
        let parts = growing.map(|Generation { state, tokens, text, .. }| {
            let tokens = tokens.as_slice();
            let fresh = &tokens[state.len()..];
            ((state, fresh), text.draw(tokens))
        });
        let (mut rows, draws): (Vec<Row<'_, _, _>>, Vec<_>) = parts.unzip();
        let drawn = model.decoder.next_batch(backend, &mut rows, &draws);
        drop(draws);
        let drawn = drawn.inspect_err(|_| texts.iter_mut().for_each(|text| text.ended = true))?;
        let mut drawn = drawn.into_iter();
        let next = texts.iter_mut().map(|text| match text.ended {
            true => None,
            false => drawn.next().map(|id| text.accept(id)),
        });
        Ok(next.collect())
    }

    /// Adds the token that was drawn.
    fn accept(&mut self, drawn: crate::Drawn) -> Result<Token> {
        self.ended = true; // if anything fails
        let full = self.state.len() == self.model.decoder.context();
        let (token, finish) = self.text.accept(drawn?, full)?;
        self.tokens.push(token.id);
        if full && finish.is_none() {
            self.shift()?;
        }
        (self.finish, self.ended) = (finish, finish.is_some());
        Ok(token)
    }

    /// Drops the older half of the text. The rest is read again, because its positions change.
    fn shift(&mut self) -> Result<()> {
        let kept = (self.model.decoder.context() / 2).max(1);
        let begin = self.tokens.len() - kept;
        // The token that begins a text stays, since models need it.
        let bos = self.model.tokenizer().and_then(|tokenizer| tokenizer.bos());
        if kept > 1 && bos.is_some() && self.tokens.first().copied() == bos {
            self.tokens[begin] = self.tokens[0];
        }
        self.tokens.drain(..begin);
        self.dropped += begin;
        self.state.truncate(0)
    }

    /// Why the text has ended; `None` while it goes on, and after an error.
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Whether there is no next token.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// How many tokens the context has lost so far ([`Overflow::Shift`](crate::Overflow::Shift)).
    pub fn dropped(&self) -> usize {
        self.dropped
    }
}

impl<T: Float, B: Transformer<T>> Iterator for Generation<'_, T, B> {
    type Item = Result<Token>;

    fn next(&mut self) -> Option<Self::Item> {
        match Self::step(std::slice::from_mut(self)) {
            Ok(mut tokens) => tokens.pop().flatten(),
            Err(error) => Some(Err(error)),
        }
    }
}
