"""Arrays, tensors and lists as the arrays that the Rust part reads: float32, float16, int8 or uint8, in C order.

The Rust part takes such arrays as they are, and Arrow's lists by itself. It calls these functions for everything else.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

# Where DLPack says that memory is the processor's: kDLCPU, kDLCUDAHost, kDLROCMHost.
_HOST_MEMORY = (1, 3, 11)


def to_rows(given: Any, argument: str, dim: int | None) -> NDArray[Any]:
    """Rows `[n, dim]`. Where `dim` is known, one vector of that length is one row."""
    array = _to_array(given, argument)
    if array.ndim == 1 and dim is not None and array.shape[0] == dim:
        array = array[None, :]
    return _to_elements(array, argument, (2,), "two dimensions, [n, dim]")


def to_values(given: Any, argument: str, each_row: bool) -> NDArray[Any]:
    """Rows `[rows, n]`, or where all values are reduced to one, also values of one dimension."""
    array = _to_array(given, argument)
    if each_row:
        return _to_elements(array, argument, (2,), "two dimensions, [rows, n], where an axis is given")
    return _to_elements(array, argument, (1, 2), "one or two dimensions")


def to_number(given: Any, argument: str) -> np.float64:
    """A real number of any type."""
    number = np.asarray(given)
    if number.ndim or number.dtype.kind not in "biuf":
        _refuse(TypeError, argument, "a number", type(given).__name__)
    return np.float64(number)


def to_integers(given: Any, argument: str, needed: str = "integers") -> NDArray[Any]:
    """Integers `[n]` of any type; objects where numpy has none that holds all of them."""
    array = _to_array(given, argument, _as_array)
    if array.size == 0 and array.dtype.kind not in "iu":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        # numpy has no type for some integers, and makes floats or objects of them.
        are_integers = array.dtype.kind in "fO" and isinstance(given, (list, tuple))
        if not (are_integers and all(isinstance(id, (int, np.integer)) for id in given)):
            _refuse(TypeError, argument, needed, array.dtype)
        array = np.array(given, object)
    if array.ndim != 1:
        _refuse(ValueError, argument, "one dimension, [n]", f"shape {list(array.shape)}")
    return array


def to_ids(given: Any, argument: str, needed: str = "integers") -> NDArray[np.int64]:
    """Ids `[n]` as int64."""
    array = to_integers(given, argument, needed)
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < 2**63:
        wrong = int(array.min()) if array.min() < 0 else int(array.max())
        _refuse(ValueError, argument, "0 to 2^63 - 1", wrong)
    return np.require(array, np.int64, ["C", "ALIGNED"])


def to_candidates(given: Any, queries: int) -> NDArray[np.int64]:
    """Ids `[queries, candidates]`, of one query also `[candidates]`: all of them, one query after the other."""
    array = _to_array(given, "ids", _as_array)
    rows = array if array.ndim == 2 else array[None, :] if array.ndim == 1 and queries == 1 else None
    if rows is None or rows.shape[0] != queries:
        _refuse(ValueError, "ids", f"[{queries}, candidates], a row for each query", f"shape {list(array.shape)}")
    ordered = np.sort(rows, axis=1)
    if (ordered[:, 1:] == ordered[:, :-1]).any():
        _refuse(ValueError, "ids", "each id once for a query", "one twice")
    return to_ids(rows.reshape(-1), "ids")


def to_filter(given: Any) -> NDArray[Any]:
    """Ids, or a boolean mask."""
    given = list(given) if isinstance(given, (set, frozenset, range)) else given
    array = _to_array(given, "filter", _as_array)
    if array.dtype.kind == "b":
        if array.ndim != 1:
            _refuse(ValueError, "filter", "a mask of one dimension", f"shape {list(array.shape)}")
        # Memory of another origin may hold other bytes than 0 and 1, which are no booleans in Rust.
        return np.not_equal(array.view(np.uint8), 0)
    if array.dtype.kind in "iu" and array.size > 2 and array.min() >= 0 and array.max() <= 1:
        # Ids 0 and 1 again and again: rather a mask of integers.
        _refuse(ValueError, "filter", "ids or a boolean mask", f"{array.size} numbers 0 and 1, which astype(bool) makes a mask")
    return to_ids(array if array.dtype.kind in "iu" else given, "filter", "ids, a boolean mask or a function of an id")


def _refuse(error: type[Exception], argument: str, needed: str, given: object) -> NoReturn:
    raise error(f"{argument}: needed {needed}, given {' '.join(str(given).split())}") from None


def _on_host(given: Any, argument: str) -> Any:
    """A tensor as a numpy array, which shares its memory where that is the processor's."""
    if isinstance(given, np.ndarray) or not hasattr(given, "__dlpack__"):
        return given
    # A tensor of PyTorch that records gradients does not give its memory away.
    tensor = given.detach() if hasattr(given, "detach") else given
    if "bfloat16" in str(getattr(tensor, "dtype", "")):
        # numpy reads no such tensor. float32 holds each of its numbers.
        tensor = tensor.float() if hasattr(tensor, "float") else tensor.astype("float32")
    try:
        if tensor.__dlpack_device__()[0] not in _HOST_MEMORY:
            # PyTorch has `cpu`, CuPy has `get`; others copy when they are asked for an array on the processor.
            copy = getattr(tensor, "cpu", None) or getattr(tensor, "get", None)
            tensor = copy() if copy else np.from_dlpack(tensor, device="cpu")
        return tensor if isinstance(tensor, np.ndarray) else np.from_dlpack(tensor)
    except MemoryError:
        raise
    except Exception as error:
        _refuse(TypeError, argument, "a tensor that numpy can read", f"one that it cannot: {error}")


