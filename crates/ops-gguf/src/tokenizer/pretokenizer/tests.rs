use std::sync::LazyLock;

use proptest::prelude::*;

use super::rules::KNOWN;
use super::*;

fn words(pre: &str, text: &str) -> Vec<String> {
    words_of(&Rules::named(pre).unwrap().splitter().unwrap(), text)
}

fn words_of(splitter: &Splitter, text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut end = 0;
    let mut word = |at: usize, w: &str| {
        assert_eq!(at, end, "words follow each other");
        end += w.len();
        words.push(w.to_owned());
        Ok(())
    };
    splitter.split(text, &mut word).unwrap();
    assert_eq!(end, text.len(), "words cover the text");
    words
}

#[test]
fn every_pattern_compiles_and_every_name_occurs_once() {
    let mut seen = std::collections::HashSet::new();
    for rules in KNOWN {
        rules.splitter().unwrap();
        assert!(rules.names.iter().all(|name| seen.insert(name)));
    }
}

#[test]
fn known_cuts() {
    assert_eq!(words("gpt-2", "don't  stop 12345"), ["don", "'t", " ", " stop", " 12345"]);
    assert_eq!(words("llama-bpe", "DON'T 12345\n\nx"), ["DON", "'T", " ", "123", "45", "\n\n", "x"]);
    assert_eq!(words("qwen2", "a 12"), ["a", " ", "1", "2"]);
    assert_eq!(words("smollm", "ab 12 "), ["ab", " ", "1", "2", " "]);
    assert_eq!(words("default", "x=1234;"), ["x", "=", "123", "4", ";"]);
    assert_eq!(words("superbpe", "a 1234567"), ["a ", "1", "234", "567"]);
    assert_eq!(words("tiny_aya", "1234567 x"), ["1", "234", "567", " x"]);
    assert_eq!(words("kimi-k2", "漢字Ab1234"), ["漢字", "Ab", "123", "4"]);
    assert_eq!(words("jais-2", "a         b"), ["a", "        ", " b"]);
    assert_eq!(words("afmoe", "x12345漢字"), ["x", "12", "345", "漢字"]);
    assert_eq!(words("k2-horizon", "क्\u{200d}ष 1234"), ["क्\u{200d}ष", " ", "123", "4"]);
    assert_eq!(words("spark2_5", "a\n\nb 1234"), ["a", "\n", "\n", "b", " ", "1", "2", "3", "4"]);
    assert_eq!(words("bloom", "One, two… 3"), ["One", ",", " two", "…", " 3"]);
}

#[test]
fn a_long_run_of_spaces_is_no_trouble() {
    // More spaces than the regex engine's backtracking limit.
    let text = " ".repeat(2_000_000) + "x";
    for rules in KNOWN {
        assert!(words(rules.names[0], &text).len() <= 2_000_001, "{}", rules.names[0]);
    }
}

#[test]
fn a_long_number_is_no_trouble() {
    let text = "7".repeat(200_000);
    for pre in ["tiny_aya", "afmoe"] {
        assert_eq!(words(pre, &text).len(), 66_667, "{pre}");
    }
}

#[test]
fn cuts_as_the_reference_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/byte_level.json");
    let cases: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let texts = cases["texts"].as_array().unwrap();
    let mut compared = 0;
    for (key, expected) in cases.as_object().unwrap() {
        let Some(pre) = key.strip_prefix("words ") else { continue };
        let splitter = Rules::named(pre).unwrap().splitter().unwrap();
        for (text, expected) in texts.iter().zip(expected.as_array().unwrap()) {
            let mut normal = tokenizers::NormalizedString::from(text.as_str().unwrap());
            if Rules::named(pre).unwrap().nfc {
                normal.nfc();
            }
            let lengths: Vec<usize> = words_of(&splitter, normal.get()).iter().map(String::len).collect();
            assert_eq!(&serde_json::Value::from(lengths), expected, "{pre}: {text}");
            compared += 1;
        }
    }
    assert!(compared > 2_000, "{compared}");
}

/// The published patterns, run by the crate `tokenizers` as a `tokenizer.json` has them: one `Split` after the other.
#[test]
fn cuts_as_the_library_does() {
    use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
    use tokenizers::{
        OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, SplitDelimiterBehavior,
    };
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/byte_level.json");
    let cases: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let texts = cases["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap());
    let numbers = [
        "1234567 12,345.6789 0 00 ٣٤٥٦٧",
        "<sentinel:12>IMGIMGABCDZ  \t IMGIMGZ",
        "漢字かなカナ한국어ㄅㄆ，。—“x”",
        "I'LL 'S x'd'ye",
        "a          b\t\t\t  \n   c       ",
        "क्\u{200d}ष ไทยลาว ကမ္ဘာ ﾊﾝ 1234567x 12345",
    ];
    let texts: Vec<&str> = texts.chain(numbers).collect();
    for rules in KNOWN {
        let split = |p: &&str| {
            Split::new(SplitPattern::Regex((*p).to_owned()), SplitDelimiterBehavior::Isolated, false)
        };
        let steps: Vec<Split> = rules.patterns.iter().map(|p| split(p).unwrap()).collect();
        let splitter = rules.splitter().unwrap();
        for text in &texts {
            let mut pieces = PreTokenizedString::from(*text);
            steps.iter().for_each(|step| step.pre_tokenize(&mut pieces).unwrap());
            let pieces = pieces.get_splits(OffsetReferential::Original, OffsetType::Byte);
            let expected: Vec<&str> =
                pieces.iter().map(|piece| piece.0).filter(|piece| !piece.is_empty()).collect();
            assert_eq!(words_of(&splitter, text), expected, "{}: {text:?}", rules.names[0]);
        }
    }
}

/// The patterns as published, with lookahead, in a backtracking engine.
fn words_by_lookahead(patterns: &[fancy_regex::Regex], text: &str) -> Vec<String> {
    let mut pieces = vec![text.to_owned()];
    for regex in patterns {
        let mut next = Vec::new();
        for piece in &pieces {
            let mut done = 0;
            for found in regex.find_iter(piece) {
                let found = found.unwrap();
                next.push(piece[done..found.start()].to_owned());
                next.push(found.as_str().to_owned());
                done = found.end();
            }
            next.push(piece[done..].to_owned());
        }
        pieces = next;
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Each set of rules, compiled by both engines.
static BOTH_WAYS: LazyLock<Vec<(Splitter, Vec<fancy_regex::Regex>)>> = LazyLock::new(|| {
    let fancy = |p: &&str| fancy_regex::Regex::new(p).unwrap();
    KNOWN
        .iter()
        .map(|rules| (rules.splitter().unwrap(), rules.patterns.iter().map(fancy).collect()))
        .collect()
});

proptest! {
    #[test]
    fn lookahead_is_not_needed(text in "([ \n\r\t\u{a0}\u{3000}]{1,4}|[a-zA-Z'.!/é你٣0-9\u{301}]{1,3}|\\PC){0,24}") {
        for ((splitter, fancy), rules) in BOTH_WAYS.iter().zip(KNOWN) {
            let expected = words_by_lookahead(fancy, &text);
            prop_assert_eq!(words_of(splitter, &text), expected, "{}", rules.names[0]);
        }
    }
}
