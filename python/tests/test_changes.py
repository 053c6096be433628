"""Rows are added, removed, replaced, merged and read; after an error an index is as it was."""

import time
from typing import Any

import numpy as np
import pytest
from reference import assert_same, nearest

import nearfield as nf


def test_rows_get_insertion_numbers_as_ids(integers: Any) -> None:
    rows, queries = integers
    index = nf.Flat(dim=12, metric="l2sq")
    ids = index.add(rows[:100])
    assert ids.dtype == np.int64 and ids.tolist() == list(range(100))
    index.remove([99])
    # A number is never given twice.
    assert index.add(rows[100:]).tolist() == list(range(100, 500))
    allowed = np.arange(500) != 99
    assert_same(index.search(queries, 9), nearest(rows, queries, 9, "l2sq", allowed=allowed))


def unaligned(ids: Any) -> Any:
    bytes = np.zeros(len(ids) * 8 + 1, np.uint8)
    bytes[1:].view(np.int64)[:] = ids
    return bytes[1:].view(np.int64)


@pytest.mark.parametrize(
    "convert",
    [
        np.array,
        list,
        tuple,
        lambda ids: ids,
        lambda ids: np.array(ids, np.uint32),
        lambda ids: np.array(ids, ">i8"),
        lambda ids: np.repeat(ids, 2)[::2],
        unaligned,
    ],
    ids="array list tuple range uint32 big-endian strided unaligned".split(),
)
def test_ids_of_the_callers_come_back(integers: Any, convert: Any) -> None:
    rows, queries = integers
    ids = range(7000, 7000 + 3 * 500, 3)
    index = nf.Flat(dim=12, metric="l2sq")
    np.testing.assert_array_equal(index.add(rows, convert(ids)), list(ids))
    assert_same(index.search(queries, 9), nearest(rows, queries, 9, "l2sq", np.array(ids)))
    np.testing.assert_array_equal(index.ids, list(ids))


def test_ids_reach_to_2_to_the_63(integers: Any) -> None:
    largest = 2**63 - 1
    index = nf.Flat(integers[0][:2], metric="l2sq", ids=[largest, 0])
    assert index.ids.tolist() == [0, largest] and largest in index and largest + 1 not in index
    assert index.search(integers[0][0], 1).ids.item() == largest


def test_integers_for_which_numpy_has_no_common_type_are_ids(integers: Any) -> None:
    index = nf.Flat(integers[0][:2], ids=[np.int64(7), np.uint64(3)])
    np.testing.assert_array_equal(index.ids, [3, 7])
    assert index.search(integers[1], 5, filter=[np.uint64(7), np.int64(3)]).ids.shape == (20, 2)


def test_rows_come_back_as_they_were_given(integers: Any, real: Any) -> None:
    index = nf.Flat(integers[0])
    np.testing.assert_array_equal(index.get([3, 499, 3]), integers[0][[3, 499, 3]])
    assert index.get([]).shape == (0, 12) and index.get(np.arange(0)).dtype == np.float32
    np.testing.assert_array_equal(nf.Flat(real[0][:50]).get(range(50)), real[0][:50].astype(np.float32))


def test_removed_rows_are_not_found(index: nf.Flat, integers: Any) -> None:
    rows, queries = integers
    assert index.remove(np.arange(0, 500, 2)) == 250
    assert index.remove([1, 1, 1]) == 1 and index.remove([]) == 0
    allowed = (np.arange(500) % 2 == 1) & (np.arange(500) != 1)
    expected = nearest(rows, queries, 9, "l2sq", allowed=allowed)
    assert len(index) == 249 and 1 not in index
    assert_same(index.search(queries, 9), expected)
    index.compact()
    assert_same(index.search(queries, 9), expected)
    np.testing.assert_array_equal(index.ids, np.flatnonzero(allowed))


def test_updated_rows_replace_the_former(index: nf.Flat, integers: Any) -> None:
    rows, queries = integers
    changed = rows.copy()
    changed[[5, 400]] = queries[:2]
    index.update([5, 400], queries[:2])
    assert_same(index.search(queries, 9), nearest(changed, queries, 9, "l2sq"))


def test_merged_rows_keep_their_ids(integers: Any) -> None:
    rows, queries = integers
    one, other = nf.Flat(rows[:200], metric="l2sq"), nf.Flat(rows[200:], metric="l2sq", ids=np.arange(200, 500))
    one.merge(other)
    assert len(one) == 500 and len(other) == 300
    assert_same(one.search(queries, 9), nearest(rows, queries, 9, "l2sq"))


def answers(index: nf.Index, queries: Any) -> tuple[Any, ...]:
    found = index.search(queries, 7)
    return found.distances.tobytes(), found.ids.tobytes(), index.ids.tobytes(), len(index)


