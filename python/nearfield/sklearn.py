"""Estimators of scikit-learn whose neighbours nearfield finds: exact, on any GPU or without one.

`NearestNeighbors`, `KNeighborsTransformer`, `KNeighborsClassifier` and `KNeighborsRegressor` are subclasses of those in
`sklearn.neighbors` (scikit-learn 1.6 or later), with the same methods, attributes and errors. What differs:

- `metric` is "euclidean" ("l2" and "minkowski" are the same), "sqeuclidean" or "cosine".
- `device` chooses the device as for `nearfield.Flat`. None is the best GPU, and the processor where there is none.
- `algorithm` is "brute". `n_jobs` has no effect, because a search uses the whole device. `leaf_size`, `p` and `metric_params` do
  not exist.
- Vectors are dense. Distances come as float64. float32 vectors are taken as they are, and searched for in float32; their norms are 0
  or within 2^-50 .. 2^50. Neighbours of float64 vectors and of integers are those in float64, whatever their offset and scale: a
  search in float32 nominates them, and where rounding may have hidden one, all rows are compared in float64. Rows that lie closer
  to each other than 2^-24 of the largest difference, as beside an outlier, take that long.
- Rows at the same distance come in the order of their indices. The results of `radius_neighbors` are sorted always. Among float32
  vectors, a row whose distance is the radius but for rounding may be within it or not; whole numbers are exact.
"""

import numbers
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import neighbors  # type: ignore[import-untyped,unused-ignore]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped,unused-ignore]

# Behind scikit-learn, which brings it: the error names what is missing.
from scipy.sparse import issparse  # type: ignore[import-untyped,unused-ignore]  # isort: skip

from nearfield import Flat
from nearfield._arrays import to_number

__all__ = ["KNeighborsClassifier", "KNeighborsRegressor", "KNeighborsTransformer", "NearestNeighbors"]

_METRICS: dict[str, Literal["l2sq", "cosine"]] = {
    "euclidean": "l2sq",
    "l2": "l2sq",
    "minkowski": "l2sq",
    "sqeuclidean": "l2sq",
    "cosine": "cosine",
}

# The types of vectors that are taken as they are.
_DIRECT = (np.float32, np.float16)

# Elements of float64 that are converted or compared at a time.
_PIECE = 1 << 20

# Rows that a search in float32 nominates beside those that are wanted.
_MORE = 8

# Whole numbers below this are exact in float32.
_WHOLE = 1 << 24


