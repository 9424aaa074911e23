//! The rules by name.

use super::{Pattern, Splitter};
use crate::error::{Error, Result};

/// The rules for splitting, and other settings that depend on the pre-tokenizer's name.
pub(in super::super) struct Rules {
    pub(super) names: &'static [&'static str],
    /// Applied in order: each pattern splits the pieces of the previous one into its matches and the text between them.
    pub(super) patterns: &'static [&'static str],
    /// If a word is a token, use that token regardless of the merges.
    pub(in super::super) ignore_merges: bool,
    /// Whether a text starts with BOS if the metadata does not say.
    pub(in super::super) add_bos: bool,
    /// Whether text is normalised to Unicode NFC first.
    pub(in super::super) nfc: bool,
}

const PLAIN: Rules = Rules { names: &[], patterns: &[], ignore_merges: false, add_bos: false, nfc: false };

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

const LLAMA3: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// Rules of model "gpt2" whose vocabularies are in UTF-8 with `▁` for spaces and merges in order, without words: a text is encoded
/// as a whole.
pub(in crate::tokenizer) const LISTED: [&str; 3] = ["gemma4", "granite-embed-multi-311m", "sarvam-moe"];

/// Runs of spaces in pieces of these sizes, each followed by another space or the end; single ones otherwise.
pub(super) const CASCADE: &str = concat!(
    r"|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)",
    r"|\s{1,2}(?!\S)|\s{1}"
);

const JAIS2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+",
    r"|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)",
    r"|\s{1,2}(?!\S)|\s{1}"
);

const K2_HORIZON: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}|\p{M}|\u{200c}|\u{200d})+|\p{N}{1,3}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const GPT4O: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// Letters with case, as of the Unicode version at the time. Escaped, because several would change under
/// normalisation.
const DEEPSEEK_LETTERS: &str = concat!(
    r"\s?[A-Za-z\u{b5}\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{1ba}\u{1bc}-\u{1bf}\u{1c4}-\u{293}\u{295}-\u{2af}",
    r"\u{370}-\u{373}\u{376}\u{377}\u{37b}-\u{37d}\u{37f}\u{386}\u{388}-\u{38a}\u{38c}\u{38e}-\u{3a1}",
    r"\u{3a3}-\u{3f5}\u{3f7}-\u{481}\u{48a}-\u{52f}\u{531}-\u{556}\u{10a0}-\u{10c5}\u{13a0}-\u{13f5}",
    r"\u{13f8}-\u{13fd}\u{1c90}-\u{1cba}\u{1cbd}-\u{1cbf}\u{1d00}-\u{1d2b}\u{1d6b}-\u{1d77}",
    r"\u{1d79}-\u{1d9a}\u{1e00}-\u{1f15}\u{1f18}-\u{1f1d}\u{1f20}-\u{1f45}\u{1f48}-\u{1f4d}",
    r"\u{1f50}-\u{1f57}\u{1f59}\u{1f5b}\u{1f5d}\u{1f5f}-\u{1f7d}\u{1f80}-\u{1fb4}\u{1fb6}-\u{1fbc}\u{1fbe}",
    r"\u{1fc2}-\u{1fc4}\u{1fc6}-\u{1fcc}\u{1fd0}-\u{1fd3}\u{1fd6}-\u{1fdb}\u{1fe0}-\u{1fec}",
    r"\u{1ff2}-\u{1ff4}\u{1ff6}-\u{1ffc}\u{2102}\u{2107}\u{210a}-\u{2113}\u{2115}\u{2119}-\u{211d}\u{2124}",
    r"\u{2126}\u{2128}\u{212a}-\u{212d}\u{212f}-\u{2134}\u{2139}\u{213c}-\u{213f}\u{2145}-\u{2149}\u{214e}",
    r"\u{2183}\u{2184}\u{2c00}-\u{2c7b}\u{2c7e}-\u{2ce4}\u{2ceb}-\u{2cee}\u{2cf2}\u{2cf3}\u{a640}-\u{a66d}",
    r"\u{a680}-\u{a69b}\u{a722}-\u{a76f}\u{a771}-\u{a787}\u{a78b}-\u{a78e}\u{ab70}-\u{abbf}",
    r"\u{fb00}-\u{fb06}\u{fb13}-\u{fb17}\u{ff21}-\u{ff3a}\u{ff41}-\u{ff5a}\u{10400}-\u{1044f}",
    r"\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}",
    r"\u{1e900}-\u{1e943}]+",
);

