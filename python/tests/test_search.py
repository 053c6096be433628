"""Searches give what numpy gives: bit for bit where no sum is rounded, and up to the documented error elsewhere."""

from typing import Any

import numpy as np
import pytest
from reference import DATA, METRICS, all_distances, assert_nearest, assert_same, nearest

import nearfield as nf


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint8])
@pytest.mark.parametrize("metric", METRICS)
def test_all_metrics_find_the_nearest(integers: Any, metric: Any, dtype: Any) -> None:
    rows, queries = (abs(values).astype(dtype) if dtype is np.uint8 else values.astype(dtype) for values in integers)
    found = nf.Flat(rows, metric=metric).search(queries, 17)
    assert_nearest(found, rows, queries, 17, metric)
    if metric in ("l2sq", "ip"):
        assert_same(found, nearest(rows, queries, 17, metric))


@pytest.mark.parametrize("metric", ["l2sq", "cosine", "ip"])
def test_real_data_give_their_ground_truth(real: Any, metric: Any) -> None:
    rows, queries = real
    distances, ids = nf.Flat(rows, metric=metric).search(queries, 20)
    with np.load(DATA / f"groundtruth-normalised-{'dot' if metric == 'ip' else metric}.npz") as truth:
        np.testing.assert_allclose(distances, -truth["distances"] if metric == "ip" else truth["distances"], rtol=1e-4, atol=1e-4)
        # Rows at distances that differ by less than rounding may change places.
        assert (ids == truth["ids"]).mean() > 0.999
    assert_nearest((distances[:5], ids[:5]), rows, queries[:5], 20, metric)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("metric", ["l2sq", "l2", "ip"])
def test_distances_of_integers_are_exact_and_rounded_once(metric: Any, dtype: Any) -> None:
    limits = np.iinfo(dtype)
    numbers = np.random.default_rng(5).integers(limits.min, limits.max, (520, 1000), dtype, endpoint=True)
    rows, queries = numbers[20:], numbers[:20]
    for kind in (nf.Flat, nf.Ivf):
        index = kind(rows, metric=metric)
        assert index.dtype == dtype and len(index.get([3]).shape) == 2
        options = {} if kind is nf.Flat else {"probes": index.lists}
        found = index.search(queries, 30, **options)
        wanted = nearest(rows, queries, 30, metric)
        np.testing.assert_array_equal(found.distances, np.sqrt((wanted[0] ** 2).round().astype(np.float32)) if metric == "l2" else wanted[0].astype(np.float32))
        np.testing.assert_array_equal(found.ids, wanted[1])
    with pytest.raises(ValueError, match=f"^rows: needed {dtype().dtype.kind}8 rows, because the index stores"):
        index.add(rows.astype(np.float32))


@pytest.mark.parametrize("quantization", ["auto", "none", "int8"])
def test_quantization_changes_no_answer(real: Any, quantization: Any) -> None:
    rows, queries = (values.astype(np.float32) for values in real)
    expected = nf.Flat(rows[:2000], metric="l2sq", quantization="none").search(queries[:30], 10)
    found = nf.Flat(rows[:2000], metric="l2sq", quantization=quantization).search(queries[:30], 10)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.distances, expected.distances)


def test_an_answer_is_a_named_tuple_of_two_dimensions(index: nf.Flat, integers: Any) -> None:
    # 10 is the default.
    many, one = index.search(integers[1]), index.search(integers[1][3], 5)
    distances, ids = many
    assert isinstance(many, nf.Neighbors) and many._fields == ("distances", "ids")
    assert distances is many.distances and ids is many.ids and ids.shape == (20, 10)
    assert one.distances.shape == one.ids.shape == (1, 5)
    np.testing.assert_array_equal(one.ids[0], ids[3, :5])


def test_answers_shrink_to_the_rows_there_are(integers: Any) -> None:
    rows, queries = integers
    index = nf.Flat(rows[:7], metric="l2sq")
    assert_same(index.search(queries, 100), nearest(rows[:7], queries, 100, "l2sq"))
    assert nf.Flat(dim=12).search(queries, 3).ids.shape == (20, 0)


