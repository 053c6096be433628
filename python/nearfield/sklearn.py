"""Estimators of scikit-learn whose neighbours nearfield finds: exact, on any GPU or without one.

`NearestNeighbors`, `KNeighborsTransformer`, `RadiusNeighborsTransformer`, `KNeighborsClassifier` and `KNeighborsRegressor` are
subclasses of those in `sklearn.neighbors` (scikit-learn 1.6 or later), with the same methods, attributes and errors. What differs:

- `metric` is "euclidean" ("l2" and "minkowski" are the same), "sqeuclidean" or "cosine".
- `device` chooses the device as for `nearfield.Flat`. None is the best GPU, and the processor where there is none.
- `algorithm` is "brute". `n_jobs` has no effect, because a search uses the whole device. `leaf_size`, `p` and `metric_params` do
  not exist.
- Vectors are dense. Distances come as float64. float32 vectors are taken as they are, and searched for in float32; their norms are 0
  or within 2^-50 .. 2^50. Neighbours of float64 vectors and of integers are those in float64, whatever their offset and scale: a
  search in float32 finds candidates, which are compared in float64. Where rounding may have hidden a neighbour, a query gets eight
  times as many candidates, up to all rows: many rows at nearly the same distance take longer.
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

from nearfield import Flat, knn_graph
from nearfield._arrays import to_number

__all__ = [
    "KNeighborsClassifier",
    "KNeighborsRegressor",
    "KNeighborsTransformer",
    "NearestNeighbors",
    "RadiusNeighborsTransformer",
]

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

# Candidates of a search in float32 beside the k that are wanted.
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
        # The smallest and the largest number, where all are whole and float32 has them.
        self.ends: tuple[float, float] | None = None

    def fitted(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """The rows of the index, `[n, dim]`."""
        vectors, moved = self.vectors(rows)
        step = max(1, _PIECE // rows.shape[1])
        pieces = (rows[at : at + step] for at in range(0, len(rows), step))
        is_whole = not moved.any() and all((piece == np.rint(piece)).all() for piece in pieces)
        self.ends = (float(rows.min()), float(rows.max())) if is_whole else None
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
                apart = np.sqrt(np.square(piece - rounded).sum(axis=1))
                # And as large as that: nobody knows how far such a query is.
                is_far = ~(np.square(rounded, dtype=np.float64).sum(axis=1) < 2.0**98)
                if self.middle is not None:
                    rounded[is_far], apart[is_far] = 0, np.inf
                vectors[at : at + step] = rounded
                moved[at : at + step] = apart
            if self.middle is None:
                # The largest element is at least 1/2.
                moved *= 2
            return vectors, moved

    def exact(self, queries: NDArray[Any]) -> NDArray[np.bool_]:
        """For which queries an index has the very distances: vectors that come as they are, and small whole numbers."""
        if self.is_direct or self.ends is None or not self.is_squared:
            return np.full(len(queries), self.is_direct)
        low, high = self.ends
        reach = np.maximum(high, queries.max(axis=1)) - np.minimum(low, queries.min(axis=1))
        with np.errstate(over="ignore"):
            is_small = np.square(reach, dtype=np.float64) * queries.shape[1] < _WHOLE
        exact: NDArray[np.bool_] = is_small & (queries == np.rint(queries)).all(axis=1)
        return exact

    def between(self, queries: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.float64]:
        """The distance of each query to its row, computed in float64."""
        found: NDArray[np.float64]
        # Squares may overflow to infinities, as those of scikit-learn do.
        with np.errstate(over="ignore", invalid="ignore"):
            if self.is_squared:
                # Powers of two keep squares within the range, and change no digit.
                apart = queries.astype(np.float64) - rows
                power = np.frexp(np.abs(apart).max(axis=-1))[1]
                squares = np.square(np.ldexp(apart, -power[..., None])).sum(axis=-1)
                found = np.ldexp(np.sqrt(squares), power) if self.is_rooted else np.ldexp(squares, 2 * power)
                return found
            queries, rows = _scaled(queries), _scaled(rows)
            lengths = np.sqrt(np.square(queries).sum(axis=-1) * np.square(rows).sum(axis=-1))
            products = (queries * rows).sum(axis=-1)
            # Rounding leads beyond the ends.
            found = np.clip(1 - np.where(lengths > 0, products / np.where(lengths > 0, lengths, 1), 0), 0, 2)
            return found

    def chord(self, distances: Any) -> Any:
        """The lengths to which what rounding has moved can be added; of cosine distances between points on a circle."""
        if self.is_rooted:
            return distances
        return np.sqrt(distances if self.is_squared else 2 * np.maximum(distances, 0))

    def margin(self, vectors: NDArray[np.float32], moved: NDArray[np.float64], chord: Any) -> NDArray[np.float64]:
        """How far a length of about `chord` from each of these queries may be from the true one, in units.

        A row there is no longer than the query and the length, and rounding moves it by a part of its own length: outliers count for themselves.
        """
        dim = vectors.shape[1]
        lengths = np.sqrt(np.square(vectors, dtype=np.float64).sum(axis=1)) if self.is_squared else np.ones(len(vectors))
        margin: NDArray[np.float64] = moved + 2.0**-23 * (lengths + chord) + 2.0**-49 * np.sqrt(dim)
        return margin

    def nearest(self, found: NDArray[np.float64], vectors: NDArray[np.float32], moved: NDArray[np.float64]) -> NDArray[np.float64]:
        """The least length of what may be at this distance in an index."""
        off = (vectors.shape[1] + 16) * 2.0**-23
        chord = np.sqrt(found * (1 - off)) if self.is_squared else self.chord(found - off)
        least: NDArray[np.float64] = (chord - self.margin(vectors, moved, chord)) * self.unit
        return least

    def beyond(self, radius: float, vectors: NDArray[np.float32], moved: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each query the radius below which an index finds all that is at this radius or nearer."""
        off = (vectors.shape[1] + 16) * 2.0**-23
        # An infinity finds all rows.
        with np.errstate(over="ignore"):
            chord = self.chord(np.float64(radius)) / self.unit
            limit: NDArray[np.float64] = np.square(chord + self.margin(vectors, moved, chord))
            limit = limit * (1 + off) if self.is_squared else limit / 2 + off
            return limit

    def distances(self, found: NDArray[np.float32]) -> NDArray[np.float64]:
        """The distances of an index, of vectors as they were given."""
        distances: NDArray[np.float64] = found.astype(np.float64)
        if self.is_rooted:
            np.sqrt(distances, out=distances)
        with np.errstate(over="ignore"):
            distances *= self.unit
            if not self.is_rooted:
                distances *= self.unit
        return distances


