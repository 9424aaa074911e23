//! Steps that fail on the backend.
use super::{Watched, done, ids, on};
use crate::args::{Cli, Command};
use crate::commands::batch::input::{Input, Lines};
use crate::commands::batch::{Terminal, run};
use crate::text::{Prepare, to_send};
use clap::Parser;
use ops_core::combine::{Intercept, Wrapper};
use ops_core::{Call, Determinism, Error, Execute, Op, Replay, Result};
use ops_cpu::{Cpu, Host, HostGroup};
use ops_models::{Rank, on_ranks};
use std::io::{BufReader, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Fails every n-th call of paged attention.
#[derive(Clone)]
struct Faulty(Cpu, Arc<AtomicUsize>, usize);

impl Replay for Faulty {
    type Graph = std::convert::Infallible;
}
impl Wrapper for Faulty {
    type Inner = Cpu;
    fn inner(&self) -> &Cpu {
        &self.0
    }
    fn around(&self, inner: Cpu) -> Self {
        Faulty(inner, self.1.clone(), self.2)
    }
}
impl<O: Op> Intercept<O> for Faulty
where
    Cpu: Execute<O>,
{
    fn execute(&self, call: Call<'_, '_, O, Host>) -> Result<()> {
        if call.name() == "attention_paged" && self.1.fetch_add(1, Ordering::Relaxed) % self.2 == self.2 - 1 {
            let (backend, bytes, detail) = ("faulty", 1 << 40, String::new());
            return Err(Error::OutOfMemory { backend, bytes, detail });
        }
        self.0.execute(call)
    }
}

/// It is repeated with each text alone, so that the texts are what they would have been. Recurrent layers, which have read a part of
/// the step by then, read them anew.
#[test]
fn a_step_that_fails_is_repeated_with_each_text_alone() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/families/");
    let lines = "Hello\nHello world\nx\nHello you\n12 loaves\n";
    for name in ["qwen3_5-f16.gguf", "qwen3-f16.gguf"] {
        let model = format!("{model}{name}");
        let words = ["--json", "--model", &model, "--determinism", "batch", "--temperature", "0"];
        let words = [&words[..], &["--max-tokens", "12", "--ignore-eos", "--no-sharing"]].concat();
        let (want, whole) = on(&words, lines).unwrap();

        let cli = Cli::try_parse_from([&["ops", "batch"][..], &words].concat()).unwrap();
        let Command::Batch(args) = &cli.command else { unreachable!("the words say batch") };
        let mut out = Watched { bytes: Vec::new(), line: Vec::new(), seen: &mut |_| () };
        let input: Box<dyn std::io::BufRead + Send> = Box::new(Cursor::new(lines.to_owned().into_bytes()));
        let mut read = Lines::open(args, Some(input)).unwrap();
        let mut terminal = Terminal { out: &mut out, stop: &AtomicBool::default() };
        let cpu = Cpu::builder().determinism(Determinism::Batch).build().unwrap();
        let faulty = Faulty(cpu, Arc::default(), 24);
        let rank = Rank::only(&faulty);
        let input = Input::new(&rank, cli.common, args).unwrap();
        let prepare: &Prepare<'_> = &|_| Ok(());
        let stats =
            run::serve::<f32, _>(input, "faulty", (&rank, prepare), Some(&mut read), &mut terminal).unwrap();
        assert!(faulty.1.load(Ordering::Relaxed) > 30, "a step fails");
        assert_eq!((stats.faults, stats.batch.steps), (0, whole.batch.steps));
        assert_eq!(ids(&String::from_utf8(out.bytes).unwrap()), ids(&want), "{name}");
    }
}

/// An input that stays open and has nothing more.
struct Open;
impl Read for Open {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        loop {
            std::thread::park();
        }
    }
}

/// The texts under way keep what they have, those that wait for a place fail as well, and no more lines are awaited.
#[test]
fn a_rank_that_is_lost_ends_all_texts_with_what_they_have() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/families/qwen3-f16.gguf");
    let words = ["ops", "batch", "--json", "--model", model, "--max-tokens", "12", "--ignore-eos"];
    let cli = Cli::try_parse_from([&words[..], &["--max-batch", "3"]].concat()).unwrap();
    let Command::Batch(args) = &cli.command else { unreachable!("the words say batch") };
    let mut out = Watched { bytes: Vec::new(), line: Vec::new(), seen: &mut |_| () };
    let lines = BufReader::new(Cursor::new("Hello\nyou\nx\n12 loaves\n").chain(Open));
    let lines: Box<dyn std::io::BufRead + Send> = Box::new(lines);
    let mut read = Lines::open(args, Some(lines)).unwrap();
    let ranks = HostGroup::of(vec![Cpu::new(); 2]).unwrap();
    let lead = |rank: &Rank<'_, Cpu>| {
        let mut terminal = Terminal { out: &mut out, stop: &AtomicBool::default() };
        let input = Input::new(rank, cli.common, args)?;
        run::serve::<f32, _>(input, "cpu", (rank, &|_| Ok(())), Some(&mut read), &mut terminal)
    };
    let follow = |rank: &Rank<'_, Cpu>| {
        let faulty = Faulty(rank.backend().clone(), Arc::default(), 10);
        let rank = &rank.with_backend(&faulty);
        let mut terminal = Terminal { out: &mut std::io::sink(), stop: &AtomicBool::default() };
        let input = Input::new(rank, cli.common, args).map_err(to_send)?;
        run::serve::<f32, _>(input, "cpu", (rank, &|_| Ok(())), None, &mut terminal).map_err(to_send)?;
        Ok(())
    };
    let error = on_ranks(ranks, Determinism::Run, lead, follow).expect_err("a rank is lost").to_string();
    assert!(
        error.contains("rank 1 of 2 left the group after an error") && error.contains("faulty"),
        "{error}"
    );
    let texts = done(std::str::from_utf8(&out.bytes).unwrap());
    assert_eq!(texts.len(), 4, "{texts:?}");
    for (text, tokens) in texts.iter().zip([4, 4, 4, 0]) {
        assert_eq!(
            (&text["reason"], text["ids"].as_array().unwrap().len()),
            (&"failed".into(), tokens),
            "{text}"
        );
        assert!(text["message"].as_str().unwrap().contains("rank 1"), "{text}");
    }
}
