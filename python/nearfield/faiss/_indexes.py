"""The indexes: flat, in lists, and with ids of one's own."""

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfield import Flat, Ivf
from nearfield._arrays import to_number
from nearfield.faiss._given import Settings, as_bits, as_ids, as_integer, as_vectors, check_kind, faiss_names
from nearfield._locks import Lock, changes, reads
from nearfield.faiss._rows import Column, Rows
from nearfield.faiss._selectors import IDSelector, IDSelectorArray, SearchParameters

METRIC_INNER_PRODUCT = 0
METRIC_L2 = 1

# The metrics of nearfield.
NAMES: dict[int, Literal["ip", "l2sq"]] = {METRIC_INNER_PRODUCT: "ip", METRIC_L2: "l2sq"}

# The distance of a row that is missing; for inner products its negative.
_LARGEST = np.finfo(np.float32).max

Found: TypeAlias = tuple[NDArray[Any], NDArray[np.int64]]


def _check_output(name: str, array: NDArray[Any] | None, shape: tuple[int, int], dtype: type) -> None:
    if array is None:
        return
    check_kind(name, array, np.ndarray)
    if array.shape != shape or array.dtype != dtype:
        needed = f"{np.dtype(dtype)} of the shape {list(shape)}"
        raise ValueError(f"{name}: needed {needed}, given {array.dtype} of the shape {list(array.shape)}")


