"""The part of nearfield that is written in Rust. Import its names from `nearfield`."""

import os
from typing import Any, Literal, Self, final, overload

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from typing_extensions import disjoint_base

from nearfield._types import (
    Adapter,
    BitMetric,
    Filter,
    Metric,
    Neighbors,
    Precision,
    Progress,
    Quantization,
    Ragged,
    Ranking,
    Tokens,
    Vectors,
)

__all__ = [
    "Device",
    "Flat",
    "Index",
    "Ivf",
    "KMeans",
    "MultiVector",
    "_Cancel",
    "__version__",
    "_dbscan",
    "_duplicates",
    "_end",
    "_forked",
    "_is_forked",
    "_knn_graph",
    "_pairs_within",
    "_reduce",
    "_spanning_tree",
    "devices",
    "distances",
    "from_bytes",
    "knn",
    "load",
    "maxsim",
    "quantize",
]

__version__: str

@final
class Device:
    def __new__(cls, name: str | None = None, *, budget: int | None = None) -> Self: ...
    @property
    def name(self) -> str: ...
    @property
    def index(self) -> int | None: ...
    @property
    def pci_address(self) -> str | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def backend(self) -> str: ...
    @property
    def driver(self) -> str: ...
    @property
    def memory(self) -> int | None: ...
    @property
    def reason(self) -> str: ...
    def __getnewargs_ex__(self) -> tuple[tuple[str], dict[str, int]]: ...
    def __deepcopy__(self, memo: Any, /) -> Self: ...
    def __copy__(self) -> Self: ...

def devices() -> list[Adapter]: ...

