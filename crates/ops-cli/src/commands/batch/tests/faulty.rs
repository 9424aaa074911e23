//! Steps that fail on the backend.
use super::{Watched, ids, on};
use crate::args::{Cli, Command};
use crate::commands::batch::input::{Input, Lines};
use crate::commands::batch::{Terminal, run};
use crate::text::Prepare;
use clap::Parser;
use ops_core::combine::{Intercept, Wrapper};
use ops_core::{Call, Determinism, Error, Execute, Op, Result};
use ops_cpu::{Cpu, Host};
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Fails every 24th call of paged attention.
#[derive(Clone)]
struct Faulty(Cpu, Arc<AtomicUsize>);

impl Wrapper for Faulty {
    type Inner = Cpu;
    fn inner(&self) -> &Cpu {
        &self.0
    }
    fn around(&self, inner: Cpu) -> Self {
        Faulty(inner, self.1.clone())
    }
}
impl<O: Op> Intercept<O> for Faulty
where
    Cpu: Execute<O>,
{
    fn execute(&self, call: Call<'_, '_, O, Host>) -> Result<()> {
        if call.name() == "attention_paged" && self.1.fetch_add(1, Ordering::Relaxed) % 24 == 23 {
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
        let faulty = Faulty(cpu, Arc::default());
        let input = Input::new(cli.common, args).unwrap();
        let prepare: &Prepare<'_> = &|_| Ok(());
        let stats =
            run::serve::<f32, _>(input, "faulty", (&faulty, prepare), &mut read, &mut terminal).unwrap();
        assert!(faulty.1.load(Ordering::Relaxed) > 30, "a step fails");
        assert_eq!((stats.faults, stats.batch.steps), (0, whole.batch.steps));
        assert_eq!(ids(&String::from_utf8(out.bytes).unwrap()), ids(&want), "{name}");
    }
}
