"""Vectors of Arrow: fixed-size lists and binary through the PyCapsule interface, without pyarrow on our side."""

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


def test_reductions_and_no_rows(index: nf.Flat, integers: Any) -> None:
    rows = integers[0]
    assert nf.reduce.sum(lists(rows)) == rows.sum()
    np.testing.assert_array_equal(nf.reduce.sum(lists(rows), axis=1), rows.sum(axis=1))
    for none in (lists(rows[:0]), pa.chunked_array([], lists(rows).type), pa.table({"v": lists(rows)}).slice(0, 0)):
        assert len(nf.Flat(none)) == 0 and nf.Flat(none).dim == 12
        assert index.search(none, 5).ids.shape == (0, 5)


def test_numbers_are_values_or_one_vector(index: nf.Flat, integers: Any) -> None:
    vector = integers[0][0]
    for given in (pa.array(vector), pa.chunked_array([pa.array(vector[:5]), pa.array(vector[5:])])):
        assert nf.reduce.sum(given) == vector.sum()
        assert_same(index.search(given, 9), index.search(vector, 9))
        with pytest.raises(ValueError, match=r"^rows: needed two dimensions, \[n, dim\], given shape \[12\]"):
            nf.Flat(given)


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
    with pytest.raises(TypeError, match="^rows: needed a FixedSizeList of float32, float16, int8 or uint8.*given"):
        nf.Flat(pl.Series("vector", rows.tolist()))


def test_data_frames_are_rows_of_their_columns_however_many_there_are(integers: Any) -> None:
    rows, queries = integers
    for part in (rows, rows[:, :1], rows[:0], rows[:0, :1]):
        columns = {f"x{column}": part[:, column] for column in range(part.shape[1])}
        packages = [import_module(package) for package in ("pandas", "polars") if find_spec(package)]
        frames = [pa.table(columns), pa.record_batch(columns), *(package.DataFrame(columns) for package in packages)]
        for frame in frames:
            index = nf.Flat(frame, metric="l2sq")
            assert (len(index), index.dim) == part.shape
            np.testing.assert_array_equal(index.get(index.ids), part)
    assert nf.reduce.argmax(pa.table({"a": rows[:, 0], "b": rows[:, 1]}), axis=1).tolist() == rows[:, :2].argmax(1).tolist()
    with pytest.raises(TypeError, match="^rows: needed float32, float16, int8 or uint8, given float64: convert it by"):
        nf.Flat(pa.table({"a": [1.0], "b": [2.0]}))


def test_a_frame_that_pyarrow_refuses_is_read_by_numpy(index: nf.Flat, integers: Any) -> None:
    pd: Any = pytest.importorskip("pandas")
    frame = pd.DataFrame(integers[0], columns=["same"] * 12)
    assert_same(nf.Flat(frame, metric="l2sq").search(integers[1], 9), index.search(integers[1], 9))
    assert nf.reduce.sum(pd.Series(integers[0][0])) == integers[0][0].sum()
    with pytest.raises(TypeError, match="^rows: needed float32, float16, int8 or uint8, given object"):
        nf.Flat(pd.DataFrame({"a": [1, "x"]}))


def binary(values: Any) -> Any:
    return pa.array([row.tobytes() for row in values.astype(np.uint8)], pa.binary(values.shape[1]))


@pytest.mark.parametrize("metric", ["hamming", "jaccard"])
@pytest.mark.parametrize(
    "form",
    [
        binary,
        lambda v: binary(np.vstack([v[:5], v, v[:3]])).slice(5, len(v)),
        lambda v: pa.chunked_array([binary(v[:7]), binary(v[7:])]),
        lambda v: pa.table({"bits": binary(v)}),
        lambda v: pa.record_batch({"bits": binary(np.vstack([v[:2], v]))}).slice(2),
    ],
    ids="array sliced chunks table sliced-batch".split(),
)
def test_binary_of_a_fixed_size_is_rows_of_bits(form: Any, metric: Any) -> None:
    rows = np.random.default_rng(1).integers(0, 256, (300, 5), dtype=np.uint8)
    index = nf.Flat(form(rows), metric=metric)
    assert (len(index), index.dim, index.dtype) == (300, 5, "ubinary")
    expected = nf.Flat(rows, metric=metric).search(rows[:9], 7)
    for found in (index.search(form(rows[:9]), 7), nf.knn(form(rows), form(rows[:9]), 7, metric=metric)):
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.distances, expected.distances)
    assert len(nf.Flat(form(rows[:0]), metric=metric)) == 0


