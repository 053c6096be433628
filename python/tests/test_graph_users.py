"""The packages that begin with a graph of neighbours take nearfield's. They are large: scripts/test --all installs them, for this file alone. 60 s."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import nearfield as nf

pytestmark = pytest.mark.nightly

umap = pytest.importorskip("umap")
hdbscan = pytest.importorskip("hdbscan")
scanpy = pytest.importorskip("scanpy")


def groups(rows: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows around four centres, and the centre of each."""
    random = np.random.default_rng(seed)
    of = random.integers(0, 4, rows)
    return (random.standard_normal((4, 12))[of] * 6 + random.standard_normal((rows, 12))).astype(np.float32), of


def test_umap_takes_the_graph() -> None:
    rows, of = groups(600, 1)
    graph = nf.knn_graph(rows, 14, metric="l2")
    # UMAP counts a row itself among its neighbours.
    ids = np.column_stack([np.arange(600), graph.ids])
    distances = np.column_stack([np.zeros(600, np.float32), graph.distances])
    placed = umap.UMAP(n_neighbors=15, precomputed_knn=(ids, distances, None), n_epochs=50, init="random").fit(rows)
    np.testing.assert_array_equal(placed._knn_indices, ids)
    np.testing.assert_array_equal(placed._knn_dists, distances)
    near = nf.knn_graph(placed.embedding_, 5, metric="l2").ids
    assert (of[near] == of[:, None]).mean() > 0.95


def test_hdbscan_and_scikit_learn_take_the_tree() -> None:
    from hdbscan._hdbscan_tree import compute_stability, condense_tree, get_clusters
    from sklearn.cluster import HDBSCAN
    from sklearn.metrics import adjusted_rand_score

    rows, of = groups(600, 2)
    tree = nf.spanning_tree(rows, 5, metric="l2")
    condensed = condense_tree(tree.linkage, 20)
    labels, _, _ = get_clusters(condensed, compute_stability(condensed))
    theirs = hdbscan.HDBSCAN(min_cluster_size=20, min_samples=5, algorithm="generic").fit(rows.astype(np.float64))
    assert adjusted_rand_score(labels, theirs.labels_) > 0.99
    assert adjusted_rand_score(labels, HDBSCAN(min_cluster_size=20, min_samples=6, copy=True).fit(rows).labels_) > 0.99
    assert adjusted_rand_score(labels[labels >= 0], of[labels >= 0]) > 0.95
    lengths = theirs.single_linkage_tree_.to_numpy()[:, 2]
    np.testing.assert_allclose(tree.linkage[:, 2], lengths, rtol=1e-5)


def test_scanpy_takes_the_estimator() -> None:
    from nearfield.sklearn import KNeighborsTransformer
    from sklearn import neighbors

    rows, of = groups(600, 3)

    def graphs(transformer: Any) -> tuple[Any, Any]:
        data = scanpy.AnnData(rows.copy())
        scanpy.pp.neighbors(data, n_neighbors=15, use_rep="X", transformer=transformer)
        return data.obsp["distances"], data.obsp["connectivities"]

    (distances, edges), (want, want_edges) = graphs(KNeighborsTransformer(n_neighbors=14)), graphs(neighbors.KNeighborsTransformer(n_neighbors=14))
    np.testing.assert_array_equal(distances.indices, want.indices)
    np.testing.assert_allclose(distances.data, want.data, rtol=1e-6)
    np.testing.assert_allclose(edges.toarray(), want_edges.toarray(), atol=1e-5)
    places = edges.tocoo()
    assert (of[places.row] == of[places.col]).mean() > 0.95
