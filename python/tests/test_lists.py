"""Indexes with lists, and k-means."""

from typing import Any

import numpy as np
import pytest
from reference import all_distances, assert_same, nearest

import nearfield as nf


@pytest.fixture(scope="module")
def ivf(real: Any) -> nf.Ivf:
    return nf.Ivf(real[0][:2000].astype(np.float32), lists=32, metric="l2sq", seed=1)


@pytest.mark.parametrize("metric", ["l2sq", "ip"])
def test_all_probes_give_the_exact_answer(integers: Any, metric: Any) -> None:
    rows, queries = integers
    index = nf.Ivf(rows, lists=7, metric=metric)
    assert index.lists == 7 and len(index) == 500
    assert_same(index.search(queries, 9, probes=7), nearest(rows, queries, 9, metric))


def test_answers_are_of_full_length_whatever_lists_hold(integers: Any) -> None:
    rows, queries = integers
    # One row a list: a probe finds one row, and the search goes on.
    index = nf.Ivf(rows, lists=500, metric="l2sq", iterations=1)
    for k in (1, 10, 499, 1000):
        assert index.search(queries, k, probes=1).ids.shape == (20, min(k, 500))
    assert index.search(queries, 9, probes=1, filter=[3, 4, 5]).ids.shape == (20, 3)
    assert_same(index.search(queries, 500, probes=1), nearest(rows, queries, 500, "l2sq"))


def recall(index: nf.Ivf, queries: Any, k: int, **options: Any) -> float:
    exact = index.search(queries, k, probes=index.lists).ids
    found = index.search(queries, k, **options).ids
    return float(np.mean([len(set(a) & set(b)) / k for a, b in zip(found.tolist(), exact.tolist())]))


def test_more_probes_find_more(ivf: nf.Ivf, real: Any, on_host: bool) -> None:
    queries = real[1].astype(np.float32)
    recalls = [recall(ivf, queries, 10, probes=probes) for probes in (1, 4, 16, 32)]
    assert recalls == sorted(recalls) and recalls[-1] == 1
    # A GPU goes through all rows of a small index at once.
    assert recalls[0] < 0.9 or not on_host
    assert recall(ivf, queries, 10) == recall(ivf, queries, 10, probes=ivf.default_probes)