def test_binary_is_no_numbers(index: nf.Flat) -> None:
    rows = np.arange(24, dtype=np.uint8).reshape(2, 12)
    with pytest.raises(ValueError, match="metric: needed hamming or jaccard for bits, given cosine"):
        nf.Flat(binary(rows))
    for call in (index.search, index.add, nf.KMeans(1).fit, nf.reduce.sum, lambda v: nf.knn(v, v, 1)):
        with pytest.raises(ValueError, match="given bits"):
            call(binary(rows))
    with pytest.raises(ValueError, match="^rows: needed values, given a null in row 1"):
        nf.Flat(pa.array([b"ab", None], pa.binary(2)), metric="hamming")
    with pytest.raises(ValueError, match="^rows: needed rows of at least one element"):
        nf.Flat(pa.array([b""], pa.binary(0)), metric="hamming")
    with pytest.raises(TypeError, match="^rows: needed a FixedSizeList .*, a FixedSizeBinary of bits, .* given Arrow's Binary"):
        nf.Flat(pa.array([b"ab"]), metric="hamming")


def failing(array: Any) -> Any:
    batch = pa.record_batch({"vector": array})

    def batches() -> Any:
        yield batch
        raise ValueError("the disk is full")

    return pa.RecordBatchReader.from_batches(batch.schema, batches())


@pytest.mark.parametrize(
    ("form", "error", "words"),
    [
        (lambda v: with_nulls(v, [3, 7]), ValueError, "needed values, given a null in row 3"),
        (lambda v: with_nulls(v, [3, 7]).slice(5), ValueError, "needed values, given a null in row 2"),
        (lambda v: pa.FixedSizeListArray.from_arrays(pa.array([1.0, None, 2.0, 3.0, 1.0, None], pa.float32()), 2), ValueError, "needed values, given a null in row 0"),
        (lambda v: pa.StructArray.from_arrays([lists(v)], ["v"], mask=pa.array(np.arange(len(v)) == 4)), ValueError, "needed values, given a null in row 4"),
        (lambda v: pa.chunked_array([lists(v[:2]), with_nulls(v, [3])]), ValueError, "needed values, given a null in row 5"),
        (lambda v: lists(v.astype(np.float64)), TypeError, "needed a FixedSizeList of float32, float16, int8 or uint8, .*given one of Arrow's Float64"),
        (lambda v: lists(v.astype(np.int16)), TypeError, "needed a FixedSizeList of float32, float16, int8 or uint8"),
        (lambda v: pa.array(v.tolist()), TypeError, "needed a FixedSizeList of float32, float16, int8 or uint8, a FixedSizeBinary of bits, or a table of one such column, given Arrow's List"),
        (lambda v: pa.array(["a"]), TypeError, "needed a FixedSizeList"),
        (lambda v: pa.table({"a": lists(v), "b": lists(v)}), TypeError, "needed a FixedSizeList of .*, given a table of 2 columns"),
        (lambda v: pa.table({"a\nb": pa.array([[1.0]])}), TypeError, "needed a FixedSizeList"),
        (lambda v: pa.table({}), ValueError, r"needed rows of at least one element, given shape \[0, 0\]"),
        (lambda v: pa.array([[], []], pa.list_(pa.float32(), 0)), ValueError, "needed rows of at least one element, given lists of none"),
        (lambda v: pa.Array, TypeError, "needed an array, given a class"),
        (lambda v: failing(lists(v)), ValueError, "needed an Arrow stream, given one that fails: .*the disk is full"),
    ],
)
def test_what_is_no_vectors_is_refused_in_one_line(index: nf.Flat, integers: Any, form: Any, error: Any, words: str) -> None:
    for name, call in (("rows", nf.Flat), ("queries", index.search)):
        with pytest.raises(error, match=f"^{name}: (?:{words})") as raised:
            call(form(integers[0]))
        assert "\n" not in str(raised.value)


