//! Whole runs, on models that come with the project.
use super::generate;
use crate::args::{Cli, Command};
use clap::Parser;
use ops_gguf::Gguf;
use ops_tests::nan;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The output of a run.
pub(super) fn printed(words: &[&str]) -> Result<String, String> {
    interrupted(words, Arc::default())
}

fn interrupted(words: &[&str], stop: Arc<AtomicBool>) -> Result<String, String> {
    let mut out = Vec::new();
    printed_to(&mut out, words, stop)?;
    Ok(String::from_utf8(out).unwrap())
}

fn printed_to(out: &mut dyn std::io::Write, words: &[&str], stop: Arc<AtomicBool>) -> Result<(), String> {
    let cli = Cli::try_parse_from([&["ops", "generate"][..], words].concat()).map_err(|e| e.to_string())?;
    let Command::Generate(args) = &cli.command else { unreachable!("the words say generate") };
    generate(cli.common, args, &stop, out).map_err(|e| e.to_string())
}

/// A path in the repository.
pub(super) fn repository(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

fn folder(name: &str) -> String {
    repository(&format!("tests/data/folders/{name}"))
}

/// A file with these lines, which is removed with the first value, and its path.
fn lines(text: &str) -> (tempfile::TempPath, String) {
    let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap().to_owned();
    (file, path)
}

const GREEDY: [&str; 4] = ["--temperature", "0", "--max-tokens", "12"];

#[test]
fn lines_of_a_file_give_what_each_gives_alone() {
    let prompts = ["In the beginning", "And God said, Let there be light", "The LORD"];
    let (_kept, file) = lines(&format!("{}\n\n{}\n{}\n", prompts[0], prompts[1], prompts[2]));
    let together = printed(&[&GREEDY[..], &["--prompts", &file]].concat()).unwrap();
    let alone: Vec<String> = prompts
        .iter()
        .map(|prompt| printed(&[&GREEDY[..], &["--prompt", prompt]].concat()).unwrap())
        .map(|text| text.trim_end_matches('\n').replace('\n', "\\n"))
        .collect();
    assert_eq!(together.lines().collect::<Vec<_>>(), alone);
    let ids = printed(&[&GREEDY[..], &["--prompts", &file, "--ids"]].concat()).unwrap();
    assert_eq!(ids.lines().map(|line| line.split(' ').count()).collect::<Vec<_>>(), [12, 12, 12]);
    let json = printed(&[&GREEDY[..], &["--prompts", &file, "--json"]].concat()).unwrap();
    assert_eq!(json.lines().filter(|line| line.contains("\"prompt_tokens\"")).count(), 3);
}

/// Every text counts its own tokens, so the drawn tokens depend neither on other texts nor on the backend.
#[test]
fn a_seed_gives_the_same_text_on_every_backend_and_beside_other_texts() {
    let drawn = ["--temperature", "1.1", "--top-k", "50", "--top-p", "0.95", "--max-tokens", "10", "--ids"];
    let prompts = ["In the beginning", "And God said, Let there be light"];
    // With weights in f16. With weights in blocks, the CPU rounds activations to 8 bits, and logits differ.
    let model = &repository("models/tiny-llama-kjv-f16.gguf");
    let of = |words: &[&str]| printed(&[&drawn[..], &["--model", model], words].concat()).unwrap();
    let alone = prompts.map(|prompt| of(&["--seed", "3", "--prompt", prompt]));
    for backend in ["reference", "checked"] {
        assert_eq!(of(&["--seed", "3", "--prompt", prompts[0], "--backend", backend]), alone[0], "{backend}");
    }
    let (_kept, file) = lines(&prompts.join("\n"));
    assert_eq!(of(&["--seed", "3", "--prompts", &file]), alone.concat());
    assert_ne!(of(&["--seed", "4", "--prompt", prompts[0]]), alone[0]);
}

#[test]
fn one_id_to_draw_from_is_the_most_likely_one() {
    let most_likely = printed(&[&GREEDY[..], &["--ids"]].concat()).unwrap();
    for one in [["--top-k", "1"], ["--top-p", "1e-9"], ["--temperature", "1e-6"]] {
        let words = [&["--max-tokens", "12", "--ids"][..], &one].concat();
        assert_eq!(printed(&words).unwrap(), most_likely, "{one:?}");
    }
    let all = printed(&["--max-tokens", "12", "--ids", "--top-k", "0"]).unwrap();
    assert_eq!(printed(&["--max-tokens", "12", "--ids"]).unwrap(), all);
}

#[test]
fn stop_texts_penalties_and_bias_reach_the_model() {
    let ids = |more: &[&str]| -> Vec<u32> {
        let text = printed(&[more, &["--max-tokens", "40", "--ids", "--ignore-eos"]].concat()).unwrap();
        text.split_whitespace().map(|id| id.parse().unwrap()).collect()
    };
    let greedy = |more: &[&str]| ids(&[&["--temperature", "0"], more].concat());
    let best = greedy(&[]);
    let without = greedy(&["--logit-bias", &format!("{}=-inf", best[1])]);
    assert!(without[0] == best[0] && !without.contains(&best[1]), "{without:?}");
    let distinct = |ids: &[u32]| ids.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert!(distinct(&best) < 40);
    for penalty in ["--presence-penalty", "--frequency-penalty"] {
        assert_eq!(distinct(&greedy(&[penalty, "1e4"])), 40, "{penalty}");
    }
    assert_ne!(greedy(&["--repeat-penalty", "1.5"]), best);
    assert_eq!(greedy(&["--repeat-penalty", "1.5", "--repeat-last-n", "0"]), best);
    assert_eq!(ids(&["--min-p", "1"]), best);

    let whole = printed(&["--temperature", "0"]).unwrap();
    let begin = "1 In the beginning".len() + whole.find("1 In the beginning").unwrap();
    let stop = &whole[begin + 10..begin + 14];
    let want = &whole[..begin + whole[begin..].find(stop).unwrap()];
    let words = ["--temperature", "0", "--stop", "never said", "--stop", stop];
    assert_eq!(printed(&words).unwrap(), format!("{want}\n"));
    for wrong in [["--stop", ""], ["--logit-bias", "5"], ["--min-p", "0"], ["--repeat-penalty", "0"]] {
        assert!(printed(&wrong).is_err(), "{wrong:?}");
    }
    let unknown = printed(&["--logit-bias", "99999999=1"]).unwrap_err();
    assert!(unknown.contains("logit_bias") && unknown.contains("99999999"), "{unknown}");
}

#[test]
fn a_file_without_prompts_is_an_error_that_names_it() {
    let (kept, file) = lines("\n \n");
    assert!(printed(&["--prompts", &file]).unwrap_err().contains(&file));
    kept.close().unwrap();
    assert!(printed(&["--prompts", &file]).unwrap_err().contains("cannot read"));
}

#[test]
fn a_full_context_ends_the_text_or_drops_its_older_half() {
    let words = ["--temperature", "0", "--context", "24", "--max-tokens", "60", "--ignore-eos", "--ids"];
    let count = |text: String| text.split_whitespace().count();
    let stopped = printed(&words).unwrap();
    assert!((1..24).contains(&count(stopped.clone())), "{stopped}");
    let shifted = printed(&[&words[..], &["--overflow", "shift"]].concat()).unwrap();
    assert_eq!(count(shifted.clone()), 60);
    assert!(shifted.starts_with(stopped.trim_end()), "the same until the context is full");
}

/// After a shift, the text continues as if the kept part were the prompt.
#[test]
fn a_shifted_text_is_the_text_of_what_is_kept() {
    let words = ["--temperature", "0", "--context", "16", "--ignore-eos", "--ids", "--overflow", "shift"];
    let ids = |text: &str| text.split_whitespace().map(|id| id.parse::<u32>().unwrap()).collect::<Vec<_>>();
    let prompt: Vec<u32> = (0..10).map(|i| 300 + i).collect();
    let given = |ids: &[u32]| ids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let all =
        printed(&[&words[..], &["--prompt-ids", &given(&prompt), "--max-tokens", "12"]].concat()).unwrap();
    let all = [prompt, ids(&all)].concat();
    // The context is full at 16 tokens, and a 17th was drawn: the last 8 of these stay.
    let kept = given(&all[9..17]);
    let on = printed(&[&words[..], &["--prompt-ids", &kept, "--max-tokens", "5"]].concat()).unwrap();
    assert_eq!(ids(&on), all[17..22]);
}

/// The model is in blocks (q8_0).
#[test]
fn exact_activations_give_the_logits_of_the_reference() {
    let logits = |args: &[&str]| -> Vec<f64> {
        let file = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        printed(&[&["--prompt", "In the", "--logits", file.to_str().unwrap()], args].concat()).unwrap();
        serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap()
    };
    let want = logits(&["--backend", "reference"]);
    let error = |args| {
        let off = logits(args).iter().zip(&want).map(|(got, want)| (got - want).powi(2)).sum::<f64>();
        off / want.iter().map(|want| want.powi(2)).sum::<f64>()
    };
    let (exact, rounded) = (error(&["--activations", "exact"]), error(&[]));
    assert!(exact < 1e-9 && rounded > 1e-7, "{exact:e}, {rounded:e}");
}

#[test]
fn a_warm_up_changes_no_text() {
    let words = ["--temperature", "1.1", "--seed", "5", "--max-tokens", "10", "--ids"];
    assert_eq!(printed(&words).unwrap(), printed(&[&words[..], &["--warm-up"]].concat()).unwrap());
}

#[test]
fn an_interrupt_stops_after_the_token_at_hand() {
    let stop = Arc::new(AtomicBool::new(false));
    ops_command::start(Some(&stop)).unwrap();
    signal_hook::low_level::raise(signal_hook::consts::SIGINT).unwrap();
    assert!(stop.load(Ordering::Relaxed));
    let ids = interrupted(&["--temperature", "0", "--ids"], stop).unwrap();
    assert_eq!(ids.split_whitespace().count(), 1, "{ids}");
}

#[test]
fn folders_run_with_their_own_tokenizer_and_template() {
    let model =
        ["--model", &folder("llama"), "--temperature", "0", "--max-tokens", "4", "--ids", "--ignore-eos"];
    let chat = printed(&[&model[..], &["--chat", "--prompt", " hello "]].concat()).unwrap();
    // The template's tokens, written out: <s> <|user|> hello <|end|> newline <|assistant|>.
    let text = std::fs::read_to_string(format!("{}/expected.json", folder("llama"))).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let ids: Vec<String> = json["chat"].as_array().unwrap().iter().map(|id| id.to_string()).collect();
    let same = printed(&[&model[..], &["--prompt-ids", &ids.join(",")]].concat()).unwrap();
    assert_eq!(chat, same);
    let mapped = printed(&[&model[..], &["--chat", "--prompt", " hello ", "--mmap"]].concat()).unwrap();
    assert_eq!(mapped, chat);
    let none = printed(&["--chat", "--prompt", "hello"]).unwrap_err();
    assert!(none.contains("chat template"), "{none}");
    let untokenized = printed(&["--model", &folder("qwen2")]).unwrap_err();
    assert!(untokenized.contains("tokenizer.json"), "{untokenized}");
}

/// A copy of a folder with another file in it.
fn folder_with(name: &str, file: &str, text: &str) -> std::path::PathBuf {
    let copy = std::env::temp_dir().join(format!("generate-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&copy).unwrap();
    for entry in std::fs::read_dir(folder("llama")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    std::fs::write(copy.join(file), text).unwrap();
    copy
}

#[test]
fn conversations_have_turns_tools_and_variables() {
    // The template writes what it is given.
    let template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{{ tools[0].name if tools }}\
                    {{ 'off' if enable_thinking is false }}{{ mood }}";
    let copy = folder_with("turns", "chat_template.jinja", template);
    let (_messages, messages) =
        lines(r#"[{"role": "user", "content": "a"}, {"role": "assistant", "content": "he"}]"#);
    let (_tools, tools) = lines(r#"[{"name": "lo"}]"#);
    // The most likely token after each of the prompt.
    let model = ["--model", copy.to_str().unwrap(), "--top1"];
    let run = |words: &[&str]| printed(&[&model[..], words].concat());
    let chat = ["--chat", "--messages", &messages, "--tools", &tools];
    let args = ["--template-arg", "enable_thinking=false", "--template-arg", "mood=the or"];
    let turns = run(&[&chat[..], &args].concat()).unwrap();
    // The same text in one message.
    let same = |text: &str| {
        let copy = folder_with("turn", "chat_template.jinja", "{{ messages[0].content }}");
        let words = ["--model", copy.to_str().unwrap(), "--chat", "--prompt", text];
        let same = printed(&[&words[..], &model[2..]].concat()).unwrap();
        std::fs::remove_dir_all(copy).unwrap();
        same
    };
    assert_eq!(turns, same("<|user|>a<|assistant|>helooffthe or"));
    // A prompt is the next message.
    assert_eq!(
        run(&[&chat[..3], &["--prompt", "b"]].concat()).unwrap(),
        same("<|user|>a<|assistant|>he<|user|>b")
    );
    for (text, part) in [("[", "EOF"), ("{}", "array"), ("[{\"content\": \"a\"}]", "message 1 has no role")] {
        let (_kept, file) = lines(text);
        let error = run(&["--chat", "--messages", &file]).unwrap_err();
        assert!(error.contains(part) && error.contains(&file), "{error}");
    }
    for words in [
        &["--messages", "x"][..],
        &["--chat", "--messages", "x", "--system", "y"],
        &["--chat", "--template-arg", "x"],
    ] {
        assert!(run(words).is_err(), "{words:?}");
    }
    std::fs::remove_dir_all(copy).unwrap();
}

#[test]
fn a_hostile_template_or_tokenizer_is_an_error_that_names_its_file() {
    let data = repository("tests/data/outside");
    for (name, file, wanted) in
        [("chat_nsself.jinja", "chat_template.jinja", "limit"), ("tok_pp0.json", "tokenizer.json", "zz")]
    {
        let text = std::fs::read_to_string(format!("{data}/{name}")).unwrap();
        let copy = folder_with(name, file, &text);
        let error = printed(&["--model", copy.to_str().unwrap(), "--chat", "--prompt", "q"]).unwrap_err();
        assert!(error.contains(copy.join(file).to_str().unwrap()) && error.contains(wanted), "{error}");
        std::fs::remove_dir_all(copy).unwrap();
    }
}

/// Output whose reader has exited.
struct Closed;
impl std::io::Write for Closed {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::BrokenPipe.into())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    for words in [&["--max-tokens", "3"][..], &["--ids"], &["--json", "--max-tokens", "1"], &["--top1"]] {
        let cli = Cli::try_parse_from([&["ops", "generate"][..], words].concat()).unwrap();
        let Command::Generate(args) = &cli.command else { unreachable!("the words say generate") };
        let error = super::run(cli.common, args, &AtomicBool::default(), &mut Closed).unwrap_err();
        // The status is that of all that this process has done, other tests included; those of the commands check it.
        assert!(ops_command::closed_pipe(&error).is_some(), "{words:?}: {error}");
    }
}

#[test]
fn a_prompt_that_is_too_long_is_not_repeated() {
    let long = "secret ".repeat(2000);
    let (_kept, file) = lines(&format!("short\n\n{long}\n"));
    let error = printed(&["--prompts", &file]).unwrap_err();
    assert!(error.starts_with("the prompt on line 3 has ") && !error.contains("secret"), "{error}");
    let error = printed(&["--prompt", &long]).unwrap_err();
    assert!(error.starts_with("the prompt has ") && !error.contains("secret"), "{error}");
}

#[test]
fn logits_are_a_whole_file_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("logits.json");
    let file = path.to_str().unwrap();
    assert_eq!(printed(&["--logits", file]).unwrap(), "");
    let logits: Vec<f32> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert!(logits.len() > 100);
    for refused in ["/dev/null", "/", "/no/such/folder/file"] {
        assert!(printed(&["--logits", refused]).unwrap_err().contains("cannot create"), "{refused}");
    }
}

/// NaN among the logits of a text, at every temperature, is an error that says after which token. Other texts go on.
#[test]
fn logits_that_are_nan_are_an_error_of_their_text() {
    let model = &repository("models/tiny-llama-kjv-f16.gguf");
    let tokenizer = Gguf::open(model).unwrap().tokenizer().unwrap();
    let (bad, other) = ("And God saw the light", "The LORD");
    let (bad_ids, other_ids) = (tokenizer.encode(bad).unwrap(), tokenizer.encode(other).unwrap());
    let first = bad_ids.iter().position(|id| !other_ids.contains(id)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nan.gguf");
    std::fs::write(&path, nan::model(model, bad_ids[first]).unwrap()).unwrap();
    let model = ["--model", path.to_str().unwrap(), "--max-tokens", "4", "--ignore-eos"];
    let (_kept, file) = lines(&format!("{other}\n{bad}\n{other}\n"));
    let at = |position: usize| format!("after the token at position {position}, the logit of id ");
    let at_end = at(bad_ids.len() - 1);
    for temperature in ["0", "0.8"] {
        let words = [&model[..], &["--temperature", temperature]].concat();
        let mut out = Vec::new();
        let all = [&words[..], &["--prompts", &file, "--json"]].concat();
        let error = printed_to(&mut out, &all, Arc::default()).unwrap_err();
        assert!(error.starts_with(&format!("prompt 2: {at_end}")) && error.contains("is NaN"), "{error}");
        let objects = String::from_utf8(out).unwrap();
        let objects: Vec<serde_json::Value> =
            objects.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let counts: Vec<usize> =
            objects.iter().map(|object| object["ids"].as_array().unwrap().len()).collect();
        assert_eq!(counts, [4, 0, 4], "at {temperature}");
        assert!(
            objects[1]["error"].as_str().unwrap().starts_with(&at_end) && objects[0].get("error").is_none()
        );
        let alone = printed(&[&words[..], &["--prompt", bad]].concat()).unwrap_err();
        assert!(alone.starts_with(&format!("prompt 1: {at_end}")), "{alone}");
    }
    let logits = folder.path().join("logits.json");
    let words = [&model[..], &["--prompt", bad, "--logits", logits.to_str().unwrap()]].concat();
    let error = printed(&words).unwrap_err();
    assert!(error.starts_with(&at_end) && !logits.exists(), "{error}");
    let error = printed(&[&model[..], &["--prompt", bad, "--top1"]].concat()).unwrap_err();
    assert!(error.starts_with(&at(first)), "{error}");
}

#[test]
fn what_contradicts_itself_is_refused() {
    for words in [
        &["--system", "x"][..],
        &["--prompts", "f", "--prompt", "x"],
        &["--chat", "--prompt-ids", "1"],
        &["--context", "1"],
        &["--overflow", "grow"],
    ] {
        assert!(printed(words).is_err(), "{words:?}");
    }
}

#[test]
fn devices_generate_what_one_generates_at_batch() {
    let model = repository("models/tiny-llama-kjv-f16.gguf");
    let of = |devices: &str, words: &[&str]| {
        let common = ["--model", &model, "--determinism", "batch", "--max-tokens", "6", "--devices", devices];
        printed(&[&common[..], words].concat()).unwrap()
    };
    for words in [&["--temperature", "0"][..], &["--temperature", "0.9", "--seed", "3", "--ids"], &["--top1"]]
    {
        let one = of("0", words);
        assert!(one.len() > 10, "{one}");
        for devices in ["0,1", "0,1,2,3"] {
            assert_eq!(of(devices, words), one, "{devices} {words:?}");
        }
    }
    let error = printed(&["--model", &model, "--determinism", "batch", "--devices", "0,1,2"]).unwrap_err();
    assert!(error.contains("got 3, wanted 1, 2, 4 or 8"), "{error}");
    // What every rank refuses is one error, and a file that does not exist is that of rank 0.
    let error = printed(&["--model", &model, "--devices", "0,1", "--context", "2"]).unwrap_err();
    assert!(error.contains("this model accepts 1 to 2"), "{error}");
    let error = printed(&["--model", "/no/such.gguf", "--devices", "0,1"]).unwrap_err();
    assert!(error.contains("/no/such.gguf"), "{error}");
}

/// Rank 0 sees the signal, and the others stop at the same token.
#[test]
fn an_interrupt_stops_all_devices() {
    let model = repository("models/tiny-llama-kjv-f16.gguf");
    let stop = Arc::new(AtomicBool::new(true));
    let words = ["--model", &model, "--devices", "0,1", "--ids", "--temperature", "0"];
    assert_eq!(interrupted(&words, stop).unwrap().split_whitespace().count(), 1);
}