@pytest.mark.parametrize("k", [1, 3, 1000])
def test_no_queries_have_an_answer_of_the_same_width(index: nf.Flat, integers: Any, k: int) -> None:
    rows, queries = integers
    for options in ({}, {"filter": [4, 5]}, {"filter": lambda id: False}):
        width = index.search(queries[:1], k, **options).ids.shape[1]
        none = index.search(queries[:0], k, **options)
        assert none.ids.shape == none.distances.shape == (0, width)
        assert nf.knn(rows, queries[:0], k, **options).ids.shape == (0, width)


def test_out_receives_the_answer(index: nf.Flat, integers: Any) -> None:
    out = (np.full((20, 6), -1, np.float32), np.full((20, 6), -1, np.int64))
    found = index.search(integers[1], 6, out=out)
    assert found.distances is out[0] and found.ids is out[1]
    assert_same(out, nearest(*integers, 6, "l2sq"))
    # A former answer serves as the next one's memory.
    assert index.search(integers[1][::-1].copy(), 6, out=found).ids is out[1]
    assert_same(out, nearest(integers[0], integers[1][::-1], 6, "l2sq"))


@pytest.mark.parametrize(
    ("out", "error", "words"),
    [
        ((np.zeros((20, 5), np.float32), np.zeros((20, 6), np.int64)), ValueError, r"\[20, 6\], given one \[20, 5\]"),
        ((np.zeros((20, 6)), np.zeros((20, 6), np.int64)), TypeError, "float64 in 2 dimensions"),
        ((np.zeros((20, 6), np.float32), np.zeros((20, 6), np.int32)), TypeError, "int32 in 2 dimensions"),
        ((np.zeros((20, 12), np.float32)[:, ::2], np.zeros((20, 6), np.int64)), ValueError, "C order"),
        ((np.zeros(120, np.float32), np.zeros((20, 6), np.int64)), TypeError, "float32 in 1 dimensions"),
        ((np.zeros((20, 6), ">f4"), np.zeros((20, 6), np.int64)), TypeError, ">f4"),
        ([np.zeros((20, 6), np.float32), np.zeros((20, 6), np.int64)], TypeError, "given list"),
        (5, TypeError, "given 5"),
    ],
)
def test_an_unfit_out_is_refused(index: nf.Flat, integers: Any, out: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=f"^out: needed .*{words}"):
        index.search(integers[1], 6, out=out)


def test_an_unfit_out_is_refused_before_the_search(index: nf.Flat, integers: Any) -> None:
    asked = []
    for shape in [(19, 6), (20, 7)]:
        with pytest.raises(ValueError, match=r"^out: needed two arrays \[20, min\(6, rows allowed\)\]"):
            index.search(integers[1], 6, out=(np.zeros(shape, np.float32), np.zeros(shape, np.int64)), filter=asked.append)
    assert asked == []


def test_a_read_only_out_and_one_that_is_the_queries_are_refused(index: nf.Flat, integers: Any) -> None:
    queries, read_only = integers[1].copy(), np.zeros((20, 12), np.float32)
    read_only.flags.writeable = False
    for distances in (read_only, queries):
        with pytest.raises(ValueError, match="^out: needed arrays that can be written"):
            index.search(queries, 12, out=(distances, np.zeros((20, 12), np.int64)))
    np.testing.assert_array_equal(queries, integers[1])


