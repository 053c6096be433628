"""Estimators of scikit-learn whose neighbours nearfield finds: exact, on any GPU or without one.

`NearestNeighbors`, `KNeighborsTransformer`, `KNeighborsClassifier` and `KNeighborsRegressor` are subclasses of those in
`sklearn.neighbors` (scikit-learn 1.6 or later), with the same methods, attributes and errors. What differs:

- `metric` is "euclidean" ("l2" and "minkowski" are the same), "sqeuclidean" or "cosine".
- `device` chooses the device as for `nearfield.Flat`. None is the best GPU, and the processor where there is none.
- `algorithm` is "brute". `n_jobs` has no effect, because a search uses the whole device. `leaf_size`, `p` and `metric_params` do
  not exist.
- Vectors are dense. Searches compute in float32; distances come as float64. Euclidean distances of float64 vectors and of
  integers are computed from their differences to the mean of all rows, so an offset or a scale that rows share costs no
  precision. Under "cosine" each of them is scaled by itself. float32 vectors are taken as they are; their norms are 0 or within
  2^-50 .. 2^50.
- Rows at the same distance come in the order of their indices. The results of `radius_neighbors` are sorted always. A row whose
  distance is the radius but for rounding to float32 may be within it or not; whole numbers are exact.
"""

import numbers
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse  # type: ignore[import-untyped,unused-ignore]
from sklearn import neighbors  # type: ignore[import-untyped,unused-ignore]
from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped,unused-ignore]

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

# Elements of float64 that are converted at a time.
_PIECE = 1 << 20


class _Frame:
    """Vectors and distances as an index has them: float32, squared, and relative to the mean of float64 rows.

    Under "cosine" a vector of float64 is divided by a power of two instead, as its length has no effect.

    With a mean, an index has `(x - mean) / unit`. The unit is a power of two. The mean is rounded to a multiple of unit / 1024, so that
    whole numbers stay exact, and with them rows that are just at a radius.
    """

    def __init__(self, rows: NDArray[Any], metric: str) -> None:
        # The estimator's own metric may be set to another one after `fit`.
        self.metric = _METRICS[metric]
        self.is_squared = self.metric == "l2sq"
        self.is_rooted = self.is_squared and metric != "sqeuclidean"
        self.mean: NDArray[np.float64] | None = None
        self.unit = 1.0
        if self.is_squared and rows.dtype not in _DIRECT:
            with np.errstate(over="ignore", invalid="ignore"):
                mean = rows.mean(axis=0, dtype=np.float64)
                largest = np.maximum(rows.max(axis=0) - mean, mean - rows.min(axis=0)).max()
                self.unit = float(np.ldexp(1.0, min(int(np.frexp(largest)[1]), 1023)))
                step = self.unit / 1024
                self.mean = np.round(mean / step) * step if step else mean

    def vectors(self, given: NDArray[Any]) -> NDArray[np.float32]:
        """float32 vectors `[n, dim]`."""
        # An overflow becomes an infinity, which the index reports with its row.
        with np.errstate(over="ignore", invalid="ignore"):
            if self.mean is None and (self.is_squared or given.dtype in _DIRECT):
                return np.ascontiguousarray(given, dtype=np.float32)
            vectors = np.empty(given.shape, dtype=np.float32)
            step = max(1, _PIECE // given.shape[1])
            for at in range(0, len(given), step):
                if self.mean is None:
                    piece = given[at : at + step].astype(np.float64)
                    piece = np.ldexp(piece, -np.frexp(np.abs(piece).max(axis=1, keepdims=True))[1])
                else:
                    piece = (given[at : at + step] - self.mean) / self.unit
                    # The remainder of a row that is the mean but for rounding. An index refuses norms as small as that.
                    piece[np.abs(piece) < 2.0**-50] = 0
                vectors[at : at + step] = piece
            return vectors

    def distances(self, found: NDArray[np.float32]) -> NDArray[np.float64]:
        """Distances of the vectors as they were given."""
        distances = found.astype(np.float64)
        if self.is_rooted:
            np.sqrt(distances, out=distances)
        # Squares may overflow to infinities, as those of scikit-learn do.
        with np.errstate(over="ignore"):
            distances *= self.unit
            if not self.is_rooted:
                distances *= self.unit
        return distances

    def radius(self, given: Any) -> float:
        """The radius below which an index finds what is at `given` or nearer."""
        given = to_number(given, "radius")
        if given < 0:
            raise ValueError(f"radius == {given}, must be >= 0.")
        # An infinity finds all rows.
        with np.errstate(over="ignore"):
            if self.is_rooted:
                given = (given / self.unit) ** 2
            elif self.is_squared:
                given = given / self.unit / self.unit
            return float(np.nextafter(np.float32(given), np.float32(np.inf)))


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
        rows = self._frame.vectors(self._fit_X)
        return Flat(rows, metric=self._frame.metric, device=self.device)

    def __getstate__(self) -> dict[str, Any]:
        # The rows are in `_fit_X`. The one who unpickles may have another device.
        inherited: Any = super()
        state: dict[str, Any] = dict(inherited.__getstate__())
        state.pop("_index", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        inherited: Any = super()
        inherited.__setstate__(state)
        if "_frame" in state:
            self._index = self._indexed()

    def _queries(self, X: ArrayLike | None) -> NDArray[np.float32]:
        given = self._fit_X if X is None else validate_data(self, X, reset=False, order="C")
        return self._frame.vectors(given)

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
        queries = self._queries(X)
        extra = int(X is None)
        if k + extra > self.n_samples_fit_:
            sign = "<" if X is None else "<="
            raise ValueError(
                f"Expected n_neighbors {sign} n_samples_fit, but n_neighbors = {k}, "
                f"n_samples_fit = {self.n_samples_fit_}, n_samples = {len(queries)}"
            )
        found = self._index.search(queries, k + extra)
        distances, indices = found.distances, found.ids
        if X is None:
            others = _others(indices)
            distances = distances[others].reshape(len(queries), k)
            indices = indices[others].reshape(len(queries), k)
        indices = indices.astype(np.intp, copy=False)
        return (self._frame.distances(distances), indices) if return_distance else indices


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
        queries = self._queries(X)
        limit = self._frame.radius(self.radius if radius is None else radius)
        found = self._index.search_within(queries, limit)
        distances, indices = self._frame.distances(found.distances), found.ids.astype(np.intp, copy=False)
        offsets = found.offsets
        if X is None:
            others = indices != np.repeat(np.arange(len(queries)), np.diff(offsets))
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