class Index(Settings):
    """What all indexes have in common. Threads may use one at once: a change waits for searches, and they for it."""

    # Of `own_fields` Python takes care itself.
    _SETTINGS = frozenset({"d", "metric_type", "own_fields", "verbose"})

    def __init__(self, d: int, metric: int) -> None:
        if metric not in NAMES:
            raise ValueError(f"metric: needed METRIC_L2 or METRIC_INNER_PRODUCT, given {metric}")
        self.d = as_integer("d", d, 1)
        self.metric_type = metric
        self.verbose = False
        self._rows: Rows | None = None
        # That of the rows, which an index around this one shares.
        self._lock = Lock()
        # The id of the row at each position. None: ids are positions.
        self._labels: Column | None = None

    def __repr__(self) -> str:
        return f"<nearfield.faiss.{type(self).__name__} d={self.d} ntotal={self.ntotal} {self._measure()}>"

    def _measure(self) -> str:
        """What distances are."""
        return "METRIC_L2" if self.metric_type == METRIC_L2 else "METRIC_INNER_PRODUCT"

    @property
    def ntotal(self) -> int:
        """How many rows there are."""
        rows = self._held()
        return 0 if rows is None else len(rows)

    @property
    def is_trained(self) -> bool:
        """Whether rows can be added."""
        return self._held() is not None

    def _held(self) -> Rows | None:
        """The rows, or None before the training."""
        return self._rows

    def _trained(self) -> Rows:
        rows = self._held()
        if rows is None:
            raise RuntimeError("index: needed one that is trained, call train(x) first")
        return rows

    def _probes(self, params: SearchParameters | None) -> int | None:
        """How many lists a search probes; None where there are none."""
        return None

    def _ids(self) -> NDArray[np.int64]:
        return np.arange(self.ntotal, dtype=np.int64) if self._labels is None else self._labels.values

    def _labelled(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return positions if self._labels is None else self._labels.values[positions]

    def _allowed(self, params: SearchParameters | None) -> NDArray[np.bool_] | None:
        if params is None:
            return None
        check_kind("params", params, SearchParameters)
        if params.sel is None:
            return None
        check_kind("params.sel", params.sel, IDSelector)
        return params.sel.mask(self._ids())

    def _vectors(self, x: ArrayLike) -> NDArray[Any]:
        """Rows or queries, checked."""
        return as_vectors("x", x, self.d)

    def _reported(self, distances: NDArray[np.float32]) -> NDArray[Any]:
        """Distances as this index reports them."""
        return distances if self.metric_type == METRIC_L2 else -distances

    def _missing(self) -> Any:
        """The distance of a row that is missing, which tells the type of all."""
        return _LARGEST if self.metric_type == METRIC_L2 else -_LARGEST

    def train(self, x: ArrayLike) -> None:
        """Checks the vectors `[n, d]`. There is nothing to train."""
        self._vectors(x)

    @changes
    def add(self, x: ArrayLike) -> None:
        """Adds rows `[n, d]`, whose ids go on from `ntotal`."""
        self._add(self._vectors(x), None)

    @changes
    def add_with_ids(self, x: ArrayLike, ids: ArrayLike) -> None:
        """Adds rows `[n, d]` with int64 ids `[n]`, which may repeat."""
        rows = self._vectors(x)
        labels = as_ids("ids", ids)
        if len(labels) != len(rows):
            raise ValueError(f"ids: needed one for each of {len(rows)} rows, given {len(labels)}")
        self._add(rows, labels)

    def _add(self, x: NDArray[Any], labels: NDArray[np.int64] | None) -> None:
        self._trained().add(x)
        self._label(len(x), labels)

    def _label(self, count: int, labels: NDArray[np.int64] | None) -> None:
        """Notes the ids of the last rows: those that were given, or positions."""
        if self._labels is not None:
            end = self.ntotal
            # A copy: the caller may change the array that was given.
            self._labels.append(np.arange(end - count, end, dtype=np.int64) if labels is None else labels.copy())

    @reads
    def search(
        self,
        x: ArrayLike,
        k: int,
        *,
        params: SearchParameters | None = None,
        D: NDArray[Any] | None = None,
        I: NDArray[np.int64] | None = None,
    ) -> Found:
        """Distances and ids of the k nearest rows of each query, `[n, k]` both, nearest first.

        Missing rows have the id -1. `params` restricts the ids and sets the probes; results are also written to `D` and `I`.
        """
        queries = self._vectors(x)
        k = as_integer("k", k, 1)
        rows = self._trained()
        shape = (len(queries), k)
        missing = self._missing()
        _check_output("D", D, shape, type(missing))
        _check_output("I", I, shape, np.int64)
        distances, positions = rows.search(queries, k, self._allowed(params), self._probes(params))
        distances, ids = self._reported(distances), self._labelled(positions)
        count = distances.shape[1]
        if count == k and D is None and I is None:
            return distances, ids
        D = np.empty(shape, dtype=type(missing)) if D is None else D
        I = np.empty(shape, dtype=np.int64) if I is None else I
        D[:, :count], I[:, :count] = distances, ids
        D[:, count:], I[:, count:] = missing, -1
        return D, I

    def assign(self, x: ArrayLike, k: int = 1) -> NDArray[np.int64]:
        """The ids that `search` finds, `[n, k]`."""
        return self.search(x, k)[1]

    @reads
    def range_search(
        self, x: ArrayLike, thresh: float, *, params: SearchParameters | None = None
    ) -> tuple[NDArray[np.uint64], NDArray[Any], NDArray[np.int64]]:
        """Rows with a squared L2 distance below `thresh`, or an inner product above it: (lims, D, I).

        Those of query i are `D[lims[i]:lims[i + 1]]` and `I[lims[i]:lims[i + 1]]`, nearest first.
        """
        queries = self._vectors(x)
        radius = float(to_number(thresh, "thresh"))
        if np.isnan(radius):
            raise ValueError("thresh: needed a number, given nan")
        is_l2 = self.metric_type == METRIC_L2
        found = self._trained().within(queries, radius if is_l2 else -radius, self._allowed(params))
        distances = self._reported(found.distances).astype(np.float32, copy=False)
        return found.offsets.astype(np.uint64), distances, self._labelled(found.ids)

    @changes
    def remove_ids(self, x: ArrayLike | IDSelector) -> int:
        """Removes the rows with these ids, an array `[n]` or a selector, and returns how many were there."""
        self._trained()
        selector = x if isinstance(x, IDSelector) else IDSelectorArray(as_ids("x", x))
        return self._remove(selector.mask(self._ids()))

    def _remove(self, removed: NDArray[np.bool_]) -> int:
        """Removes the rows at marked positions, and returns how many those are."""
        count = self._trained().remove(removed)
        if self._labels is not None:
            self._labels = Column(self._labels.values[~removed])
        return count

    @changes
    def reset(self) -> None:
        """Removes all rows. What was trained stays."""
        if self.ntotal:
            self._remove(np.ones(self.ntotal, dtype=np.bool_))

    def merge_from(self, otherIndex: Any, add_id: int = 0) -> None:
        """Moves the rows of another index of the same class here, behind its own. Ids of one's own grow by `add_id`."""
        if type(otherIndex) is not type(self) or (otherIndex.d, otherIndex.metric_type) != (self.d, self.metric_type):
            raise RuntimeError(f"otherIndex: needed an index like {self!r}, given {otherIndex!r}")
        if otherIndex is self or otherIndex._lock is self._lock:
            raise RuntimeError("otherIndex: needed another index, given the same")
        add_id = as_integer("add_id", add_id)
        if self._labels is None and add_id:
            raise RuntimeError(f"add_id: needed 0 where ids are positions, given {add_id}")
        # In one order, or two threads that merge both ways wait for each other.
        first, second = sorted((self._lock, otherIndex._lock), key=id)
        with first.changing(), second.changing():
            rows = otherIndex._trained().get(np.arange(otherIndex.ntotal, dtype=np.int64))
            self._add(rows, None if self._labels is None else otherIndex._ids() + add_id)
            otherIndex._remove(np.ones(len(rows), dtype=np.bool_))

    def _rows_of(self, name: str, keys: NDArray[np.int64]) -> NDArray[Any]:
        """The row of each id; of rows with the same id the last one, as in faiss."""
        if not len(keys):
            held = self._held()
            return self._vectors(np.empty((0, self.d if held is None else held.native.dim), dtype=np.uint8))
        if self._labels is None:
            positions = np.where(keys < self.ntotal, keys, -1)
        else:
            positions = self._labels.places_of(keys)
        if positions.min() < 0:
            raise RuntimeError(f"{name}: needed the id of a row, given {keys[positions < 0][0]}")
        return self._trained().get(positions)

    @reads
    def reconstruct(self, key: int) -> NDArray[Any]:
        """The row with this id, `[d]`."""
        row: NDArray[Any] = self._rows_of("key", np.array([as_integer("key", key)], dtype=np.int64))[0]
        return row

    @reads
    def reconstruct_batch(self, key: ArrayLike) -> NDArray[Any]:
        """The rows with these ids, `[n, d]`."""
        return self._rows_of("key", as_ids("key", key))

    @reads
    def reconstruct_n(self, n0: int = 0, ni: int = -1) -> NDArray[Any]:
        """The rows with the ids n0, n0 + 1, …, ni of them, `[ni, d]`; `ntotal - n0` if ni is -1."""
        n0, ni = as_integer("n0", n0), as_integer("ni", ni)
        count = self.ntotal - n0 if ni == -1 else ni
        if not 0 <= count <= self.ntotal:
            raise RuntimeError(f"n0, ni: needed a range of at most {self.ntotal} rows, given {n0}, {ni}")
        return self._rows_of("n0, ni", np.arange(count, dtype=np.int64) + n0)


class IndexFlat(Index):
    """Exact search. Ids are positions: after a removal the rows behind it get smaller ids."""

    def __init__(self, d: int, metric: int = METRIC_L2, *, device: Any | None = None) -> None:
        super().__init__(d, metric)
        with faiss_names():
            self._rows = Rows(Flat(dim=self.d, metric=NAMES[metric], dtype=np.float32, device=device))

    def add_with_ids(self, x: ArrayLike, ids: ArrayLike) -> None:
        """Not there, as in faiss: an `IndexIDMap` around this index keeps ids."""
        raise RuntimeError("ids: needed none for an IndexFlat, wrap it into an IndexIDMap")


class IndexFlatL2(IndexFlat):
    """Exact search by squared L2 distances."""

    def __init__(self, d: int, *, device: Any | None = None) -> None:
        super().__init__(d, METRIC_L2, device=device)


class IndexFlatIP(IndexFlat):
    """Exact search for the largest inner products."""

    def __init__(self, d: int, *, device: Any | None = None) -> None:
        super().__init__(d, METRIC_INNER_PRODUCT, device=device)


class ScalarQuantizer:
    """How the elements of an `IndexScalarQuantizer` are stored: as float16, or as integers from 0 to 255 or -128 to 127."""

    QT_fp16 = 4
    QT_8bit_direct = 5
    QT_8bit_direct_signed = 8

    def __init__(self, d: int, qtype: int) -> None:
        if qtype not in _STORED:
            raise ValueError(f"qtype: needed QT_fp16, QT_8bit_direct or QT_8bit_direct_signed, given {qtype}")
        self.d, self.qtype = as_integer("d", d, 1), qtype


# The types of nearfield's rows.
_STORED: dict[int, type[np.float16 | np.uint8 | np.int8]] = {
    ScalarQuantizer.QT_fp16: np.float16,
    ScalarQuantizer.QT_8bit_direct: np.uint8,
    ScalarQuantizer.QT_8bit_direct_signed: np.int8,
}


class IndexScalarQuantizer(Index):
    """Exact search of rows that are stored as float16 or as integers, in a half or a quarter of the memory.

    Rows are rounded to the nearest float16, or down to an integer as in faiss. Numbers beyond the range of the integers are refused.
    Queries are not rounded.
    """

    _SETTINGS = Index._SETTINGS | {"sq"}

    def __init__(
        self, d: int, qtype: int, metric: int = METRIC_L2, *, device: Any | None = None
    ) -> None:
        super().__init__(d, metric)
        self.sq = ScalarQuantizer(d, qtype)
        with faiss_names():
            self._rows = Rows(Flat(dim=self.d, metric=NAMES[metric], dtype=_STORED[qtype], device=device))

    def add_with_ids(self, x: ArrayLike, ids: ArrayLike) -> None:
        """Not there, as in faiss: an `IndexIDMap` around this index keeps ids."""
        raise RuntimeError("ids: needed none for an IndexScalarQuantizer, wrap it into an IndexIDMap")

    def _add(self, x: NDArray[np.float32], labels: NDArray[np.int64] | None) -> None:
        stored = _STORED[self.sq.qtype]
        if stored is np.float16:
            # Too large a number becomes infinite, which is refused.
            with np.errstate(over="ignore"):
                return super()._add(x.astype(stored), labels)
        least = 0 if stored is np.uint8 else -128
        # faiss adds 128 to signed numbers before it cuts the fraction off.
        whole = np.trunc(x - np.float32(least)) + np.float32(least)
        # A NaN is in no range.
        wrong = np.flatnonzero(~((whole >= least) & (whole <= least + 255)).all(axis=1))
        if len(wrong):
            needed = f"numbers from {least} to {least + 255}"
            raise ValueError(f"x: needed {needed}, given others in row {wrong[0]}")
        super()._add(whole.astype(stored), labels)


class IndexBinaryFlat(Index):
    """Exact search of `d` bits by Hamming distance. Rows and queries are uint8 `[n, d / 8]`, and distances int32, as in faiss."""

    _SETTINGS = Index._SETTINGS | {"code_size"}

    def __init__(self, d: int, *, device: Any | None = None) -> None:
        super().__init__(d, METRIC_L2)
        if self.d % 8:
            raise ValueError(f"d: needed a multiple of 8 bits, given {d}")
        self.code_size = self.d // 8
        with faiss_names():
            self._rows = Rows(Flat(dim=self.code_size, metric="hamming", device=device))

    def _vectors(self, x: ArrayLike) -> NDArray[Any]:
        return as_bits("x", x, self.code_size)

    def _reported(self, distances: NDArray[np.float32]) -> NDArray[Any]:
        return distances.astype(np.int32)

    def _missing(self) -> Any:
        return np.int32(2**31 - 1)

    def _measure(self) -> str:
        return "Hamming"

    def add_with_ids(self, x: ArrayLike, ids: ArrayLike) -> None:
        """Not there, as in faiss: an `IndexBinaryIDMap` around this index keeps ids."""
        raise RuntimeError("ids: needed none for an IndexBinaryFlat, wrap it into an IndexBinaryIDMap")


class IndexIVFFlat(Index):
    """Search in `nprobe` of `nlist` lists, each around a centroid. `quantizer` is an empty index, which gets the centroids."""

    _SETTINGS = Index._SETTINGS | {"nlist", "nprobe", "quantizer"}

    def __init__(
        self, quantizer: Index, d: int, nlist: int, metric: int = METRIC_L2, *, device: Any | None = None
    ) -> None:
        super().__init__(d, metric)
        check_kind("quantizer", quantizer, Index)
        if quantizer.d != self.d:
            raise ValueError(f"quantizer: needed one of d {self.d}, given {quantizer.d}")
        if quantizer.ntotal:
            needed = "an empty index, because train finds the centroids"
            raise ValueError(f"quantizer: needed {needed}, given one with {quantizer.ntotal} rows")
        self.quantizer = quantizer
        self.nlist = as_integer("nlist", nlist, 1)
        self.nprobe = 1
        self._device = device
        self._labels = Column(np.empty(0, dtype=np.int64))

    @changes
    def train(self, x: ArrayLike) -> None:
        """Finds the centroids among rows `[n, d]`, of which there are at least `nlist`. A second call has no effect."""
        vectors = as_vectors("x", x, self.d)
        if self.is_trained:
            return
        if len(vectors) < self.nlist:
            raise RuntimeError(f"x: needed at least nlist = {self.nlist} rows, given {len(vectors)}")
        metric = NAMES[self.metric_type]
        with faiss_names():
            native = Ivf(vectors, lists=self.nlist, metric=metric, dtype=np.float32, device=self._device, empty=True)
        # A quantizer may refuse rows, such as an `IndexIDMap` without ids. Then this index stays untrained.
        centroids = native.centroids
        # Rows that cancel each other out leave a remainder, and an index refuses norms as small as that.
        centroids[np.linalg.norm(centroids, axis=1) < 2.0**-50] = 0
        self.quantizer.add(centroids)
        self._rows = Rows(native)

    def _probes(self, params: SearchParameters | None) -> int | None:
        nprobe = getattr(params, "nprobe", None)
        return min(as_integer("nprobe", self.nprobe if nprobe is None else nprobe, 1), self.nlist)

    def make_direct_map(self, new_maintain_direct_map: bool = True) -> None:
        """No effect: `reconstruct` needs no map."""


class IndexIDMap(Index):
    """Keeps int64 ids for the rows of another index, which is empty at first. Rows come with `add_with_ids` only."""

    _SETTINGS = Index._SETTINGS | {"index"}

    def __init__(self, index: Index) -> None:
        check_kind("index", index, Index)
        super().__init__(index.d, index.metric_type)
        if index.ntotal:
            raise RuntimeError(f"index: needed an empty one, given one with {index.ntotal} rows")
        self.index = index
        self._lock = index._lock
        self._labels = Column(np.empty(0, dtype=np.int64))

    @property
    @reads
    def id_map(self) -> NDArray[np.int64]:
        """The id of each row, `[ntotal]`, in the order in which they were added."""
        return self._ids()

    def _held(self) -> Rows | None:
        return self.index._held()

    def _probes(self, params: SearchParameters | None) -> int | None:
        return self.index._probes(params)

    def _vectors(self, x: ArrayLike) -> NDArray[Any]:
        return self.index._vectors(x)

    def _reported(self, distances: NDArray[np.float32]) -> NDArray[Any]:
        return self.index._reported(distances)

    def _missing(self) -> Any:
        return self.index._missing()

    def _measure(self) -> str:
        return self.index._measure()

    def train(self, x: ArrayLike) -> None:
        """Trains the other index."""
        self.index.train(x)

    def add(self, x: ArrayLike) -> None:
        """Not there, as in faiss: rows need ids."""
        raise RuntimeError("ids: needed one for each row, call add_with_ids(x, ids)")

    def _add(self, x: NDArray[np.float32], labels: NDArray[np.int64] | None) -> None:
        # The other index keeps its own count, so that it answers by itself too.
        self.index._add(x, None)
        self._label(len(x), labels)

    def _remove(self, removed: NDArray[np.bool_]) -> int:
        count = self.index._remove(removed)
        self._labels = Column(self._ids()[~removed])
        return count


class IndexIDMap2(IndexIDMap):
    """In faiss the `IndexIDMap` with `reconstruct`. Here both have it."""


class IndexBinaryIDMap(IndexIDMap):
    """The `IndexIDMap` of an `IndexBinaryFlat`."""

    def __init__(self, index: IndexBinaryFlat) -> None:
        check_kind("index", index, IndexBinaryFlat)
        super().__init__(index)


class IndexBinaryIDMap2(IndexBinaryIDMap):
    """In faiss the `IndexBinaryIDMap` with `reconstruct`. Here both have it."""
