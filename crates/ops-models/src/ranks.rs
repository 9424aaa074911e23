//! A program that runs on several ranks of this process, each on its own thread.
use crate::{Error, Result, Share};
use ops_core::group::{Group, SpaceOf};
use ops_core::{Backend, Determinism};
use std::any::Any;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::ScopedJoinHandle;

/// One of the ranks that run a program together ([`on_ranks`]), or the only one.
pub struct Rank<'b, B: Backend> {
    backend: &'b B,
    share: Share<B::Space>,
    decisions: &'b Decisions,
}

type Decision = Box<dyn Any + Send>;

const ENDED: &str = "has ended while another waited for it; look for its own error";

/// What comes next, unless the other side has ended.
fn receive<V>(from: &Mutex<Receiver<V>>) -> Option<V> {
    from.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// The channels between rank 0 and the others.
enum Decisions {
    /// To each of the others; and from each, by which it says that it has arrived.
    Made(Vec<(Sender<Decision>, Mutex<Receiver<()>>)>),
    Followed(Mutex<Receiver<Decision>>, Sender<()>),
}

impl<'b, B: Backend> Rank<'b, B> {
    /// The only rank, which has the whole model.
    pub fn only(backend: &'b B) -> Self {
        static TO_NOBODY: Decisions = Decisions::Made(Vec::new());
        Rank { backend, share: Share::whole(), decisions: &TO_NOBODY }
    }

    /// The same rank with another backend in the same memory, such as one that counts calls on this one.
    pub fn with_backend<'o, O: Backend<Space = B::Space>>(&'o self, backend: &'o O) -> Rank<'o, O> {
        Rank { backend, share: self.share(), decisions: self.decisions }
    }

    /// The queue of this rank.
    pub fn backend(&self) -> &'b B {
        self.backend
    }
    /// The part of a model that this rank computes.
    pub fn share(&self) -> Share<B::Space> {
        self.share.clone()
    }
    /// Whether this is rank 0.
    pub fn leads(&self) -> bool {
        matches!(*self.decisions, Decisions::Made(_))
    }

    /// What rank 0 decides: there, `decide` is called, and all other ranks get the same value. For what ranks could see differently, such as
    /// a signal, the time, or lines of input. All ranks call this in the same order.
    ///
    /// # Errors
    /// [`ops_core::Error::Group`] if rank 0 has ended.
    pub fn agree<V: Clone + Send + 'static>(&self, decide: impl FnOnce() -> V) -> Result<V> {
        match self.decisions {
            Decisions::Made(others) => {
                let value = decide();
                // A rank that has ended is reported by the next collective.
                others.iter().for_each(|(to, _)| _ = to.send(Box::new(value.clone())));
                Ok(value)
            }
            Decisions::Followed(first, _) => {
                let why = "decided something else than this rank asked; make all ranks ask in the same order";
                let decided = receive(first).ok_or_else(|| self.lost("agree", 0, ENDED))?;
                decided.downcast().map(|value| *value).map_err(|_| self.lost("agree", 0, why))
            }
        }
    }

    /// Waits until all ranks have come here, for as long as it takes: before the first collective, because a rank may load or compile
    /// longer than the limit of a collective.
    ///
    /// # Errors
    /// [`ops_core::Error::Group`] if a rank has ended.
    pub fn wait_for_all(&self) -> Result<()> {
        match self.decisions {
            Decisions::Made(others) => (1..).zip(others).try_for_each(|(rank, (_, from))| {
                receive(from).ok_or_else(|| self.lost("wait_for_all", rank, ENDED))
            })?,
            Decisions::Followed(_, to) => _ = to.send(()),
        }
        self.agree(|| ())
    }

    fn lost(&self, op: &'static str, rank: usize, why: &str) -> Error {
        Error::Op(ops_core::Error::Group { op, rank, size: self.share.ranks(), why: why.to_owned() })
    }
}

