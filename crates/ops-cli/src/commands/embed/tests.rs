//! Whole runs, on the encoders of the tests.
use super::embed;
use crate::args::{Cli, Command};
use clap::Parser;
use serde_json::Value;

fn folder(name: &str) -> String {
    format!("{}/../../tests/data/folders/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The output of a run with this standard input.
fn printed(words: &[&str], mut standard: &[u8]) -> Result<String, String> {
    let bert = folder("bert");
    let model = if words.contains(&"--model") { vec![] } else { vec!["--model", &bert] };
    let cli =
        Cli::try_parse_from([&["ops", "embed"], &model[..], words].concat()).map_err(|e| e.to_string())?;
    let Command::Embed(args) = &cli.command else { unreachable!("the words say embed") };
    let mut out = Vec::new();
    embed(cli.common, args, &mut standard, &mut out).map_err(|e| e.to_string())?;
    Ok(String::from_utf8(out).unwrap())
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The texts of the fixture, and their embeddings.
fn expected() -> Value {
    let text = std::fs::read_to_string(format!("{}/expected.json", folder("bert"))).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn floats(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

#[test]
fn texts_in_any_order_and_batch_have_their_own_embedding() {
    let expected = expected();
    let texts: Vec<&str> =
        expected["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    for batch in ["1", "30", "4096"] {
        let all = [&["--json", "--batch", batch, "--prompt"], &texts[..]].concat();
        let objects = objects(&printed(&all, b"").unwrap());
        assert_eq!(objects.len(), texts.len());
        for (i, object) in objects.iter().enumerate() {
            assert_eq!(object["text"], expected["texts"][i]);
            assert_eq!(object["tokens"], expected["ids"][i].as_array().unwrap().len());
            assert_eq!(object["truncated"], i == 5);
            let (got, want) = (floats(&object["embedding"]), floats(&expected["embeddings"][i]));
            assert_eq!(got.len(), want.len());
            got.iter().zip(&want).for_each(|(got, want)| assert!((got - want).abs() < 1e-5));
        }
    }
}

#[test]
fn lines_come_from_a_file_or_standard_input() {
    let text = "Hello world\n\n the river \n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("embed-lines.txt");
    std::fs::write(&file, text).unwrap();
    let from_file = printed(&["--json", "--prompts", file.to_str().unwrap()], b"").unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(from_file.lines().count(), 2);
    assert_eq!(printed(&["--json"], text.as_bytes()).unwrap(), from_file);
    assert_eq!(printed(&["--json", "--prompts", "-"], text.as_bytes()).unwrap(), from_file);
    assert!(printed(&["--json"], b"\n \n").unwrap_err().contains("standard input has no line"));
    let missing = printed(&["--prompts", file.to_str().unwrap()], b"").unwrap_err();
    assert!(missing.contains("cannot read") && missing.contains("embed-lines"), "{missing}");
}

#[test]
fn similarities_are_cosines() {
    let words = ["--similarity", "--json", "--prompt", "Hello world", "Hello world", "now"];
    let rows: Vec<Vec<f64>> =
        objects(&printed(&words, b"").unwrap()).iter().map(|row| floats(&row["similarity"])).collect();
    for (i, row) in rows.iter().enumerate() {
        assert!((row[i] - 1.0).abs() < 1e-6);
        (0..3).for_each(|j| assert!((row[j] - rows[j][i]).abs() < 1e-12));
    }
    assert!((rows[0][1] - 1.0).abs() < 1e-6 && rows[0][2] < 0.99);
    let table = printed(&["--similarity", "--prompt", "Hello world", "now"], b"").unwrap();
    assert_eq!(table.lines().count(), 3);
    assert!(table.lines().nth(2).unwrap().contains("1.0000  now"), "{table}");
}

#[test]
fn a_table_shows_a_line_for_each_text() {
    let table = printed(&["--prompt", "Hello\nworld", "now"], b"").unwrap();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].contains("first 4 of 64 numbers") && lines.len() == 3, "{table}");
    assert!(lines[1].ends_with("Hello\\nworld") && lines[1].contains(" .. "), "{table}");
}

#[test]
fn every_backend_and_type_gives_nearly_the_same() {
    let words = ["--json", "--prompt", "The river runs"];
    let vector = |more: &[&str]| {
        floats(&objects(&printed(&[&words[..], more].concat(), b"").unwrap())[0]["embedding"])
    };
    let want = vector(&["--repeat", "2", "--stats"]);
    for (more, most) in [
        (&["--backend", "reference"][..], 1e-6),
        (&["--backend", "checked", "--stats"], 1e-6),
        (&["--dtype", "f16"], 5e-3),
        (&["--dtype", "bf16"], 5e-2),
        (&["--mmap"], 0.0),
    ] {
        let off = vector(more).iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off <= most, "{more:?}: {off}");
    }
}

#[test]
fn ids_are_texts_and_vectors_are_an_array() {
    let expected = expected();
    let given: Vec<String> = expected["ids"].as_array().unwrap()[..3]
        .iter()
        .map(|row| row.as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(","))
        .collect();
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vectors.npy");
    let words = [&["--npy", file.to_str().unwrap(), "--prompt-ids"], &given[..]].concat();
    assert_eq!(printed(&words, b"").unwrap(), "");
    let bytes = std::fs::read(&file).unwrap();
    let data = bytes.len() - 3 * 64 * 4;
    assert!(data.is_multiple_of(64) && bytes.starts_with(b"\x93NUMPY\x01\x00") && bytes[data - 1] == b'\n');
    assert_eq!(usize::from(u16::from_le_bytes([bytes[8], bytes[9]])), data - 10);
    let header = std::str::from_utf8(&bytes[10..data]).unwrap();
    assert!(header.contains("'descr': '<f4'") && header.contains("'shape': (3, 64)"), "{header}");
    for (i, number) in bytes[data..].chunks_exact(4).enumerate() {
        let got = f32::from_le_bytes(number.try_into().unwrap());
        let want = expected["embeddings"][i / 64][i % 64].as_f64().unwrap();
        assert!((f64::from(got) - want).abs() < 1e-5);
    }
    let error = printed(&["--prompt-ids", "2,x"], b"").unwrap_err();
    assert!(error.contains("--prompt-ids 2,x") && error.contains("\"x\""), "{error}");
}

#[test]
fn text_of_a_control_token_is_text_unless_it_is_to_be_parsed() {
    let tokens = |more: &[&str]| {
        let words = [&["--json", "--prompt", "now [SEP] here"], more].concat();
        objects(&printed(&words, b"").unwrap())[0]["tokens"].as_u64().unwrap()
    };
    let (plain, parsed) = (tokens(&[]), tokens(&["--parse-special"]));
    assert!(plain > parsed, "{plain} and {parsed}");
}

#[test]
fn prompts_and_shorter_vectors_are_those_of_the_model() {
    let path = tempfile::tempdir().unwrap();
    with_nan(0, path.path());
    let own =
        serde_json::json!({"prompts": {"query": "Hello ", "document": ""}, "default_prompt_name": "query"});
    std::fs::write(path.path().join("config_sentence_transformers.json"), own.to_string()).unwrap();
    let model = ["--model", path.path().to_str().unwrap(), "--json", "--prompt"];
    let vector = |words: &[&str]| {
        let printed = printed(&[&model[..], words].concat(), b"").unwrap();
        floats(&objects(&printed)[0]["embedding"])
    };
    let (plain, whole) = (["--prompt-name", "document"], "Hello world");
    let want = vector(&[&[whole][..], &plain].concat());
    assert_eq!(vector(&["world"]), want);
    assert_eq!(vector(&["world", "--prompt-name", "query"]), want);
    assert_ne!(vector(&[whole]), want);
    let short = vector(&[&[whole, "--dims", "8"][..], &plain].concat());
    let length = want[..8].iter().map(|v| v * v).sum::<f64>().sqrt();
    assert_eq!(short.len(), 8);
    short.iter().zip(&want).for_each(|(got, want)| assert!((got - want / length).abs() < 1e-6));
    for (words, named) in [(["--prompt-name", "title"], "document, query"), (["--dims", "65"], "at most 64")]
    {
        let error = printed(&[&model[..], &["x"], &words].concat(), b"").unwrap_err();
        assert!(error.contains(named), "{error}");
    }
}

/// A copy of an encoder in which the embedding of this token is NaN.
fn with_nan(id: usize, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(folder("bert")).unwrap() {
        let from = entry.unwrap().path();
        let name = from.file_name().unwrap().to_owned();
        if from.is_dir() {
            std::fs::create_dir_all(to.join(&name)).unwrap();
            for entry in std::fs::read_dir(from).unwrap() {
                let from = entry.unwrap().path();
                std::fs::copy(&from, to.join(&name).join(from.file_name().unwrap())).unwrap();
            }
        } else {
            std::fs::copy(from, to.join(name)).unwrap();
        }
    }
    let weights = to.join("model.safetensors");
    let mut bytes = std::fs::read(&weights).unwrap();
    let start = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..start]).unwrap();
    let table = header.as_object().unwrap().iter();
    let (_, table) = table.into_iter().find(|(name, _)| name.ends_with("word_embeddings.weight")).unwrap();
    let [begin, end] = [0, 1].map(|i| table["data_offsets"][i].as_u64().unwrap() as usize);
    let row = (end - begin) / table["shape"][0].as_u64().unwrap() as usize;
    bytes[start + begin + id * row..][..row].fill(0xff);
    std::fs::write(weights, bytes).unwrap();
}