class _Frame:
    """Vectors and distances as an index has them: float32, squared, and relative to the middle of float64 rows.

    Under "cosine" a vector of float64 is divided by a power of two instead, as its length has no effect.

    With a middle, an index has `(x - middle) / unit`. The unit is a power of two. The middle is rounded to a multiple of unit / 1024, so
    that whole numbers stay exact.
    """

    def __init__(self, rows: NDArray[Any], metric: str) -> None:
        # The estimator's own metric may be set to another one after `fit`.
        self.metric = _METRICS[metric]
        self.is_squared = self.metric == "l2sq"
        self.is_rooted = self.is_squared and metric != "sqeuclidean"
        self.is_direct = rows.dtype in _DIRECT
        self.middle: NDArray[np.float64] | None = None
        self.unit = 1.0
        if self.is_squared and not self.is_direct:
            with np.errstate(over="ignore", invalid="ignore"):
                # An outlier moves no median. Some thousand rows tell where the others are.
                middle = np.median(rows[:: max(1, len(rows) // 4096)], axis=0).astype(np.float64)
                largest = np.maximum(rows.max(axis=0) - middle, middle - rows.min(axis=0)).max()
                self.unit = float(np.ldexp(1.0, min(int(np.frexp(largest)[1]), 1023)))
                step = self.unit / 1024
                self.middle = np.round(middle / step) * step if step else middle
        # The most that rounding has moved a row.
        self.moved = 0.0
        self.ends = (0.0, 0.0)

    def fitted(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """The rows of the index, `[n, dim]`."""
        vectors, moved = self.vectors(rows)
        self.moved = float(moved.max())
        self.ends = _ends(rows)
        return vectors

    def vectors(self, given: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """float32 vectors `[n, dim]`, and how far rounding has moved each, `[n]`: under "cosine" relative to its length."""
        # An overflow becomes an infinity, which the index reports with its row.
        with np.errstate(over="ignore", invalid="ignore"):
            moved = np.zeros(len(given))
            if self.middle is None and (self.is_squared or given.dtype in _DIRECT):
                return np.ascontiguousarray(given, dtype=np.float32), moved
            vectors = np.empty(given.shape, dtype=np.float32)
            step = max(1, _PIECE // given.shape[1])
            for at in range(0, len(given), step):
                if self.middle is None:
                    piece = _scaled(given[at : at + step])
                else:
                    piece = (given[at : at + step] - self.middle) / self.unit
                rounded = piece.astype(np.float32)
                # The remainder of a row that is the middle but for rounding. An index refuses norms as small as that.
                rounded[np.abs(rounded) < 2.0**-50] = 0
                vectors[at : at + step] = rounded
                moved[at : at + step] = np.sqrt(np.square(piece - rounded).sum(axis=1))
            if self.middle is None:
                # The largest element is at least 1/2.
                moved *= 2
            return vectors, moved

    def is_exact(self, queries: NDArray[Any]) -> bool:
        """Whether an index has the very distances: of vectors that come as they are, and of small whole numbers."""
        if self.is_direct or not self.is_squared or self.moved > 0:
            return self.is_direct
        low, high = _ends(queries)
        reach = max(high, self.ends[1]) - min(low, self.ends[0])
        # Not for NaN, which stands for fractions.
        return bool(reach * reach * queries.shape[1] < _WHOLE)

    def between(self, queries: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.float64]:
        """What orders the rows of each query, in float64: Euclidean lengths, as the vectors were given, or cosine distances."""
        found: NDArray[np.float64]
        with np.errstate(over="ignore", invalid="ignore"):
            if self.is_squared:
                # Powers of two keep squares within the range, and change no digit.
                apart = queries.astype(np.float64) - rows
                power = np.frexp(np.abs(apart).max(axis=-1))[1]
                squares = np.square(np.ldexp(apart, -power[..., None])).sum(axis=-1)
                found = np.ldexp(np.sqrt(squares), power)
                return found
            queries, rows = _scaled(queries), _scaled(rows)
            lengths = np.sqrt(np.square(queries).sum(axis=-1) * np.square(rows).sum(axis=-1))
            products = (queries * rows).sum(axis=-1)
            found = 1 - np.where(lengths > 0, products / np.where(lengths > 0, lengths, 1), 0)
            return found

    def chord(self, between: NDArray[np.float64]) -> NDArray[np.float64]:
        """The lengths to which what rounding has moved can be added; of cosine distances between points on a circle."""
        return between if self.is_squared else np.sqrt(2 * np.maximum(between, 0))

    def nearest(self, found: NDArray[np.float64], moved: NDArray[np.float64], dim: int) -> NDArray[np.float64]:
        """The least such length of what may be at this distance in an index."""
        off = (dim + 16) * 2.0**-23
        moved = moved + self.moved
        if self.is_squared:
            return (np.sqrt(found * (1 - off)) - moved) * self.unit
        return self.chord(found - off) - moved

    def reported(self, between: NDArray[np.float64]) -> NDArray[np.float64]:
        """The distances of what `between` has ordered."""
        # Squares may overflow to infinities, as those of scikit-learn do.
        with np.errstate(over="ignore"):
            return np.square(between) if self.is_squared and not self.is_rooted else between

    def distances(self, found: NDArray[np.float32]) -> NDArray[np.float64]:
        """The distances of an index, of vectors as they were given."""
        distances: NDArray[np.float64] = found.astype(np.float64)
        with np.errstate(over="ignore"):
            return self.reported(np.sqrt(distances) * self.unit) if self.is_squared else distances

    def radius(self, given: Any) -> float:
        """A radius as `between` has it."""
        radius = float(to_number(given, "radius"))
        if radius < 0:
            raise ValueError(f"radius == {radius}, must be >= 0.")
        return radius if self.is_rooted or not self.is_squared else float(np.sqrt(radius))

    def beyond(self, radius: float, moved: NDArray[np.float64] | None, dim: int) -> float:
        """The radius below which an index finds all that is at this radius or nearer."""
        off = (dim + 16) * 2.0**-23 if moved is not None else 0.0
        most = self.moved + float(moved.max()) if moved is not None and len(moved) else 0.0
        # An infinity finds all rows.
        with np.errstate(over="ignore"):
            if self.is_squared:
                limit = np.square(np.float64(radius) / self.unit + most) * (1 + off)
            else:
                limit = radius if moved is None else np.square(np.sqrt(2 * np.float64(radius)) + most) / 2 + off
            return float(np.nextafter(np.float32(limit), np.float32(np.inf)))


def _scaled(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Each vector over a power of two, so that its largest element is between 1/2 and 1."""
    vectors = vectors.astype(np.float64)
    scaled: NDArray[np.float64] = np.ldexp(vectors, -np.frexp(np.abs(vectors).max(axis=-1, keepdims=True))[1])
    return scaled


def _ends(vectors: NDArray[Any]) -> tuple[float, float]:
    """The smallest and the largest of whole numbers; NaN where there are others."""
    if not len(vectors):
        return 0.0, 0.0
    low, high = float(vectors.min()), float(vectors.max())
    # Larger ones are no use, and take no time.
    is_whole = high - low < _WHOLE and (vectors.dtype.kind in "iub" or bool((vectors == np.rint(vectors)).all()))
    return (low, high) if is_whole else (float("nan"), float("nan"))


class _FlatNeighbors:
    """Answers from a `Flat` index in the place of scikit-learn's own. Stands before a class of `sklearn.neighbors`."""

    n_neighbors: int
    algorithm: str
    metric: str
    device: Any
    n_samples_fit_: int
    _fit_X: NDArray[Any]
    _fit_method: str
    _frame: _Frame
    _index: Flat

    def __sklearn_tags__(self) -> Any:
        inherited: Any = super()
        tags = inherited.__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Any:
        """Puts rows `[n, n_features]` on the device, with targets for a classifier or a regressor. Returns the estimator."""
        if not isinstance(self.metric, str) or self.metric not in _METRICS:
            raise ValueError(f"metric: needed one of {', '.join(_METRICS)}, given {self.metric!r}")
        if self.algorithm != "brute":
            raise ValueError(f"algorithm: needed 'brute', which searches all rows, given {self.algorithm!r}")
        if issparse(X):
            raise TypeError("X: needed a dense array, given a sparse one, which X.toarray() makes dense")
        before = dict(vars(self))
        try:
            # Checks X, y and the parameters, and keeps X. With the algorithm "brute" it builds nothing.
            inherited: Any = super()
            inherited.fit(X, y)
            # Another name than "brute", or a classifier searches by itself.
            self._fit_method = "nearfield"
            self._frame = _Frame(self._fit_X, self.metric)
            self._index = self._indexed()
        except BaseException:
            # The index of an earlier call does not answer for the rows of this one.
            self.__dict__ = before
            raise
        return self

    def _indexed(self) -> Flat:
        rows = self._frame.fitted(self._fit_X)
        return Flat(rows, metric=self._frame.metric, device=self.device)

    def __getstate__(self) -> dict[str, Any]:
        # The rows are in `_fit_X`. The one who unpickles may have another device.
        inherited: Any = super()
        state: dict[str, Any] = dict(inherited.__getstate__())
        state.pop("_index", None)
        return state

    def __getattr__(self, name: str) -> Any:
        # After unpickling, the first use puts the rows on the device: a process that cannot have one may pass an estimator on.
        if name != "_index" or "_frame" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._index = self._indexed()
        return self._index

    def _given(self, X: ArrayLike | None) -> NDArray[Any]:
        given: NDArray[Any] = self._fit_X if X is None else validate_data(self, X, reset=False, order="C")
        return given

    def _search(self, given: NDArray[Any], k: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Distances and indices of the k nearest rows of each query, `[n, k]` both."""
        frame, rows, dim = self._frame, self._fit_X, given.shape[1]
        queries, moved = frame.vectors(given)
        if frame.is_exact(given):
            found = self._index.search(queries, k)
            return frame.distances(found.distances), found.ids
        found = self._index.search(queries, min(k + _MORE, len(rows)))
        between, ids = np.empty((len(given), k)), np.empty((len(given), k), dtype=np.int64)
        width = found.ids.shape[1]
        step = max(1, _PIECE // (width * dim))
        for at in range(0, len(given), step):
            piece = slice(at, at + step)
            exact = frame.between(given[piece, None, :], rows[found.ids[piece]])
            between[piece], ids[piece] = _first(exact, found.ids[piece], k)
        if width < len(rows):
            # Where a row that was not nominated may be nearer than the k-th, or as near, all are compared.
            least = frame.nearest(found.distances[:, -1].astype(np.float64), moved, dim)
            for query in np.flatnonzero(~(frame.chord(between[:, -1]) < least)):
                between[query], ids[query] = self._compared(given[query], k)
        return frame.reported(between), ids

    def _compared(self, query: NDArray[Any], k: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Distances and indices of the k nearest rows among all, compared in float64."""
        rows = self._fit_X
        step = max(1, _PIECE // rows.shape[1])
        exact = np.concatenate([self._frame.between(query, rows[at : at + step]) for at in range(0, len(rows), step)])
        # A NaN comes last, as in a sort.
        ids = np.flatnonzero(~(exact > np.partition(exact, k - 1)[k - 1]))
        distances, ids = _first(exact[None, ids], ids[None], k)
        return distances[0], ids[0]

    def kneighbors(self, X: ArrayLike | None = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """Distances and indices of the nearest rows of each query, `[n_queries, n_neighbors]` both, or indices alone.

        Without X, of each row among the other rows.
        """
        check_is_fitted(self)
        k: Any = self.n_neighbors if n_neighbors is None else n_neighbors
        if not isinstance(k, numbers.Integral):
            raise TypeError(f"n_neighbors: needed an integer, given {type(k).__name__}")
        k = int(k)
        if k < 1:
            raise ValueError(f"Expected n_neighbors > 0. Got {k}")
        given = self._given(X)
        extra = int(X is None)
        if k + extra > self.n_samples_fit_:
            sign = "<" if X is None else "<="
            raise ValueError(
                f"Expected n_neighbors {sign} n_samples_fit, but n_neighbors = {k}, "
                f"n_samples_fit = {self.n_samples_fit_}, n_samples = {len(given)}"
            )
        distances, indices = self._search(given, k + extra)
        if X is None:
            others = _others(indices)
            distances = distances[others].reshape(len(given), k)
            indices = indices[others].reshape(len(given), k)
        indices = indices.astype(np.intp, copy=False)
        return (distances, indices) if return_distance else indices


def _first(distances: NDArray[np.float64], ids: NDArray[np.int64], k: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The first k of each row by distance, and by id where that is the same."""
    order = np.lexsort((ids, distances), axis=-1)[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(ids, order, axis=1)


def _others(indices: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Marks all but one neighbour of each row: the row itself or, if k others are as near, the last one."""
    others: NDArray[np.bool_] = indices != np.arange(len(indices))[:, None]
    others[others.all(axis=1), -1] = False
    return others


class NearestNeighbors(_FlatNeighbors, neighbors.NearestNeighbors):  # type: ignore[misc]
    """Finds the nearest rows, or all rows within a radius.

    ```python
    from nearfield.sklearn import NearestNeighbors
    distances, indices = NearestNeighbors(n_neighbors=3).fit(rows).kneighbors(queries)
    ```
    """

    def __init__(
        self,
        *,
        n_neighbors: int = 5,
        radius: float = 1.0,
        algorithm: str = "brute",
        metric: str = "euclidean",
        device: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        inherited: Any = super()
        inherited.__init__(n_neighbors=n_neighbors, radius=radius, algorithm=algorithm, metric=metric, n_jobs=n_jobs)
        self.device = device

    def radius_neighbors(
        self,
        X: ArrayLike | None = None,
        radius: float | None = None,
        return_distance: bool = True,
        sort_results: bool = False,
    ) -> Any:
        """Distances and indices of the rows at `radius` or nearer, or indices alone: arrays `[n_queries]` of arrays.

        Without X, of each row among the other rows. Results are sorted whether `sort_results` says so or not.
        """
        check_is_fitted(self)
        if sort_results and not return_distance:
            raise ValueError("return_distance must be True if sort_results is True.")
        given = self._given(X)
        frame, dim = self._frame, given.shape[1]
        queries, moved = frame.vectors(given)
        limit = frame.radius(self.radius if radius is None else radius)
        is_exact = frame.is_exact(given)
        found = self._index.search_within(queries, frame.beyond(limit, None if is_exact else moved, dim))
        indices, offsets = found.ids.astype(np.intp, copy=False), found.offsets
        if is_exact:
            distances = frame.distances(found.distances)
        else:
            query = np.repeat(np.arange(len(given)), np.diff(offsets))
            between = np.empty(len(indices))
            step = max(1, _PIECE // dim)
            for at in range(0, len(indices), step):
                piece = slice(at, at + step)
                between[piece] = frame.between(given[query[piece]], self._fit_X[indices[piece]])
            order = np.lexsort((indices, between, query))
            order = order[between[order] <= limit]
            offsets = np.searchsorted(query[order], np.arange(len(given) + 1))
            distances, indices = frame.reported(between[order]), indices[order]
        if X is None:
            others = indices != np.repeat(np.arange(len(given)), np.diff(offsets))
            distances, indices = distances[others], indices[others]
            offsets = np.concatenate(([0], np.cumsum(others)))[offsets]
        split = _by_query(indices, offsets)
        return (_by_query(distances, offsets), split) if return_distance else split


def _by_query(values: NDArray[Any], offsets: NDArray[Any]) -> NDArray[Any]:
    """An array of arrays, one a query."""
    parts = np.empty(len(offsets) - 1, dtype=object)
    for query in range(len(parts)):
        parts[query] = values[offsets[query] : offsets[query + 1]]
    return parts


class KNeighborsTransformer(_FlatNeighbors, neighbors.KNeighborsTransformer):  # type: ignore[misc]
    """Turns vectors into the sparse graph of their nearest rows, for estimators that take `metric="precomputed"`.

    In the mode "distance" each vector has `n_neighbors + 1` neighbours, because one of them may be the vector itself.

    ```python
    from nearfield.sklearn import KNeighborsTransformer
    from sklearn.manifold import TSNE
    from sklearn.pipeline import make_pipeline
    picture = make_pipeline(KNeighborsTransformer(n_neighbors=91), TSNE(metric="precomputed", init="random"))
    ```
    """

    def __init__(
        self,
        *,
        mode: str = "distance",
        n_neighbors: int = 5,
        algorithm: str = "brute",
        metric: str = "euclidean",
        device: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        inherited: Any = super()
        inherited.__init__(mode=mode, n_neighbors=n_neighbors, algorithm=algorithm, metric=metric, n_jobs=n_jobs)
        self.device = device


class _Predictor(_FlatNeighbors):
    """Predicts from the targets of the nearest rows."""

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        weights: Any = "uniform",
        algorithm: str = "brute",
        metric: str = "euclidean",
        device: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        inherited: Any = super()
        inherited.__init__(n_neighbors, weights=weights, algorithm=algorithm, metric=metric, n_jobs=n_jobs)
        self.device = device


class KNeighborsClassifier(_Predictor, neighbors.KNeighborsClassifier):  # type: ignore[misc]
    """Predicts a class by the vote of the nearest rows."""


class KNeighborsRegressor(_Predictor, neighbors.KNeighborsRegressor):  # type: ignore[misc]
    """Predicts a value as the mean of those of the nearest rows."""