NAN = np.full((1, 12), np.nan, np.float32)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda index, rows: index.add(rows[:, :11]), ValueError, "rows: needed dim 12, as the index has, given 11"),
        (lambda index, rows: index.add(rows, [1]), ValueError, "ids: needed 500 ids, one for each, given 1"),
        (lambda index, rows: index.add(rows[:2], [900, 3]), ValueError, "ids: needed .* given 3 again"),
        (lambda index, rows: index.add(rows[:2], [900, -1]), ValueError, "ids: needed 0 to 2.63 - 1, given -1"),
        (lambda index, rows: index.add(rows[:2], np.array([1, 2**63], np.uint64)), ValueError, "ids: needed 0 to 2.63 - 1, given 9223372036854775808"),
        (lambda index, rows: index.add(rows[:2], [1, 2**64]), ValueError, "ids: needed 0 to 2.63 - 1, given 18446744073709551616"),
        (lambda index, rows: index.add(rows[:2], [2**63, 1.5]), TypeError, "ids: needed integers, given float64"),
        (lambda index, rows: index.add(rows[:2], np.ma.array([900, 901], mask=[False, True])), ValueError, "ids: needed an array without masked elements"),
        (lambda index, rows: index.add(rows[:2], [1.0, 2.0]), TypeError, "ids: needed integers, given float64"),
        (lambda index, rows: index.add(rows[:2], [True, False]), TypeError, "ids: needed integers, given bool"),
        (lambda index, rows: index.add(rows[:2], [[1], [2]]), ValueError, r"ids: needed one dimension, \[n\], given shape \[2, 1\]"),
        (lambda index, rows: index.add(np.vstack([rows, NAN])), ValueError, "rows: needed finite values, row 500 holds"),
        (lambda index, rows: index.remove([-1]), ValueError, "ids: needed 0 to 2.63 - 1, given -1"),
        (lambda index, rows: index.remove(3), ValueError, r"ids: needed one dimension, \[n\], given shape \[\]"),
        (lambda index, rows: index.remove({1, 2}), TypeError, "ids: needed an array, a tensor or a list, given set"),
        (lambda index, rows: index.update([1, 2], rows[:1]), ValueError, "rows: needed 2 rows, one per id, given 1"),
        (lambda index, rows: index.update([1, 1], rows[:2]), ValueError, "ids: needed each id once, given 1 twice"),
        (lambda index, rows: index.update([1, 2], np.vstack([rows[:1], NAN])), ValueError, "rows: needed finite values, row 1 holds"),
        (lambda index, rows: index.get([900]), ValueError, "ids: needed ids of rows in the index, given 900"),
        (lambda index, rows: index.merge(index), ValueError, "other: needed another index, given the same"),
        (lambda index, rows: index.merge("x"), TypeError, "other: needed another index, given str"),
        (lambda index, rows: index.merge(nf.Flat(rows, metric="l2sq")), ValueError, "ids: needed .* given 0 again"),
        (lambda index, rows: index.merge(nf.Flat(rows[:, :4], metric="l2sq")), ValueError, "other: needed dim 12, given 4"),
        (lambda index, rows: index.merge(nf.Flat(rows, metric="cosine")), ValueError, "other: needed"),
    ],
)
def test_a_refused_change_leaves_the_index_as_it_was(index: nf.Flat, integers: Any, change: Any, error: Any, words: str) -> None:
    rows, queries = integers
    before = answers(index, queries)
    with pytest.raises(error, match=f"^{words}") as raised:
        change(index, rows)
    assert "\n" not in str(raised.value) and not getattr(raised.value, "__notes__", [])
    assert answers(index, queries) == before
    # No number was used up.
    assert index.add(rows[:1]).tolist() == [500]


def test_a_long_addition_that_its_last_progress_ends_leaves_nothing() -> None:
    rows = np.random.default_rng(3).standard_normal((60_000, 64), dtype=np.float32)
    index = nf.Ivf(rows[:2000], lists=8, metric="l2sq")
    before = answers(index, rows[:5])

    def fail(stage: str, done: int, total: int) -> None:
        if done == total:
            # Long enough for the library to ask whether to go on.
            time.sleep(0.06)
            raise KeyError("enough")

    with pytest.raises(KeyError):
        index.add(rows, progress=fail)
    assert answers(index, rows[:5]) == before


@pytest.mark.parametrize("ids", [None, range(1000, 1500)])
def test_an_addition_that_progress_ends_leaves_nothing(index: nf.Flat, integers: Any, ids: Any) -> None:
    calls = []

    def fail(*call: Any) -> None:
        calls.append(call)
        raise KeyError("enough")

    with pytest.raises(KeyError):
        index.add(integers[0], None if ids is None else np.array(ids), progress=fail)
    assert len(index) == 500 and len(calls) == 1
    assert_same(index.search(integers[1], 5, filter=range(500)), nearest(*integers, 5, "l2sq"))
