#!/usr/bin/env python3
"""Fits the logistic function that turns the sum of the signals into a score (core::fusion). Standard library only.

usage: calibrate.py RANKED.jsonl...   one file per data set, from `treering eval FOLDER --unanswerable --dump RANKED.jsonl`

Each question counts with its best hit: those of a data set's own haystacks as answerable, and those of another haystack as
unanswerable. Data sets weigh the same, and so do both kinds. Prints the fitted slope and middle, and for each threshold the share
of unanswerable questions without a hit and of answerable questions whose best hit is lost.
"""
import json, math, sys

SLOPE, MIDDLE = 10.0, 0.55  # of the scores in the dump


def sums(path):
    """The sum of the signals of each best hit, by answerable or not."""
    found = {True: [], False: []}
    for line in map(json.loads, open(path)):
        score = min(max(line["score"], 1e-6), 1 - 1e-6)
        found[not line["id"].startswith("unanswerable ")].append(MIDDLE + math.log(score / (1 - score)) / SLOPE)
    return found


def fit(sets):
    """Logistic regression by Newton's method: P(answerable) = 1 / (1 + exp(-(a + b * sum)))."""
    rows = [(x, y, 1 / len(s[y])) for s in sets for y in s for x in s[y]]
    a = b = 0.0
    for _ in range(50):
        ga = gb = haa = hab = hbb = 0.0
        for x, y, weight in rows:
            p = 1 / (1 + math.exp(-(a + b * x)))
            g, h = weight * (p - y), weight * p * (1 - p)
            ga, gb, haa, hab, hbb = ga + g, gb + g * x, haa + h, hab + h * x, hbb + h * x * x
        det = haa * hbb - hab * hab
        a, b = a - (hbb * ga - hab * gb) / det, b - (haa * gb - hab * ga) / det
    return b, -a / b


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    sets = [sums(path) for path in sys.argv[1:]]
    if not all(s[True] and s[False] for s in sets):
        raise SystemExit("each file needs questions with and without an answer: run `treering eval` with --unanswerable over several files")
    slope, middle = fit(sets)
    print(f"fitted slope {slope:.1f}, middle {middle:.2f}; in use: {SLOPE:g}, {MIDDLE:g}")
    for threshold in (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7):
        least = MIDDLE + math.log(threshold / (1 - threshold)) / SLOPE
        share = lambda values: 100 * sum(x < least for x in values) / len(values)
        print(f"below {threshold:4}: " + ", ".join(f"{path}: {share(s[False]):5.1f} % of unanswerable, {share(s[True]):5.1f} % of answerable"
                                              for path, s in zip(sys.argv[1:], sets)))


if __name__ == "__main__":
    main()
