"""Rows and queries in every layout and type: read where they lie if that is possible, copied if not, or refused in one line."""

import gc
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference import assert_same, nearest

import nearfield as nf
from nearfield import _arrays


def unaligned(values: Any) -> Any:
    memory = np.zeros(values.nbytes + 1, np.uint8)
    shifted = memory[1:].view(values.dtype).reshape(values.shape)
    shifted[:] = values
    assert not shifted.flags.aligned
    return shifted


def read_only(values: Any) -> Any:
    values = values.copy()
    values.flags.writeable = False
    return values


LAYOUTS = {
    "fortran": np.asfortranarray,
    "slice": lambda values: np.repeat(values, 2, axis=0)[::2],
    "columns": lambda values: np.hstack([values, values])[:, : values.shape[1]],
    "reversed": lambda values: values[::-1].copy()[::-1],
    "negative": lambda values: np.ascontiguousarray(values[:, ::-1])[:, ::-1],
    "transposed": lambda values: np.ascontiguousarray(values.T).T,
    "unaligned": unaligned,
    "read-only": read_only,
    "list": lambda values: values.tolist(),
    "list of integers": lambda values: values.astype(int).tolist(),
    "tuple": lambda values: tuple(map(tuple, values.tolist())),
    "arrays": list,
    "memoryview": lambda values: memoryview(values) if values.dtype == np.float32 else values,
    "mask of nothing": np.ma.masked_array,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_answer(integers: Any, layout: str, dtype: Any) -> None:
    rows, queries = (LAYOUTS[layout](values.astype(dtype)) for values in integers)
    expected = nearest(*integers, 9, "l2sq")
    assert_same(nf.Flat(rows, metric="l2sq").search(queries, 9), expected)
    assert_same(nf.knn(rows, queries, 9), expected)
    np.testing.assert_array_equal(nf.distances(rows, queries), nf.distances(*integers))


def test_a_memmap_is_rows(integers: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", integers[0])
    rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert_same(nf.Flat(rows, metric="l2sq").search(integers[1], 9), nearest(*integers, 9, "l2sq"))


def test_types_of_rows_and_queries_may_differ(integers: Any) -> None:
    rows, queries = integers
    index = nf.Flat(rows[:3], dtype=np.float32, metric="l2sq")
    index.add(rows[3:].astype(np.float16))
    half = nf.Flat(rows.astype(np.float16), metric="l2sq")
    assert (index.dtype, half.dtype, nf.Flat([[1, 2], [3, 4]]).dtype) == (np.float32, np.float16, np.float32)
    for each in (index, half):
        for given in (queries, queries.astype(np.float16)):
            assert_same(each.search(given, 9), nearest(rows, queries, 9, "l2sq"))


@pytest.mark.parametrize("give", [lambda v: v, read_only, lambda v: v[3:], lambda v: v.astype(np.float16)])
def test_arrays_in_c_order_never_take_the_slow_path(integers: Any, give: Any, monkeypatch: Any) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("the array went through Python")

    for name in ("to_rows", "to_values"):
        assert hasattr(_arrays, name)
    # The Rust part keeps the functions, so what they call is replaced.
    monkeypatch.setattr(_arrays, "_to_array", refuse)
    rows, queries = (give(values) for values in integers)
    index = nf.Flat(rows, metric="l2sq")
    assert index.search(queries, 9).ids.shape == (len(queries), 9)
    assert index.search(queries[0], 9).ids.shape == (1, 9)
    assert nf.reduce.sum(queries[0]) == queries[0].sum()
    with pytest.raises(AssertionError):
        index.search(np.asfortranarray(queries), 9)


COPIES = """
import sys
import numpy as np
import nearfield as nf

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

def reset():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")

queries = np.ones(({rows}, 1024), np.float32)
queries[:, 0] += np.arange(len(queries)) % 7
if {copied}:
    queries = np.asfortranarray(queries)
index = nf.Flat(np.eye(4, 1024, dtype=np.float32), metric="ip", device="host")
index.search(queries[:100].copy(), 1)
reset()
before = peak()
index.search(queries, 1)
print(peak() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of memory is measured by Linux")
def test_an_array_in_c_order_is_not_copied_and_another_is(child: Any) -> None:
    megabytes = 48

    def grown(copied: bool) -> float:
        done = child(COPIES.format(rows=megabytes << 8, copied=copied))
        assert done.returncode == 0, done.stderr
        return float(done.stdout)

    assert grown(False) < megabytes / 4
    assert megabytes * 0.9 < grown(True) < megabytes * 1.25


REFUSED = [
    (lambda v: v.astype(np.float64), TypeError, r"needed float32, float16, int8 or uint8, given float64: convert it by NAME.astype\(np.float32\)"),
    (lambda v: v.astype(np.int32), TypeError, r"needed float32, float16, int8 or uint8, given int32: convert it by NAME.astype\(np.float32\)"),
    (lambda v: v > 0, TypeError, "needed float32, float16, int8 or uint8, given bool"),
    (lambda v: v.astype(np.longdouble), TypeError, "needed float32, float16, int8 or uint8, given"),
    (lambda v: v.astype(object), TypeError, "needed float32, float16, int8 or uint8, given object"),
    (lambda v: v.astype(">f4"), TypeError, r"needed the byte order of this machine, given >f4: convert it by NAME.astype\(np.float32\)"),
    (lambda v: v.astype(">f2"), TypeError, r"needed the byte order of this machine, given >f2: convert it by NAME.astype\(np.float16\)"),
    (lambda v: np.float32(1), ValueError, r"needed two dimensions, \[n, dim\], given shape \[\]"),
    (lambda v: v[0, :5], ValueError, r"needed two dimensions, \[n, dim\], given shape \[5\]"),
    (lambda v: v[None], ValueError, r"needed two dimensions, \[n, dim\], given shape \[1, \d+, 12\]"),
    (lambda v: v[:, :0], ValueError, r"needed rows of at least one element, given shape \[\d+, 0\]"),
    (lambda v: [], ValueError, r"needed two dimensions, \[n, dim\], given shape \[0\]"),
    (lambda v: [[]], ValueError, r"needed rows of at least one element, given shape \[1, 0\]"),
    (lambda v: [[1, 2], [3, 4], [5]], ValueError, r"needed rows of one length, \[2\] as row 0, given \[1\] in row 2"),
    (lambda v: [v[0], v[1][:3]], ValueError, r"needed rows of one length, \[12\] as row 0, given \[3\] in row 1"),
    (lambda v: [[1, [2]]], ValueError, "needed an array, given what numpy refuses"),
    (lambda v: [v[0].astype(np.float64)], TypeError, "needed float32, float16, int8 or uint8, given float64"),
    (lambda v: [["a"] * 12], TypeError, "needed numbers, given <U1"),
    (lambda v: [[10**400] * 12], TypeError, "needed numbers, given object"),
    (lambda v: [[1e300] * 12], ValueError, "needed finite values, row 0 holds a NaN or an infinity"),
    (lambda v: None, TypeError, "needed an array, a tensor or a list, given NoneType"),
    (lambda v: {1: v}, TypeError, "needed an array, a tensor or a list, given dict"),
    (lambda v: object(), TypeError, "needed an array, a tensor or a list, given object"),
    (lambda v: np.ma.masked_greater(v, 1), ValueError, "needed an array without masked elements"),
    (lambda v: [v[0], np.ma.array(v[1], mask=v[1] > 0)], ValueError, "needed an array without masked elements"),
    (lambda v: np.where(np.arange(len(v))[:, None] == 2, np.float32("nan"), v), ValueError, "needed finite values, row 2 holds"),
    (lambda v: np.full_like(v, 1e-40), ValueError, "needed norms that are 0 or within .*, row 0 has another"),
    (lambda v: np.full_like(v, 1e30), ValueError, "needed norms that are 0 or within .*, row 0 has another"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("give", "error", "words"), REFUSED)
def test_what_is_no_vectors_is_refused_in_one_line(index: nf.Flat, integers: Any, give: Any, error: Any, words: str) -> None:
    rows, queries = integers
    before = index.search(queries, 3)
    calls = {
        "rows": [
            lambda rows: nf.Flat(rows, metric="l2sq"),
            lambda rows: index.add(rows),
            lambda rows: nf.knn(rows, queries),
            lambda rows: nf.distances(rows, queries),
            lambda rows: nf.Ivf(rows, lists=1),
            lambda rows: nf.KMeans(1).fit(rows),
        ],
        "queries": [
            lambda queries: index.search(queries, 3),
            lambda queries: index.search_within(queries, 1.0),
            lambda queries: nf.knn(rows, queries),
            lambda queries: nf.distances(rows, queries),
        ],
    }
    for name, of_name in calls.items():
        # The first takes None for no rows.
        for call in of_name[name == "rows" and give(queries) is None :]:
            with pytest.raises(error, match=f"^{name}: {words.replace('NAME', name)}") as raised:
                call(give(queries))
            assert "\n" not in str(raised.value) and not getattr(raised.value, "__notes__", [])
    assert len(index) == 500
    np.testing.assert_array_equal(index.search(queries, 3).ids, before.ids)


def test_rows_hold_subnormals_beside_larger_elements() -> None:
    rows = np.array([[1, 1e-40], [1, 2], [0, 0]], np.float32)
    index = nf.Flat(rows, metric="l2sq")
    assert index.search(rows, 1).ids.ravel().tolist() == [0, 1, 2]
    assert index.get([0])[0, 0] == 1


def test_no_rows_make_an_empty_index() -> None:
    index = nf.Flat(np.zeros((0, 5), np.float16))
    assert len(index) == 0 and index.dim == 5 and index.dtype == np.float16
    assert index.add(np.zeros((0, 5), np.float16)).shape == (0,)


class Tensor:
    """A tensor of another library, in memory of any kind."""

    def __init__(self, values: Any, device: int, **attributes: Any) -> None:
        self.values, self.kind = values, device
        vars(self).update(attributes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0

    def __dlpack__(self, **_: Any) -> Any:
        if self.values is None:
            raise BufferError("memory of a GPU,\nwhich the processor cannot read")
        return self.values.__dlpack__()


@pytest.mark.parametrize(
    "give",
    [
        lambda values: Tensor(values, 1),
        lambda values: Tensor(values, 3),
        lambda values: Tensor(values, 2, cpu=lambda: values),
        lambda values: Tensor(values, 2, get=lambda: values),
        # As one of PyTorch that records gradients.
        lambda values: Tensor(None, 1, detach=lambda: values),
        lambda values: [Tensor(vector, 1) for vector in values],
    ],
    ids=["host", "pinned", "cpu()", "get()", "detach()", "list"],
)
def test_tensors_are_read_and_those_on_a_gpu_copied_by_their_own_method(integers: Any, give: Any) -> None:
    rows, queries = integers
    index = nf.Flat(give(rows), metric="l2sq")
    assert_same(index.search(give(queries), 9), nearest(rows, queries, 9, "l2sq"))
    numbers = give(np.arange(500)) if isinstance(give(rows), Tensor) else range(500)
    assert_same(index.search(queries, 9, filter=numbers), nearest(rows, queries, 9, "l2sq"))


def test_a_tensor_that_cannot_be_read_is_refused_in_one_line(index: nf.Flat, integers: Any) -> None:
    class Nowhere(Tensor):
        def __dlpack_device__(self) -> tuple[int, int]:
            raise ValueError("a device\nwithout a number")

    unreadable = "a tensor that numpy can read, given one that it cannot: .*$"
    for wrong, words in (
        (Tensor(None, 1), unreadable),
        (Tensor(None, 2), unreadable),
        (Nowhere(integers[1], 1), unreadable),
        (Tensor(integers[1].astype(np.float64), 1), "float32, float16, int8 or uint8, given float64"),
    ):
        with pytest.raises(TypeError, match=f"^queries: needed {words}") as raised:
            index.search(wrong)
        assert "\n" not in str(raised.value)


def test_no_call_keeps_what_it_was_given(integers: Any) -> None:
    rows, queries = (values.copy() for values in integers)
    ids, mask, fortran = np.arange(500), np.ones(500, bool), np.asfortranarray(queries)
    out = (np.zeros((20, 3), np.float32), np.zeros((20, 3), np.int64))

    def counts() -> list[int]:
        gc.collect()
        return [sys.getrefcount(value) for value in (rows, queries, ids, mask, fortran, *out)]

    def call_all() -> None:
        index = nf.Flat(rows, metric="l2sq", ids=ids)
        index.search(queries, 3, filter=mask, out=out)
        index.search(fortran, 3, filter=ids)
        index.search_within(queries, 1.0)
        nf.knn(rows, queries), nf.distances(rows, queries), nf.reduce.sum(rows)
        for wrong in (
            lambda: index.add(rows, ids),
            lambda: index.search(queries, 0),
            lambda: index.search(queries, 3, out=(out[1], out[0])),
            lambda: nf.Flat(rows, ids=ids[:3]),
            lambda: index.search(queries, 3, filter=mask[:3]),
        ):
            with pytest.raises((ValueError, TypeError)):
                wrong()

    call_all()
    before = counts()
    for _ in range(20):
        call_all()
    assert counts() == before
    # The memory can be written and resized again.
    out[0][:] = 1
    queries.resize(21, 12, refcheck=False)