def _as_array(given: Any, argument: str) -> NDArray[Any]:
    if isinstance(given, np.ma.MaskedArray):
        if np.ma.is_masked(given):
            _refuse(ValueError, argument, "an array without masked elements", "masked ones: fill them by .filled(value)")
        return np.ma.getdata(given)
    try:
        return np.asarray(given)
    except (ValueError, OverflowError) as error:
        _refuse(ValueError, argument, "an array", f"what numpy refuses: {error}")


def _to_array(
    given: Any, argument: str, convert: Callable[[Any, str], NDArray[Any]] | None = None
) -> NDArray[Any]:
    """Any array. `convert` makes one of a list; without it, one of float32 or of the list's arrays."""
    given = _on_host(given, argument)
    array = (convert or _from_list)(given, argument) if isinstance(given, (list, tuple)) else _as_array(given, argument)
    if array.ndim == 0 and array.dtype.kind == "O":
        _refuse(TypeError, argument, "an array, a tensor or a list", type(given).__name__)
    return array


def _from_list(rows: list[Any] | tuple[Any, ...], argument: str) -> NDArray[Any]:
    """A list of numbers or of vectors. Python's floats have no type of 32 bits, so they become float32."""
    if rows and not np.isscalar(rows[0]):
        vectors = [_as_array(_on_host(row, argument), argument) for row in rows]
        dim = vectors[0].shape
        for number, vector in enumerate(vectors):
            if vector.shape != dim:
                needed = f"rows of one length, {list(dim)} as row 0"
                _refuse(ValueError, argument, needed, f"{list(vector.shape)} in row {number}")
        # Vectors that are arrays keep their type, and are refused for it like one array.
        kinds = {vector.dtype for vector, row in zip(vectors, rows) if not isinstance(row, (list, tuple))}
        array = np.stack(vectors)
        if kinds:
            return array
    else:
        array = _as_array(rows, argument)
    if array.dtype.kind not in "fiu":
        _refuse(TypeError, argument, "numbers", array.dtype)
    # A number too large becomes an infinity, which the Rust part refuses with its row.
    with np.errstate(over="ignore"):
        return array.astype(np.float32)


def _to_elements(array: NDArray[Any], argument: str, dimensions: tuple[int, ...], needed: str) -> NDArray[Any]:
    shape, dtype = f"shape {list(array.shape)}", array.dtype
    if array.ndim not in dimensions:
        _refuse(ValueError, argument, needed, shape)
    if array.ndim == 2 and array.shape[1] == 0:
        _refuse(ValueError, argument, "rows of at least one element", shape)
    if dtype.name == "bfloat16":
        # numpy has this type from other packages. float32 holds each of its numbers.
        array, dtype = array.astype(np.float32), np.dtype(np.float32)
    if dtype.newbyteorder("=") not in (np.float32, np.float16, np.int8, np.uint8):
        mend = f": convert it by {argument}.astype(np.float32)" if dtype.kind in "biuf" else ""
        _refuse(TypeError, argument, "float32, float16, int8 or uint8", f"{dtype}{mend}")
    if not dtype.isnative:
        mend = f"{argument}.astype(np.{dtype.name})"
        _refuse(TypeError, argument, "the byte order of this machine", f"{dtype.str}: convert it by {mend}")
    # Copies what lies in another order, has gaps, or is not aligned.
    return np.require(array, requirements=["C", "ALIGNED"])
