//! Bounds on a `tokenizer.json`, checked before the crate `tokenizers` reads it.
//!
//! A file may end the process or keep it busy forever: by nesting (parsing takes time exponential in it), by a table that claims to be
//! larger than it is, by steps that each make a text longer, by tokens so long that dropping their trie overflows the stack. A panic
//! can be caught, these cannot. The limits are far above what published tokenizers have.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use super::model::{Model, at_most};
use super::wrong;
use crate::error::Result;

/// Bytes of a file. The largest published ones have 34 MiB.
const MAX_FILE: usize = 256 << 20;
/// Nesting of JSON in a part other than the vocabulary. Published files have at most 6.
const MAX_DEPTH: usize = 16;
/// Values in such a part, and steps, such as the members of a sequence.
const MAX_VALUES: usize = 20_000;
const MAX_STEPS: usize = 256;
/// Bytes of all patterns of a part, and the product of a pattern's repetition counts.
const MAX_PATTERNS: usize = 64 << 10;
const MAX_REPEATS: u64 = 10_000;
/// How much longer all steps together can make a text. T5 has 198.
const MAX_GROWTH: u64 = 1024;
/// Bytes of an added token, and of all of them.
const MAX_ADDED: usize = 16 << 10;
const MAX_ALL_ADDED: usize = 4 << 20;

/// The parts of a `tokenizer.json` that have bounds.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    added_tokens: Option<Vec<Added>>,
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    post_processor: Option<Value>,
    decoder: Option<Value>,
    model: Model,
}

#[derive(Deserialize)]
struct Added {
    content: String,
}

/// Refuses a text that would make the library abort, hang or take unlimited memory.
pub(super) fn check(text: &str) -> Result<()> {
    at_most("text", text.len() as u64, MAX_FILE as u64, "bytes")?;
    let file: File = serde_json::from_str(text).map_err(|e| wrong("text", e, "JSON of a tokenizer"))?;
    file.model.check(text)?;
    let mut growth = Growth { factor: 1, compositions: 0, precompiled: 0 };
    for (what, part) in [
        ("normalizer", &file.normalizer),
        ("pre_tokenizer", &file.pre_tokenizer),
        ("decoder", &file.decoder),
        ("post_processor", &file.post_processor),
    ] {
        let Some(part) = part else { continue };
        let mut walk = Walk { what, values: 0, steps: Vec::new(), patterns: 0 };
        walk.value(part, 1)?;
        for step in walk.steps {
            if what == "post_processor" {
                template(step)?;
            } else {
                let factor = growth.of(what, step)?;
                // A decoder's steps are not run.
                if what != "decoder" {
                    growth.factor = growth.factor.saturating_mul(factor);
                }
            }
        }
        at_most(what, growth.factor, MAX_GROWTH, "times longer texts")?;
    }
    let added = file.added_tokens.unwrap_or_default();
    let lengths = || added.iter().map(|token| token.content.len());
    at_most("an added token", lengths().max().unwrap_or(0) as u64, MAX_ADDED as u64, "bytes")?;
    at_most("added tokens", lengths().sum::<usize>() as u64, MAX_ALL_ADDED as u64, "bytes")
}

/// What a part consists of.
struct Walk<'v> {
    what: &'static str,
    values: usize,
    /// Objects with a type, in the order in which they are run.
    steps: Vec<&'v Value>,
    patterns: usize,
}

impl<'v> Walk<'v> {
    fn value(&mut self, value: &'v Value, depth: usize) -> Result<()> {
        self.values += 1;
        at_most(self.what, depth as u64, MAX_DEPTH as u64, "nested values")?;
        at_most(self.what, self.values as u64, MAX_VALUES as u64, "values")?;
        match value {
            Value::Array(items) => items.iter().try_for_each(|item| self.value(item, depth + 1)),
            Value::Object(fields) => {
                if fields.get("type").is_some_and(Value::is_string) {
                    self.steps.push(value);
                    at_most(self.what, self.steps.len() as u64, MAX_STEPS as u64, "steps")?;
                }
                if let Some(pattern) = fields.get("Regex").and_then(Value::as_str) {
                    self.patterns += pattern.len();
                    at_most(self.what, self.patterns as u64, MAX_PATTERNS as u64, "bytes of patterns")?;
                    at_most("a pattern", repeats(pattern), MAX_REPEATS, "repetitions")?;
                }
                fields.values().try_for_each(|field| self.value(field, depth + 1))
            }
            _ => Ok(()),
        }
    }
}

/// The product of all counts in a pattern, such as `{1,3}`: nested ones multiply, and the library expands them.
fn repeats(pattern: &str) -> u64 {
    pattern.split('{').skip(1).fold(1, |product, rest| {
        let counts = rest.split_once('}').map_or("", |(counts, _)| counts);
        let most = counts.split(',').filter_map(|count| count.trim().parse::<u64>().ok()).max();
        product.saturating_mul(most.unwrap_or(1).max(1))
    })
}

