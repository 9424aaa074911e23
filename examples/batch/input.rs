//! The model's files, and the lines that are the prompts.
use crate::args::Args;
use examples_shared::{Result, chat};
use rocm_ops::gguf::{Bytes, EncodeOptions, Gguf, Tokenizer};
use rocm_ops::models::{self, Config};
use std::io::BufRead;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};

/// The inputs of a run.
pub(crate) struct Input<'a> {
    pub(crate) args: &'a Args,
    pub(crate) model: Gguf,
    pub(crate) tokenizer: Tokenizer,
    /// Maximum number of tokens in a sequence: limited by the model's training context and by the size of the
    /// cache.
    pub(crate) context: usize,
    pub(crate) begin: Instant,
}

impl<'a> Input<'a> {
    pub(crate) fn new(args: &'a Args) -> Result<Self> {
        let begin = Instant::now();
        if args.model.is_dir() && !args.model.join("tokenizer.json").is_file() {
            return Err(format!("{} has no tokenizer.json", args.model.display()).into());
        }
        let model = models::open_with(&args.model, &mut |file| match args.mmap {
            // SAFETY: the user requested it with `--mmap`, whose help says that the files must not change.
            true => unsafe { Bytes::map(file) },
            false => Bytes::read(file),
        })?;
        let tokenizer = model.tokenizer()?;
        let trained = Config::new(model.metadata())?.context;
        let asked = args.context.map_or(trained, |n| trained.min(n as usize));
        let context = asked.min((args.blocks as usize).saturating_mul(args.block_size as usize));
        Ok(Input { args, model, tokenizer, context, begin })
    }

    /// The text printed before the generated text, and the tokens, whose ids must be below `known`.
    pub(crate) fn prompt(&self, text: &str, known: usize) -> Result<(String, Vec<u32>)> {
        let (shown, ids) = match self.args.chat {
            false => (text.to_owned(), self.tokenizer.encode(text)?),
            true => {
                // The template writes all special tokens, including the first one.
                let rendered = chat::render(&self.tokenizer, self.args.system.as_deref(), text)?;
                let options = EncodeOptions { bos: Some(false), eos: Some(false), special: true };
                (String::new(), self.tokenizer.encode_with(&rendered, options)?)
            }
        };
        let (n, context) = (ids.len(), self.context);
        if n == 0 || n > context {
            return Err(format!("the prompt has {n} tokens, wanted 1 to {context}").into());
        }
        if let Some(id) = ids.iter().find(|id| **id as usize >= known) {
            return Err(format!("the prompt has token {id}, but the model has {known} tokens").into());
        }
        Ok((shown, ids))
    }
}

/// The meaning of a line.
#[derive(Debug, PartialEq)]
pub(crate) enum Line {
    Prompt(String),
    /// End the sequence with this number.
    Cancel(usize),
    /// An invalid line, or the reason why there are no more lines.
    Wrong(String),
}

impl Line {
    /// Parses a line of standard input, where lines that begin with a colon are commands. None if the line is
    /// empty.
    fn of(text: &str) -> Option<Line> {
        let text = text.trim_end_matches(['\r', '\n']);
        match text.strip_prefix(':') {
            _ if text.trim().is_empty() => None,
            None => Some(Line::Prompt(text.to_owned())),
            Some(prompt) if prompt.starts_with(':') => Some(Line::Prompt(prompt.to_owned())),
            Some(command) => Some(match command.trim().split_once(' ') {
                Some(("cancel", number)) if number.trim().parse::<usize>().is_ok() => {
                    Line::Cancel(number.trim().parse().unwrap_or(0))
                }
                _ => Line::Wrong(format!("`{text}`: wanted `:cancel NUMBER`, or `::` before a colon")),
            }),
        }
    }
}

/// Lines as they arrive.
pub(crate) struct Lines {
    lines: Receiver<Line>,
    is_open: bool,
}

impl Lines {
    pub(crate) fn open(args: &Args, standard: Option<Box<dyn BufRead + Send>>) -> Result<Self> {
        let (sender, lines) = channel();
        let prompts: Vec<String> = if !args.prompt.is_empty() {
            args.prompt.clone()
        } else if args.prompts == Path::new("-") {
            let mut standard = standard.ok_or("there is no standard input; give --prompts or --prompt")?;
            // This thread ends with the program: it may wait for a line forever.
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                loop {
                    bytes.clear();
                    let line = match standard.read_until(b'\n', &mut bytes) {
                        Ok(0) => return,
                        Ok(_) => match std::str::from_utf8(&bytes) {
                            Ok(text) => Line::of(text),
                            Err(_) => Some(Line::Wrong("a line is not UTF-8".to_owned())),
                        },
                        Err(error) => {
                            drop(sender.send(Line::Wrong(format!("cannot read standard input: {error}"))));
                            return;
                        }
                    };
                    if line.is_some_and(|line| sender.send(line).is_err()) {
                        return;
                    }
                }
            });
            return Ok(Lines { lines, is_open: true });
        } else {
            let file = args.prompts.display();
            let text =
                std::fs::read_to_string(&args.prompts).map_err(|e| format!("cannot read {file}: {e}"))?;
            text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
        };
        if prompts.is_empty() {
            return Err(format!("{} has no line with a prompt", args.prompts.display()).into());
        }
        // The receiver still exists, so nothing is lost.
        prompts.into_iter().for_each(|prompt| drop(sender.send(Line::Prompt(prompt))));
        Ok(Lines { lines, is_open: true })
    }

    /// The next line, if one has arrived. If `idle`, waits a moment for one.
    pub(crate) fn next(&mut self, idle: bool) -> Option<Line> {
        let line = match idle && self.is_open {
            true => {
                self.lines.recv_timeout(Duration::from_millis(20)).map_err(|e| e == RecvTimeoutError::Timeout)
            }
            false => self.lines.try_recv().map_err(|e| e == TryRecvError::Empty),
        };
        line.map_err(|may_come| self.is_open = may_come).ok()
    }
    /// Whether more lines may come.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }
}