#[test]
fn an_embedding_that_is_nan_is_an_error_that_names_its_text() {
    let path = std::env::temp_dir().join(format!("embed-nan-{}", std::process::id()));
    let ids = expected()["ids"].clone();
    let texts = expected()["texts"].clone();
    let of = |text: usize| ids[text].as_array().unwrap();
    let id = of(1).iter().find(|id| !of(0).contains(id)).unwrap();
    with_nan(id.as_u64().unwrap() as usize, &path);
    let (one, two) = (texts[0].as_str().unwrap(), texts[1].as_str().unwrap());
    let model = ["--model", path.to_str().unwrap()];
    for more in [&["--json"][..], &[], &["--similarity"], &["--similarity", "--json"]] {
        let error = printed(&[&model[..], more, &["--prompt", one, two]].concat(), b"").unwrap_err();
        assert!(error.starts_with("text 2: number 0 of its embedding is NaN"), "{more:?}: {error}");
    }
    assert_eq!(
        printed(&[&model[..], &["--json", "--prompt", one]].concat(), b"").unwrap().lines().count(),
        1
    );
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn what_cannot_be_honoured_is_refused() {
    for words in [
        &["--prompt", "x", "--prompts", "f"][..],
        &["--batch", "0", "--prompt", "x"],
        &["--repeat", "0", "--prompt", "x"],
        &["--model", "/nowhere", "--prompt", "x"],
    ] {
        assert!(printed(words, b"").is_err(), "{words:?}");
    }
    let decoder = printed(&["--model", &folder("llama"), "--prompt", "x"], b"").unwrap_err();
    assert!(decoder.contains("\"llama\"") && decoder.contains("bert"), "{decoder}");
    // The architecture is judged before the tokenizer, which this folder lacks.
    let other = printed(&["--model", &folder("qwen2"), "--prompt", "x"], b"").unwrap_err();
    assert!(other.contains("\"qwen2\""), "{other}");
    let bare = std::env::temp_dir().join(format!("embed-bare-{}", std::process::id()));
    std::fs::create_dir_all(&bare).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(format!("{}/{file}", folder("bert")), bare.join(file)).unwrap();
    }
    let error = printed(&["--model", bare.to_str().unwrap(), "--prompt", "x"], b"").unwrap_err();
    assert!(error.contains("tokenizer.json"), "{error}");
    std::fs::remove_dir_all(bare).unwrap();
}