class Pair:
    """An object that gives these capsules."""

    def __init__(self, *capsules: Any) -> None:
        self.capsules = capsules

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.capsules


def test_capsules_that_are_no_pair_are_refused_and_stay_whole(integers: Any) -> None:
    rows = integers[0]
    (schema, array), (other_schema, other) = lists(rows).__arrow_c_array__(), lists(rows).__arrow_c_array__()
    used_schema, used = lists(rows).__arrow_c_array__()
    pa.Array._import_from_c_capsule(used_schema, used)
    pairs: list[Any] = [(), (1, 2), (schema,), (schema, array, other), (schema, schema), (array, schema)]
    pairs += [(used_schema, used), (schema, used), (used_schema, array)]
    for capsules in pairs:
        with pytest.raises(ValueError, match="^rows: needed an Arrow array .* in capsules, which nobody has taken, given tuple$"):
            nf.Flat(Pair(*capsules))
    assert len(nf.Flat(Pair(schema, array))) == 500
    with pytest.raises(ValueError, match="which nobody has taken"):
        nf.Flat(Pair(schema, array))
    assert len(nf.Flat(Pair(other_schema, other))) == 500
    for given in (None, [], schema):
        with pytest.raises(ValueError, match="^rows: needed an Arrow array .* given (NoneType|list|PyCapsule)$"):
            nf.Flat(type("Broken", (), {"__arrow_c_array__": lambda self: given})())


@pytest.mark.parametrize(
    ("described", "given"),
    [
        (lambda v: lists(v), lambda v: pa.array(v.ravel())),
        (lambda v: lists(v), lambda v: pa.array(["a"])),
        (lambda v: lists(v), lambda v: pa.record_batch({"vector": lists(v)})),
        (lambda v: pa.record_batch({"vector": lists(v)}), lambda v: lists(v)),
        (lambda v: pa.record_batch({"vector": lists(v)}), lambda v: pa.record_batch({"a": lists(v), "b": lists(v)})),
        (lambda v: lists(v.reshape(60, 100)), lambda v: lists(v)),
        (lambda v: pa.array(v.ravel()), lambda v: lists(v)),
        (lambda v: pa.array(["a"]), lambda v: pa.array(v.ravel())),
        (lambda v: binary(v), lambda v: lists(v)),
        (lambda v: lists(v), lambda v: binary(v)),
    ],
)
def test_an_array_of_another_type_than_its_schema_is_refused(integers: Any, described: Any, given: Any) -> None:
    schema, _ = described(integers[0]).__arrow_c_array__()
    _, array = given(integers[0]).__arrow_c_array__()
    with pytest.raises((TypeError, ValueError), match="^rows: needed a") as raised:
        nf.Flat(Pair(schema, array))
    assert "\n" not in str(raised.value)


def test_a_stream_that_somebody_else_has_taken_is_not_called(integers: Any) -> None:
    class Stream:
        def __init__(self, capsule: Any) -> None:
            self.capsule = capsule

        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return self.capsule

    capsule = pa.table({"vector": lists(integers[0])}).__arrow_c_stream__()
    reader = pa.RecordBatchReader._import_from_c_capsule(capsule)
    for _ in range(2):
        with pytest.raises(ValueError, match="^rows: needed an Arrow array or stream in capsules, which nobody has taken"):
            nf.Flat(Stream(capsule))
        reader = None
    assert reader is None