@disjoint_base
class Index:
    def add(self, rows: Vectors, ids: ArrayLike | None = None, *, progress: Progress | None = None) -> NDArray[np.int64]: ...
    def remove(self, ids: ArrayLike) -> int: ...
    def update(self, ids: ArrayLike, rows: Vectors) -> None: ...
    def get(self, ids: ArrayLike) -> NDArray[np.float32] | NDArray[np.uint8]: ...
    def merge(self, other: Index) -> None: ...
    def compact(self) -> None: ...
    def warm_up(self) -> None: ...
    def search(
        self,
        queries: Vectors,
        k: int = 10,
        *,
        probes: int | None = None,
        recall: float | None = None,
        filter: Filter | None = None,
        out: tuple[NDArray[np.float32], NDArray[np.int64]] | None = None,
        progress: Progress | None = None,
    ) -> Neighbors: ...
    async def search_async(
        self,
        queries: Vectors,
        k: int = 10,
        *,
        probes: int | None = None,
        recall: float | None = None,
        filter: Filter | None = None,
        out: tuple[NDArray[np.float32], NDArray[np.int64]] | None = None,
        progress: Progress | None = None,
    ) -> Neighbors: ...
    def search_within(
        self, queries: Vectors, radius: float, *, filter: Filter | None = None, progress: Progress | None = None
    ) -> Ragged: ...
    def refine(self, queries: Vectors, ids: ArrayLike, k: int = 10) -> Neighbors: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def to_bytes(self) -> bytes: ...
    def to(self, device: Device | Adapter | str | None) -> Self: ...
    @property
    def ids(self) -> NDArray[np.int64]: ...
    @property
    def dim(self) -> int: ...
    @property
    def metric(self) -> Metric | BitMetric: ...
    @property
    def dtype(self) -> np.dtype[Any] | str: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def device(self) -> Device: ...
    def __len__(self) -> int: ...
    def __contains__(self, id: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

class Flat(Index):
    def __new__(
        cls,
        rows: Vectors | None = None,
        *,
        dim: int | None = None,
        metric: Metric | BitMetric = "cosine",
        dtype: DTypeLike | None = None,
        store: DTypeLike | None = None,
        ids: ArrayLike | None = None,
        device: Device | Adapter | str | None = None,
        quantization: Quantization = "auto",
        progress: Progress | None = None,
    ) -> Self: ...

class Ivf(Index):
    def __new__(
        cls,
        rows: Vectors,
        *,
        lists: int | Literal["auto"] = "auto",
        metric: Metric | BitMetric = "cosine",
        dtype: DTypeLike | None = None,
        store: DTypeLike | None = None,
        ids: ArrayLike | None = None,
        device: Device | Adapter | str | None = None,
        seed: int = 0,
        iterations: int = 10,
        empty: bool = False,
        progress: Progress | None = None,
    ) -> Self: ...
    @property
    def lists(self) -> int: ...
    @property
    def default_probes(self) -> int: ...
    @property
    def centroids(self) -> NDArray[np.float32]: ...
    def probes_for_recall(self, queries: Vectors, k: int = 10, recall: float = 0.95) -> int: ...

@disjoint_base
class MultiVector:
    def __new__(
        cls,
        dim: int,
        *,
        dtype: DTypeLike | None = None,
        store: DTypeLike | None = None,
        capacity: int = 0,
        device: Device | Adapter | str | None = None,
    ) -> Self: ...
    def add(
        self,
        documents: Tokens,
        ids: ArrayLike | None = None,
        *,
        mask: ArrayLike | None = None,
        offsets: ArrayLike | None = None,
        progress: Progress | None = None,
    ) -> NDArray[np.int64]: ...
    def remove(self, ids: ArrayLike) -> int: ...
    def update(
        self, ids: ArrayLike, documents: Tokens, *, mask: ArrayLike | None = None, offsets: ArrayLike | None = None
    ) -> None: ...
    def get(self, id: int) -> NDArray[np.float32]: ...
    def compact(self) -> None: ...
    def build_lists(self, lists: int = 0) -> None: ...
    def search(
        self,
        queries: Tokens,
        k: int = 10,
        *,
        filter: Filter | None = None,
        weights: ArrayLike | None = None,
        mean: bool = False,
        mask: ArrayLike | None = None,
        offsets: ArrayLike | None = None,
        probes: int | None = None,
        candidates_per_token: int = 256,
        candidates: int = 1024,
        progress: Progress | None = None,
    ) -> Ranking: ...
    async def search_async(
        self,
        queries: Tokens,
        k: int = 10,
        *,
        filter: Filter | None = None,
        weights: ArrayLike | None = None,
        mean: bool = False,
        mask: ArrayLike | None = None,
        offsets: ArrayLike | None = None,
        probes: int | None = None,
        candidates_per_token: int = 256,
        candidates: int = 1024,
        progress: Progress | None = None,
    ) -> Ranking: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    def to_bytes(self) -> bytes: ...
    @staticmethod
    def load(path: str | os.PathLike[str], device: Device | Adapter | str | None = None) -> MultiVector: ...
    @staticmethod
    def from_bytes(data: bytes, device: Device | Adapter | str | None = None) -> MultiVector: ...
    @property
    def ids(self) -> NDArray[np.int64]: ...
    @property
    def tokens(self) -> int: ...
    @property
    def lists(self) -> int: ...
    @property
    def dim(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any] | str: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def device(self) -> Device: ...
    def __len__(self) -> int: ...
    def __contains__(self, id: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

def load(path: str | os.PathLike[str], device: Device | Adapter | str | None = None) -> Flat | Ivf: ...
def from_bytes(data: bytes, device: Device | Adapter | str | None = None) -> Flat | Ivf: ...
def knn(
    rows: Vectors,
    queries: Vectors,
    k: int = 10,
    *,
    metric: Metric | BitMetric = "l2sq",
    filter: Filter | None = None,
    device: Device | Adapter | str | None = None,
) -> Neighbors: ...
def quantize(
    rows: Vectors, dtype: DTypeLike = "int8"
) -> NDArray[np.int8] | NDArray[np.float16] | NDArray[np.uint8]: ...
def distances(
    rows: Vectors,
    queries: Vectors,
    metric: Metric = "l2sq",
    *,
    precision: Precision = "fast",
    device: Device | Adapter | str | None = None,
) -> NDArray[np.float32]: ...
def maxsim(
    queries: Tokens,
    documents: Tokens,
    *,
    queries_mask: ArrayLike | None = None,
    queries_offsets: ArrayLike | None = None,
    documents_mask: ArrayLike | None = None,
    documents_offsets: ArrayLike | None = None,
    device: Device | Adapter | str | None = None,
) -> NDArray[np.float32]: ...

# What the package's own modules use.
def _knn_graph(
    index: Index,
    k: int,
    symmetry: str | None,
    probes: int | None,
    recall: float | None,
    filter: Filter | None,
    progress: Progress | None,
) -> Any: ...
def _pairs_within(index: Index, radius: float, filter: Filter | None, progress: Progress | None, count_only: bool) -> Any: ...
def _duplicates(
    index: Index, threshold: float, order: ArrayLike | None, keep: str, filter: Filter | None, progress: Progress | None
) -> Any: ...
def _spanning_tree(index: Index, k: int, filter: Filter | None, progress: Progress | None) -> Any: ...
def _dbscan(index: Index, radius: float, min_samples: int, filter: Filter | None, progress: Progress | None) -> Any: ...
def _end() -> None: ...
def _forked() -> None: ...
def _is_forked() -> bool: ...
@final
class _Cancel:
    def __new__(cls) -> Self: ...
    def cancel(self) -> None: ...

@overload
def _reduce(
    operation: Literal["argmin", "argmax"],
    values: Vectors,
    others: None,
    each_row: bool,
    compensated: bool,
    device: Device | Adapter | str | None,
) -> int | NDArray[np.int64]: ...
@overload
def _reduce(
    operation: Literal["sum", "sum-squares", "mean", "std", "norm-l1", "norm-l2", "norm-max", "dot", "min", "max"],
    values: Vectors,
    others: Vectors | None,
    each_row: bool,
    compensated: bool,
    device: Device | Adapter | str | None,
) -> float | NDArray[np.float32]: ...
@final
class KMeans:
    def __new__(
        cls,
        clusters: int,
        *,
        metric: Metric = "l2sq",
        iterations: int = 10,
        tolerance: float = 1e-4,
        rows_per_cluster: int = 64,
        balance: float | None = None,
        seed: int = 0,
        device: Device | Adapter | str | None = None,
    ) -> Self: ...
    def fit(self, rows: Vectors, *, progress: Progress | None = None) -> Self: ...
    def predict(self, rows: Vectors) -> NDArray[np.int64]: ...
    @property
    def centroids(self) -> NDArray[np.float32]: ...
    @property
    def labels(self) -> NDArray[np.int64]: ...
    @property
    def inertia(self) -> float: ...
    @property
    def history(self) -> list[float]: ...
    @property
    def trained_on(self) -> NDArray[np.int64]: ...