/// How much longer a text becomes.
struct Growth {
    factor: u64,
    /// Steps of Unicode decomposition, which lengthen a text once.
    compositions: u32,
    precompiled: u32,
}

impl Growth {
    /// The factor of one step. Fails on a step that cannot be run.
    fn of(&mut self, what: &str, step: &Value) -> Result<u64> {
        let text = |name: &str| step.get(name).and_then(Value::as_str);
        let len = |name: &str| text(name).map_or(0, str::len) as u64;
        Ok(match text("type").unwrap_or_default() {
            // A byte becomes a character of at most two; a space may be put before.
            "ByteLevel" => 2 * (1 + u64::from(step.get("add_prefix_space") != Some(&Value::Bool(false)))),
            "Metaspace" => 2 * text("replacement").map_or(3, str::len).max(1) as u64,
            "Prepend" => 1 + len("prepend"),
            "Replace" => replaced(what, step, len("content"))?,
            "Split" => replaced(what, step, 0)?,
            "FixedLength" if step.get("length").and_then(Value::as_u64) == Some(0) => {
                return Err(wrong(what, "pieces of length 0", "at least 1"));
            }
            "NFKC" | "NFKD" | "BertNormalizer" => {
                self.compositions += 1;
                if self.compositions == 1 { 1 } else { 11 }
            }
            "Precompiled" => {
                self.precompiled += 1;
                at_most(what, self.precompiled, 1_u32, "steps of type Precompiled")?;
                precompiled(text("precompiled_charsmap").unwrap_or_default())?
            }
            _ => 1,
        })
    }
}

/// The growth of a step with a pattern.
fn replaced(what: &str, step: &Value, content: u64) -> Result<u64> {
    let pattern = step.get("pattern");
    let pattern = |kind: &str| pattern.and_then(|pattern| pattern.get(kind)?.as_str());
    let min = match (pattern("String"), pattern("Regex")) {
        (Some(text), _) => text.len(),
        // Patterns that look around may match nothing.
        (_, Some(regex)) => {
            regex_syntax::parse(regex).ok().and_then(|p| p.properties().minimum_len()).unwrap_or(0)
        }
        // The library says what is missing.
        (None, None) => return Ok(1),
    };
    if pattern("String") == Some("") || pattern("Regex") == Some("") {
        return Err(wrong(what, "an empty pattern", "something to find"));
    }
    Ok(if min == 0 { 1 + content } else { content.div_ceil(min as u64).max(1) })
}

/// The growth by a table of replacements: the length of its trie in bytes, the trie, and the replacements, which end in zeros.
fn precompiled(table: &str) -> Result<u64> {
    let wrong = |got: &str| wrong("precompiled_charsmap", got, "a table of replacements in base64");
    let bytes = base64::decode(table).map_err(|_| wrong("no base64"))?;
    let (len, rest) = bytes.split_first_chunk().ok_or_else(|| wrong("a table without a length"))?;
    let len = u32::from_le_bytes(*len) as usize;
    // A trie has at least its root.
    if len < 4 || !len.is_multiple_of(4) || len > rest.len() {
        return Err(wrong(&format!("a trie of {len} bytes in {}", rest.len())));
    }
    let replacements =
        std::str::from_utf8(&rest[len..]).map_err(|_| wrong("replacements that are not UTF-8"))?;
    let longest = replacements.split('\0').map(str::len).max().unwrap_or(0) as u64;
    // U+FDFA takes 3 bytes and becomes 33.
    Ok(if longest <= 36 { 11 } else { longest })
}

/// A template names its own special tokens, and the text once.
fn template(step: &Value) -> Result<()> {
    if step.get("type").and_then(Value::as_str) != Some("TemplateProcessing") {
        return Ok(());
    }
    let known: HashSet<&str> = step
        .get("special_tokens")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, _)| &**name)
        .collect();
    let mut texts = 0;
    for piece in step.get("single").and_then(Value::as_array).into_iter().flatten() {
        let id = |kind: &str| piece.get(kind).and_then(|piece| piece.get("id")?.as_str());
        if let Some(name) = id("SpecialToken").filter(|name| !known.contains(name)) {
            return Err(wrong(
                "post_processor",
                format_args!("the special token {name:?}"),
                "one of its `special_tokens`",
            ));
        }
        match id("Sequence") {
            Some("A") => texts += 1,
            Some(other) => {
                return Err(wrong(
                    "post_processor",
                    format_args!("text {other:?} in `single`"),
                    "text \"A\"",
                ));
            }
            None => {}
        }
    }
    if texts != 1 {
        return Err(wrong("post_processor", format_args!("the text {texts} times in `single`"), "once"));
    }
    Ok(())
}