const DEEPSEEK_CJK: &str = r"[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+";

const DEEPSEEK_V3_CJK: &str = r"[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+";

const DEEPSEEK_V3: &str = concat!(
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+",
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const SPARK: &str = concat!(
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+",
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"
);

/// Scripts without spaces between words, and Hangul.
const AFMOE_SCRIPTS: &str = concat!(
    r"[\u{4e00}-\u{9fff}\u{3400}-\u{4dbf}\u{f900}-\u{faff}\u{3040}-\u{309f}\u{30a0}-\u{30ff}\u{ff65}-\u{ff9f}",
    r"\u{2f00}-\u{2fdf}\u{e40}-\u{e7f}\u{e80}-\u{eff}\u{1780}-\u{17ff}\u{1000}-\u{109f}\u{aa60}-\u{aa7f}",
    r"\u{a9e0}-\u{a9ff}\u{ac00}-\u{d7af}\u{1100}-\u{11ff}]+"
);

/// Numbers in groups of three digits, the first of which may be shorter.
pub(super) const AFMOE_GROUPS: &str = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))";

const BAILING: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
);

const MINICPM5: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const NO_CONTRACTIONS: &str =
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const SEED_CODER: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+",
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
);

const EXAONE_MOE: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}",
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
);

const KIMI_K2: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// Hangul, punctuation, Bopomofo, and Han with Kana.
const YOUTU_SCRIPTS: &str = concat!(
    r"[\u{ac00}-\u{d7a3}\u{3131}-\u{318e}]+",
    r"|[\u{ff01}\u{2026}\u{201c}\u{201d}\u{2018}\u{2019}\u{2014}\u{ff1a}\u{ff1b}\u{ff0c}\u{3001}-\u{303f}\u{fe30}-\u{fe4f}]+",
    r"|[\u{3105}-\u{312f}]+|[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+"
);

const YOUTU: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
);

/// The same, if no letter follows.
pub(super) const GROUPS: &str = r"\d{1,3}(?=(?:\d{3})*\b)";

/// Cuts before every third digit from the right.
pub(super) const CUTS: &str = r"(?=(\d{3})+(?!\d))";

const BLOOM: &str = " ?[^(\\s|.,!?\u{2026}\u{3002}\u{ff0c}\u{3001}\u{964}\u{6d4}\u{60c})]+";

