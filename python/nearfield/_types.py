"""The types of arguments, and the classes of answers, of devices that could be opened, and of errors."""

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Metric: TypeAlias = Literal["cosine", "ip", "l2", "l2sq"]
BitMetric: TypeAlias = Literal["hamming", "jaccard"]
"""Of rows of bits, which `Flat`, `Ivf` and `knn` take."""
Quantization: TypeAlias = Literal["auto", "none", "int8"]
Precision: TypeAlias = Literal["fast", "compensated", "half"]
Filter: TypeAlias = ArrayLike | Set[int] | Callable[[int], object]
"""Ids, a boolean mask with a value for each id, or a function of an id."""
Progress: TypeAlias = bool | Callable[[str, int, int], object]
"""Whether to show a bar of tqdm, or a function of the stage, what is done and the total."""
Vectors: TypeAlias = Any
"""numpy arrays, lists, and objects with `__dlpack__`, `__arrow_c_array__` or `__arrow_c_stream__`."""

Tokens: TypeAlias = Any
"""Token vectors of documents or queries: a list of `Vectors` `[tokens, dim]`, one of them, or one `[n, tokens, dim]`."""


class Error(Exception):
    """A call failed for another reason than its arguments: the device, memory, a damaged file.

    Arguments raise `ValueError` or `TypeError`, and files that cannot be opened `OSError`.
    """


class OutOfMemory(Error, MemoryError):
    """The device, this machine or the budget has too little memory for the call. The index is as it was."""


class Neighbors(NamedTuple):
    """The nearest rows of each query, nearest first, ties by the smaller id."""

    distances: NDArray[np.float32]
    """`[queries, k1]`, where `k1` is k, or the number of rows allowed if that is less."""
    ids: NDArray[np.int64]
    """`[queries, k1]`."""


class Ranking(NamedTuple):
    """The documents of largest score for each query, the largest first, ties by the smaller id."""

    scores: NDArray[np.float32]
    """`[queries, k1]`, where `k1` is k, or the number of documents allowed if that is less."""
    ids: NDArray[np.int64]
    """`[queries, k1]`."""


class Ragged(NamedTuple):
    """Rows of each query, as many as there are. Those of query i are at `offsets[i]:offsets[i + 1]`, nearest first."""

    offsets: NDArray[np.int64]
    """`[queries + 1]`."""
    distances: NDArray[np.float32]
    ids: NDArray[np.int64]


class Csr(NamedTuple):
    """A sparse matrix of distances: `scipy.sparse.csr_matrix(graph, shape=(n, n))` takes it. The entries of row i are at
    `indptr[i]:indptr[i + 1]`, nearest first."""

    data: NDArray[np.float32]
    indices: NDArray[np.int64]
    """The column of each entry."""
    indptr: NDArray[np.int64]
    """`[rows + 1]`."""


class Pairs(NamedTuple):
    """Pairs of rows, each once, in the order of both ids."""

    a: NDArray[np.int64]
    """The smaller id of each pair."""
    b: NDArray[np.int64]
    distances: NDArray[np.float32]


class Duplicates(NamedTuple):
    """Rows that lie near each other."""

    groups: tuple[NDArray[np.int64], ...]
    """The ids that steps within the threshold connect, two or more in each group."""
    kept: NDArray[np.int64]
    """The ids of the rows to keep."""
    removed: NDArray[np.int64]
    """The ids of the others."""
    near: NDArray[np.int64]
    """For each of those, the nearest row before it; in groups the nearest behind it, where none is before."""
    distances: NDArray[np.float32]
    """The distances between `removed` and `near`."""


class SpanningTree(NamedTuple):
    """A minimum spanning tree of rows. Its edges are in ascending order of their lengths."""

    a: NDArray[np.int64]
    """The smaller id of each edge."""
    b: NDArray[np.int64]
    """The larger id of each edge."""
    distances: NDArray[np.float32]
    """The length of each edge: a mutual reachability distance."""
    linkage: NDArray[np.float64]
    """Single linkage, `[rows - 1, 4]`, as `scipy.cluster.hierarchy` and hdbscan have it: two clusters, their distance, and how many rows both have.
    Numbers below `rows` are places of rows in the order of `index.ids`."""


class DensityClusters(NamedTuple):
    """Clusters by density."""

    labels: NDArray[np.int64]
    """The cluster of each row, in the order of `index.ids`; -1 for noise."""
    core: NDArray[np.bool_]
    """Whether each row is a core row."""


@dataclass(frozen=True)
class Adapter:
    """A device of this machine. `device=` takes it, and so does it take the name."""

    name: str
    kind: str
    """"discrete", "integrated", "virtual", "software", "host" or "unknown"."""
    backend: str
    """"vulkan", "metal", "dx12", "gl" or "host"."""
    driver: str
    memory: int | None
    """Bytes, where the system tells them."""
    index: int | None = None
    """Its number among the GPUs and software drivers, best first, which is also a name of it. None for the processor."""
    pci_address: str | None = None
    """Where the card is on the PCI bus ("0000:3b:00.0"), where the driver tells."""
    selector: str | None = None
    """The name of this device and no other, such as "NVIDIA H200#1"."""