@pytest.mark.parametrize(
    "filter",
    [
        lambda ids, rows: ids,
        lambda ids, rows: ids[::-1],
        lambda ids, rows: ids.astype(np.int32),
        lambda ids, rows: ids.astype(np.uint64),
        lambda ids, rows: ids.tolist(),
        lambda ids, rows: tuple(ids.tolist()),
        lambda ids, rows: set(ids.tolist()),
        lambda ids, rows: frozenset(ids.tolist()),
        lambda ids, rows: range(0, rows, 3),
        lambda ids, rows: np.repeat(ids, 2),
        lambda ids, rows: np.append(ids, [10**6, 2**62]),
        lambda ids, rows: np.arange(rows) % 3 == 0,
        lambda ids, rows: np.arange(rows + 1000) % 3 == 0,
        lambda ids, rows: (np.arange(rows) % 3 == 0).tolist(),
        lambda ids, rows: (np.arange(3 * rows) % 9 == 0)[::3],
        lambda ids, rows: lambda id: id % 3 == 0,
    ],
    ids="ids reversed int32 uint64 list tuple set frozenset range repeated missing mask long-mask list-mask strided-mask function".split(),
)
def test_filters_of_every_kind_allow_the_same_rows(index: nf.Flat, integers: Any, filter: Any) -> None:
    rows, queries = integers
    given = filter(np.arange(0, len(rows), 3), len(rows))
    expected = nearest(rows, queries, 9, "l2sq", allowed=np.arange(len(rows)) % 3 == 0)
    assert_same(index.search(queries, 9, filter=given), expected)
    assert_same(nf.knn(rows, queries, 9, filter=given), expected)


@pytest.mark.parametrize("filter", [[], (), set(), range(0), np.zeros(500, bool), lambda id: False, [10**9]])
def test_a_filter_without_rows_gives_answers_of_no_columns(index: nf.Flat, integers: Any, filter: Any) -> None:
    assert index.search(integers[1], 5, filter=filter).ids.shape == (20, 0)
    assert index.search_within(integers[1], 1e9, filter=filter).offsets.tolist() == [0] * 21


def test_a_mask_of_bytes_other_than_0_and_1_counts_as_true(index: nf.Flat, integers: Any) -> None:
    allowed = np.arange(500) % 5 == 0
    mask = np.where(allowed, np.uint8(6), np.uint8(0)).view(bool)
    assert_same(index.search(integers[1], 9, filter=mask), nearest(*integers, 9, "l2sq", allowed=allowed))


def test_a_function_is_asked_for_each_id_and_may_use_the_index(index: nf.Flat, integers: Any) -> None:
    asked = []

    def is_allowed(id: int) -> bool:
        asked.append(id)
        return id in index and id < 10

    assert index.search(integers[1], 50, filter=is_allowed).ids.shape == (20, 10)
    assert asked == list(range(500))


@pytest.mark.parametrize("filter", [{2**70}, [1, 2**64], (2**63, 1), range(2**63, 2**63 + 2)])
def test_integers_too_large_for_a_filter_are_told(index: nf.Flat, integers: Any, filter: Any) -> None:
    with pytest.raises(ValueError, match=f"^filter: needed 0 to 2.63 - 1, given {max(filter)}$"):
        index.search(integers[1], 5, filter=filter)


def test_a_mask_reaches_to_the_largest_id(index: nf.Flat, integers: Any) -> None:
    rows, queries = integers
    index.remove([499, 3])
    assert_same(index.search(queries, 9, filter=np.ones(499, bool)), index.search(queries, 9))
    with pytest.raises(ValueError, match="^filter: needed a mask of at least 499 values, .*given 498$"):
        index.search(queries, 9, filter=np.ones(498, bool))
    index = nf.Flat(rows[:3], ids=[4, 40, 14])
    assert index.search(queries, 5, filter=np.ones(41, bool)).ids.shape == (20, 3)
    for gone, needed in ((None, 41), (40, 15), (14, 5)):
        if gone:
            index.remove([gone])
        with pytest.raises(ValueError, match=f"^filter: needed a mask of at least {needed} values, .*given {needed - 1}$"):
            index.search(queries, 5, filter=np.ones(needed - 1, bool))
    index.remove([4])
    assert index.search(queries, 5, filter=np.ones(0, bool)).ids.shape == (20, 0)


