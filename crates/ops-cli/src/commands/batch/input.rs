//! The model's files, and the lines that are the prompts.
use super::Standard;
use crate::args::{BatchArgs, Common};
use crate::text;
use ops_core::Backend;
use ops_gguf::{Gguf, Tokenizer};
use ops_models::{Chat, Config, Rank};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel, sync_channel};
use std::time::{Duration, Instant};

/// The inputs of a run.
pub(super) struct Input<'a> {
    pub(super) common: Common,
    pub(super) args: &'a BatchArgs,
    pub(super) model: Arc<Gguf>,
    pub(super) config: Config,
    pub(super) tokenizer: Tokenizer,
    pub(super) chat: Option<Chat>,
    /// Maximum number of tokens in a sequence: limited by the model's training context and by the size of the
    /// cache.
    pub(super) context: usize,
    pub(super) begin: Instant,
}

impl<'a> Input<'a> {
    pub(super) fn new<B: Backend>(
        rank: &Rank<'_, B>,
        common: Common,
        args: &'a BatchArgs,
    ) -> text::Result<Self> {
        let begin = Instant::now();
        let (path, model) = text::open_once(rank, args.model.as_deref(), common.backend, &args.running)?;
        let config = Config::new(model.metadata())?;
        let tokenizer = text::tokenizer(&path, &model)?;
        let context = args.sampling.context(config.context);
        let context = context.min((args.blocks as usize).saturating_mul(args.block_size as usize));
        Ok(Input { common, args, model, config, tokenizer, chat: text::chat(&args.chat)?, context, begin })
    }
}

/// The meaning of a line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line {
    Prompt(String),
    /// A prompt that cannot be read, and why.
    Unreadable(String),
    /// End the sequence with this number.
    Cancel(usize),
    /// An invalid command, or the reason why there are no more lines.
    Wrong(String),
}

impl Line {
    /// Parses a line. On standard input, lines that begin with a colon are commands. None if the line is empty.
    fn of((number, line): (usize, Result<String, String>), commands: bool) -> Option<Line> {
        let text = match line {
            Ok(text) => text,
            Err(why) => return Some(Line::Unreadable(why)),
        };
        match text.strip_prefix(':').filter(|_| commands) {
            _ if text.trim().is_empty() => None,
            None => Some(Line::Prompt(text.clone())),
            Some(prompt) if prompt.starts_with(':') => Some(Line::Prompt(prompt.to_owned())),
            Some(command) => Some(match command.trim().split_once(' ') {
                Some(("cancel", number)) if number.trim().parse::<usize>().is_ok() => {
                    Line::Cancel(number.trim().parse().unwrap_or(0))
                }
                _ => {
                    let wanted = "wanted `:cancel NUMBER`, or `::` before a prompt with a colon";
                    Line::Wrong(format!("line {number} is no command: {wanted}"))
                }
            }),
        }
    }

    fn is_prompt(&self) -> bool {
        matches!(self, Line::Prompt(_) | Line::Unreadable(_))
    }
}

/// Lines as they arrive, read by a thread that reads only as many prompts as it was asked for.
pub(super) struct Lines {
    lines: Receiver<Line>,
    /// How many more prompts may be read.
    wanted: Sender<usize>,
    /// Prompts that may be read and have not arrived.
    pending: usize,
    /// A line that has arrived.
    first: Option<Line>,
    is_open: bool,
}

impl Lines {
    pub(super) fn open(args: &BatchArgs, standard: Standard) -> text::Result<Self> {
        if !args.prompt.is_empty() {
            let prompts = args.prompt.clone().into_iter();
            return Self::start(Box::new(prompts.map(|prompt| Ok(Some(Line::Prompt(prompt))))), args);
        }
        let name = args.prompts.display().to_string();
        let is_standard = args.prompts == Path::new("-");
        let reader: Box<dyn BufRead + Send> = match is_standard {
            true => standard.ok_or("there is no standard input; give --prompts or --prompt")?,
            false => match File::open(&args.prompts) {
                Ok(file) => Box::new(BufReader::new(file)),
                Err(error) => return Err(format!("cannot read {name}: {error}").into()),
            },
        };
        let what = if is_standard { "standard input".to_owned() } else { name.clone() };
        let lines = text::Lines::new(reader).map(move |line| match line {
            Ok(line) => Ok(Line::of(line, is_standard)),
            Err(error) => Err(format!("cannot read {what}: {error}")),
        });
        let mut lines = Self::start(Box::new(lines), args)?;
        if !is_standard {
            match lines.lines.recv() {
                Ok(Line::Wrong(why)) => return Err(why.into()),
                Ok(line) => lines.first = Some(line),
                Err(_) => return Err(format!("{name} has no line with a prompt").into()),
            }
        }
        Ok(lines)
    }

    /// Reads on a thread, which ends with the program: it may wait for a line forever. The prompts of the first step are read while
    /// the model is loaded.
    fn start(
        mut lines: Box<dyn Iterator<Item = Result<Option<Line>, String>> + Send>,
        args: &BatchArgs,
    ) -> text::Result<Self> {
        // Bounded, because commands are not counted.
        let (sender, receiver) = sync_channel(256);
        let (wanted, demand) = channel::<usize>();
        let read = move || {
            while let Ok(mut prompts) = demand.recv() {
                while prompts > 0 {
                    let line = match lines.next() {
                        None => return,
                        Some(Ok(None)) => continue,
                        Some(Ok(Some(line))) => line,
                        Some(Err(why)) => return drop(sender.send(Line::Wrong(why))),
                    };
                    prompts -= usize::from(line.is_prompt());
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            }
        };
        std::thread::Builder::new().name("lines".into()).spawn(read).map_err(|e| {
            format!(
                "the system starts no thread to read lines: {e}; raise the limit of the process or container"
            )
        })?;
        let mut lines = Lines { lines: receiver, wanted, pending: 0, first: None, is_open: true };
        lines.allow((args.max_batch as usize).saturating_add(1));
        Ok(lines)
    }

    /// Allows reading until this many prompts have arrived.
    pub(super) fn allow(&mut self, prompts: usize) {
        let more = prompts.saturating_sub(self.pending);
        // If the reader has ended, there is nothing to ask for.
        if more > 0 && self.wanted.send(more).is_ok() {
            self.pending += more;
        }
    }

    /// The next line, if one has arrived. If `idle`, waits a moment for one.
    pub(super) fn next(&mut self, idle: bool) -> Option<Line> {
        let line = match self.first.take() {
            Some(line) => Ok(line),
            None if idle && self.is_open => {
                self.lines.recv_timeout(Duration::from_millis(20)).map_err(|e| e == RecvTimeoutError::Timeout)
            }
            None => self.lines.try_recv().map_err(|e| e == TryRecvError::Empty),
        };
        let line = line.map_err(|may_come| self.is_open = may_come).ok()?;
        self.pending -= usize::from(line.is_prompt());
        Some(line)
    }
    /// Whether more lines may come.
    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }
}