/// Runs a program on every rank of a group: `lead` for rank 0 on this thread, and `follow` for each other one on a thread of its own. Both
/// load their [`share`](Rank::share) of a model ([`Decoder::load_share`](crate::Decoder::load_share)), and then make the same calls in the
/// same order, with the same options.
///
/// If one rank fails or panics, the others fail in their next call, and the error is that of the first one. For `least`, see [`Share::of`].
///
/// ```
/// use rocm_ops::models::{Config, Decoder, Rank, TextModel, on_ranks};
/// use rocm_ops::{Cpu, Determinism, HostGroup};
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llama-kjv-q8_0.gguf");
/// let file = rocm_ops::models::open(path)?;
/// let program = |rank: &Rank<'_, Cpu>| -> rocm_ops::models::Result<String> {
///     let (cpu, config) = (rank.backend(), Config::new(file.metadata())?);
///     let decoder = Decoder::<f32, _>::load_share(cpu, &file, config, 64, rank.share(), &mut |_, _| ())?;
///     let model = TextModel::new(decoder, Some(file.tokenizer()?));
///     let options = rocm_ops::models::GenerateOptions { max_tokens: 8, temperature: 0.0, ..Default::default() };
///     model.generate(cpu, "In the beginning", options)?.map(|token| Ok(token?.text)).collect()
/// };
/// let ranks = HostGroup::of(vec![Cpu::new(), Cpu::new()])?;
/// let text = on_ranks(ranks, Determinism::Run, &program, |rank| program(rank).map(drop))?;
/// assert!(!text.is_empty());
/// # Ok::<(), rocm_ops::models::Error>(())
/// ```
///
/// # Errors
/// As [`Share::of`]; the error of the rank that failed first; [`ops_core::Error::Group`] if one has panicked.
pub fn on_ranks<G: Group, R, E: From<Error>>(
    ranks: Vec<G>,
    least: Determinism,
    lead: impl FnOnce(&Rank<'_, G::Backend>) -> std::result::Result<R, E>,
    follow: impl Fn(&Rank<'_, G::Backend>) -> Result<()> + Sync,
) -> std::result::Result<R, E> {
    let size = ranks.len();
    let first = Arc::new(OnceLock::new());
    let mut shares = Vec::with_capacity(size);
    for group in ranks {
        let backend = group.backend().clone();
        shares.push((backend, Share::<SpaceOf<G>>::noting(group, least, first.clone())?));
    }
    if shares.is_empty() {
        let (got, wanted) = ("0".to_owned(), "at least 1".to_owned());
        return Err(Error::Option { name: "ranks", got, wanted }.into());
    }
    let (backend, share) = shares.remove(0);
    let (mut made, mut followed) = (Vec::new(), Vec::new());
    for _ in &shares {
        let ((decide, decided), (arrive, arrived)) = (channel::<Decision>(), channel::<()>());
        made.push((decide, Mutex::new(arrived)));
        followed.push(Decisions::Followed(Mutex::new(decided), arrive));
    }
    std::thread::scope(|scope| {
        let (follow, first) = (&follow, &first);
        let start = |((backend, share), decisions): (Part<G>, Decisions)| {
            scope.spawn(move || {
                let number = share.rank();
                // Dropped after the failure is noted, because that makes others fail.
                let rank = Rank { backend: &backend, share, decisions: &decisions };
                follow(&rank).inspect_err(|_| _ = first.set(number))
            })
        };
        let others: Vec<_> = shares.into_iter().zip(followed).map(start).collect();
        let decisions = Decisions::Made(made);
        let rank = Rank { backend: &backend, share, decisions: &decisions };
        let led = lead(&rank).inspect_err(|_| _ = first.set(0));
        drop(rank);
        drop(decisions);
        let others = others.into_iter().map(ScopedJoinHandle::join);
        match (led, failure(others.collect(), first.get().copied(), size)) {
            (Err(error), Some((_, false))) if first.get() == Some(&0) => Err(error),
            (_, Some((error, _))) => Err(error.into()),
            (led, None) => led,
        }
    })
}

/// The queue of a rank, and its part of a model.
type Part<G> = (<G as Group>::Backend, Share<SpaceOf<G>>);

/// The error of the other ranks, and whether it is a panic: that of the one that panicked, or failed first.
fn failure(
    others: Vec<std::thread::Result<Result<()>>>,
    first: Option<usize>,
    size: usize,
) -> Option<(Error, bool)> {
    let mut failed = None;
    for (rank, other) in (1..).zip(others) {
        match other {
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
                let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
                let why = format!("panicked: {}", text.unwrap_or_default());
                return Some((Error::Op(ops_core::Error::Group { op: "on_ranks", rank, size, why }), true));
            }
            Ok(Err(error)) if failed.is_none() || first == Some(rank) => failed = Some((error, false)),
            Ok(_) => {}
        }
    }
    failed
}
