#!/usr/bin/env python3
"""Encodes and loads with tenon and with Hugging Face tokenizers on one thread each, in turns, and prints the medians.

    pip install tokenizers
    python3 benchmarks/compare_tokenizers.py --program build/release/bin/tokenizer_bench --model DIR [--text FILE]

DIR holds tokenizer.json. Without --text the licences and README files of this machine make two megabytes of English.
The text is encoded at once, in documents of about 4 KB, and in lines; a call covers one of them. Exits with 1 if the
number of tokens differs, or if tenon is not at least twice as fast on whole text and on documents.
"""
import argparse
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"


def machine_text(limit):
    """English prose that a Debian system holds."""
    parts, size = [], 0
    files = sorted(pathlib.Path("/usr/share/common-licenses").glob("*"))
    for pattern in ("README*", "*.md", "*.txt", "NEWS*"):
        files += sorted(pathlib.Path("/usr/share/doc").rglob(pattern))
    for file in files:
        if size >= limit:
            break
        try:
            raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        except OSError:
            continue
        parts.append(raw.decode("utf-8", "ignore"))
        size += len(raw)
    return "".join(parts)[:limit]


def documents(text, size):
    """Cuts at line ends, once `size` characters are reached."""
    result, current, length = [], [], 0
    for line in text.splitlines(keepends=True):
        current.append(line)
        length += len(line)
        if length >= size:
            result.append("".join(current))
            current, length = [], 0
    return result + ["".join(current)] * bool(current)


class Tenon:
    """Speaks with `tokenizer_bench --serve`: one JSON list of texts a line, answered by seconds and tokens."""

    def __init__(self, program, model):
        self.process = subprocess.Popen([program, "--serve", model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.load_seconds = json.loads(self.process.stdout.readline())["load_seconds"]

    def encode(self, texts):
        self.process.stdin.write(json.dumps(texts) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["seconds"], answer["tokens"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Peer:
    def __init__(self, model):
        import tokenizers

        self.version = tokenizers.__version__
        start = time.perf_counter()
        self.tokenizer = tokenizers.Tokenizer.from_file(str(pathlib.Path(model) / "tokenizer.json"))
        self.load_seconds = time.perf_counter() - start

    def encode(self, texts):
        start = time.perf_counter()
        tokens = 0
        for text in texts:
            tokens += len(self.tokenizer.encode(text))
        return time.perf_counter() - start, tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--text")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    text = pathlib.Path(arguments.text).read_text() if arguments.text else machine_text(2_000_000)
    megabytes = len(text.encode()) / 1e6

    loads = {"tenon": [], "peer": []}
    for _ in range(arguments.rounds):
        tenon, peer = Tenon(arguments.program, arguments.model), Peer(arguments.model)
        loads["tenon"].append(tenon.load_seconds)
        loads["peer"].append(peer.load_seconds)
        if len(loads["tenon"]) < arguments.rounds:
            tenon.close()
    print(f"Hugging Face tokenizers {peer.version}, {megabytes:.2f} MB of text, medians of {arguments.rounds} rounds, one thread")
    medians = {name: statistics.median(values) for name, values in loads.items()}
    print(f"load:        tenon {medians['tenon'] * 1e3:7.1f} ms    peer {medians['peer'] * 1e3:7.1f} ms    "
          f"{medians['peer'] / medians['tenon']:.1f} times as fast")

    failed = False
    for name, texts in [("whole text", [text]), ("documents", documents(text, 4096)), ("lines", text.splitlines(keepends=True))]:
        times = {"tenon": [], "peer": []}
        for _ in range(arguments.rounds):
            ours, our_tokens = tenon.encode(texts)
            theirs, their_tokens = peer.encode(texts)
            times["tenon"].append(ours)
            times["peer"].append(theirs)
            if our_tokens != their_tokens:
                print(f"{name}: {our_tokens} tokens, but the peer has {their_tokens}")
                failed = True
        speed = {key: megabytes / statistics.median(values) for key, values in times.items()}
        ratio = speed["tenon"] / speed["peer"]
        failed = failed or (ratio < 2 and name != "lines")
        print(f"{name + ':':12} tenon {speed['tenon']:7.2f} MB/s  peer {speed['peer']:7.2f} MB/s  {ratio:.1f} times as fast")
    tenon.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
