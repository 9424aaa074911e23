//! Whole runs, on models that come with the project.
mod faulty;

use super::stats::Stats;
use super::{Standard, Terminal, serve};
use crate::args::{Cli, Command};
use clap::Parser;
use ops_gguf::Gguf;
use ops_tests::nan;
use serde_json::Value;
use std::io::{BufReader, Cursor, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// With weights in f16. With weights in blocks, the CPU rounds activations to 8 bits.
const MODEL: [&str; 2] =
    ["--model", concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llama-kjv-f16.gguf")];

/// A much smaller model, on the reference, whose plain loops are slow.
const SMALL: [&str; 4] = [
    "--model",
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/families/llama-f16.gguf"),
    "--backend",
    "reference",
];

/// Output that is inspected while it is written.
struct Watched<'w> {
    bytes: Vec<u8>,
    line: Vec<u8>,
    seen: &'w mut dyn FnMut(&str),
}
impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            (self.seen)(std::str::from_utf8(&line).unwrap());
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A run with this input; `seen` receives every line of its output.
fn watched(
    words: &[&str],
    input: Standard,
    stop: Arc<AtomicBool>,
    seen: &mut dyn FnMut(&str),
) -> Result<(String, Stats), String> {
    let model = if words.contains(&"--model") { &[][..] } else { &MODEL };
    let cli =
        Cli::try_parse_from([&["ops", "batch"][..], model, words].concat()).map_err(|e| e.to_string())?;
    let Command::Batch(args) = &cli.command else { unreachable!("the words say batch") };
    let mut out = Watched { bytes: Vec::new(), line: Vec::new(), seen };
    let terminal = &mut Terminal { out: &mut out, stop: &stop };
    let stats = serve(cli.common, args, input, terminal).map_err(|e| e.to_string())?;
    Ok((String::from_utf8(out.bytes).unwrap(), stats))
}
fn on(words: &[&str], lines: &str) -> Result<(String, Stats), String> {
    let input = Box::new(Cursor::new(lines.to_owned().into_bytes()));
    watched(words, Some(input), Arc::default(), &mut |_| ())
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
/// The last event of each sequence, by number.
fn done(text: &str) -> Vec<Value> {
    let mut all: Vec<Value> = objects(text).into_iter().filter(|event| event["event"] == "done").collect();
    all.sort_by_key(|event| event["sequence"].as_u64());
    all
}
fn ids(text: &str) -> Vec<Value> {
    done(text).into_iter().map(|event| event["ids"].clone()).collect()
}

/// Prompts of different lengths, many with a common beginning.
fn prompts(n: usize) -> String {
    let openings =
        ["In the beginning", "In the beginning God created the", "And God said, Let there be", "The LORD"];
    let ends = ["", " light", " of the children of Israel", " and", " unto Moses, saying,"];
    (0..n).map(|i| format!("{}{}\n", openings[i % 4], ends[i / 4 % 5])).collect()
}

/// Many sequences that join, share beginnings, are read in pieces, are preempted and resume, compared with
/// each one alone.
fn check_alone(n: usize, options: &[&str]) {
    let lines = prompts(n);
    let (together, stats) = on(
        &[
            &["--json", "--max-tokens", "4", "--prefill", "24", "--block-size", "4", "--blocks", "180"],
            options,
        ]
        .concat(),
        &lines,
    )
    .unwrap();
    let (alone, one) = on(
        &[&["--json", "--max-tokens", "4", "--max-batch", "1", "--no-sharing", "--blocks", "100"], options]
            .concat(),
        &lines,
    )
    .unwrap();
    assert_eq!((stats.sequences, one.sequences), (n, n));
    assert!(stats.batch.steps * 3 < one.batch.steps, "{stats:?}");
    assert!(stats.batch.shared > n, "prompts share beginnings: {stats:?}");
    assert!(one.batch.shared == 0 && one.batch.preemptions == 0);
    for ((i, together), alone) in ids(&together).into_iter().enumerate().zip(ids(&alone)) {
        assert_eq!(together, alone, "sequence {}", i + 1);
    }
}

/// The reference computes every row independently, in a fixed order.
#[test]
fn sixty_four_sequences_give_what_each_gives_alone() {
    check_alone(64, &[&SMALL[..], &["--temperature", "0"]].concat());
}
#[test]
fn sixty_four_sequences_give_what_each_gives_alone_on_the_cpu() {
    check_alone(64, &["--determinism", "batch", "--temperature", "0"]);
    check_alone(64, &["--determinism", "batch", "--temperature", "1.1", "--seed", "5", "--dtype", "bf16"]);
}
#[test]
fn sequences_draw_what_each_draws_alone() {
    let options = ["--temperature", "1.1", "--top-k", "50", "--seed", "3"];
    check_alone(12, &[&SMALL[..], &options].concat());
}

#[test]
fn when_blocks_run_out_a_sequence_gives_way_and_is_computed_again() {
    let lines = prompts(8);
    let words = ["--json", "--temperature", "0", "--max-tokens", "12", "--ignore-eos", "--block-size", "2"];
    let words = [&words[..], &SMALL, &["--no-sharing"]].concat();
    let (much, plenty) = on(&[&words[..], &["--blocks", "500"]].concat(), &lines).unwrap();
    let (little, scarce) = on(&[&words[..], &["--blocks", "30"]].concat(), &lines).unwrap();
    assert_eq!(plenty.batch.preemptions, 0);
    assert!(scarce.batch.preemptions > 0 && scarce.batch.recomputed > 0, "{scarce:?}");
    assert_eq!(ids(&much), ids(&little));
    assert!(ids(&much).iter().all(|ids| ids.as_array().unwrap().len() == 12));
    let given: u64 = done(&little).iter().map(|event| event["preemptions"].as_u64().unwrap()).sum();
    assert_eq!(given as usize, scarce.batch.preemptions);
}

/// A sequence that gives way loses its memory, and gets another when it joins again; alike beginnings are not shared.
#[test]
fn recurrent_layers_remember_each_sequence() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/families/qwen3_5-f16.gguf");
    let words = ["--json", "--model", model, "--determinism", "batch", "--temperature", "0", "--ignore-eos"];
    let words = [&words[..], &["--max-tokens", "9", "--prefill", "9", "--block-size", "2"]].concat();
    let lines = "Hello\nHello world\nx\nHello you\n12 loaves\nHello world\nno\n";
    let (together, stats) =
        on(&[&words[..], &["--max-batch", "4", "--blocks", "20"]].concat(), lines).unwrap();
    let (alone, one) = on(&[&words[..], &["--max-batch", "1"]].concat(), lines).unwrap();
    assert!(stats.batch.preemptions > 0 && stats.batch.steps * 2 < one.batch.steps, "{stats:?}");
    assert_eq!((ids(&together), stats.batch.shared), (ids(&alone), 0));
}

#[test]
fn prompts_that_begin_alike_share_blocks() {
    let prompt = "In the beginning God created the heaven and the earth.";
    let lines = format!("{prompt}\n{prompt}\n{prompt} And God said\n");
    let words = ["--json", "--temperature", "0", "--max-tokens", "4", "--block-size", "4"];
    let (_, stats) = on(&words, &lines).unwrap();
    assert!(stats.batch.shared_blocks >= 2 && stats.batch.shared > 10, "{stats:?}");
    let (_, apart) = on(&[&words[..], &["--no-sharing"]].concat(), &lines).unwrap();
    assert_eq!((apart.batch.shared_blocks, apart.batch.shared), (0, 0));
}

/// Lines that arrive when they are sent.
struct Sent(Receiver<String>, Cursor<Vec<u8>>);
impl Read for Sent {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        if self.1.position() as usize == self.1.get_ref().len() {
            // An error means that the other end is gone: the input is closed.
            self.1 = Cursor::new(self.0.recv().unwrap_or_default().into_bytes());
        }
        self.1.read(to)
    }
}