@pytest.mark.parametrize("wanted", [0.5, 0.9, 0.99])
def test_a_recall_is_reached_with_few_probes(ivf: nf.Ivf, real: Any, wanted: float, on_host: bool) -> None:
    queries = real[1].astype(np.float32)
    probes = ivf.probes_for_recall(queries, 10, wanted)
    assert recall(ivf, queries, 10, recall=wanted) == recall(ivf, queries, 10, probes=probes) >= wanted
    # The measure leaves a margin for other queries.
    assert probes < ivf.lists
    if on_host:
        assert recall(ivf, queries, 10, probes=max(probes // 2, 1)) < wanted + 0.05


def test_a_recall_is_measured_again_after_a_change(integers: Any) -> None:
    rows, queries = integers
    index = nf.Ivf(rows[:250], lists=5, metric="l2sq")
    index.search(queries, 5, recall=1.0)
    index.add(rows[250:])
    assert_same(index.search(queries, 5, recall=1.0), nearest(rows, queries, 5, "l2sq"))
    assert index.search(queries[:0], 5, recall=1.0).ids.shape == (0, 5)


def test_the_seed_decides_the_centroids(integers: Any) -> None:
    rows = integers[0]
    one, same, other = (nf.Ivf(rows, lists=6, metric="l2sq", seed=seed).centroids for seed in (3, 3, 4))
    assert one.shape == (6, 12) and one.dtype == np.float32
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_an_index_may_be_trained_empty_take_ids_and_tell_of_its_progress(integers: Any) -> None:
    rows, queries = integers
    index = nf.Ivf(rows, lists=4, metric="l2sq", empty=True)
    assert len(index) == 0
    index.add(rows, ids=np.arange(500) + 50)
    index.remove([50])
    index.update([51], rows[1:2])
    expected = nearest(rows[1:], queries, 9, "l2sq", np.arange(1, 500) + 50)
    assert_same(index.search(queries, 9, probes=4), expected)
    told: list[tuple[str, int, int]] = []
    index = nf.Ivf(rows, ids=range(9, 509), iterations=3, progress=lambda *step: told.append(step))
    np.testing.assert_array_equal(index.ids, np.arange(9, 509))
    assert {stage for stage, _, _ in told} == {"training", "adding"}
    assert told[-1] == ("adding", 500, 500) and all(done <= total for _, done, total in told)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"lists": 0}, ValueError, "lists: needed 1 to 500"),
        ({"lists": -1}, ValueError, "lists: needed a whole number"),
        ({"lists": 2**70}, ValueError, 'lists: needed "auto" or a whole number from 0 to 2\\^63 - 1, given 1180591620717411303424'),
        ({"lists": None}, TypeError, 'lists: needed "auto" or a whole number .*, given NoneType'),
        ({"lists": "many"}, TypeError, 'lists: needed "auto" or a whole number .*, given str'),
        ({"seed": 2**64}, ValueError, "seed: needed a whole number"),
        ({"iterations": -1}, ValueError, "iterations: needed a whole number"),
        ({"empty": 1}, TypeError, "empty: needed True or False, given 1"),
        ({"empty": True, "ids": range(500)}, ValueError, "ids: needed an index that holds its rows"),
        ({"ids": [1, 2]}, ValueError, "ids: needed 500 ids, one a row, given 2"),
        ({"ids": [7] * 500}, ValueError, "ids: needed .* given 7 again"),
        ({"metric": "cos\nine"}, ValueError, "metric: needed l2sq, l2, cosine, ip, hamming or jaccard, given cos ine"),
        ({"metric": 3}, TypeError, "metric: needed a word, given 3"),
        ({"dtype": "f8"}, TypeError, 'dtype: needed float32, float16, int8, uint8 or "ubinary", given float64'),
        ({"device": 3}, TypeError, "device: needed a nearfield.Device, a name or None, given 3"),
        ({"device": "no such"}, nf.Error, "device: needed an adapter"),
        ({"progress": "yes"}, TypeError, "progress: needed True, False or a function"),
    ],
)
def test_options_that_do_not_fit_are_named(integers: Any, options: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=f"^{words}") as raised:
        nf.Ivf(integers[0], **options)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"probes": 0}, ValueError, "probes: needed"),
        ({"probes": 33}, ValueError, "probes: needed"),
        ({"probes": -1}, ValueError, "probes: needed a whole number"),
        ({"probes": 1.0}, TypeError, "probes: needed a whole number"),
        ({"recall": 1.5}, ValueError, "recall: needed a number from 0 to 1, given 1.5"),
        ({"recall": float("nan")}, ValueError, "recall: needed a number from 0 to 1, given NaN"),
        ({"recall": "all"}, TypeError, "recall: needed a number from 0 to 1, given str"),
        ({"recall": 0.5, "probes": 3}, ValueError, "recall: needed probes or a recall, given both"),
    ],
)
def test_searches_name_options_that_do_not_fit(ivf: nf.Ivf, real: Any, options: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=f"^{words}"):
        ivf.search(real[1], 10, **options)


def test_a_flat_index_has_no_lists_to_probe(index: nf.Flat, integers: Any) -> None:
    with pytest.raises(ValueError, match="^probes: needed none"):
        index.search(integers[1], probes=1)
    with pytest.raises(ValueError, match="^recall: needed a number from 0 to 1"):
        index.search(integers[1], recall=2.0)
    # It finds all there is.
    assert_same(index.search(integers[1], 5, recall=0.5), nearest(*integers, 5, "l2sq"))