def test_an_exception_of_a_filter_comes_through(index: nf.Flat, integers: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        index.search(integers[1], 5, filter=lambda id: 1 // (id - 100))


@pytest.mark.parametrize("metric", METRICS)
def test_search_within_finds_all_rows_below_the_radius(integers: Any, metric: Any) -> None:
    rows, queries = integers
    exact = all_distances(rows, queries, metric)
    # Between two distances, so that rounding decides nothing.
    values = np.unique(exact)
    radius = float((values[len(values) // 5] + values[len(values) // 5 + 1]) / 2)
    offsets, distances, ids = nf.Flat(rows, metric=metric).search_within(queries, radius)
    assert offsets.dtype == ids.dtype == np.int64 and distances.dtype == np.float32
    assert offsets[0] == 0 and offsets[-1] == len(ids) == len(distances) and len(offsets) == 21
    for number in range(20):
        part = slice(offsets[number], offsets[number + 1])
        assert set(ids[part].tolist()) == set(np.flatnonzero(exact[number] < radius).tolist())
        pairs = list(zip(distances[part].tolist(), ids[part].tolist()))
        assert pairs == sorted(pairs)


def test_search_within_finds_rows_below_a_radius_that_is_no_f32() -> None:
    index = nf.Flat(np.array([[0.0], [1.0], [2.0]], dtype=np.float32), metric="l2sq")
    query = np.zeros((1, 1), dtype=np.float32)
    for radius, found in [(1e-50, 1), (1.0, 1), (1.00000001, 2), (4.0, 2), (4.0000001, 3), (1e39, 3)]:
        assert len(index.search_within(query, radius).ids) == found, radius


def test_search_within_excludes_the_radius_itself_and_obeys_filters(index: nf.Flat, integers: Any) -> None:
    rows, queries = integers
    exact = all_distances(rows, queries, "l2sq")
    radius = float(np.sort(exact[0])[40])
    found = index.search_within(queries[0], radius, filter=lambda id: id % 2 == 0)
    expected = np.flatnonzero((exact[0] < radius) & (np.arange(500) % 2 == 0))
    assert sorted(found.ids.tolist()) == expected.tolist() and isinstance(found, nf.Ragged)


@pytest.mark.parametrize("metric", METRICS)
def test_knn_needs_no_index(integers: Any, metric: Any) -> None:
    rows, queries = integers
    assert_nearest(nf.knn(rows, queries, 8, metric=metric), rows, queries, 8, metric)
    assert_nearest(nf.knn(rows.astype(np.float16), queries, 8, metric=metric), rows, queries, 8, metric)
    assert_nearest(nf.knn(rows, queries[4], 8, metric=metric), rows, queries[4:5], 8, metric)
    assert nf.knn(rows[:0], queries, metric=metric).ids.shape == (20, 0)


@pytest.mark.parametrize("precision", ["fast", "compensated", "half"])
@pytest.mark.parametrize("metric", METRICS)
def test_distances_of_all_pairs(integers: Any, metric: Any, precision: Any) -> None:
    rows, queries = integers
    if precision == "half" and metric in ("l2", "l2sq"):
        with pytest.raises(ValueError, match="^precision: needed"):
            nf.distances(rows, queries, metric, precision=precision)
        return
    found = nf.distances(rows, queries, metric, precision=precision)
    assert found.shape == (20, 500) and found.dtype == np.float32 and found.flags.c_contiguous
    assert nf.distances(rows[:0], queries).shape == (20, 0) and nf.distances(rows, queries[:0]).shape == (0, 500)
    np.testing.assert_allclose(found, all_distances(rows, queries, metric), atol=2e-3 if precision == "half" else 1e-5)


def test_distances_and_rows_that_no_adapter_binds_at_once(on_host: bool) -> None:
    """Some adapters bind at most 128 MiB."""
    if on_host:
        pytest.skip("the processor binds nothing")
    many, some = np.arange(9000, dtype=np.float32)[:, None], np.arange(4000, dtype=np.float32)[:, None]
    found = nf.distances(many, some)
    assert found.shape == (4000, 9000) and all((found[query] == (many.ravel() - query) ** 2).all() for query in (0, 3727, 3728, 3999))
    rows = np.zeros((8400, 4096), np.float32)
    rows[:, 0] = np.arange(8400) % 3001
    found = nf.distances(rows, rows[[0, 2999]], "l2")
    np.testing.assert_array_equal(found[1], np.abs(rows[:, 0] - 2999))
    np.testing.assert_array_equal(nf.distances(rows[[0, 2999]], rows, "l2"), found.T)
    assert nf.knn(rows, rows[[2999]], 3).ids.tolist() == [[2999, 6000, 2998]]
    rows[8300] = np.nan
    with pytest.raises(ValueError, match="^rows: needed finite values, row 8300 holds"):
        nf.distances(rows, rows[:2])
    with pytest.raises(ValueError, match="^queries: needed finite values, row 8300 holds"):
        nf.distances(rows[:1], rows)


def test_progress_counts_the_queries_or_rows_to_their_number(index: nf.Flat, integers: Any) -> None:
    rows, queries = integers
    for call, last in (
        (lambda progress: index.search(queries, 3, progress=progress), ("searching", 20, 20)),
        (lambda progress: index.search_within(queries, 3.0, progress=progress), ("searching", 20, 20)),
        (lambda progress: index.add(rows, progress=progress), ("adding", 500, 500)),
    ):
        told: list[tuple[str, int, int]] = []
        call(lambda *step: told.append(step))
        assert told[-1] == last
        assert [done for _, done, _ in told] == sorted({done for _, done, _ in told})


def test_progress_true_shows_a_bar_where_tqdm_is(index: nf.Flat, integers: Any, capsys: Any, monkeypatch: Any) -> None:
    pytest.importorskip("tqdm")
    index.search(integers[1], 3, progress=True)
    shown = capsys.readouterr().err
    assert "nearfield: searching" in shown and "20.0/20.0" in shown
    monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)
    index.search(integers[1], 3, progress=True)
    assert capsys.readouterr().err == ""


def test_an_exception_of_progress_ends_the_call(index: nf.Flat, integers: Any) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        index.search(integers[1], 3, progress=fail)
    assert_same(index.search(integers[1], 3), nearest(*integers, 3, "l2sq"))


def test_progress_that_calls_the_index_is_refused_instead_of_waiting_for_itself(index: nf.Flat, integers: Any) -> None:
    for call in (index.compact, lambda: index.search(integers[1]), lambda: index.add(integers[0])):
        with pytest.raises(nf.Error, match="^progress: needed a function that does not call nearfield"):
            index.add(integers[0], progress=lambda *_: call())
        with pytest.raises(nf.Error, match="^progress: needed"):
            index.search(integers[1], progress=lambda *_: call())


@pytest.mark.parametrize("kind", [nf.Flat, nf.Ivf])
def test_repr_and_attributes_tell_what_an_index_is(integers: Any, kind: Any) -> None:
    index = kind(integers[0].astype(np.float16), metric="l2")
    assert len(index) == 500 and index.dim == 12 and index.metric == "l2" and index.dtype == np.float16
    assert index.nbytes >= 500 * 12 * 2
    for word in (kind.__name__, "500 rows x 12 float16", "l2", "MiB", index.device.name.split(" (")[0]):
        assert word in repr(index)
    assert 0 in index and np.int64(499) in index
    assert not any(id in index for id in (500, -1, 2**64, 1.5, "1", None))


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_a_mask_of_integers_is_refused(index: nf.Flat, integers: Any, dtype: type) -> None:
    mask = np.arange(500) % 2 == 0
    with pytest.raises(ValueError, match="^filter: needed ids or a boolean mask, given 500 numbers 0 and 1"):
        index.search(integers[1], 3, filter=mask.astype(dtype))
    assert (index.search(integers[1], 1, filter=[0, 1]).ids <= 1).all()
