#!/usr/bin/env python3
"""Writes golden/steps.json: small tokenizers that use one feature of tokenizer.json each, and what Hugging Face
tokenizers makes of a set of texts with them.

    pip install tokenizers && python3 make_steps_golden.py

Every row holds the text, the ids with all added tokens recognised, the ids with special ones taken as text where they
differ, and the decoded text where decoding is compared.
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = [
    "The quick brown fox jumps over the lazy dog. It's the fox's 42nd jump, isn't it? They've 1000 more to go!\n",
    "def f(x, y):\n    return x + y  # sum of both\n\n\tdone: 3.14159 -> 2,718\n",
    "Größe, naïve café, über Straße; Привет мир; 日本語のテキスト 한국어 ١٢٣ ² ½\n",
] * 20

TEXTS = [
    "", " ", "  ", "a", "The quick brown fox", " The  quick   brown", "it's IT'S they've THEY'VE 'tis", "12345 1 12 123 1234",
    "x->y; (a,b):\n\n  c", "tab\there\n", "\n\n\n", "\r\n \r\n", "...!!!???", "a...b!c", "--a--b--", "Größe naïve café",
    "cafe\u0301 A\u030a \u1112\u1161\u11ab", "日本語 テキスト。", "한국어", "١٢٣ ²³ ½ Ⅷ", "\u00a0x\u2003y\u3000z", "a\u180eb", "\u200b\u200d\ufeff",
    "\u017f 's '\u017f '\u212a", "👨\u200d👩\u200d👧 x", "$+<=>^`|~ €£", "foo_bar.baz", "<s>", "a<s>b</s>", "<s> <s>", "  <mask>  x", "x<mask>",
    "newword", "anewwordb newword", "new word newword!", "<s", "s>", "\ttabs", "mixed 日本 and ascii's 9", "don't  stop\t\tnow  ", "a\u0000b",
    "\u2028\u2029x", "\u0344\u0958\u2126", "word" * 30, "e\u0301" * 60, "aaaaaaaa" * 30, "- " * 40, "Ελληνικά Ω", "▁x ▁▁", "a\u0085b", "\x1c\x1d x",
    "CamelCase HTTPServer's XML/path//x", "fox fox<s>fox x<s> y", " fox", "▁fox<s>▁a",
]

BYTES = dict(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
UPPER, LOWER, CONTRACTION = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
CAMEL = (  # words split at changes of case, as in GPT-4o
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(pre, vocab_size=420, normalizer=None, **model):
    tok = Tokenizer(models.BPE(**model))
    if normalizer:
        tok.normalizer = normalizer
    tok.pre_tokenizer = pre
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=vocab_size, **BYTES))
    return tok


def split(pattern, behavior="isolated", invert=False):
    step = pre_tokenizers.Split(pattern, behavior, invert=invert)
    return pre_tokenizers.Sequence([step, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def sequence(*steps):
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def char_level(**model):
    tok = Tokenizer(models.BPE(unk_token="<unk>", **model))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    special = ["<unk>"] + (["<0x%02X>" % b for b in range(256)] if model.get("byte_fallback") else [])
    words = [w for line in CORPUS for w in line.replace(" ", " ▁").split(" ")]
    trainer = trainers.BpeTrainer(vocab_size=400 + len(special), special_tokens=special, show_progress=False, limit_alphabet=60)
    tok.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    tok.train_from_iterator(words, trainer)
    spec = json.loads(tok.to_str())
    spec["pre_tokenizer"] = None
    spec["added_tokens"] = [t for t in spec["added_tokens"] if t["content"] == "<unk>"]
    return Tokenizer.from_str(json.dumps(spec))


def cases():
    yield "gpt2", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    yield "gpt2-prefix-space", byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True))
    yield "qwen2-nfc", byte_level(split(Regex(QWEN)), normalizer=normalizers.NFC())
    yield "camel-case", byte_level(split(Regex(CAMEL)))
    yield "word-regex", byte_level(split(Regex(r"\w+|[^\w\s]+")))
    yield "digits-punctuation", byte_level(sequence(pre_tokenizers.Digits(False), pre_tokenizers.Punctuation("isolated")))
    yield "single-digits", byte_level(sequence(pre_tokenizers.Digits(True), pre_tokenizers.Punctuation("merged_with_previous")))
    for behavior in ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]:
        for invert in [False, True]:
            pattern = "-" if behavior == "contiguous" else Regex(r"[.!\-]|\s")
            tok = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), vocab_size=320)
            tok.pre_tokenizer = split(pattern, behavior, invert)
            yield f"split-{behavior}-{invert}", tok
    replace = normalizers.Sequence([normalizers.Replace(Regex(r"\s{2,}"), "_"), normalizers.NFC()])
    yield "replace-regex", byte_level(split(Regex(QWEN)), normalizer=replace)
    tok = byte_level(split(Regex(LLAMA3)), ignore_merges=True)
    tok.add_special_tokens(["<s>", "</s>"])
    ids = [("<s>", tok.token_to_id("<s>")), ("</s>", tok.token_to_id("</s>"))]
    post = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ids)
    tok.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), post])
    yield "llama3-template", tok
    tok = byte_level(split(Regex(QWEN)), normalizer=normalizers.NFC())
    tok.add_special_tokens([AddedToken("<s>"), AddedToken("<mask>", lstrip=True, rstrip=True), AddedToken("</s>", normalized=True)])
    tok.add_tokens([AddedToken("newword", single_word=True), AddedToken("fox", normalized=True), AddedToken("A\u030a"), AddedToken("日本")])
    yield "added", tok
    yield "char-fallback", char_level(byte_fallback=True, fuse_unk=True)
    for scheme, parts in [("first", False), ("always", True), ("never", True)]:
        tok = char_level(byte_fallback=True, fuse_unk=True)
        spec = json.loads(tok.to_str())
        spec["normalizer"] = None
        spec["pre_tokenizer"] = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": parts}
        tok = Tokenizer.from_str(json.dumps(spec))
        tok.add_special_tokens(["<s>"])
        tok.add_tokens(["fox"])
        yield f"metaspace-{scheme}-{parts}", tok
    yield "char-unk", char_level(fuse_unk=False)
    yield "char-fuse-unk", char_level(fuse_unk=True)


result = []
for name, tok in cases():
    rows = []
    for text in TEXTS:
        tok.encode_special_tokens = False
        ids = tok.encode(text).ids
        row = {"text": text, "ids": ids, "decoded": tok.decode(ids, skip_special_tokens=False)}
        tok.encode_special_tokens = True
        as_text = tok.encode(text).ids
        if as_text != ids:
            row["special_as_text"] = as_text
        rows.append(row)
    result.append({"name": name, "tokenizer": json.loads(tok.to_str()), "rows": rows})
out = pathlib.Path(__file__).parent / "golden" / "steps.json"
out.write_text("[\n" + ",\n".join(json.dumps(case, ensure_ascii=True, separators=(",", ":")) for case in result) + "\n]\n")
