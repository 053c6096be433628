"""The estimators of `nearfield.sklearn` pass scikit-learn's own checks and answer as its estimators do."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import DATA, scaled

pytest.importorskip("sklearn")

import nearfield as nf
import nearfield.sklearn as ours
import sklearn.neighbors as theirs
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.cluster import DBSCAN
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

ROWS, QUERIES = scaled()
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
    ours.RadiusNeighborsTransformer(radius=2.0),
    ours.KNeighborsClassifier(weights="distance", metric="cosine"),
    ours.KNeighborsRegressor(weights="distance"),
]


def both(name: str, *arguments: Any, **options: Any) -> tuple[Any, Any]:
    """An estimator of ours and the same of scikit-learn."""
    mine, other = (getattr(module, name)(*arguments, **options) for module in (ours, theirs))
    return mine, other


@pytest.mark.parametrize("estimator", VARIANTS, ids=lambda estimator: type(estimator).__name__)
def test_checks_of_scikit_learn_pass_and_none_is_expected_to_fail(estimator: Any) -> None:
    # A check that fails raises. Those that are skipped have nothing to check.
    for result in check_estimator(estimator, on_skip=None):
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
    mine, other = (each.fit(rows) for each in both("NearestNeighbors", metric=metric))
    for k in (None, 33):
        assert_same(mine.kneighbors(queries, k), other.kneighbors(queries, k))
    np.testing.assert_array_equal(mine.kneighbors(queries, return_distance=False), mine.kneighbors(queries)[1])


@pytest.mark.parametrize("metric", METRICS)
def test_without_queries_a_row_is_not_its_own_neighbour(metric: str) -> None:
    mine, other = (each.fit(ROWS[SOME]) for each in both("NearestNeighbors", metric=metric))
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
    mine = ours.NearestNeighbors(metric=metric, radius=radius).fit(ROWS[SOME])
    other = theirs.NearestNeighbors(metric=metric, radius=radius, algorithm="brute").fit(ROWS[SOME])
    queries = None if train else QUERIES
    found, expected = mine.radius_neighbors(queries), other.radius_neighbors(queries, sort_results=True)
    total = sum(len(ids) for ids in expected[1])
    assert total > 100
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
    mine, other = (each.fit(grid) for each in both("NearestNeighbors", radius=radius, metric=metric))
    for queries in (grid, None):
        found, expected = (module.radius_neighbors(queries, return_distance=False) for module in (mine, other))
        assert all(np.array_equal(np.sort(one), np.sort(two)) for one, two in zip(found, expected, strict=True))
    distances, _ = mine.radius_neighbors(grid)
    assert distances[200].max() == radius
    assert [len(row) for row in mine.radius_neighbors([[1000, 0], [990, 0]], radius=0)[1]] == [1, 0]
    for beyond in (np.inf, 1e300):
        assert len(mine.radius_neighbors([[0, 0]], radius=beyond)[1][0]) == len(grid)


@pytest.mark.parametrize(
    "move",
    [lambda x: x + 1.7e9, lambda x: x * 1e-20, lambda x: x * 1e20, lambda x: x * 1e3 - 4e5],
    ids=["offset", "tiny", "huge", "both"],
)
@pytest.mark.parametrize("metric", ["euclidean", "sqeuclidean"])
def test_offsets_and_scales_that_rows_share_cost_no_precision(move: Any, metric: str) -> None:
    generator = np.random.default_rng(3)
    rows, queries = (move(generator.standard_normal((n, 3))) for n in (500, 50))
    mine = ours.NearestNeighbors(metric=metric).fit(rows)
    other = theirs.NearestNeighbors(algorithm="kd_tree").fit(rows)
    found, expected = mine.kneighbors(queries), other.kneighbors(queries)
    power = 2 if metric == "sqeuclidean" else 1
    np.testing.assert_array_equal(found[1], expected[1])
    # Near rows lose digits to the offset in float64 already.
    np.testing.assert_allclose(found[0], expected[0] ** power, rtol=1e-4)
    radius = float(np.median(expected[0][:, 2]))
    within, expected_within = mine.radius_neighbors(queries, radius**power)[1], other.radius_neighbors(queries, radius)[1]
    assert sum(map(len, within)) == sum(map(len, expected_within))


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
    options = {"weights": weights, "metric": metric}
    mine, other = (each.fit(ROWS[SOME], FAMILIES[SOME]) for each in both("KNeighborsClassifier", 9, **options))
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
    for y in (LENGTHS, np.stack([LENGTHS, ROWS[:, 0]], axis=1)):
        found, expected = (each.fit(ROWS, y).predict(QUERIES) for each in both("KNeighborsRegressor", 7, weights=weights))
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_several_outputs_are_predicted() -> None:
    y = np.stack([FAMILIES, NAMES.astype("<U1")], axis=1)
    found, expected = (each.fit(ROWS, y).predict(QUERIES) for each in both("KNeighborsClassifier"))
    assert np.mean(found == expected) > 0.99


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_a_transformer_makes_the_graph_that_scikit_learn_makes(mode: str) -> None:
    mine, other = both("KNeighborsTransformer", n_neighbors=4, mode=mode)
    found, expected = mine.fit_transform(ROWS[SOME]), other.fit_transform(ROWS[SOME])
    assert issparse(found) and found.format == "csr" and found.dtype == expected.dtype
    # One more in the mode "distance", as the row itself is among them.
    assert found.nnz == expected.nnz == 1000 * (5 if mode == "distance" else 4)
    for graph, other_graph in ((found, expected), (mine.transform(QUERIES), other.transform(QUERIES))):
        assert graph.shape == other_graph.shape and abs(graph - other_graph).sum() < 1e-3 * expected.sum()
    assert mine.get_feature_names_out()[0] == "kneighborstransformer0"


@pytest.mark.parametrize("mode", ["distance", "connectivity"])
def test_a_transformer_of_a_radius_makes_the_graph_that_scikit_learn_makes(mode: str) -> None:
    mine, other = both("RadiusNeighborsTransformer", radius=0.9, mode=mode)
    found, expected = mine.fit_transform(ROWS[SOME]), other.fit_transform(ROWS[SOME])
    assert issparse(found) and found.format == "csr" and found.dtype == expected.dtype
    assert abs(found.nnz - expected.nnz) <= 2 and found.nnz > 1000
    labels = make_pipeline(ours.RadiusNeighborsTransformer(radius=0.9), DBSCAN(eps=0.9, metric="precomputed")).fit_predict(ROWS[:600])
    np.testing.assert_array_equal(labels, DBSCAN(eps=0.9).fit_predict(ROWS[:600]))


def test_a_transformer_gives_callers_that_take_any_what_they_need() -> None:
    # scanpy's `neighbors(transformer=…)` sets parameters, then takes distances and indices from the rows of the graph, each of which
    # begins with the row itself.
    transformer = ours.KNeighborsTransformer(n_neighbors=3, metric="cosine")
    assert set(transformer.get_params()) >= {"n_neighbors", "metric", "n_jobs"}
    graph = transformer.set_params(n_neighbors=7).fit_transform(ROWS[SOME])
    assert (np.diff(graph.data.reshape(1000, 8)) >= 0).all()
    assert np.mean(graph.indices.reshape(1000, 8)[:, 0] == np.arange(1000)) > 0.99


def test_a_transformer_leads_a_pipeline() -> None:
    rows, y = ROWS[:600], FAMILIES[:600]
    classify = [
        make_pipeline(
            module.KNeighborsTransformer(n_neighbors=9), theirs.KNeighborsClassifier(n_neighbors=9, metric="precomputed")
        ).fit(rows, y)
        for module in (ours, theirs)
    ]
    np.testing.assert_array_equal(*(pipeline.predict(QUERIES) for pipeline in classify))
    graph = ours.NearestNeighbors(radius=1.0).fit(rows).radius_neighbors_graph(mode="distance")
    labels = DBSCAN(eps=1.0, metric="precomputed").fit_predict(graph)
    np.testing.assert_array_equal(labels, DBSCAN(eps=1.0).fit_predict(rows))


@pytest.mark.parametrize("n_jobs", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_searches_over_parameters_and_processes_run(n_jobs: int) -> None:
    pipeline = make_pipeline(StandardScaler(), ours.KNeighborsClassifier(device="host"))
    choices = {"kneighborsclassifier__n_neighbors": [1, 9]}
    rows, y = ROWS[:600, :32], FAMILIES[:600]
    search = GridSearchCV(pipeline, choices, cv=2, n_jobs=n_jobs, error_score="raise").fit(rows, y)
    other = GridSearchCV(make_pipeline(StandardScaler(), theirs.KNeighborsClassifier()), choices, cv=2).fit(rows, y)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"], atol=0.01)


@pytest.mark.parametrize("way", [lambda e: pickle.loads(pickle.dumps(e)), copy.deepcopy], ids=["pickle", "deepcopy"])
def test_a_copy_answers_the_same(way: Any) -> None:
    for estimator in (ours.NearestNeighbors(), ours.KNeighborsClassifier(), ours.KNeighborsRegressor()):
        assert way(estimator).get_params() == estimator.get_params()
        estimator.fit(ROWS[SOME].astype(np.float64) + 5, LENGTHS[SOME])
        for mine, other in zip(way(estimator).kneighbors(QUERIES), estimator.kneighbors(QUERIES), strict=True):
            np.testing.assert_array_equal(mine, other)
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


@pytest.mark.parametrize("device", ["host", nf.Device("host")])
def test_the_device_is_the_one_asked_for_also_of_a_clone(device: Any) -> None:
    assert clone(ours.NearestNeighbors(device=device)).fit(ROWS[:9])._index.device.kind == "host"


def within(**options: Any) -> Any:
    return ours.NearestNeighbors().fit(ROWS).radius_neighbors(QUERIES, **options)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: ours.NearestNeighbors(metric="manhattan").fit(ROWS), ValueError, "metric: needed one of euclidean, l2, minkowski, sqeuclidean, cosine, given 'manhattan'"),
        (lambda: ours.NearestNeighbors(metric=len).fit(ROWS), ValueError, "metric: needed one of .*"),
        (lambda: ours.KNeighborsClassifier(algorithm="kd_tree").fit(ROWS, LENGTHS), ValueError, "algorithm: needed 'brute', which searches all rows, given 'kd_tree'"),
        (lambda: ours.NearestNeighbors().fit(csr_matrix(ROWS[:5])), TypeError, r"X: needed a dense array, given a sparse one, which X.toarray\(\) makes dense"),
        (lambda: ours.NearestNeighbors().fit(ROWS).kneighbors(csr_matrix(QUERIES)), TypeError, "Sparse data was passed for X.*"),
        (lambda: ours.NearestNeighbors(n_neighbors=0).fit(ROWS), ValueError, "The 'n_neighbors' parameter.*"),
        (lambda: ours.NearestNeighbors().fit(ROWS).kneighbors(QUERIES, 0), ValueError, "Expected n_neighbors > 0. Got 0"),
        (lambda: ours.NearestNeighbors().fit(ROWS).kneighbors(QUERIES, 2.5), TypeError, "n_neighbors: needed an integer, given float"),
        (lambda: ours.NearestNeighbors().fit(ROWS[:5]).kneighbors(), ValueError, "Expected n_neighbors < n_samples_fit, but n_neighbors = 5, n_samples_fit = 5, n_samples = 5"),
        (lambda: ours.NearestNeighbors().fit(ROWS).kneighbors(QUERIES[:, :3]), ValueError, "X has 3 features.*"),
        (lambda: ours.NearestNeighbors().kneighbors(QUERIES), NotFittedError, "This NearestNeighbors instance is not fitted yet.*"),
        (lambda: within(sort_results=True, return_distance=False), ValueError, "return_distance must be True if sort_results is True."),
        (lambda: within(radius=-1), ValueError, "radius == -1.0, must be >= 0."),
        (lambda: within(radius=np.array([1.0, 2.0])), TypeError, "radius: needed a number, given ndarray"),
        (lambda: within(radius="1"), TypeError, "radius: needed a number, given str"),
        (lambda: ours.NearestNeighbors(metric="cosine").fit(ROWS * np.float32(1e-30)), ValueError, "rows: needed norms .*"),
        (lambda: ours.NearestNeighbors(device="no such device").fit(ROWS), nf.Error, "device: needed .*no such device.*"),
    ],
)
def test_wrong_arguments_are_errors(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=f"^{message}$"):
        call()


@pytest.mark.parametrize("outlier", [1e8, 1e9, 1e20, -1e300])
@pytest.mark.parametrize("whole", [False, True], ids=["fractions", "whole"])
def test_an_outlier_hides_no_neighbour(outlier: float, whole: bool) -> None:
    generator = np.random.default_rng(11)
    rows = generator.standard_normal((300, 3))
    if whole:
        rows = np.rint(rows * 5)
    rows[7, 1] = outlier
    mine, other = ours.NearestNeighbors().fit(rows), theirs.NearestNeighbors(algorithm="kd_tree").fit(rows)
    for queries in (generator.standard_normal((40, 3)), rows[8:40], None):
        # All rows are as far from the outlier itself, and what is beyond 1e154 is infinitely far in scikit-learn.
        others = np.delete(np.arange(300), 7) if queries is None else slice(None)
        found, expected = ([part[others] for part in each.kneighbors(queries, 7)] for each in (mine, other))
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
        # scikit-learn leaves the order of ties open.
        assert whole or (found[1] == expected[1]).all()
        within, expected_within = (each.radius_neighbors(queries, 1.0, return_distance=False)[others] for each in (mine, other))
        assert all(np.array_equal(np.sort(one), np.sort(two)) for one, two in zip(within, expected_within, strict=True))


def test_directions_closer_than_float32_tells_are_in_their_order() -> None:
    angles = np.arange(400) * 1e-9
    rows = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    found = ours.NearestNeighbors(metric="cosine", n_neighbors=3).fit(rows).kneighbors(rows[[0, 399]] * 3.7)
    # Cosines in float64 end at 1e-16, angles of 1e-8: what is as near comes in the order of the indices.
    assert found[0].max() <= 1e-15 and (np.diff(found[1]) > 0).all()


def test_many_ties_of_whole_numbers_take_no_comparison_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(2).integers(0, 2, (2000, 6))
    mine = ours.NearestNeighbors(n_neighbors=30).fit(rows)
    monkeypatch.setattr(mine._frame, "between", None)
    exact = ((rows[:20, None, :] - rows[None]) ** 2).sum(axis=2)
    want = np.lexsort((np.broadcast_to(np.arange(2000), exact.shape), exact), axis=-1)[:, :30]
    np.testing.assert_array_equal(mine.kneighbors(rows[:20], return_distance=False), want)


def test_an_outlier_among_rows_or_queries_leaves_the_radius_of_the_others() -> None:
    generator = np.random.default_rng(8)
    rows, queries = generator.standard_normal((4000, 4)), generator.standard_normal((300, 4))
    rows[5, 0], queries[7, 1] = 123456789.123, 98765432.1
    mine = ours.NearestNeighbors(radius=0.5).fit(rows)
    asked: list[Any] = []
    search = mine._index.search_within
    mine._index = type("Counted", (), {"search_within": lambda _, *given: asked.append(search(*given)) or asked[-1]})()
    found = mine.radius_neighbors(queries, return_distance=False)
    expected = theirs.NearestNeighbors(radius=0.5, algorithm="kd_tree").fit(rows).radius_neighbors(queries, return_distance=False)
    assert all(np.array_equal(np.sort(one), np.sort(two)) for one, two in zip(found, expected, strict=True))
    assert sum(len(part.ids) for part in asked) < 2 * sum(map(len, expected)) + 4000


def test_parallel_vectors_are_at_no_distance_and_squares_of_whole_numbers_are_whole() -> None:
    rows = np.random.default_rng(3).standard_normal((200, 8))
    distances, _ = ours.NearestNeighbors(metric="cosine").fit(rows).kneighbors(rows * 3.3)
    assert 0 <= distances.min() and distances[:, 0].max() <= 1e-15
    grid = np.stack(np.meshgrid(np.arange(6), np.arange(6)), axis=-1).reshape(-1, 2)
    for given in (grid, grid + 0.0, grid.astype(np.float32)):
        found = ours.NearestNeighbors(n_neighbors=36, metric="sqeuclidean").fit(given).kneighbors(given)[0]
        assert (found == np.rint(found)).all()
    assert [len(one) for one in ours.NearestNeighbors(radius=1.41421356).fit(grid).radius_neighbors(grid[:1])[1]] == [3]


def test_many_ties_of_fractions_come_in_the_order_of_their_indices() -> None:
    rows = np.random.default_rng(2).integers(0, 2, (5000, 5)) * 0.1
    found = ours.NearestNeighbors(n_neighbors=5).fit(rows).kneighbors(rows[:50])[1]
    exact = np.square(rows[:50, None, :] - rows[None]).sum(axis=2)
    want = np.lexsort((np.broadcast_to(np.arange(5000), exact.shape), exact), axis=-1)[:, :5]
    np.testing.assert_array_equal(found, want)
