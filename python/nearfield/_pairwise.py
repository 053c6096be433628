"""Every row against every other: graphs of neighbours, pairs within a radius, duplicates, clusters by density."""

from typing import Any, Literal, overload

from numpy.typing import ArrayLike

from nearfield import _native
from nearfield._types import BitMetric, Csr, DensityClusters, Duplicates, Filter, Metric, Neighbors, Pairs, Progress, SpanningTree, Vectors

_AnyMetric = Metric | BitMetric
_Symmetry = Literal["directed", "union", "intersection"]


def _index(rows: Any, metric: _AnyMetric | None, device: Any) -> _native.Index:
    """An index as it is, or one of rows for this call."""
    if not isinstance(rows, _native.Index):
        return _native.Flat(rows, metric="cosine" if metric is None else metric, device=device)
    for name, given in (("metric", metric), ("device", device)):
        if given is not None:
            raise ValueError(f"{name}: needed none beside an index, which has its own, given {given!r}")
    return rows


@overload
def knn_graph(
    rows: Vectors | _native.Index,
    k: int = 15,
    *,
    symmetry: None = None,
    metric: _AnyMetric | None = None,
    probes: int | None = None,
    recall: float | None = None,
    filter: Filter | None = None,
    device: Any = None,
    progress: Progress | None = None,
) -> Neighbors: ...
@overload
def knn_graph(
    rows: Vectors | _native.Index,
    k: int = 15,
    *,
    symmetry: _Symmetry,
    metric: _AnyMetric | None = None,
    probes: int | None = None,
    recall: float | None = None,
    filter: Filter | None = None,
    device: Any = None,
    progress: Progress | None = None,
) -> Csr: ...
def knn_graph(
    rows: Vectors | _native.Index,
    k: int = 15,
    *,
    symmetry: _Symmetry | None = None,
    metric: _AnyMetric | None = None,
    probes: int | None = None,
    recall: float | None = None,
    filter: Filter | None = None,
    device: Any = None,
    progress: Progress | None = None,
) -> Neighbors | Csr:
    """The k nearest other rows of every row: nearest first, ties by the smaller id. Exact, but for an `Ivf`, which probes lists.

    A row is left out by its place, not by its distance: duplicates of it are neighbours.

    Parameters
    ----------
    rows
        An index, or rows `[n, dim]` for an index of this call under `metric` (default "cosine") on `device`.
    k
        Neighbours of each row, fewer where there are fewer other rows.
    symmetry
        None for arrays; "directed", "union" or "intersection" for a sparse matrix of edges from each row, in both directions where either
        has the edge, or where both have it.
    probes, recall
        Of an `Ivf`, as in its `search`: without them it looks at its default number of lists.
    filter
        The rows that take part, as ids, a boolean mask or a function of an id.

    Returns
    -------
    Neighbors or Csr
        `Neighbors(distances, ids)`, both `[n, min(k, n - 1)]`, in the order of `index.ids`, of which a filter leaves those that it allows;
        or `Csr(data, indices, indptr)`, of which `scipy.sparse.csr_matrix(graph, shape=(n, n))` makes a matrix. Its columns are places
        among these ids.

    Examples
    --------
    >>> import numpy as np, nearfield as nf
    >>> nf.knn_graph(np.array([[0.0], [1.0], [3.0]], np.float32), 1, metric="l2").ids.tolist()
    [[1], [0], [1]]
    """
    graph: Neighbors | Csr = _native._knn_graph(_index(rows, metric, device), k, symmetry, probes, recall, filter, progress)
    return graph


def pairs_within(
    rows: Vectors | _native.Index,
    radius: float,
    *,
    metric: _AnyMetric | None = None,
    filter: Filter | None = None,
    device: Any = None,
    progress: Progress | None = None,
) -> Pairs:
    """All pairs of rows nearer than `radius`, each once: `Pairs(a, b, distances)`, where `a < b`, in the order of both.

    `rows`, `metric`, `filter` and `device` are as in `knn_graph`. `count_pairs_within` tells how many there would be.

    >>> import numpy as np, nearfield as nf
    >>> pairs = nf.pairs_within(np.array([[0.0], [4.0], [0.5]], np.float32), 1, metric="l2")
    >>> (pairs.a.tolist(), pairs.b.tolist(), pairs.distances.tolist())
    ([0], [2], [0.5])
    """
    pairs: Pairs = _native._pairs_within(_index(rows, metric, device), radius, filter, progress, False)
    return pairs


def count_pairs_within(
    rows: Vectors | _native.Index,
    radius: float,
    *,
    metric: _AnyMetric | None = None,
    filter: Filter | None = None,
    device: Any = None,
    progress: Progress | None = None,
) -> int:
    """How many pairs `pairs_within` finds, without the memory that they take."""
    count: int = _native._pairs_within(_index(rows, metric, device), radius, filter, progress, True)
    return count


