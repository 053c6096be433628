"""Finds the Debian packages whose descriptions mean nearly the same as those of others.

The vectors are embeddings of one-line descriptions, which come with the repository: 4,000 rows and 200 queries of 384 elements.

    pip install ./python                                    # in a checkout
    python python/examples/semantic_search.py [NAME...]     # names of cli/data/query-names.txt; by default three of them
"""

import sys
from pathlib import Path

import numpy as np

import nearfield as nf

DATA = Path(__file__).resolve().parents[2] / "cli" / "data"


def lines(name: str) -> list[str]:
    return (DATA / name).read_text(encoding="utf-8").splitlines()


def main() -> None:
    rows, queries = np.load(DATA / "base.f16.npy"), np.load(DATA / "query.f16.npy")
    names, descriptions = lines("names.txt"), lines("descriptions.txt")
    query_names, query_descriptions = lines("query-names.txt"), lines("query-descriptions.txt")

    index = nf.Flat(rows, metric="cosine")
    print(index)

    wanted = sys.argv[1:] or query_names[:3]
    unknown = set(wanted) - set(query_names)
    if unknown:
        sys.exit(f"not in query-names.txt: {', '.join(sorted(unknown))}")
    numbers = [query_names.index(name) for name in wanted]
    distances, ids = index.search(queries[numbers], k=5)
    for number, row_distances, row_ids in zip(numbers, distances, ids):
        print(f"\n{query_names[number]}: {query_descriptions[number]}")
        for distance, id in zip(row_distances, row_ids):
            print(f"  {1 - distance:.3f}  {names[id]}: {descriptions[id]}")


if __name__ == "__main__":
    main()
