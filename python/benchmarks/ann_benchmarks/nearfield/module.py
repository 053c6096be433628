"""nearfield in the harness of ann-benchmarks.

Copy this folder to `ann_benchmarks/algorithms/nearfield` of the harness, then:

    python install.py --algorithm nearfield
    python run.py --dataset glove-100-angular --algorithm nearfield-flat
    python run.py --dataset glove-100-angular --algorithm nearfield-ivf --batch

The environment variable NEARFIELD_ADAPTER chooses the device: "host", "gpu" or part of a name.
"""

from typing import Any, Literal

import nearfield as nf
import numpy as np
from numpy.typing import NDArray

from ..base.module import BaseANN  # type: ignore[import-not-found,misc,unused-ignore]

# Squared distances have the order of distances.
_METRICS: dict[str, Literal["cosine", "l2sq"]] = {"angular": "cosine", "euclidean": "l2sq"}


class _Nearfield(BaseANN):  # type: ignore[misc]
    def __init__(self, metric: str) -> None:
        if metric not in _METRICS:
            raise ValueError(f"metric: needed one of {', '.join(_METRICS)}, given {metric}")
        self._metric = _METRICS[metric]
        self._index: nf.Flat | nf.Ivf | None = None
        self._found: NDArray[np.int64] | None = None
        self._probes: int | None = None

    def _search(self, queries: NDArray[Any], n: int) -> NDArray[np.int64]:
        if self._index is None:
            raise RuntimeError("index: needed a call of fit(X) first")
        return self._index.search(np.asarray(queries, dtype=np.float32), n, probes=self._probes).ids

    def query(self, q: NDArray[Any], n: int) -> NDArray[np.int64]:
        """The indices of the n nearest rows of one query `[dim]`."""
        ids: NDArray[np.int64] = self._search(q[None], n)[0]
        return ids

    def batch_query(self, X: NDArray[Any], n: int) -> None:
        """Searches for queries `[queries, dim]`. `get_batch_results` has the answers."""
        self._found = self._search(X, n)

    def get_batch_results(self) -> NDArray[np.int64]:
        """The indices that the last `batch_query` found, `[queries, n]`."""
        if self._found is None:
            raise RuntimeError("results: needed a call of batch_query(X, n) first")
        return self._found

    def done(self) -> None:
        """Frees the device's memory."""
        self._index = self._found = None


class NearfieldFlat(_Nearfield):
    """Exact search of all rows."""

    def fit(self, X: NDArray[Any]) -> None:
        """Puts rows `[n, dim]` on the device."""
        self._index = nf.Flat(np.asarray(X, dtype=np.float32), metric=self._metric)
        # Kernels are compiled here rather than in the first queries.
        self._index.warm_up()

    def __str__(self) -> str:
        return "nearfield-flat"


class NearfieldIvf(_Nearfield):
    """Search of the rows in the nearest lists."""

    def __init__(self, metric: str, lists: int) -> None:
        super().__init__(metric)
        self._lists = lists

    def fit(self, X: NDArray[Any]) -> None:
        """Trains the lists, of which there are at most as many as rows, and puts the rows `[n, dim]` into them."""
        self._lists = min(self._lists, len(X))
        self._index = nf.Ivf(np.asarray(X, dtype=np.float32), lists=self._lists, metric=self._metric)
        self._index.warm_up()

    def set_query_arguments(self, probes: int) -> None:
        """How many lists a query searches, at most all."""
        self._probes = min(probes, self._lists)

    def __str__(self) -> str:
        return f"nearfield-ivf(lists={self._lists}, probes={self._probes or 'default'})"