pub(super) const KNOWN: &[Rules] = &[
    Rules {
        names: &["default"],
        patterns: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
        ..PLAIN
    },
    Rules {
        names: &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "exaone4",
            "modern-bert",
            "granite-docling",
            "gigachat",
            "mellum",
            "a.x-4.0",
            "jina-es",
            "jina-de",
            "jina-v1-en",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v2-code",
            "roberta-bpe",
        ],
        patterns: &[GPT2],
        ..PLAIN
    },
    Rules {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "pixtral",
            "midm-2.0",
            "lfm2",
            "jina-v5-nano",
        ],
        patterns: &[LLAMA3],
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    Rules { names: &["dbrx", "smaug-bpe", "chatglm-bpe", "glm4"], patterns: &[LLAMA3], ..PLAIN },
    Rules { names: &["qwen2", "f2llmv2"], patterns: &[QWEN2], nfc: true, ..PLAIN },
    Rules {
        names: &["deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez", "grok-2", "solar-open", "kormo"],
        patterns: &[QWEN2],
        ..PLAIN
    },
    Rules { names: &["qwen35"], patterns: &[QWEN35], nfc: true, ..PLAIN },
    Rules {
        names: &["deepseek-llm"],
        patterns: &[
            "[\r\n]",
            DEEPSEEK_LETTERS,
            r"\s?[!-/:-~\u{ff01}-\u{ff0f}\u{ff1a}-\u{ff5e}\u{2018}-\u{201f}\u{3000}-\u{3002}]+",
            r"\s+$",
            DEEPSEEK_CJK,
            r"\p{N}+",
        ],
        ..PLAIN
    },
    Rules {
        names: &["deepseek-coder"],
        patterns: &["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_CJK, r"\p{N}"],
        ..PLAIN
    },
    Rules {
        names: &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        patterns: &[r"\p{N}{1,3}", DEEPSEEK_V3_CJK, DEEPSEEK_V3],
        ..PLAIN
    },
    Rules {
        names: &[
            "starcoder",
            "refact",
            "command-r",
            "smollm",
            "codeshell",
            "exaone",
            "minerva-7b",
            "mellum2",
        ],
        patterns: &[r"\p{N}", GPT2],
        ..PLAIN
    },
    Rules { names: &["falcon"], patterns: &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"], ..PLAIN },
    Rules { names: &["tekken"], patterns: &[TEKKEN], ignore_merges: true, add_bos: true, ..PLAIN },
    Rules { names: &["gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"], patterns: &[GPT4O], ..PLAIN },
    Rules { names: &["granite-embed-multi-97m"], patterns: &[GPT4O], ignore_merges: true, ..PLAIN },
    Rules { names: &["tiny_aya", "cohere2moe"], patterns: &[GROUPS, GPT4O], ..PLAIN },
    Rules { names: &["jais-2"], patterns: &[JAIS2], ..PLAIN },
    Rules { names: &["k2-horizon"], patterns: &[K2_HORIZON], ..PLAIN },
    Rules { names: &["spark2_5"], patterns: &[r"\p{N}{1,3}", DEEPSEEK_V3_CJK, SPARK, r"\p{N}"], ..PLAIN },
    Rules { names: &["afmoe"], patterns: &[AFMOE_GROUPS, AFMOE_SCRIPTS, DEEPSEEK_V3], ..PLAIN },
    Rules { names: &["bailingmoe", "bailingmoe2", "llada-moe"], patterns: &[BAILING], ..PLAIN },
    Rules { names: &["minicpm5"], patterns: &[r"\p{N}{1,3}", MINICPM5], ignore_merges: true, ..PLAIN },
    Rules { names: &["ufakzeka"], patterns: &[NO_CONTRACTIONS], ..PLAIN },
    Rules { names: &["laguna"], patterns: &["[^\n]+|[\n]+", QWEN2], ..PLAIN },
    Rules { names: &["seed-coder"], patterns: &[SEED_CODER], ..PLAIN },
    Rules { names: &["exaone-moe"], patterns: &[EXAONE_MOE], ..PLAIN },
    Rules { names: &["kimi-k2"], patterns: &[KIMI_K2], ..PLAIN },
    Rules { names: &["youtu"], patterns: &[YOUTU_SCRIPTS, YOUTU], ignore_merges: true, ..PLAIN },
    Rules { names: &["bloom", "poro-chat", "gpt3-finnish"], patterns: &[BLOOM], ..PLAIN },
    Rules { names: &["viking"], patterns: &[BLOOM, r"\p{N}"], ..PLAIN },
    Rules { names: &["superbpe"], patterns: &[r"\p{N}+", CUTS], ..PLAIN },
    Rules {
        names: &["chameleon"],
        patterns: &[
            "<sentinel:[0-9]+>",
            "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
            "([\t\n]|    |  )",
            r"\p{N}",
            r"[\p{P}!-/:-@\[-`{-~]",
            GPT2,
        ],
        add_bos: true,
        ..PLAIN
    },
];

impl Rules {
    /// The rules with this name.
    pub(in super::super) fn named(name: &str) -> Result<&'static Self> {
        KNOWN.iter().find(|rules| rules.names.contains(&name)).ok_or_else(|| {
            let known = KNOWN.iter().flat_map(|rules| rules.names).chain(&LISTED);
            let known: Vec<&str> = known.copied().collect();
            Error::tokenizer(
                "`tokenizer.ggml.pre`",
                format_args!("{name:?}"),
                format_args!("one of {}", known.join(", ")),
            )
        })
    }

    /// Compiles the patterns.
    pub(in super::super) fn splitter(&self) -> Result<Splitter> {
        Ok(Splitter { patterns: self.patterns.iter().map(|p| Pattern::new(p)).collect::<Result<_>>()? })
    }
}
