"""Every row against every other: what searches for single rows find."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import nearfield as nf


def rows_of(count: int, dim: int, seed: int) -> NDArray[np.float32]:
    rows = np.random.default_rng(seed).integers(-3, 4, (count, dim)).astype(np.float32)
    rows[5::9] = rows[4::9][: len(rows[5::9])]
    return rows


@pytest.mark.parametrize("metric", ["l2", "cosine", "ip"])
def test_a_graph_has_the_other_rows_of_a_search(metric: Any) -> None:
    rows = rows_of(300, 24, 1)
    found = nf.Flat(rows, metric=metric).search(rows, 300)
    graph = nf.knn_graph(rows, 7, metric=metric)
    for row in range(300):
        others = found.ids[row] != row
        np.testing.assert_array_equal(graph.ids[row], found.ids[row][others][:7])
        np.testing.assert_array_equal(graph.distances[row], found.distances[row][others][:7])
    assert nf.knn_graph(rows[:3], 7).ids.shape == (3, 2)
    some = nf.knn_graph(rows, 3, metric=metric, filter=[5, 6, 200, 299])
    assert sorted(some.ids[0].tolist() + [5]) == [5, 6, 200, 299]


def test_a_sparse_graph_is_symmetric() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    rows = rows_of(200, 8, 2)
    index = nf.Flat(rows, metric="l2", ids=np.arange(200) * 3 + 7)
    graph = {name: sparse.csr_matrix(nf.knn_graph(index, 5, symmetry=name), shape=(200, 200)) for name in ("directed", "union", "intersection")}
    assert graph["directed"].nnz == 1000
    edges = {name: set(zip(*(matrix.tocoo().row, matrix.tocoo().col)[:2], strict=True)) for name, matrix in graph.items()}
    mirrored = {(b, a) for a, b in edges["directed"]}
    assert edges["union"] == edges["directed"] | mirrored
    assert edges["intersection"] == edges["directed"] & mirrored
    assert abs(graph["union"] - graph["union"].T).max() == 0


def test_pairs_are_those_of_all_distances() -> None:
    rows = rows_of(150, 6, 3)
    squares = np.square(rows[:, None] - rows[None], dtype=np.float64).sum(axis=2)
    a, b = np.nonzero(np.triu(squares < 20, 1))
    pairs = nf.pairs_within(rows, 20, metric="l2sq")
    np.testing.assert_array_equal((pairs.a, pairs.b), (a, b))
    np.testing.assert_array_equal(pairs.distances, squares[a, b])
    seen: list[int] = []
    assert nf.count_pairs_within(rows, 20, metric="l2sq", progress=lambda stage, done, total: seen.append(done)) == len(a)
    assert seen and seen[-1] == 150


def test_duplicates_name_what_they_are_near() -> None:
    rows = np.array([[0.0], [1.0], [1.9], [10.0], [2.8], [10.5]], np.float32)
    found = nf.duplicates(rows, 1.05, metric="l2")
    assert [group.tolist() for group in found.groups] == [[0, 1, 2, 4], [3, 5]]
    assert (found.kept.tolist(), found.removed.tolist(), found.near.tolist()) == ([0, 3], [1, 2, 4, 5], [0, 1, 2, 3])
    newest = nf.duplicates(rows, 1.05, metric="l2", order=[5, 4, 3, 2, 1, 0])
    assert (newest.kept.tolist(), newest.removed.tolist(), newest.near.tolist()) == ([5, 4], [3, 2, 1, 0], [5, 4, 2, 1])
    middle = nf.duplicates(rows, 1.05, metric="l2", order=[1, 4, 0, 2, 3, 5])
    assert middle.kept.tolist() == [1, 4, 3]
    assert nf.duplicates(rows, 1.05, metric="l2", order=[1, 4, 0, 2, 3, 5], keep="group").kept.tolist() == [1, 3]


def test_what_a_graph_cannot_take_is_refused_by_name() -> None:
    rows = rows_of(20, 4, 4)
    index = nf.Flat(rows)
    with pytest.raises(ValueError, match="metric: needed none beside an index"):
        nf.knn_graph(index, metric="l2")
    with pytest.raises(ValueError, match="symmetry: needed directed, union or intersection, given both"):
        nf.knn_graph(index, symmetry="both")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="keep: needed earliest or group, given best"):
        nf.duplicates(index, 0.1, keep="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="k: needed"):
        nf.knn_graph(index, 0)
    with pytest.raises(ValueError, match="order"):
        nf.duplicates(index, 0.1, order=[1, 2])
    with pytest.raises(TypeError, match="order"):
        nf.duplicates(index, 0.1, order=[0.5, 1.5])


def test_a_tree_is_that_of_scipy() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    from scipy.cluster.hierarchy import fcluster, is_valid_linkage
    from scipy.sparse.csgraph import minimum_spanning_tree

    rows = np.random.default_rng(5).standard_normal((250, 5)).astype(np.float32)
    rows[::3] += 9
    index = nf.Flat(rows, metric="l2", ids=np.arange(250) * 2 + 1)
    graph = nf.knn_graph(index, 249)
    places = (graph.ids - 1) // 2
    for k in (1, 7):
        core = graph.distances[:, k - 1]
        far = np.maximum(graph.distances, np.maximum(core[:, None], core[places]))
        dense = sparse.csr_matrix((far.ravel(), places.ravel(), np.arange(251) * 249), shape=(250, 250))
        tree = nf.spanning_tree(index, k)
        assert np.sort(minimum_spanning_tree(dense).data).tolist() == tree.distances.tolist()
        assert is_valid_linkage(tree.linkage)
        assert len(set(fcluster(tree.linkage, 2, "maxclust"))) == 2
    assert set(tree.a.tolist()) | set(tree.b.tolist()) == set(index.ids.tolist())
    with pytest.raises(ValueError, match="k: needed 1 to 249"):
        nf.spanning_tree(index, 250)


def test_clusters_by_density_have_the_labels_of_scikit_learn() -> None:
    cluster = pytest.importorskip("sklearn.cluster")
    rows = np.random.default_rng(6).standard_normal((400, 3)).astype(np.float32)
    for radius, min_samples in ((0.3, 4), (0.5, 8), (0.8, 3)):
        found = nf.dbscan(rows, radius, min_samples, metric="l2")
        theirs = cluster.DBSCAN(eps=radius, min_samples=min_samples).fit(rows)
        np.testing.assert_array_equal(found.labels, theirs.labels_)
        np.testing.assert_array_equal(np.nonzero(found.core)[0], theirs.core_sample_indices_)
    assert found.labels.max() >= 0 > found.labels.min()
    # Rows at the radius itself.
    grid = np.stack(np.meshgrid(range(6), range(6)), axis=-1).reshape(-1, 2).astype(np.float32)
    radius = np.nextafter(np.float32(1), np.float32(np.inf))
    assert nf.dbscan(grid, 1, 5, metric="l2").labels.max() == -1
    np.testing.assert_array_equal(nf.dbscan(grid, radius, 5, metric="l2").labels, cluster.DBSCAN(eps=1, min_samples=5).fit(grid).labels_)
    some = nf.dbscan(rows, 0.5, 3, metric="l2", filter=[3, 9, 200])
    assert some.labels.tolist() == [-1, -1, -1]
