"""Sums, norms, extremes and dot products on a GPU, of all values or of each row.

`values` is an array of float32, float16, int8 or uint8, or what `nearfield.Flat` takes as rows. Without `axis` all values are reduced to one; `axis=1`
reduces each row `[rows, n]` by itself, to `[rows]`. Sums are added in float32: `compensated=True` adds as if in twice the precision.

`min`, `max`, `argmin` and `argmax` pass over NaN, where numpy's answer is NaN: theirs are `np.nanmin` and so on. Where all is NaN, they
are a `ValueError`. The other functions give NaN as numpy does.

    >>> import numpy as np, nearfield as nf
    >>> nf.reduce.dot(np.ones(8, np.float32), np.full(8, 2, np.float32))
    16.0
    >>> nf.reduce.argmax(np.eye(3, dtype=np.float32), axis=1)
    array([0, 1, 2])
"""

from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from nearfield._native import Device, _reduce
from nearfield._types import Adapter

__all__ = ["argmax", "argmin", "dot", "max", "mean", "min", "norm", "std", "sum", "sum_squares"]

Rows: TypeAlias = Literal[1, -1]
Axis: TypeAlias = Rows | None
Order: TypeAlias = Literal["l1", "l2", "max"]
Floats: TypeAlias = NDArray[np.float32]
Places: TypeAlias = NDArray[np.int64]
On: TypeAlias = Device | Adapter | str | None

_NORMS: dict[Order, Literal["norm-l1", "norm-l2", "norm-max"]] = {"l1": "norm-l1", "l2": "norm-l2", "max": "norm-max"}


def _each_row(axis: Axis) -> bool:
    if axis is None:
        return False
    # True is an int, but no axis.
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise TypeError(f"axis: needed None or 1, given {type(axis).__name__}")
    if axis not in (1, -1):
        raise ValueError(f"axis: needed None or 1, given {axis}")
    return True


@overload
def sum(values: Any, axis: None = ..., *, compensated: bool = ..., device: On = ...) -> float: ...
@overload
def sum(values: Any, axis: Rows, *, compensated: bool = ..., device: On = ...) -> Floats: ...
def sum(values: Any, axis: Axis = None, *, compensated: bool = False, device: On = None) -> float | Floats:
    """The sum."""
    return _reduce("sum", values, None, _each_row(axis), compensated, device)


@overload
def sum_squares(values: Any, axis: None = ..., *, compensated: bool = ..., device: On = ...) -> float: ...
@overload
def sum_squares(values: Any, axis: Rows, *, compensated: bool = ..., device: On = ...) -> Floats: ...
def sum_squares(values: Any, axis: Axis = None, *, compensated: bool = False, device: On = None) -> float | Floats:
    """The sum of squares."""
    return _reduce("sum-squares", values, None, _each_row(axis), compensated, device)


@overload
def mean(values: Any, axis: None = ..., *, compensated: bool = ..., device: On = ...) -> float: ...
@overload
def mean(values: Any, axis: Rows, *, compensated: bool = ..., device: On = ...) -> Floats: ...
def mean(values: Any, axis: Axis = None, *, compensated: bool = False, device: On = None) -> float | Floats:
    """The sum divided by the count."""
    return _reduce("mean", values, None, _each_row(axis), compensated, device)


@overload
def std(values: Any, axis: None = ..., *, device: On = ...) -> float: ...
@overload
def std(values: Any, axis: Rows, *, device: On = ...) -> Floats: ...
def std(values: Any, axis: Axis = None, *, device: On = None) -> float | Floats:
    """The standard deviation: the root of the mean squared deviation from the mean, as `np.std`."""
    return _reduce("std", values, None, _each_row(axis), False, device)


@overload
def norm(values: Any, axis: None = ..., *, order: Order = ..., compensated: bool = ..., device: On = ...) -> float: ...
@overload
def norm(values: Any, axis: Rows, *, order: Order = ..., compensated: bool = ..., device: On = ...) -> Floats: ...
def norm(
    values: Any,
    axis: Axis = None,
    *,
    order: Order = "l2",
    compensated: bool = False,
    device: On = None,
) -> float | Floats:
    """A norm: the sum of absolute values ("l1"), the root of the sum of squares ("l2") or the largest absolute value ("max")."""
    if not isinstance(order, str):
        raise TypeError(f"order: needed 'l1', 'l2' or 'max', given {type(order).__name__}")
    if order not in _NORMS:
        raise ValueError(f"order: needed 'l1', 'l2' or 'max', given {order!r}")
    return _reduce(_NORMS[order], values, None, _each_row(axis), compensated, device)


@overload
def dot(values: Any, others: Any, axis: None = ..., *, compensated: bool = ..., device: On = ...) -> float: ...
@overload
def dot(values: Any, others: Any, axis: Rows, *, compensated: bool = ..., device: On = ...) -> Floats: ...
def dot(
    values: Any, others: Any, axis: Axis = None, *, compensated: bool = False, device: On = None
) -> float | Floats:
    """The dot product of two arrays of one shape and type; with `axis=1`, of each row of one with the same row of the other."""
    return _reduce("dot", values, others, _each_row(axis), compensated, device)


@overload
def min(values: Any, axis: None = ..., *, device: On = ...) -> float: ...
@overload
def min(values: Any, axis: Rows, *, device: On = ...) -> Floats: ...
def min(values: Any, axis: Axis = None, *, device: On = None) -> float | Floats:
    """The smallest number."""
    return _reduce("min", values, None, _each_row(axis), False, device)


@overload
def max(values: Any, axis: None = ..., *, device: On = ...) -> float: ...
@overload
def max(values: Any, axis: Rows, *, device: On = ...) -> Floats: ...
def max(values: Any, axis: Axis = None, *, device: On = None) -> float | Floats:
    """The largest number."""
    return _reduce("max", values, None, _each_row(axis), False, device)


@overload
def argmin(values: Any, axis: None = ..., *, device: On = ...) -> int: ...
@overload
def argmin(values: Any, axis: Rows, *, device: On = ...) -> Places: ...
def argmin(values: Any, axis: Axis = None, *, device: On = None) -> int | Places:
    """The place of the smallest number, the first if several are equal."""
    return _reduce("argmin", values, None, _each_row(axis), False, device)


@overload
def argmax(values: Any, axis: None = ..., *, device: On = ...) -> int: ...
@overload
def argmax(values: Any, axis: Rows, *, device: On = ...) -> Places: ...
def argmax(values: Any, axis: Axis = None, *, device: On = None) -> int | Places:
    """The place of the largest number, the first if several are equal."""
    return _reduce("argmax", values, None, _each_row(axis), False, device)