/// A sequence is cancelled while it grows, another joins later, and the rest give the same as alone.
#[test]
fn sequences_join_and_are_cancelled_while_others_grow() {
    let (sender, receiver) = channel();
    sender.send("In the beginning\nThe LORD\n".to_owned()).unwrap();
    let (mut sender, mut tokens) = (Some(sender), 0);
    let mut seen = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        tokens += usize::from(event["event"] == "token" && event["sequence"] == 1);
        if tokens == 3
            && let Some(sender) = sender.take()
        {
            sender.send(":cancel 1\n:cancel 9\n::colon\nAnd God said\n".to_owned()).unwrap();
        }
    };
    let input = Box::new(BufReader::new(Sent(receiver, Cursor::default())));
    let words = ["--json", "--temperature", "0", "--max-tokens", "200", "--ignore-eos", "--backend", "cpu"];
    let (text, stats) = watched(&words, Some(input), Arc::default(), &mut seen).unwrap();
    let reasons: Vec<_> = done(&text).iter().map(|event| event["reason"].clone()).collect();
    assert_eq!(reasons, ["cancelled", "length", "length", "length"]);
    let counts: Vec<_> = ids(&text).iter().map(|ids| ids.as_array().unwrap().len()).collect();
    assert!((3..200).contains(&counts[0]) && counts[1..] == [200, 200, 200], "{counts:?}");
    assert_eq!(stats.sequences, 4);
}