def duplicates(
    rows: Vectors | _native.Index,
    threshold: float,
    *,
    order: ArrayLike | None = None,
    keep: Literal["earliest", "group"] = "earliest",
    metric: _AnyMetric | None = None,
    filter: Filter | None = None,
    device: Any = None,
    progress: Progress | None = None,
) -> Duplicates:
    """The rows that lie nearer to each other than `threshold`: their groups, which to keep, and why the others go.

    Parameters
    ----------
    rows, metric, filter, device
        As in `knn_graph`.
    order
        The ids of all rows that take part, those to keep first. Default: ascending ids.
    keep
        "earliest" keeps a row if no row before it is near, whether that one is kept or not (the rule of NeMo Curator); "group" keeps the
        first row of each group.

    Returns
    -------
    Duplicates
        `groups`, arrays of the ids that steps within the threshold connect; `kept`, ids; `removed`, ids, with `near`, the nearest row
        before each, and `distances`, how far that is.

    Examples
    --------
    >>> import numpy as np, nearfield as nf
    >>> found = nf.duplicates(np.array([[0.0], [9.0], [0.1]], np.float32), 0.5, metric="l2")
    >>> (found.kept.tolist(), found.removed.tolist(), found.near.tolist())
    ([0, 1], [2], [0])
    """
    found: Duplicates = _native._duplicates(_index(rows, metric, device), threshold, order, keep, filter, progress)
    return found


def spanning_tree(
    rows: Vectors | _native.Index,
    k: int = 5,
    *,
    metric: _AnyMetric | None = None,
    filter: Filter | None = None,
    device: Any = None,
    progress: Progress | None = None,
) -> SpanningTree:
    """The minimum spanning tree of all rows under HDBSCAN's mutual reachability distance: exact, also of an `Ivf`.

    That distance is the largest of the distance of two rows and their core distances, which are those of their k-th nearest other rows
    (`knn_graph(rows, k).distances[:, -1]`). `k` is `min_samples` of the package hdbscan, and one less than that of scikit-learn's `HDBSCAN`. With
    `k=1` the tree is that of single linkage.

    Parameters
    ----------
    rows, metric, filter, device
        As in `knn_graph`.
    k
        The neighbour whose distance is a row's core distance: less than the number of rows.

    Returns
    -------
    SpanningTree
        `a` and `b`, the ids of each edge; `distances`, their lengths, ascending; `linkage`, the hierarchy that clusters are cut from.

    Examples
    --------
    >>> import numpy as np, nearfield as nf
    >>> tree = nf.spanning_tree(np.array([[0.0], [1.0], [9.0], [11.0]], np.float32), 1, metric="l2")
    >>> tree.distances.tolist()
    [1.0, 2.0, 8.0]
    >>> tree.linkage[-1].tolist()
    [4.0, 5.0, 8.0, 4.0]

    `scipy.cluster.hierarchy.fcluster(tree.linkage, 3, "distance")` cuts it at a distance. HDBSCAN's clusters come from
    `hdbscan._hdbscan_tree.condense_tree(tree.linkage, min_cluster_size)`.
    """
    tree: SpanningTree = _native._spanning_tree(_index(rows, metric, device), k, filter, progress)
    return tree


def dbscan(
    rows: Vectors | _native.Index,
    radius: float,
    min_samples: int = 5,
    *,
    metric: _AnyMetric | None = None,
    filter: Filter | None = None,
    device: Any = None,
    progress: Progress | None = None,
) -> DensityClusters:
    """Clusters by density (DBSCAN).

    A row with `min_samples` rows, itself among them, nearer than `radius` is a core row. Core rows nearer to each other than `radius` are in one
    cluster, and so are the rows near a core row. The labels are those of scikit-learn's `DBSCAN`, where rows at `eps` itself are near each other
    too: `np.nextafter(np.float32(eps), np.float32(np.inf))` as `radius` gives them.

    Parameters
    ----------
    rows, metric, filter, device
        As in `knn_graph`.

    Returns
    -------
    DensityClusters
        `labels`, the cluster of each row, -1 for noise; `core`, whether it is a core row. Both are in the order of `index.ids`, of which a filter
        leaves those that it allows.

    Examples
    --------
    >>> import numpy as np, nearfield as nf
    >>> nf.dbscan(np.array([[0.0], [1.0], [2.0], [9.0]], np.float32), 1.5, 3, metric="l2").labels.tolist()
    [0, 0, 0, -1]
    """
    found: DensityClusters = _native._dbscan(_index(rows, metric, device), radius, min_samples, filter, progress)
    return found
