"""Arrays, tensors and lists as the arrays that the Rust part reads: float32 or float16, in C order.

The Rust part takes such arrays as they are, and Arrow's lists by itself. It calls these functions for everything else.
"""

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
    if array.ndim != 2:
        _refuse(ValueError, argument, "two dimensions, [n, dim]", f"shape {list(array.shape)}")
    if array.shape[1] == 0:
        _refuse(ValueError, argument, "rows of at least one element", f"shape {list(array.shape)}")
    return _to_float(array, argument)


def to_values(given: Any, argument: str) -> NDArray[Any]:
    """Values of one or two dimensions."""
    array = _to_array(given, argument)
    if array.ndim not in (1, 2):
        _refuse(ValueError, argument, "one or two dimensions", f"shape {list(array.shape)}")
    return _to_float(array, argument)


def to_ids(given: Any) -> NDArray[np.int64]:
    """Ids `[n]` as int64."""
    array = np.asarray(_on_host(given, "ids"))
    if array.size == 0 and array.dtype.kind not in "iu":
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        _refuse(TypeError, "ids", "integers", array.dtype)
    if array.ndim != 1:
        _refuse(ValueError, "ids", "one dimension, [n]", f"shape {list(array.shape)}")
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 2**63:
        _refuse(ValueError, "ids", "0 to 2^63 - 1", int(array.max()))
    return np.ascontiguousarray(array, dtype=np.int64)


def to_filter(given: Any) -> NDArray[Any]:
    """Ids, or a boolean mask."""
    array = np.asarray(_on_host(list(given) if isinstance(given, (set, frozenset, range)) else given, "filter"))
    if array.dtype.kind == "b":
        if array.ndim != 1:
            _refuse(ValueError, "filter", "a mask of one dimension", f"shape {list(array.shape)}")
        return np.ascontiguousarray(array)
    if array.size and array.dtype.kind not in "iu":
        _refuse(TypeError, "filter", "ids, a boolean mask or a function of an id", array.dtype)
    return to_ids(array)


def _refuse(error: type[Exception], argument: str, needed: str, given: object) -> NoReturn:
    raise error(f"{argument}: needed {needed}, given {given}")


def _on_host(given: Any, argument: str) -> Any:
    """A tensor as a numpy array, which shares its memory where that is the processor's."""
    if isinstance(given, np.ndarray) or not hasattr(given, "__dlpack__"):
        return given
    # A tensor of PyTorch that records gradients does not give its memory away.
    tensor = given.detach() if hasattr(given, "detach") else given
    if "bfloat16" in str(getattr(tensor, "dtype", "")):
        _refuse(TypeError, argument, "float32 or float16", f"bfloat16: convert it by {argument}.float()")
    if tensor.__dlpack_device__()[0] not in _HOST_MEMORY:
        # PyTorch has `cpu`, CuPy has `get`; others copy when they are asked for an array on the processor.
        copy = getattr(tensor, "cpu", None) or getattr(tensor, "get", None)
        tensor = copy() if copy else np.from_dlpack(tensor, device="cpu")
    try:
        return tensor if isinstance(tensor, np.ndarray) else np.from_dlpack(tensor)
    except (BufferError, RuntimeError) as error:
        _refuse(TypeError, argument, "a tensor that numpy can read", f"one that it cannot: {error}")


def _to_array(given: Any, argument: str) -> NDArray[Any]:
    given = _on_host(given, argument)
    if isinstance(given, (list, tuple)):
        return _from_list(given, argument)
    try:
        return np.asarray(given)
    except ValueError as error:
        _refuse(ValueError, argument, "an array", f"what numpy refuses: {error}")


def _from_list(rows: list[Any] | tuple[Any, ...], argument: str) -> NDArray[Any]:
    """A list of numbers or of vectors. Python's floats have no type of 32 bits, so they become float32."""
    if rows and not np.isscalar(rows[0]):
        vectors = [np.asarray(_on_host(row, argument)) for row in rows]
        dim = vectors[0].shape
        for number, vector in enumerate(vectors):
            if vector.shape != dim:
                needed = f"rows of one length, {list(dim)} as row 0"
                _refuse(ValueError, argument, needed, f"{list(vector.shape)} in row {number}")
        # Vectors that are arrays keep their type, and are refused for it like one array.
        kinds = {vector.dtype for vector, row in zip(vectors, rows) if not isinstance(row, (list, tuple))}
        array = np.stack(vectors) if kinds else np.asarray(rows)
        if kinds:
            return array
    else:
        array = np.asarray(rows)
    if array.dtype.kind not in "fiu":
        _refuse(TypeError, argument, "numbers", array.dtype)
    return array.astype(np.float32)


def _to_float(array: NDArray[Any], argument: str) -> NDArray[Any]:
    dtype = array.dtype
    if dtype == np.float64:
        _refuse(TypeError, argument, "float32 or float16", f"float64: convert it by {argument}.astype(np.float32)")
    if dtype.kind in "biu":
        _refuse(TypeError, argument, "float32 or float16", f"{dtype}: convert it by {argument}.astype(np.float32)")
    if dtype.newbyteorder("=") not in (np.float32, np.float16):
        _refuse(TypeError, argument, "float32 or float16", dtype)
    if not dtype.isnative:
        mend = f"{argument}.astype(np.{dtype.name})"
        _refuse(TypeError, argument, "the byte order of this machine", f"{dtype.str}: convert it by {mend}")
    # Copies what lies in another order, has gaps, or is not aligned.
    return np.require(array, requirements=["C", "ALIGNED"])
