"""Vectors of Arrow: fixed-size lists through the PyCapsule interface, without pyarrow on our side."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from reference import assert_same, nearest

import nearfield as nf

pa: Any = pytest.importorskip("pyarrow")


def lists(values: Any) -> Any:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1])


def with_nulls(values: Any, rows: list[int]) -> Any:
    mask = np.zeros(len(values), bool)
    mask[rows] = True
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values.shape[1], mask=pa.array(mask))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    "form",
    [
        lists,
        lambda v: lists(np.vstack([v[:5], v, v[:3]])).slice(5, len(v)),
        lambda v: pa.chunked_array([lists(v)]),
        lambda v: pa.chunked_array([lists(v[:7]), lists(v[7:9]), lists(v[9:])]),
        lambda v: pa.chunked_array([lists(v[:0]), lists(v)]),
        lambda v: pa.chunked_array([lists(np.vstack([v, v]))]).slice(len(v)),
        lambda v: pa.table({"vector": lists(v)}),
        lambda v: pa.table({"vector": pa.chunked_array([lists(v[:7]), lists(v[7:])])}),
        lambda v: pa.record_batch({"vector": lists(v)}),
        lambda v: pa.record_batch({"vector": lists(np.vstack([v[:2], v]))}).slice(2),
        lambda v: pa.table({"vector": lists(v)}).to_reader(),
    ],
    ids="array sliced chunk chunks empty-chunk sliced-chunk table chunked-table batch sliced-batch reader".split(),
)
def test_every_form_gives_the_same_answer(integers: Any, form: Any, dtype: Any) -> None:
    rows, queries = integers
    index = nf.Flat(form(rows.astype(dtype)), metric="l2sq")
    assert len(index) == 500 and index.dtype == dtype
    expected = nearest(rows, queries, 9, "l2sq")
    assert_same(index.search(form(queries.astype(dtype)), 9), expected)
    assert_same(nf.knn(form(rows.astype(dtype)), queries, 9), expected)


def test_reductions_and_no_rows(integers: Any) -> None:
    rows = integers[0]
    assert nf.reduce.sum(lists(rows)) == rows.sum()
    np.testing.assert_array_equal(nf.reduce.sum(lists(rows), axis=1), rows.sum(axis=1))
    assert len(nf.Flat(lists(rows[:0]))) == 0


class Capsules:
    """An object that offers Arrow's interface and nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.array.__arrow_c_array__()


def test_any_object_with_the_interface_is_read_and_released(integers: Any) -> None:
    array = lists(integers[0])
    before = pa.total_allocated_bytes()
    for _ in range(20):
        assert_same(nf.Flat(Capsules(array), metric="l2sq").search(integers[1], 9), nearest(*integers, 9, "l2sq"))
        with pytest.raises(ValueError):
            nf.Flat(Capsules(with_nulls(integers[0], [3])))
    assert pa.total_allocated_bytes() == before


def test_series_of_polars(integers: Any) -> None:
    pl: Any = pytest.importorskip("polars")
    rows, queries = integers
    series = pl.Series("vector", rows, dtype=pl.Array(pl.Float32, 12))
    expected = nearest(rows, queries, 9, "l2sq")
    assert_same(nf.Flat(series, metric="l2sq").search(queries, 9), expected)
    assert_same(nf.Flat(pl.DataFrame({"vector": series}), metric="l2sq").search(queries, 9), expected)
    with pytest.raises(TypeError, match="^rows: needed a FixedSizeList of float32 or float16.*given"):
        nf.Flat(pl.Series("vector", rows.tolist()))


def test_data_frames_are_rows_of_their_columns(integers: Any) -> None:
    rows, queries = integers
    columns = {f"x{column}": rows[:, column] for column in range(12)}
    frames = [pa.table(columns)]
    for package in ("pandas", "polars"):
        if find_spec(package):
            frames.append(import_module(package).DataFrame(columns))
    assert len(frames) > 1
    for frame in frames:
        assert_same(nf.Flat(frame, metric="l2sq").search(queries, 9), nearest(rows, queries, 9, "l2sq"))
        assert nf.reduce.argmax(frame, axis=1).tolist() == rows.argmax(1).tolist()
    with pytest.raises(TypeError, match="^rows: needed float32 or float16, given float64: convert it by"):
        nf.Flat(pa.table({"a": [1.0], "b": [2.0]}))


@pytest.mark.parametrize(
    ("form", "error", "words"),
    [
        (lambda v: with_nulls(v, [3, 7]), ValueError, "needed values, given a null in row 3"),
        (lambda v: with_nulls(v, [3, 7]).slice(5), ValueError, "needed values, given a null in row 2"),
        (lambda v: pa.FixedSizeListArray.from_arrays(pa.array([1.0, None, 2.0, 3.0, 1.0, None], pa.float32()), 2), ValueError, "needed values, given a null in row 0"),
        (lambda v: pa.StructArray.from_arrays([lists(v)], ["v"], mask=pa.array(np.arange(len(v)) == 4)), ValueError, "needed values, given a null in row 4"),
        (lambda v: lists(v.astype(np.float64)), TypeError, "needed a FixedSizeList of float32 or float16, given one of (double|Float64)"),
        (lambda v: lists(v.astype(np.int8)), TypeError, "needed a FixedSizeList of float32 or float16"),
        (lambda v: pa.array(v.tolist()), TypeError, "needed a FixedSizeList of float32 or float16, or a table of one such column, given Arrow's List"),
        (lambda v: pa.array(v[0]), TypeError, "needed a FixedSizeList"),
        (lambda v: pa.array(["a"]), TypeError, "needed a FixedSizeList"),
        (lambda v: pa.table({"a": lists(v), "b": lists(v)}), TypeError, "needed a FixedSizeList of .*, given a table of 2 columns"),
        (lambda v: pa.table({"a\nb": pa.array([[1.0]])}), TypeError, "needed a FixedSizeList"),
        (lambda v: pa.table({}), ValueError, "needed rows, given a stream without any"),
        (lambda v: pa.chunked_array([], lists(v).type), ValueError, "needed rows, given a stream without any"),
    ],
)
def test_what_is_no_vectors_is_refused_in_one_line(index: nf.Flat, integers: Any, form: Any, error: Any, words: str) -> None:
    given = form(integers[0])
    for name, call in (("rows", nf.Flat), ("queries", index.search)):
        with pytest.raises(error, match=f"^{name}: (?:{words})") as raised:
            call(given)
        assert "\n" not in str(raised.value)


def test_an_object_that_breaks_its_promise_is_refused(index: nf.Flat) -> None:
    class Broken:
        def __init__(self, answer: Any) -> None:
            self.answer = answer

        def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
            return self.answer

    array = pa.array([[1.0]])
    used = array.__arrow_c_array__()
    schema, _ = used
    pa.Array._import_from_c_capsule(*used)
    for answer in (None, [], (), (1, 2), (schema, schema), used):
        with pytest.raises((TypeError, ValueError), match="^queries: needed") as raised:
            index.search(Broken(answer))
        assert "\n" not in str(raised.value)
