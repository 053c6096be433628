"""Sums, norms and extremes against numpy."""

from typing import Any

import numpy as np
import pytest

import nearfield as nf
from nearfield import reduce

NUMPY = {
    "sum": lambda v, axis: v.sum(axis=axis),
    "sum_squares": lambda v, axis: (v * v).sum(axis=axis),
    "mean": lambda v, axis: v.mean(axis=axis),
    "std": lambda v, axis: v.std(axis=axis),
    "norm": lambda v, axis: np.sqrt((v * v).sum(axis=axis)),
    "min": lambda v, axis: v.min(axis=axis),
    "max": lambda v, axis: v.max(axis=axis),
    "argmin": lambda v, axis: v.argmin(axis=axis),
    "argmax": lambda v, axis: v.argmax(axis=axis),
}


@pytest.mark.parametrize("axis", [None, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", NUMPY)
def test_every_function_gives_what_numpy_gives(integers: Any, name: str, dtype: Any, axis: Any) -> None:
    values = integers[0].astype(dtype)
    found = getattr(reduce, name)(values, axis=axis)
    expected = NUMPY[name](values.astype(np.float64), axis)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    if axis is None:
        assert type(found) is (int if name.startswith("arg") else float)
    else:
        assert found.shape == (500,) and found.dtype == (np.int64 if name.startswith("arg") else np.float32)


@pytest.mark.parametrize("axis", [None, 1])
def test_norms_and_products(integers: Any, axis: Any) -> None:
    rows = integers[0]
    others = np.roll(rows, 1, axis=0)
    np.testing.assert_array_equal(reduce.norm(rows, axis, order="l1"), np.abs(rows).sum(axis=axis))
    np.testing.assert_array_equal(reduce.norm(rows, axis, order="max"), np.abs(rows).max(axis=axis))
    np.testing.assert_array_equal(reduce.dot(rows, others, axis), (rows * others).sum(axis=axis))
    half = rows.astype(np.float16)
    np.testing.assert_array_equal(reduce.dot(half, others.astype(np.float16), axis), (rows * others).sum(axis=axis))


@pytest.mark.parametrize("shape", [(12,), (1,), (7, 1), (1, 7)])
def test_small_shapes(shape: Any) -> None:
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    assert reduce.sum(values) == values.sum() and reduce.argmax(values) == values.argmax()
    assert reduce.sum(values.tolist()) == values.sum()


def test_compensated_sums_lose_nothing() -> None:
    values = np.tile(np.array([1e8, 1, -1e8, 1], np.float32), 5000)
    ones = np.ones_like(values)
    for found in (reduce.sum(values, compensated=True), reduce.dot(values, ones, compensated=True)):
        assert found == 10000
    assert reduce.mean(values.reshape(4, -1), axis=1, compensated=True).tolist() == [0.5] * 4
    large = np.concatenate([np.full(1, 4096, np.float32), np.full(100_000, 1, np.float32)])
    assert reduce.sum_squares(large, compensated=True) == 4096**2 + 100_000
    assert reduce.norm(large, compensated=True) == pytest.approx((4096**2 + 100_000) ** 0.5, rel=1e-7)


def test_extremes_pass_over_nan_and_what_is_empty_has_a_sum_alone() -> None:
    values = np.array([np.nan, 3, 1, 1, 3], np.float32)
    found = [function(values) for function in (reduce.min, reduce.max, reduce.argmin, reduce.argmax)]
    assert found == [1, 3, 2, 1]
    none = values[:0]
    assert reduce.sum(none) == 0 and reduce.sum(np.zeros((0, 3), np.float32), axis=1).shape == (0,)
    for function, given in ((reduce.min, values[:1]), (reduce.argmax, values[:1]), (reduce.min, none), (reduce.argmax, none), (reduce.mean, none)):
        with pytest.raises(ValueError, match="^values: needed at least one number, given none"):
            function(given)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda v: reduce.sum(v, axis=0), ValueError, "axis: needed None or 1, given 0"),
        (lambda v: reduce.sum(v, axis=1.0), TypeError, "axis: needed None or 1, given float"),
        (lambda v: reduce.sum(v, axis=np.ones((2, 2))), TypeError, "axis: needed None or 1, given ndarray"),
        (lambda v: reduce.sum(v[0], axis=1), ValueError, r"values: needed two dimensions, \[rows, n\], where an axis is given, given shape \[12\]"),
        (lambda v: reduce.sum(v.reshape(5, 100, 12)), ValueError, r"values: needed one or two dimensions, given shape \[5, 100, 12\]"),
        (lambda v: reduce.sum(np.float32(1)), ValueError, r"values: needed one or two dimensions, given shape \[\]"),
        (lambda v: reduce.sum(v[:, :0]), ValueError, "values: needed rows of at least one element"),
        (lambda v: reduce.norm(v, order="l3"), ValueError, "order: needed 'l1', 'l2' or 'max', given 'l3'"),
        (lambda v: reduce.norm(v, order=np.ones(3)), TypeError, "order: needed 'l1', 'l2' or 'max', given ndarray"),
        (lambda v: reduce.dot(v, v[:, :4]), ValueError, r"others: needed shape \[500, 12\], as the values have, given shape \[500, 4\]"),
        (lambda v: reduce.dot(v[0], v[:1]), ValueError, r"others: needed shape \[12\], as the values have, given shape \[1, 12\]"),
        (lambda v: reduce.dot(v, v.astype(np.float16)), ValueError, "others: needed float32, as the values have, given float16"),
        (lambda v: reduce.dot(v, None), TypeError, "others: needed an array, a tensor or a list, given None"),
        (lambda v: reduce.sum(v, device="no such"), nf.Error, "device: needed an adapter"),
        (lambda v: reduce.sum(v, axis=True), TypeError, "axis: needed None or 1, given bool"),
        (lambda v: reduce.sum(v, compensated="x"), TypeError, "compensated: needed True or False, given str"),
    ],
)
def test_what_does_not_fit_is_named(integers: Any, call: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=f"^{words}") as raised:
        call(integers[0])
    assert "\n" not in str(raised.value)