def blobs() -> tuple[Any, Any]:
    rng = np.random.default_rng(5)
    centres = rng.integers(-50, 50, (4, 8)).astype(np.float32)
    labels = rng.integers(0, 4, 400)
    return centres, centres[labels] + rng.standard_normal((400, 8), dtype=np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_k_means_finds_clusters_apart(dtype: Any) -> None:
    _, rows = blobs()
    means = min((nf.KMeans(4, seed=seed, rows_per_cluster=100).fit(rows.astype(dtype)) for seed in range(4)), key=lambda means: means.inertia)
    assert means.centroids.shape == (4, 8) and means.labels.shape == (400,)
    exact = all_distances(means.centroids, rows.astype(dtype), "l2sq")
    np.testing.assert_array_equal(means.labels, exact.argmin(axis=1))
    np.testing.assert_array_equal(means.predict(rows.astype(dtype)), means.labels)
    assert means.inertia == pytest.approx(exact.min(axis=1).sum(), rel=1e-3)
    for cluster in range(4):
        np.testing.assert_allclose(means.centroids[cluster], rows[means.labels == cluster].mean(axis=0), atol=0.05)


def test_k_means_tells_of_its_training() -> None:
    _, rows = blobs()
    told: list[tuple[str, int, int]] = []
    means = nf.KMeans(4, iterations=6, tolerance=-1.0, rows_per_cluster=50)
    assert "not trained" in repr(means)
    assert means.fit(rows, progress=lambda *step: told.append(step)) is means
    assert told[-1] == ("training", 6, 6) and len(means.history) >= 6
    assert means.trained_on.dtype == np.int64 and len(means.trained_on) == 200
    assert (np.diff(means.trained_on) > 0).all() and "4 clusters, l2sq, trained" in repr(means)
    np.testing.assert_array_equal(nf.KMeans(4, iterations=6, tolerance=-1.0, rows_per_cluster=50).fit(rows).centroids, means.centroids)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "words"),
    [
        ([0], {}, ValueError, "clusters: needed 1 to 400"),
        (["a"], {}, TypeError, "clusters: needed a whole number"),
        ([3], {"rows_per_cluster": 0}, ValueError, "rows_per_cluster: needed at least 1"),
        ([3], {"balance": 0.5}, ValueError, "balance: needed at least 1"),
        ([3], {"balance": "x"}, TypeError, "balance: needed a number of at least 1, given str"),
        ([3], {"tolerance": "x"}, TypeError, "tolerance: needed a number, given str"),
        ([3], {"metric": "x"}, ValueError, "metric: needed"),
        ([3], {"seed": 2**63}, ValueError, "seed: needed a whole number from 0 to 2.63 - 1"),
    ],
)
def test_k_means_names_what_does_not_fit(arguments: Any, options: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=f"^{words}"):
        nf.KMeans(*arguments, **options).fit(blobs()[1])


def test_k_means_needs_training_before_answers() -> None:
    means = nf.KMeans(2)
    for ask in (lambda: means.centroids, lambda: means.labels, lambda: means.inertia, lambda: means.predict([[1.0]])):
        with pytest.raises(nf.Error, match=r"^KMeans: needed fit\(rows\) before"):
            ask()
    means.fit(blobs()[1])
    before = means.centroids
    with pytest.raises(ValueError, match="^rows: needed"):
        means.fit(np.full((5, 3), np.nan, np.float32))
    np.testing.assert_array_equal(means.centroids, before)
    with pytest.raises(ValueError, match="^rows: needed dim 8"):
        means.predict(np.zeros((1, 3), np.float32))
    assert means.predict(np.zeros((0, 8), np.float32)).shape == (0,)


def test_a_recall_is_kept_where_queries_come_one_at_a_time(real: Any, on_host: bool) -> None:
    if not on_host:
        pytest.skip("a GPU goes through all rows of a small index at once")
    rows, queries = real[0].astype(np.float32), real[1].astype(np.float32)
    index = nf.Ivf(rows, lists=64, metric="cosine")
    exact = index.search(queries, 10, probes=64).ids
    order = np.random.default_rng(4).permutation(len(queries))
    for start in (0, 30, 60):
        index.remove(index.add(rows[:1]))
        some = np.concatenate([order[start:], order[:start]])
        found = [index.search(queries[each], 10, recall=0.95).ids[0] for each in some]
        shared = [len(set(one.tolist()) & set(exact[each].tolist())) for one, each in zip(found, some, strict=True)]
        assert np.mean(shared) >= 9.5, start