#[test]
fn an_interrupt_ends_all_after_the_step_at_hand() {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    let mut seen = |line: &str| flag.store(line.contains("\"token\""), Ordering::Relaxed);
    let input = Box::new(Cursor::new(prompts(3).into_bytes()));
    let words = ["--json", "--temperature", "0", "--max-batch", "2"];
    let (text, _) = watched(&words, Some(input), stop, &mut seen).unwrap();
    let all = done(&text);
    assert!(all.iter().all(|event| event["reason"] == "interrupted"), "{text}");
    let counts: Vec<_> = ids(&text).iter().map(|ids| ids.as_array().unwrap().len()).collect();
    assert_eq!(counts, [1, 1, 0]);
}

#[test]
fn what_does_not_fit_is_refused_and_the_rest_goes_on() {
    let lines = format!("The LORD\n{}\nAnd\n", "word ".repeat(40));
    let words = ["--json", "--temperature", "0", "--context", "12", "--ignore-eos"];
    let (text, stats) = on(&words, &lines).unwrap();
    let all = done(&text);
    let reasons: Vec<_> = all.iter().map(|event| event["reason"].as_str().unwrap()).collect();
    assert_eq!((reasons, stats.faults), (vec!["context", "refused", "context"], 1));
    assert!(all[1]["message"].as_str().unwrap().contains("1 to 12"), "{}", all[1]);
    // The last token is not in the cache.
    let prompt = |event: &Value| {
        objects(&text).iter().any(|e| e["sequence"] == event["sequence"] && e["event"] == "start")
    };
    assert!(prompt(&all[0]) && prompt(&all[2]) && !prompt(&all[1]));
    // There are only four blocks of two tokens.
    let (text, _) = on(&["--json", "--blocks", "4", "--block-size", "2", "--ignore-eos"], "The\n").unwrap();
    assert_eq!(done(&text)[0]["reason"], "context");
}

#[test]
fn lines_of_text_have_the_number_of_their_sequence() {
    let words = [
        "--temperature",
        "0",
        "--max-tokens",
        "40",
        "--prompt",
        "Genesis 1\n1 In the",
        "--prompt",
        "The LORD",
    ];
    let (text, _) = on(&words, "").unwrap();
    let (json, _) = on(&[&words[..], &["--json"]].concat(), "").unwrap();
    assert!(text.lines().all(|line| line.starts_with("[1] ") || line.starts_with("[2] ")), "{text}");
    for (i, prompt) in ["Genesis 1\n1 In the", "The LORD"].into_iter().enumerate() {
        let start = format!("[{}] ", i + 1);
        let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&start)).collect();
        let whole = format!("{prompt}{}", done(&json)[i]["text"].as_str().unwrap());
        assert_eq!(lines.join("\n"), whole.trim_end_matches('\n'));
        let pieces: String = objects(&json)
            .iter()
            .filter(|event| event["sequence"] == i + 1 && event["event"] == "token")
            .map(|event| event["text"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(pieces, done(&json)[i]["text"].as_str().unwrap());
    }
}

