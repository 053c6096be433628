"""The estimators of `nearfield.sklearn` pass scikit-learn's own checks and answer as its estimators do."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("sklearn")

import nearfield.sklearn as ours
import sklearn.neighbors as theirs
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.exceptions import NotFittedError
from sklearn.manifold import TSNE, Isomap
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

DATA = Path(__file__).resolve().parents[2] / "cli" / "data"
SCALE = np.load(DATA / "scale.f32.npy")
ROWS = np.load(DATA / "base.f16.npy").astype(np.float32) * SCALE[:4000, None]
QUERIES = np.load(DATA / "query.f16.npy").astype(np.float32) * SCALE[4000:, None]
NAMES = np.array((DATA / "names.txt").read_text().split())
# The family of a package is a class to predict from its description, the length of its name a number.
FAMILIES = np.array([next((f for f in ("lib", "python", "golang", "node", "r-") if n.startswith(f)), "other") for n in NAMES])
LENGTHS = np.array([len(name) for name in NAMES])
# Enough where each row is a query, which takes a software driver long.
SOME = slice(1000)
METRICS = ["euclidean", "sqeuclidean", "cosine"]
VARIANTS = [
    ours.NearestNeighbors(metric="cosine"),
    ours.KNeighborsTransformer(mode="connectivity", metric="sqeuclidean"),
    ours.KNeighborsClassifier(weights="distance", metric="cosine"),
    ours.KNeighborsRegressor(weights="distance", metric="sqeuclidean"),
]


@parametrize_with_checks(VARIANTS)
def test_checks_of_scikit_learn_pass_with_other_parameters(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("name", ours.__all__)
def test_checks_of_scikit_learn_pass_and_none_is_expected_to_fail(name: str) -> None:
    # A check that fails raises. Those that are skipped have nothing to check.
    for result in check_estimator(getattr(ours, name)(), on_skip=None):
        if result["status"] != "passed":
            assert result["status"] == "skipped"
            reasons = ("SCIPY_ARRAY_API is not set", "does not have a decision_function", "pandas is not installed")
            assert any(reason in str(result["exception"]) for reason in reasons)


def assert_same(found: Any, expected: Any) -> None:
    """Equal distances but for rounding, and equal indices but where rounding exchanges neighbours."""
    assert [array.dtype for array in found] == [np.float64, np.intp]
    assert [array.shape for array in found] == [array.shape for array in expected]
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-5, atol=2e-5)
    assert np.count_nonzero(found[1] != expected[1]) <= found[1].size // 1000


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours_are_those_of_scikit_learn(metric: str, dtype: type) -> None:
    rows, queries = ROWS.astype(dtype), QUERIES.astype(dtype)
    mine, other = (module.NearestNeighbors(metric=metric).fit(rows) for module in (ours, theirs))
    assert_same(mine.kneighbors(queries), other.kneighbors(queries))
    assert_same(mine.kneighbors(queries, 33), other.kneighbors(queries, 33))
    np.testing.assert_array_equal(mine.kneighbors(queries, return_distance=False), mine.kneighbors(queries)[1])


@pytest.mark.parametrize("metric", METRICS)
def test_without_queries_a_row_is_not_its_own_neighbour(metric: str) -> None:
    mine, other = (module.NearestNeighbors(metric=metric).fit(ROWS[SOME]) for module in (ours, theirs))
    found = mine.kneighbors()
    assert_same(found, other.kneighbors())
    assert (found[1] != np.arange(1000)[:, None]).all()


def test_a_row_with_many_copies_is_not_its_own_neighbour() -> None:
    # More copies than neighbours, so a search need not find the row itself; rows of zeros are as far from themselves under cosine.
    rows = np.concatenate([np.repeat(ROWS[:3], 20, axis=0), np.zeros((20, ROWS.shape[1]), np.float32)])
    for metric in METRICS:
        distances, indices = ours.NearestNeighbors(n_neighbors=4, metric=metric).fit(rows).kneighbors()
        assert indices.shape == (80, 4)
        assert (indices != np.arange(80)[:, None]).all()
        assert all(len(set(row)) == 4 for row in indices)
        np.testing.assert_allclose(distances[:60], 0, atol=1e-5)
        np.testing.assert_array_equal(indices[:60] // 20, np.repeat(np.arange(3), 20)[:, None] * np.ones((1, 4), int))


@pytest.mark.parametrize(("metric", "radius"), [("euclidean", 1.0), ("sqeuclidean", 1.1), ("cosine", 0.4)])
@pytest.mark.parametrize("train", [False, True])
def test_neighbours_within_a_radius_are_those_of_scikit_learn(metric: str, radius: float, train: bool) -> None:
    mine, other = (
        module.NearestNeighbors(metric=metric, radius=radius, **options).fit(ROWS[:1500])
        for module, options in ((ours, {}), (theirs, {"algorithm": "brute"}))
    )
    queries = None if train else QUERIES
    found, expected = mine.radius_neighbors(queries), other.radius_neighbors(queries, sort_results=True)
    total = sum(len(ids) for ids in expected[1])
    assert total > 300
    differing = 0
    for distances, ids, their_distances, their_ids in zip(*found, *expected, strict=True):
        assert (np.diff(distances) >= 0).all()
        differing += len(set(ids) ^ set(their_ids))
        if len(distances) == len(their_distances):
            np.testing.assert_allclose(distances, their_distances, rtol=2e-5, atol=2e-5)
    assert differing <= total // 1000
    ids = mine.radius_neighbors(queries, return_distance=False)
    assert all(np.array_equal(one, two) for one, two in zip(ids, found[1], strict=True))
    graph = mine.radius_neighbors_graph(queries, mode="distance")
    assert abs(graph.nnz - total) <= total // 1000


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_rows_at_the_radius_are_within_it(dtype: type, metric: str) -> None:
    # The mean of these is no multiple of a power of two; 3, 4 and 5 make many distances of 5.
    grid: NDArray[Any] = np.stack(np.meshgrid(np.arange(1000, 1021), np.arange(-7, 16)), axis=-1).reshape(-1, 2).astype(dtype)
    grid = np.concatenate([grid, [[5000, 1]]]).astype(dtype)
    radius = 5 if metric == "euclidean" else 25
    mine, other = (module.NearestNeighbors(radius=radius, metric=metric).fit(grid) for module in (ours, theirs))
    for queries in (grid, None):
        found, expected = (module.radius_neighbors(queries, return_distance=False) for module in (mine, other))
        assert all(np.array_equal(np.sort(one), np.sort(two)) for one, two in zip(found, expected, strict=True))
    distances, _ = mine.radius_neighbors(grid)
    assert distances[200].max() == radius
    assert [len(row) for row in mine.radius_neighbors([[1000, 0], [990, 0]], radius=0)[1]] == [1, 0]
    assert len(mine.radius_neighbors([[0, 0]], radius=np.inf)[1][0]) == len(grid)
    assert len(mine.radius_neighbors([[0, 0]], radius=1e300)[1][0]) == len(grid)


@pytest.mark.parametrize("mode", ["connectivity", "distance"])
def test_graphs_are_those_of_scikit_learn(mode: str) -> None:
    mine, other = (module.NearestNeighbors().fit(ROWS[SOME]) for module in (ours, theirs))
    for queries in (None, QUERIES):
        found, expected = (one.kneighbors_graph(queries, mode=mode) for one in (mine, other))
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        assert abs(found - expected).sum() < 1e-3 * expected.sum()


@pytest.mark.parametrize(
    "move",
    [lambda x: x + 1.7e9, lambda x: x * 1e-20, lambda x: x * 1e20, lambda x: x * 1e3 - 4e5],
    ids=["offset", "tiny", "huge", "both"],
)
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_offsets_and_scales_that_rows_share_cost_no_precision(move: Any, metric: str) -> None:
    generator = np.random.default_rng(3)
    rows, queries = (move(generator.standard_normal((n, 3))) for n in (500, 50))
    mine, other = (module.NearestNeighbors(metric=metric).fit(rows) for module in (ours, theirs))
    found = mine.kneighbors(queries)
    expected = theirs.NearestNeighbors(algorithm="kd_tree").fit(rows).kneighbors(queries)
    power = 2 if metric == "sqeuclidean" else 1
    np.testing.assert_array_equal(found[1], expected[1])
    # Near rows lose digits to the offset in float64 already.
    np.testing.assert_allclose(found[0], expected[0] ** power, rtol=1e-4)
    radius = float(np.median(expected[0][:, 2])) ** power
    count = sum(map(len, mine.radius_neighbors(queries, radius=radius)[1]))
    assert count == sum(map(len, theirs.NearestNeighbors(algorithm="kd_tree").fit(rows).radius_neighbors(
        queries, radius=radius ** (1 / power))[1]))


@pytest.mark.parametrize("scale", [1e-60, 1e-310, 1e200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directions_of_vectors_of_any_length_are_compared(scale: float, dtype: type) -> None:
    rows, queries = ROWS[:300], QUERIES.astype(np.float64)
    # The queries are of float64 also where the rows are not.
    scaled = rows if dtype == np.float32 else rows.astype(dtype) * scale
    found = ours.NearestNeighbors(metric="cosine").fit(scaled).kneighbors(queries * scale)
    assert_same(found, theirs.NearestNeighbors(metric="cosine").fit(rows).kneighbors(queries))
    with_zeros = np.concatenate([scaled, np.zeros_like(scaled[:1])])
    assert ours.NearestNeighbors(metric="cosine").fit(with_zeros).kneighbors(queries[:1] * 0)[0].tolist() == [[1] * 5]


def test_squares_that_float64_does_not_hold_are_infinities() -> None:
    rows = np.array([[0.0], [1e200]])
    distances, _ = ours.NearestNeighbors(n_neighbors=2, metric="sqeuclidean").fit(rows).kneighbors(rows)
    np.testing.assert_array_equal(distances, [[0, np.inf]] * 2)


def test_a_row_that_is_the_mean_but_for_rounding_is_found() -> None:
    # 0.2 is the mean of these but for the last digit, which leaves a norm that an index refuses.
    rows = np.array([[0.1], [0.2], [0.3]])
    assert rows.mean() != 0.2
    np.testing.assert_array_equal(ours.NearestNeighbors(n_neighbors=1).fit(rows).kneighbors(rows)[1][:, 0], [0, 1, 2])
    # All rows the same, and whole numbers.
    for same in (np.full((4, 2), 0.1), np.arange(12).reshape(4, 3) * 10**9, np.array([[True, False], [False, False]] * 2)):
        distances, _ = ours.NearestNeighbors(n_neighbors=1).fit(same).kneighbors(same)
        np.testing.assert_array_equal(distances, 0)


@pytest.mark.parametrize("weights", ["uniform", "distance", lambda distances: 1 / (1 + distances)], ids=["uniform", "distance", "own"])
@pytest.mark.parametrize("metric", METRICS)
def test_a_classifier_predicts_what_that_of_scikit_learn_predicts(weights: Any, metric: str) -> None:
    mine, other = (
        module.KNeighborsClassifier(9, weights=weights, metric=metric).fit(ROWS[SOME], FAMILIES[SOME]) for module in (ours, theirs)
    )
    np.testing.assert_array_equal(mine.classes_, other.classes_)
    np.testing.assert_allclose(mine.predict_proba(QUERIES), other.predict_proba(QUERIES), atol=1e-4)
    assert np.mean(mine.predict(QUERIES) == other.predict(QUERIES)) > 0.99
    assert mine.score(ROWS[:100], FAMILIES[:100]) > 0.6
    assert np.mean(mine.predict(None) == other.predict(None)) > 0.99


def test_a_classifier_never_searches_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    from sklearn.neighbors import _base, _classification

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("scikit-learn searched")

    monkeypatch.setattr(_classification.ArgKminClassMode, "compute", refuse)
    monkeypatch.setattr(_base.ArgKmin, "compute", refuse)
    monkeypatch.setattr(_base.RadiusNeighbors, "compute", refuse)
    monkeypatch.setattr(theirs.KNeighborsClassifier, "kneighbors", refuse)
    monkeypatch.setattr(_base, "pairwise_distances_chunked", refuse)
    with pytest.raises(AssertionError, match="scikit-learn searched"):
        theirs.KNeighborsClassifier(algorithm="brute").fit(ROWS, FAMILIES).predict_proba(QUERIES)
    mine = ours.KNeighborsClassifier().fit(ROWS, FAMILIES)
    assert mine.predict(QUERIES).shape == (200,)
    assert mine.predict_proba(QUERIES).shape == (200, len(mine.classes_))
    ours.KNeighborsTransformer().fit_transform(ROWS[:50])
    ours.NearestNeighbors().fit(ROWS).radius_neighbors_graph(QUERIES)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_a_regressor_predicts_what_that_of_scikit_learn_predicts(weights: str) -> None:
    targets = np.stack([LENGTHS, ROWS[:, 0]], axis=1)
    for y in (LENGTHS, targets):
        mine, other = (module.KNeighborsRegressor(7, weights=weights).fit(ROWS, y) for module in (ours, theirs))
        found, expected = mine.predict(QUERIES), other.predict(QUERIES)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_several_outputs_are_predicted() -> None:
    y = np.stack([FAMILIES, NAMES.astype("<U1")], axis=1)
    mine, other = (module.KNeighborsClassifier().fit(ROWS, y) for module in (ours, theirs))
    assert np.mean(mine.predict(QUERIES) == other.predict(QUERIES)) > 0.99


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_a_transformer_makes_the_graph_that_scikit_learn_makes(mode: str) -> None:
    mine, other = (module.KNeighborsTransformer(n_neighbors=4, mode=mode) for module in (ours, theirs))
    found, expected = mine.fit_transform(ROWS[SOME]), other.fit_transform(ROWS[SOME])
    assert issparse(found)
    assert found.format == "csr"
    assert found.shape == (1000, 1000)
    # One more in the mode "distance", as the row itself is among them.
    assert found.nnz == expected.nnz == 1000 * (5 if mode == "distance" else 4)
    assert abs(found - expected).sum() < 1e-3 * expected.sum()
    assert abs(mine.transform(QUERIES) - other.transform(QUERIES)).sum() < 1e-3 * expected.sum()
    assert mine.get_feature_names_out()[0] == "kneighborstransformer0"


def test_a_transformer_leads_a_pipeline() -> None:
    rows, y = ROWS[:600], FAMILIES[:600]
    classify = [
        make_pipeline(
            module.KNeighborsTransformer(n_neighbors=9), theirs.KNeighborsClassifier(n_neighbors=9, metric="precomputed")
        ).fit(rows, y)
        for module in (ours, theirs)
    ]
    np.testing.assert_array_equal(*(pipeline.predict(QUERIES) for pipeline in classify))
    tsne = TSNE(metric="precomputed", init="random", random_state=0, max_iter=250, n_jobs=1)
    picture = make_pipeline(ours.KNeighborsTransformer(n_neighbors=91), tsne).fit_transform(rows[:150])
    assert picture.shape == (150, 2)
    assert np.isfinite(picture).all()
    isomap = make_pipeline(ours.KNeighborsTransformer(n_neighbors=20), Isomap(metric="precomputed", n_neighbors=20))
    assert isomap.fit_transform(rows[:150]).shape == (150, 2)
    graph = ours.NearestNeighbors(radius=1.0).fit(rows).radius_neighbors_graph(mode="distance")
    labels = DBSCAN(eps=1.0, metric="precomputed").fit_predict(graph)
    np.testing.assert_array_equal(labels, DBSCAN(eps=1.0).fit_predict(rows))


def test_callers_that_take_any_transformer_get_what_they_need() -> None:
    # What scanpy's `neighbors(transformer=…)` does with one: it reads and sets parameters, then takes distances and indices
    # from the rows of the graph, each of which begins with the row itself.
    transformer = ours.KNeighborsTransformer(n_neighbors=3, metric="cosine")
    assert set(transformer.get_params()) >= {"n_neighbors", "metric", "n_jobs"}
    graph = transformer.set_params(n_neighbors=7).fit_transform(ROWS[SOME])
    assert isinstance(csr_matrix(graph), csr_matrix)
    indices = graph.indices.reshape(1000, 8)
    assert (np.diff(graph.data.reshape(1000, 8)) >= 0).all()
    assert np.mean(indices[:, 0] == np.arange(1000)) > 0.99
    assert graph.data.dtype == np.float64


def test_searches_over_parameters_and_processes_run() -> None:
    pipeline = make_pipeline(StandardScaler(), ours.KNeighborsClassifier(device="host"))
    search = GridSearchCV(pipeline, {"kneighborsclassifier__n_neighbors": [1, 9]}, cv=2, n_jobs=2, error_score="raise")
    search.fit(ROWS[:600, :32], FAMILIES[:600])
    expected = GridSearchCV(
        make_pipeline(StandardScaler(), theirs.KNeighborsClassifier()), {"kneighborsclassifier__n_neighbors": [1, 9]}, cv=2
    ).fit(ROWS[:600, :32], FAMILIES[:600])
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"], atol=0.01
    )
    assert cross_val_score(ours.KNeighborsRegressor(), ROWS[:300], LENGTHS[:300], cv=3).shape == (3,)


@pytest.mark.parametrize("way", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_copy_answers_the_same(way: Any) -> None:
    for estimator in (ours.NearestNeighbors(), ours.KNeighborsClassifier(), ours.KNeighborsRegressor()):
        assert way(estimator).get_params() == estimator.get_params()
        estimator.fit(ROWS.astype(np.float64) + 5, LENGTHS)
        again = way(estimator)
        for mine, other in zip(again.kneighbors(QUERIES), estimator.kneighbors(QUERIES), strict=True):
            np.testing.assert_array_equal(mine, other)
        # The original still answers.
        assert estimator.kneighbors(QUERIES[:1])[1].shape == (1, 5)
    # Rows are in the file once.
    assert len(pickle.dumps(ours.NearestNeighbors().fit(ROWS))) < 1.1 * ROWS.nbytes


@pytest.mark.parametrize("kind", [ours.NearestNeighbors, ours.KNeighborsClassifier])
def test_a_fit_that_fails_leaves_the_estimator_as_it_was(kind: Any) -> None:
    estimator = kind().fit(ROWS[SOME].astype(np.float64) + 5, FAMILIES[SOME])
    queries = QUERIES + 5
    expected = estimator.kneighbors(queries)
    with pytest.raises(ValueError, match="^rows: needed norms"):
        estimator.set_params(metric="cosine").fit(ROWS[:7, :9] * np.float32(1e-30), FAMILIES[:7])
    for one in (estimator, pickle.loads(pickle.dumps(estimator))):
        for mine, other in zip(one.kneighbors(queries), expected, strict=True):
            np.testing.assert_array_equal(mine, other)
        if kind is ours.KNeighborsClassifier:
            assert one.score(queries, one.predict(queries)) == 1
    new = kind()
    with pytest.raises(ValueError, match="^rows: needed norms"):
        new.fit(ROWS[:7] * np.float32(1e30), FAMILIES[:7])
    with pytest.raises(NotFittedError):
        new.kneighbors(QUERIES)


def test_a_clone_keeps_the_parameters() -> None:
    estimator = ours.KNeighborsClassifier(3, weights="distance", metric="cosine", device="host", n_jobs=2)
    assert clone(estimator).get_params() == estimator.get_params()
    shown = "KNeighborsClassifier(device='host', metric='cosine', n_jobs=2, n_neighbors=3, weights='distance')"
    assert " ".join(repr(estimator).split()) == shown


def test_the_device_is_the_one_asked_for() -> None:
    assert ours.NearestNeighbors(device="host").fit(ROWS)._index.device.kind == "host"
    with pytest.raises(Exception, match="no such device"):
        ours.NearestNeighbors(device="no such device").fit(ROWS)


def sparse(x: NDArray[Any]) -> Any:
    return csr_matrix(x)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: ours.NearestNeighbors(metric="manhattan").fit(ROWS),
            ValueError,
            "metric: needed one of euclidean, l2, minkowski, sqeuclidean, cosine, given 'manhattan'",
        ),
        (lambda: ours.NearestNeighbors(metric=len).fit(ROWS), ValueError, "metric: needed one of .*"),
        (
            lambda: ours.KNeighborsClassifier(algorithm="kd_tree").fit(ROWS, LENGTHS),
            ValueError,
            "algorithm: needed 'brute', which searches all rows, given 'kd_tree'",
        ),
        (
            lambda: ours.NearestNeighbors().fit(sparse(ROWS[:5])),
            TypeError,
            r"X: needed a dense array, given a sparse one, which X.toarray\(\) makes dense",
        ),
        (lambda: ours.NearestNeighbors().fit(ROWS).kneighbors(sparse(QUERIES)), TypeError, "Sparse data was passed for X.*"),
        (lambda: ours.NearestNeighbors(n_neighbors=0).fit(ROWS), ValueError, "The 'n_neighbors' parameter.*"),
        (lambda: ours.NearestNeighbors().fit(ROWS).kneighbors(QUERIES, 0), ValueError, "Expected n_neighbors > 0. Got 0"),
        (lambda: ours.NearestNeighbors().fit(ROWS).kneighbors(QUERIES, 2.5), TypeError, "n_neighbors: needed an integer, given float"),
        (
            lambda: ours.NearestNeighbors().fit(ROWS[:5]).kneighbors(),
            ValueError,
            "Expected n_neighbors < n_samples_fit, but n_neighbors = 5, n_samples_fit = 5, n_samples = 5",
        ),
        (lambda: ours.NearestNeighbors().fit(ROWS).kneighbors(QUERIES[:, :3]), ValueError, "X has 3 features.*"),
        (lambda: ours.NearestNeighbors().kneighbors(QUERIES), ValueError, "This NearestNeighbors instance is not fitted yet.*"),
        (
            lambda: ours.NearestNeighbors().fit(ROWS).radius_neighbors(QUERIES, sort_results=True, return_distance=False),
            ValueError,
            "return_distance must be True if sort_results is True.",
        ),
        (lambda: ours.NearestNeighbors().fit(ROWS).radius_neighbors(QUERIES, -1), ValueError, "radius == -1.0, must be >= 0."),
        (
            lambda: ours.NearestNeighbors().fit(ROWS).radius_neighbors(QUERIES, np.array([1.0, 2.0])),
            TypeError,
            "radius: needed a number, given ndarray",
        ),
        (lambda: ours.NearestNeighbors().fit(ROWS).radius_neighbors(QUERIES, "1"), TypeError, "radius: needed a number, given str"),
        (lambda: ours.NearestNeighbors(metric="cosine").fit(ROWS * np.float32(1e-30)), ValueError, "rows: needed norms .*"),
    ],
)
def test_wrong_arguments_are_errors(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=f"^{message}$"):
        call()
