"""Prints how the recall of an `Ivf` grows with the lists that a search probes, for the embeddings that come with the repository.

    pip install ./python                   # in a checkout
    python python/examples/recall.py
"""

from pathlib import Path
from typing import Any

import numpy as np

import nearfield as nf

DATA = Path(__file__).resolve().parents[2] / "cli" / "data"
K = 10


def recall(found: Any, truth: Any) -> float:
    return float(np.mean([len(np.intersect1d(ids, true)) / K for ids, true in zip(found, truth)]))


def main() -> None:
    rows, queries = np.load(DATA / "base.f16.npy"), np.load(DATA / "query.f16.npy")
    truth = nf.Flat(rows, metric="cosine", device="host").search(queries, K).ids
    index = nf.Ivf(rows, lists=64, metric="cosine", device="host", seed=0)
    print(index)

    for probes in (1, 2, 4, 8, 16, 32, 64):
        share = recall(index.search(queries, K, probes=probes).ids, truth)
        print(f"{probes:3} probes  {share:.3f}  {'#' * round(50 * share)}")

    # With a margin, so that the recall holds for queries to come.
    print(f"{index.probes_for_recall(queries, K, recall=0.95)} probes for 0.95")


if __name__ == "__main__":
    main()
