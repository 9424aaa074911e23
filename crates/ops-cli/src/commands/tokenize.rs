//! `ops tokenize`: the ids of a text, or the text of ids.
use crate::args::{Common, TokenizeArgs};
use crate::exit::{Failure, Outcome};
use crate::output::json_line;
use ops_gguf::{DecodeOptions, EncodeOptions, Tokenizer};
use serde::Serialize;
use std::io::{Read, Write};

#[derive(Serialize)]
struct Line<'a> {
    text: &'a str,
    ids: &'a [u32],
    /// Tokens as they stand in the vocabulary; padded rows have none.
    pieces: Vec<&'a str>,
}

pub(super) fn run(common: Common, args: &TokenizeArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let failed = |error: &dyn std::error::Error| Failure::Usage(format!("{}: {error}", args.model.display()));
    let (metadata, rows) = ops_models::tokenizer_metadata(&args.model).map_err(|e| failed(&e))?;
    let tokenizer = Tokenizer::from_metadata(&metadata).map_err(|e| failed(&e))?.with_rows(rows);
    if let Some(first) = &args.decode {
        let ids = ids(&given([first].into_iter().chain(&args.text))?.join(" "))?;
        let options = DecodeOptions { special: args.special };
        let text = tokenizer.decode_with(&ids, options).map_err(|e| failed(&e))?;
        print(common, &tokenizer, &text, &ids, Some(&text), out)?;
        return Ok(Outcome::Fine);
    }
    let options = EncodeOptions { special: args.special, ..EncodeOptions::default() };
    for text in given(args.text.iter())? {
        let ids = tokenizer.encode_with(&text, options).map_err(|e| failed(&e))?;
        print(common, &tokenizer, &text, &ids, None, out)?;
    }
    Ok(Outcome::Fine)
}

/// One line: JSON, or what was asked for.
fn print(
    common: Common,
    tokenizer: &Tokenizer,
    text: &str,
    ids: &[u32],
    plain: Option<&str>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if common.json {
        let pieces = ids.iter().map(|id| tokenizer.token(*id).map_or("", |(piece, _)| piece)).collect();
        json_line(&Line { text, ids, pieces }, out)?;
    } else if let Some(text) = plain {
        writeln!(out, "{text}")?;
    } else {
        let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
        writeln!(out, "{}", ids.join(" "))?;
    }
    Ok(())
}

/// The words of the command line, or standard input without its last line break.
fn given<'a>(words: impl Iterator<Item = &'a String>) -> Result<Vec<String>, Failure> {
    let words: Vec<String> = words.cloned().collect();
    if words.iter().any(|word| !word.is_empty()) {
        return Ok(words);
    }
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Failure::Usage(format!("cannot read standard input: {error}")))?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(vec![text])
}

/// Numbers, separated by commas or white space.
fn ids(text: &str) -> Result<Vec<u32>, Failure> {
    let words = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let number = |word: &str| {
        word.parse().map_err(|_| Failure::Usage(format!("--decode: got {word:?}, wanted ids such as 5,17,3")))
    };
    words.map(number).collect()
}

#[cfg(test)]
mod tests {
    use crate::args::Cli;
    use clap::Parser;
    use std::sync::atomic::AtomicBool;

    fn printed(words: &[&str]) -> Result<String, String> {
        let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/folders/llama");
        let cli = Cli::try_parse_from([&["ops", "tokenize", model][..], words].concat()).unwrap();
        let mut out = Vec::new();
        crate::commands::run(&cli, &AtomicBool::default(), &mut out)
            .map_err(|failure| failure.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn texts_become_ids_and_back() {
        let ids = printed(&["hello there"]).unwrap();
        assert!(ids.starts_with("0 "), "{ids}");
        let decode = |words: &[&str]| printed(&[&["--decode"], words].concat());
        assert_eq!(decode(&[ids.trim()]).unwrap(), "hello there\n");
        assert_eq!(decode(&[&ids.trim().replace(' ', ",")]).unwrap(), "hello there\n");
        let words: Vec<&str> = ids.split_whitespace().collect();
        assert_eq!(decode(&words).unwrap(), "hello there\n");
        let line: serde_json::Value =
            serde_json::from_str(&printed(&["hello there", "--json"]).unwrap()).unwrap();
        assert_eq!(line["ids"].as_array().unwrap().len(), line["pieces"].as_array().unwrap().len());
        assert_eq!(line["pieces"][0], "<s>");
        assert!(
            printed(&["</s>"]).unwrap().split(' ').count()
                > printed(&["</s>", "--special"]).unwrap().split(' ').count()
        );
        assert!(decode(&["x"]).unwrap_err().contains("--decode"));
        assert!(decode(&["99999"]).unwrap_err().contains("99999"));
    }
}
