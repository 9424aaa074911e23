"""Writes byte_level.json, sentencepiece.{json,gguf} and sentencepiece_unk.{json,gguf}: what the reference tokenizers make
of some texts.

Usage: python3 make_tokenizer_cases.py MODEL.gguf    (needs: pip install gguf tokenizers sentencepiece)

byte_level.json: the vocabulary and merges of MODEL in Hugging Face's `tokenizers`, cut by each set of patterns (run by
its C engine, Oniguruma). sentencepiece.gguf: a small vocabulary trained here, with Google's `sentencepiece` as judge;
sentencepiece_unk.gguf: one without bytes to fall back to and without a space in front.
"""
import io, json, random, sys
from pathlib import Path

import sentencepiece as spm
from gguf import GGUFReader, GGUFWriter, TokenType
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

HERE = Path(__file__).parent
TEXTS = [
    "", " ", "  ", "   ", "\n", "\n\n", " \n ", "\t\tx", "a", " a", "  a", "a  b   c    d", "trailing  ", "line\nline\r\nline\n\n  end\n",
    "In the beginning God created the heaven and the earth.", "And it came to pass", "Thou shalt not kill.",
    "don't DON'T I'll we've he'd you're it's 'tis 'S 'Tis Don\u2019t",
    "0 1 12 123 1234 12345 1,234.56 3.14e-10 007 2024-01-31 \u0663\u0664\u0665 \u00bd\u00b2 \u216b",
    "x=1;y+=2;z**=3 /* c */ // d\n\tif (a && b || !c) { return f(x)[0]->y; }", "https://example.com/a?b=c&d=%20#e", "snake_case camelCase PascalCase HTTPServer iPhone",
    "!!!???...---___###$$$", "(a)[b]{c}<d>\"e\"'f'`g`", "\u00abguillemets\u00bb \u201ccurly\u201d \u2018single\u2019 \u2014 em \u2013 en \u2026",
    "\u00e9\u00e8\u00ea na\u00efve fa\u00e7ade \u00dcber stra\u00dfe \u0130stanbul", "e\u0301 o\u0308 a\u030a \u1100\u1161 combining", "\u017f\u2019s long 's 'S '\u017f",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002\u8fd9\u662f\u4e00\u4e2a\u6d4b\u8bd5 \u6df7\u5408text123", "\u3053\u3093\u306b\u3061\u306f \u30ab\u30bf\u30ab\u30ca\u3068\u6f22\u5b57", "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4", "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 \u0661\u0662\u0663",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01", "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd", "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!", "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f x\U0001f680\U0001f680y", "\U00010400\U00010428 \U0001d4d0 \ufb01 \uff21\uff41", "zero\u200bwidth nbsp\u00a0x \u3000ideographic\u2003em \ufeffbom",
    "<s>", "</s>", "<s>In</s>", "a <s> b", "<s", "<|endoftext|>", "<tool>x<tool> <turn> <turn", "<0x0A><0x41>", "\u2581literal\u2581", "\u0120\u010a", "control \x00\x01\x1b\x7f end",
    "the the the the the", "aaaaaaaaaaaaaaaaaaaa", "ababababababab", "=" * 37, "-" * 64, " " * 41 + "x", "word" * 25,
]
rng = random.Random(0)
ALPHABET = list("aAbeEt hs'\"  \n\r\t0129.,!<>/_=-") + ["\u00e9", "\u00df", "e\u0301", "\u4f60", "\u3042", "\u0661", "\U0001f600", "\u00a0", "\u2581", "'s", "'LL", " the", "\n\n", "lord"]
TEXTS += ["".join(rng.choice(ALPHABET) for _ in range(rng.randint(1, 40))) for _ in range(120)]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CASELESS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
DEEPSEEK_LETTERS = r"\s?[" + "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943" + "]+"
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
PRE = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT2],
    "llama-bpe": [CASELESS + r"\p{N}{1,3}" + TAIL],
    "glm4": [CASELESS + r"\p{N}{1,3}" + TAIL],
    "qwen2": [CASELESS + r"\p{N}" + TAIL],
    "qwen35": [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "deepseek-llm": ["[\r\n]", DEEPSEEK_LETTERS, "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", r"\s+$", CJK, r"\p{N}+"],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", CJK, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"],
    "starcoder": [r"\p{N}", GPT2],
    "smollm": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "tekken": [rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "gpt-4o": [rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
}
NFC, IGNORE_MERGES = {"qwen2", "qwen35"}, {"llama-bpe", "tekken"}
IDS = {"default", "gpt-2", "llama-bpe", "qwen2", "deepseek-llm", "starcoder"}


def dump(name, data):
    """One list a line, ASCII only."""
    out = io.StringIO()
    out.write("{\n")
    for i, (k, v) in enumerate(data.items()):
        out.write(f"{json.dumps(k)}: [\n" + ",\n".join(json.dumps(x, separators=(",", ":")) for x in v) + "\n]" + (",\n" if i + 1 < len(data) else "\n"))
    out.write("}\n")
    (HERE / name).write_text(out.getvalue())


def byte_level(path):
    fields = GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    vocab = {t: i for i, t in enumerate(tokens)}
    out = {"texts": TEXTS}
    for pre, patterns in PRE.items():
        tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=pre in IGNORE_MERGES))
        steps = [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]
        tok.pre_tokenizer = pre_tokenizers.Sequence(steps + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
        tok.decoder = decoders.ByteLevel()
        if pre in NFC: tok.normalizer = normalizers.NFC()
        text = [normalizers.NFC().normalize_str(t) if pre in NFC else t for t in TEXTS]
        out[f"words {pre}"] = [[len(w) for w, _ in tok.pre_tokenizer.pre_tokenize_str(t)] for t in text]
        ids = [tok.encode(t).ids for t in TEXTS]
        if pre == "gpt-2": assert [tok.decode(i) for i in ids] == TEXTS
        if pre in IDS: out[f"ids {pre}"] = ids
        if pre == "gpt-2":
            tok.add_special_tokens(["<s>", "</s>"])
            out["special gpt-2"] = [tok.encode(t).ids for t in TEXTS]
    dump("byte_level.json", out)
    return tokens


def corpus(words):
    plain = decoders.ByteLevel()
    words = [plain.decode([w]) for w in words[2:] if len(w) > 1]
    rng.shuffle(words)
    return [" ".join(words[i : i + 12]) for i in range(0, len(words), 12)] + [t for t in TEXTS if "\x00" not in t]


def kind(sp, i, user_defined):
    if sp.is_unknown(i): return TokenType.UNKNOWN
    if sp.is_control(i): return TokenType.CONTROL
    if sp.is_byte(i): return TokenType.BYTE
    if sp.is_unused(i): return TokenType.UNUSED
    return TokenType.USER_DEFINED if sp.id_to_piece(i) in user_defined else TokenType.NORMAL


def sentence_piece(name, lines, vocab_size, bytes_and_prefix):
    user_defined = ["<tool>", "\u2581\u2581\u2581\u2581"]
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, model_type="bpe", vocab_size=vocab_size, character_coverage=0.98,
        byte_fallback=bytes_and_prefix, add_dummy_prefix=bytes_and_prefix, remove_extra_whitespaces=False,
        normalization_rule_name="identity", split_digits=True, allow_whitespace_only_pieces=True,
        control_symbols=["<turn>"], user_defined_symbols=user_defined, minloglevel=2,
    )
    sp = spm.SentencePieceProcessor(model_proto=model.getvalue())
    every = range(sp.vocab_size())
    g = GGUFWriter(HERE / f"{name}.gguf", "llama")
    g.add_tokenizer_model("llama"); g.add_tokenizer_pre("default")
    g.add_token_list([sp.id_to_piece(i) for i in every]); g.add_token_scores([sp.get_score(i) for i in every])
    g.add_token_types([kind(sp, i, user_defined) for i in every])
    g.add_bos_token_id(sp.bos_id()); g.add_eos_token_id(sp.eos_id()); g.add_unk_token_id(sp.unk_id())
    if not bytes_and_prefix: g.add_add_space_prefix(False)
    g.write_header_to_file(); g.write_kv_data_to_file(); g.write_tensors_to_file(); g.close()
    # SentencePiece reads a NUL as the end of the text.
    texts = [t for t in TEXTS if "\x00" not in t]
    ids = [sp.encode(t) for t in texts]
    dump(f"{name}.json", {"texts": texts, "ids": ids, "decoded": [sp.decode(i) for i in ids]})


lines = corpus(byte_level(sys.argv[1]))
sentence_piece("sentencepiece", lines, 1200, True)
sentence_piece("sentencepiece_unk", lines, 400, False)