def _above(limit: Any) -> float:
    """The next radius of an index: it finds what is nearer."""
    with np.errstate(over="ignore"):
        return float(np.nextafter(np.float32(limit), np.float32(np.inf)))


def _scaled(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Each vector over a power of two, so that its largest element is between 1/2 and 1."""
    vectors = vectors.astype(np.float64)
    scaled: NDArray[np.float64] = np.ldexp(vectors, -np.frexp(np.abs(vectors).max(axis=-1, keepdims=True))[1])
    return scaled


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
        frame = self._frame
        queries, moved = frame.vectors(given)
        exact = frame.exact(given)
        if exact.all():
            found = self._index.search(queries, k)
            return frame.distances(found.distances), found.ids
        distances, ids = np.empty((len(given), k)), np.empty((len(given), k), dtype=np.int64)
        if exact.any():
            found = self._index.search(queries[exact], k)
            distances[exact], ids[exact] = frame.distances(found.distances), found.ids
        left = np.flatnonzero(~exact)
        # A query gets more candidates while another row may be as near as its k-th: many rows may tie.
        width = k + _MORE
        while len(left):
            width = min(width, len(self._fit_X))
            is_sure = np.zeros(len(left), dtype=np.bool_)
            step = max(1, _PIECE // width)
            for at in range(0, len(left), step):
                some = left[at : at + step]
                found = self._index.search(queries[some], width)
                distances[some], ids[some] = self._compared(given[some], found.ids, k)
                if width < len(self._fit_X):
                    least = frame.nearest(found.distances[:, -1].astype(np.float64), queries[some], moved[some])
                    is_sure[at : at + step] = frame.chord(distances[some, -1]) < least
                else:
                    is_sure[at : at + step] = True
            left, width = left[~is_sure], width * 8
        return distances, ids

    def _compared(self, given: NDArray[Any], ids: NDArray[np.int64], k: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Distances and indices of the k nearest of these rows of each query, compared in float64."""
        rows, (count, width) = self._fit_X, ids.shape
        between = np.empty((count, width))
        columns = max(1, min(width, _PIECE // given.shape[1]))
        step = max(1, _PIECE // (columns * given.shape[1]))
        for at in range(0, count, step):
            for column in range(0, width, columns):
                piece = slice(at, at + step), slice(column, column + columns)
                between[piece] = self._frame.between(given[piece[0], None, :], rows[ids[piece]])
        order = np.lexsort((ids, between), axis=-1)[:, :k]
        return np.take_along_axis(between, order, axis=1), np.take_along_axis(ids, order, axis=1)

    def _within(self, given: NDArray[Any], radius: float) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.int64]]:
        """Distances and indices of the rows at this radius or nearer, nearest first, and where those of each query end: `[n + 1]`."""
        frame = self._frame
        queries, moved = frame.vectors(given)
        if frame.is_direct:
            with np.errstate(over="ignore"):
                limit = np.square(np.float64(radius)) if frame.is_rooted else radius
            found = self._index.search_within(queries, _above(limit))
            return frame.distances(found.distances), found.ids.astype(np.intp, copy=False), found.offsets
        limits = frame.beyond(radius, queries, moved)
        # A query that is far from all rows may need a radius within which the others have every row.
        is_far = limits > 2 * np.median(limits) if len(limits) else np.zeros(0, dtype=np.bool_)
        parts: list[tuple[Any, Any, Any]] = [(np.empty(0, np.intp), np.empty(0, np.intp), np.empty(0))]
        for some in (np.flatnonzero(~is_far), *np.flatnonzero(is_far)[:, None]):
            if not len(some):
                continue
            found = self._index.search_within(queries[some], _above(limits[some].max()))
            query = np.repeat(some, np.diff(found.offsets))
            step = max(1, _PIECE // given.shape[1])
            for at in range(0, len(query), step):
                of_query, ids = query[at : at + step], found.ids[at : at + step]
                between = frame.between(given[of_query], self._fit_X[ids])
                inside = between <= radius
                parts.append((of_query[inside], ids[inside], between[inside]))
        query, indices, distances = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((indices, distances, query))
        offsets = np.searchsorted(query[order], np.arange(len(given) + 1))
        return distances[order], indices[order].astype(np.intp, copy=False), offsets

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
        if X is None and self._frame.exact(given).all():
            found = knn_graph(self._index, k)
            distances, indices = self._frame.distances(found.distances), found.ids
        else:
            distances, indices = self._search(given, k + extra)
            if X is None:
                others = _others(indices)
                distances = distances[others].reshape(len(given), k)
                indices = indices[others].reshape(len(given), k)
        indices = indices.astype(np.intp, copy=False)
        return (distances, indices) if return_distance else indices


def _others(indices: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Marks all but one neighbour of each row: the row itself or, if k others are as near, the last one."""
    others: NDArray[np.bool_] = indices != np.arange(len(indices))[:, None]
    others[others.all(axis=1), -1] = False
    return others


class _RadiusNeighbors(_FlatNeighbors):
    """Finds the rows within a radius, too."""

    radius: float

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
        limit = float(to_number(self.radius if radius is None else radius, "radius"))
        if limit < 0:
            raise ValueError(f"radius == {limit}, must be >= 0.")
        distances, indices, offsets = self._within(given, limit)
        if X is None:
            others = indices != np.repeat(np.arange(len(given)), np.diff(offsets))
            distances, indices = distances[others], indices[others]
            offsets = np.concatenate(([0], np.cumsum(others)))[offsets]
        split = _by_query(indices, offsets)
        return (_by_query(distances, offsets), split) if return_distance else split


class NearestNeighbors(_RadiusNeighbors, neighbors.NearestNeighbors):  # type: ignore[misc]
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


class RadiusNeighborsTransformer(_RadiusNeighbors, neighbors.RadiusNeighborsTransformer):  # type: ignore[misc]
    """Turns vectors into the sparse graph of the rows within a radius, for estimators that take `metric="precomputed"`.

    ```python
    from nearfield.sklearn import RadiusNeighborsTransformer
    from sklearn.cluster import DBSCAN
    from sklearn.pipeline import make_pipeline
    clusters = make_pipeline(RadiusNeighborsTransformer(radius=0.4, metric="cosine"), DBSCAN(eps=0.4, metric="precomputed"))
    ```
    """

    def __init__(
        self,
        *,
        mode: str = "distance",
        radius: float = 1.0,
        algorithm: str = "brute",
        metric: str = "euclidean",
        device: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        inherited: Any = super()
        inherited.__init__(mode=mode, radius=radius, algorithm=algorithm, metric=metric, n_jobs=n_jobs)
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
