//! A text that grows, as an iterator over its tokens.
use super::text::Text;
use super::{Finish, GenerateOptions, TextModel, Token};
use crate::decoder::Repeated;
use crate::{Drawn, Error, Pages, Result, Row, State};
use ops_core::model::{Sequence, Transformer};
use ops_core::{Float, Replay};

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
pub struct Generation<'m, T: Float, B: Replay> {
    model: &'m TextModel<T, B>,
    backend: &'m B,
    /// Absent before the first step.
    past: Option<Past<T, B>>,
    /// Maximum number of tokens in it.
    room: usize,
    /// The tokens of the past, and those of the next step.
    tokens: Vec<u32>,
    text: Text<'m>,
    finish: Option<Finish>,
    /// Whether there is no next token, because the text has ended or one of its steps has failed.
    ended: bool,
    dropped: usize,
}

/// What the model remembers of a text.
enum Past<T: Float, B: Replay> {
    /// That of a text on a backend that does not record, or of one that is continued together with others.
    State(State<B::Space, T>),
    /// That of a text on its own: positions and lengths are in the memory of the backend, so that its steps can be recorded.
    Pages(Box<Alone<T, B>>),
}

struct Alone<T: Float, B: Replay> {
    pages: Pages<B::Space, T>,
    text: Sequence,
    repeated: Repeated<B>,
}

/// Tokens per block of a text on its own.
const BLOCK: usize = 16;

impl<T: Float, B: Transformer<T>> Past<T, B> {
    fn state(model: &TextModel<T, B>, b: &B, room: usize) -> Result<Self> {
        Ok(Past::State(model.decoder.state(b, room)?))
    }

    /// Without tokens.
    fn new(model: &TextModel<T, B>, b: &B, room: usize) -> Result<Self> {
        if !(model.records && model.decoder.can_repeat(b)) {
            return Self::state(model, b, room);
        }
        let pages = model.decoder.pages_for(b, room.div_ceil(BLOCK).max(1), BLOCK, 1)?;
        let (text, repeated) = (pages.blocks().sequence(), Repeated::new(true));
        Ok(Past::Pages(Box::new(Alone { pages, text, repeated })))
    }

    fn len(&self) -> usize {
        match self {
            Past::State(state) => state.len(),
            Past::Pages(alone) => alone.text.len(),
        }
    }

    fn clear(&mut self) -> Result<()> {
        match self {
            Past::State(state) => state.truncate(0)?,
            Past::Pages(alone) => alone.text.truncate(0),
        }
        Ok(())
    }
}

impl<'m, T: Float, B: Transformer<T>> Generation<'m, T, B> {
    pub(super) fn new(
        model: &'m TextModel<T, B>,
        backend: &'m B,
        tokens: Vec<u32>,
        options: GenerateOptions,
    ) -> Result<Self> {
        options.check(model.decoder.vocabulary())?;
        // The last token is never fed back, so no room is needed for it.
        let room = tokens.len().saturating_add(options.max_tokens).min(model.decoder.context());
        let ended = options.max_tokens == 0;
        let finish = ended.then_some(Finish::Length);
        let text = Text::new(model.tokenizer(), &tokens, options)?;
        Ok(Generation { model, backend, past: None, room, tokens, text, finish, ended, dropped: 0 })
    }

    /// The next token of each of several texts of one model, in one pass through its weights. `None` for a text that has ended, and
    /// an error for one whose next token cannot be drawn ([`Error::Nan`]), which ends it.
    ///
    /// Steps are recorded ([`TextModel::record_steps`]) only while a single text grows. If that text later grows together with others, it is
    /// read again from its beginning. A [`Batch`](crate::Batch) records the steps of several texts.
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
        let drawn = match texts.iter_mut().filter(|text| !text.ended).collect::<Vec<_>>().as_mut_slice() {
            [text] => text.next_alone(),
            growing => Self::next_together(model, backend, growing),
        };
        let drawn = drawn.inspect_err(|_| texts.iter_mut().for_each(|text| text.ended = true))?;
        let mut drawn = drawn.into_iter();
        let next = texts.iter_mut().map(|text| match text.ended {
            true => None,
            false => drawn.next().map(|id| text.accept(id)),
        });
        Ok(next.collect())
    }

    /// Draws the next token of a text on its own.
    fn next_alone(&mut self) -> Result<Vec<Drawn>> {
        let Generation { model, backend, past, room, tokens, text, .. } = self;
        let past = match past {
            Some(past) => past,
            None => past.insert(Past::new(model, backend, *room)?),
        };
        let (fresh, draw) = (&tokens[past.len()..], [text.draw(tokens)]);
        match past {
            Past::State(state) => model.decoder.next_batch(backend, &mut [(state, fresh)], &draw),
            Past::Pages(alone) => {
                let Alone { pages, text, repeated } = &mut **alone;
                model.decoder.next_repeated(backend, pages, &mut [(text, fresh)], &draw, repeated)
            }
        }
    }

    /// Draws the next token of each of several texts. One that was on its own is read again.
    fn next_together(model: &TextModel<T, B>, backend: &B, texts: &mut [&mut Self]) -> Result<Vec<Drawn>> {
        for text in texts.iter_mut().filter(|text| !matches!(text.past, Some(Past::State(_)))) {
            text.past = None; // frees its memory first
            text.past = Some(Past::state(model, backend, text.room)?);
        }
        let (mut rows, mut draws): (Vec<Row<'_, _, _>>, _) = (Vec::new(), Vec::new());
        for Generation { past, tokens, text, .. } in texts {
            if let Some(Past::State(state)) = past {
                let fresh = &tokens[state.len()..];
                rows.push((state, fresh));
                draws.push(text.draw(tokens));
            }
        }
        model.decoder.next_batch(backend, &mut rows, &draws)
    }

    /// Adds the token that was drawn.
    fn accept(&mut self, drawn: Drawn) -> Result<Token> {
        self.ended = true; // if anything fails
        let full = self.past.as_ref().map_or(0, Past::len) == self.model.decoder.context();
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
        self.past.as_mut().map_or(Ok(()), Past::clear)
    }

    /// Why the text has ended; `None` while it goes on, and after an error.
    pub fn finish(&self) -> Option<Finish> {
        self.finish
    }

    /// Why the first step of this text that could not be recorded was refused ([`TextModel::record_steps`]); `None` if none was.
    pub fn refusal(&self) -> Option<&ops_core::Error> {
        match &self.past {
            Some(Past::Pages(alone)) => alone.repeated.refusal(),
            _ => None,
        }
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