#[test]
fn a_stop_text_ends_its_sequence_only() {
    let words = ["--json", "--temperature", "0", "--max-tokens", "20", "--ignore-eos", "--prompt"];
    let (whole, _) = on(&[&words[..], &["The LORD", "--prompt", "And God"]].concat(), "").unwrap();
    let texts: Vec<String> = done(&whole).iter().map(|e| e["text"].as_str().unwrap().to_owned()).collect();
    // In the first text only.
    let stop =
        (3..texts[0].len()).map(|at| &texts[0][at - 3..at]).find(|part| !texts[1].contains(part)).unwrap();
    let more = ["The LORD", "--prompt", "And God", "--stop", stop];
    let (text, _) = on(&[&words[..], &more].concat(), "").unwrap();
    let all = done(&text);
    assert_eq!([&all[0]["reason"], &all[1]["reason"]], ["stop", "length"]);
    assert_eq!(all[0]["text"], texts[0][..texts[0].find(stop).unwrap()]);
    assert_eq!(all[1]["text"], texts[1]);
}

#[test]
fn every_backend_says_the_same() {
    let words = ["--json", "--temperature", "0", "--max-tokens", "5", "--blocks", "60"];
    let run =
        |backend: &str| ids(&on(&[&words[..], &["--backend", backend]].concat(), &prompts(3)).unwrap().0);
    let reference = run("reference");
    assert_eq!(run("cpu"), reference);
    assert_eq!(run("checked"), reference);
}

/// Logits that are NaN, as of a text with a token whose embedding is, end this text only.
#[test]
fn a_fault_of_one_sequence_ends_no_other() {
    let tokenizer = Gguf::open(MODEL[1]).unwrap().tokenizer().unwrap();
    let (bad, other) = ("And God saw the light", "The LORD");
    let (bad_ids, other_ids) = (tokenizer.encode(bad).unwrap(), tokenizer.encode(other).unwrap());
    let id = *bad_ids.iter().rfind(|id| !other_ids.contains(id)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nan.gguf");
    std::fs::write(&path, nan::model(MODEL[1], id).unwrap()).unwrap();
    for temperature in ["0", "0.8"] {
        let words = ["--json", "--temperature", temperature, "--max-tokens", "4", "--ignore-eos"];
        let lines = format!("{other}\n{bad}\n{other}\n");
        let (text, stats) = on(&[&words[..], &["--model", path.to_str().unwrap()]].concat(), &lines).unwrap();
        let all = done(&text);
        let reasons: Vec<_> = all.iter().map(|event| event["reason"].as_str().unwrap()).collect();
        assert_eq!((reasons, stats.faults), (vec!["length", "failed", "length"], 1));
        let message = all[1]["message"].as_str().unwrap();
        assert!(
            message.starts_with(&format!("after the token at position {}, ", bad_ids.len() - 1)),
            "{message}"
        );
        assert!(message.contains("is NaN"), "{message}");
    }
}

/// Bytes that are counted as they are read.
struct Counted(Box<dyn Read + Send>, Arc<AtomicUsize>);
impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.read(to)?;
        self.1.fetch_add(n, Ordering::Relaxed);
        Ok(n)
    }
}

#[test]
fn lines_that_cannot_be_read_are_reported_and_end_no_other() {
    let lines = b"The LORD\nAn\xffd\n\n:what\nAnd God\n\xe2\x82".to_vec();
    let words = ["--json", "--temperature", "0", "--max-tokens", "3", "--ignore-eos"];
    let check = |words: &[&str], input: Standard, reasons: &[&str], faults: usize| {
        let (text, stats) = watched(words, input, Arc::default(), &mut |_| ()).unwrap();
        let all = done(&text);
        assert_eq!(all.iter().map(|event| event["reason"].as_str().unwrap()).collect::<Vec<_>>(), reasons);
        assert_eq!((stats.sequences, stats.faults), (reasons.len(), faults));
        assert!(all[1]["message"].as_str().unwrap().starts_with("line 2 is not UTF-8"), "{}", all[1]);
        assert!(all.last().unwrap()["message"].as_str().unwrap().starts_with("line 6 is not UTF-8"));
    };
    // The unknown command is a fault, too.
    let input = Box::new(Cursor::new(lines.clone()));
    check(&words, Some(input), &["length", "refused", "length", "refused"], 3);
    // In a file, lines that begin with a colon are prompts.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lines");
    std::fs::write(&file, lines).unwrap();
    let words = [&words[..], &["--prompts", file.to_str().unwrap()]].concat();
    check(&words, None, &["length", "refused", "length", "length", "refused"], 2);
    std::fs::write(&file, "\n \n").unwrap();
    assert!(on(&words, "").unwrap_err().contains("no line with a prompt"));
}

