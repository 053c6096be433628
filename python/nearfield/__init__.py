"""Exact and approximate nearest-neighbour search on any GPU, or on the processor.

    >>> import numpy as np, nearfield as nf
    >>> rows = np.random.default_rng(0).standard_normal((1000, 64), dtype=np.float32)
    >>> index = nf.Flat(rows, metric="cosine")
    >>> distances, ids = index.search(rows[:2], k=3)
    >>> ids[:, 0]
    array([0, 1])

`Flat` searches all rows, `Ivf` the lists of rows that are nearest to a query, and `knn` rows without an index. `MultiVector` searches
documents of several token vectors each by MaxSim, and `maxsim` scores all of them. `knn_graph`, `pairs_within`, `duplicates`, `spanning_tree` and `dbscan` compare every row with every other. `nearfield.sklearn` has
estimators of scikit-learn, `nearfield.faiss` the interface of faiss, `nearfield.pylate` an index for PyLate, and `nearfield.reduce` sums, norms and extremes.
"""

import atexit as _atexit
import os as _os

try:
    import _xxsubinterpreters as _interpreters  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    pass
else:
    # The threads of an interpreter that ends would wait for those of the others, or end them. From Python 3.13 on, Python itself refuses.
    if _interpreters.get_current() != _interpreters.get_main():
        raise ImportError("nearfield: needed the main interpreter, given a subinterpreter")

from nearfield import _native, reduce
from nearfield._native import (
    Device,
    Flat,
    Index,
    Ivf,
    KMeans,
    MultiVector,
    __version__,
    devices,
    distances,
    from_bytes,
    knn,
    load,
    maxsim,
    quantize,
)
from nearfield._pairwise import count_pairs_within, dbscan, duplicates, knn_graph, pairs_within, spanning_tree
from nearfield._types import Adapter, Csr, DensityClusters, Duplicates, Error, Neighbors, OutOfMemory, Pairs, Ragged, Ranking, SpanningTree

__all__ = [
    "Adapter",
    "Csr",
    "DensityClusters",
    "Device",
    "Duplicates",
    "Error",
    "Flat",
    "Index",
    "Ivf",
    "KMeans",
    "MultiVector",
    "Neighbors",
    "OutOfMemory",
    "Pairs",
    "Ragged",
    "Ranking",
    "SpanningTree",
    "__version__",
    "count_pairs_within",
    "dbscan",
    "devices",
    "distances",
    "duplicates",
    "from_bytes",
    "knn",
    "knn_graph",
    "load",
    "maxsim",
    "pairs_within",
    "quantize",
    "reduce",
    "spanning_tree",
]

_atexit.register(_native._end)

# A forked process has none of the threads that answer searches: calls there are refused instead of waiting for ever.
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_native._forked)