/// An error of the input ends the run once all sequences are done, and is a fault.
#[test]
fn an_input_that_fails_is_a_fault() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("broken"))
        }
    }
    let input = Box::new(BufReader::new(Cursor::new(b"The LORD\n").chain(Failing)));
    let words = ["--json", "--max-tokens", "2", "--ignore-eos"];
    let (text, stats) = watched(&words, Some(input), Arc::default(), &mut |_| ()).unwrap();
    assert_eq!((done(&text)[0]["reason"].as_str(), stats.faults), (Some("length"), 1));
}

#[test]
fn input_without_end_is_read_no_further_than_sequences_need() {
    let read = Arc::new(AtomicUsize::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    // A buffer of one line, so that nothing is read ahead.
    let endless = Cursor::new(b"The LORD\n".repeat(100_000));
    let input = Box::new(BufReader::with_capacity(9, Counted(Box::new(endless), read.clone())));
    let (flag, mut finished) = (stop.clone(), 0);
    let mut seen = |line: &str| {
        finished += usize::from(line.contains("\"length\""));
        // Two sequences run and one waits; the reader may hold one more line.
        let lines = read.load(Ordering::Relaxed) / 9;
        assert!(lines <= finished + 5, "{lines} lines were read for {finished} sequences");
        flag.store(finished >= 4, Ordering::Relaxed);
    };
    let words = ["--json", "--temperature", "0", "--max-tokens", "3", "--ignore-eos", "--max-batch", "2"];
    let (_, stats) = watched(&words, Some(input), stop, &mut seen).unwrap();
    assert!(stats.sequences <= 8, "{stats:?}");
}

/// While as many sequences run as can, a command that follows is still seen.
#[test]
fn a_full_batch_can_be_cancelled() {
    let words = ["--json", "--temperature", "0", "--max-tokens", "200", "--ignore-eos", "--max-batch", "1"];
    let (text, _) = on(&words, "The LORD\n:cancel 1\nAnd God\n:cancel 2\n").unwrap();
    let reasons: Vec<_> = done(&text).iter().map(|event| event["reason"].clone()).collect();
    assert_eq!(reasons, ["cancelled", "cancelled"]);
}

#[test]
fn what_is_wrong_is_an_error() {
    for words in [
        &["--blocks", "0"][..],
        &["--block-size", "0"],
        &["--max-batch", "0"],
        &["--prefill", "0"],
        &["--system", "x"],
        &["--prompt", "a", "--prompts", "b"],
        &["--temperature", "-1"],
        &["--determinism", "some"],
        &["--prompts", "/no/such/file"],
    ] {
        assert!(on(words, "x\n").is_err(), "{words:?}");
    }
    assert!(watched(&[], None, Arc::default(), &mut |_| ()).is_err());
    // Having nothing to do is not an error; a line that is no command is a fault.
    assert_eq!(on(&[], "\n \n").unwrap().1.faults, 0);
    let stats = on(&[], "\n \n:what\n").unwrap().1;
    assert_eq!((stats.sequences, stats.faults), (0, 1));
}

#[test]
fn devices_continue_texts_as_one_does_at_batch() {
    let words =
        ["--json", "--determinism", "batch", "--max-tokens", "6", "--max-batch", "3", "--blocks", "24"];
    let of = |devices: &str| on(&[&words[..], &["--devices", devices]].concat(), &prompts(7)).unwrap();
    let (one, stats) = of("0");
    assert_eq!((done(&one).len(), stats.faults), (7, 0));
    assert_eq!(ids(&of("0,1").0), ids(&one));
}
