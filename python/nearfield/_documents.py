"""Token vectors of documents and queries as the Rust part reads them: rows `[tokens, dim]`, and where those of each begin."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearfield._arrays import _as_array, _on_host, _refuse, _to_array, to_integers, to_rows


def to_tokens(
    given: Any, argument: str, prefix: str, mask: Any, offsets: Any, dim: int | None
) -> tuple[Any, NDArray[np.int64] | None]:
    """A list of matrices, or padded ones, as rows and offsets. What may be rows already, with None in their place."""
    if mask is not None and offsets is not None:
        _refuse(ValueError, f"{prefix}offsets", f"{prefix}mask or {prefix}offsets", "both")
    if mask is None and any(hasattr(given, f"__arrow_c_{kind}__") for kind in ("array", "stream")):
        return given, None
    if mask is None and offsets is None and isinstance(given, (list, tuple)):
        if not given and dim is not None:
            return np.zeros((0, dim), np.float32), np.zeros(1, np.int64)
        if _dimensions(given, argument) == 3:
            return _joined(given, argument, dim)
    array = _to_array(given, argument)
    if mask is None and array.ndim != 3:
        if array.ndim == 0 or array.ndim == 1 and array.shape[0] != dim or array.ndim > 3:
            needed = "[tokens, dim], or [n, tokens, dim], or a list of [tokens, dim]"
            _refuse(ValueError, argument, needed, f"shape {list(array.shape)}")
        return array, None
    if array.ndim != 3 or offsets is not None:
        needed = f"[n, tokens, dim] beside {prefix}mask" if offsets is None else f"[tokens, dim] beside {prefix}offsets"
        _refuse(ValueError, argument, needed, f"shape {list(array.shape)}")
    count, tokens, elements = array.shape
    if mask is None:
        return array.reshape(count * tokens, elements), np.arange(count + 1, dtype=np.int64) * tokens
    chosen = _to_mask(mask, f"{prefix}mask")
    if chosen.shape != (count, tokens):
        needed = f"[{count}, {tokens}], a value for each token"
        _refuse(ValueError, f"{prefix}mask", needed, f"shape {list(chosen.shape)}")
    return array[chosen], _ends(chosen.sum(axis=1))


def to_offsets(given: Any, argument: str, prefix: str, tokens: int) -> NDArray[np.int64]:
    """Where the tokens of each begin, and the end of the last. Of none given, all tokens are of one."""
    if given is None:
        given = np.array([0, tokens], np.int64)
    offsets = to_integers(given, f"{prefix}offsets")
    if not offsets.size or offsets[0] != 0 or offsets[-1] != tokens or (offsets[1:] < offsets[:-1]).any():
        wrong = "none" if not offsets.size else f"{offsets[0]} to {offsets[-1]}"
        wrong += ", not ascending" if offsets.size and (offsets[1:] < offsets[:-1]).any() else ""
        _refuse(ValueError, f"{prefix}offsets", f"numbers that ascend from 0 to {tokens}, the number of tokens", wrong)
    offsets = np.require(offsets, np.int64, ["C", "ALIGNED"])
    if (empty := np.flatnonzero(offsets[1:] == offsets[:-1])).size:
        _refuse(ValueError, argument, "at least one token each", f"none in {argument}[{empty[0]}]")
    return offsets


def to_weights(given: Any, mask: Any, offsets: NDArray[np.int64]) -> NDArray[np.float32]:
    """The weight of each token of the queries, `[tokens]`, laid out as the queries are."""
    lengths = np.diff(offsets)
    if mask is None and isinstance(given, (list, tuple)) and _dimensions(given, "weights") == 2:
        each = [_to_numbers(one, f"weights[{number}]") for number, one in enumerate(given)]
        if len(each) != len(lengths):
            _refuse(ValueError, "weights", f"weights of {len(lengths)} queries", len(each))
        for number, (one, length) in enumerate(zip(each, lengths)):
            if one.shape != (length,):
                _refuse(ValueError, f"weights[{number}]", f"[{length}], a number for each token", f"shape {list(one.shape)}")
        return np.concatenate(each)
    weights = _to_numbers(given, "weights")
    if mask is not None and weights.ndim == 2:
        chosen = _to_mask(mask, "mask")
        if weights.shape == chosen.shape:
            return weights[chosen]
    elif weights.ndim == 2 and len(weights) == len(lengths) and (lengths == weights.shape[1]).all():
        return weights.reshape(-1)
    elif weights.shape == (offsets[-1],):
        return weights
    needed = f"[{offsets[-1]}], a number for each token of the queries, or laid out as these are"
    _refuse(ValueError, "weights", needed, f"shape {list(weights.shape)}")


def _dimensions(given: Any, argument: str) -> int:
    """The dimensions of an array, and of lists in lists by what they hold first."""
    if isinstance(given, (list, tuple)):
        return 1 + (_dimensions(given[0], argument) if given else 0)
    return int(np.ndim(_on_host(given, argument)))


def _joined(given: Any, argument: str, dim: int | None) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Matrices that lie apart, as one."""
    each = [to_rows(one, f"{argument}[{number}]", dim) for number, one in enumerate(given)]
    first = each[0]
    for number, one in enumerate(each):
        if (one.dtype, one.shape[1]) != (first.dtype, first.shape[1]):
            needed = f"{first.dtype} of dim {first.shape[1]}, as {argument}[0]"
            _refuse(ValueError, f"{argument}[{number}]", needed, f"{one.dtype} of dim {one.shape[1]}")
    rows = first if len(each) == 1 else np.concatenate(each)
    return rows, _ends(np.array([len(one) for one in each], np.int64))


def _ends(lengths: NDArray[Any]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


def _to_mask(given: Any, argument: str) -> NDArray[np.bool_]:
    array = _to_array(given, argument, _as_array)
    if array.dtype.kind not in "biuf":
        _refuse(TypeError, argument, "booleans, or numbers 0 and 1", array.dtype)
    # Memory of another origin may hold other bytes than 0 and 1, which numpy takes for numbers.
    chosen: NDArray[np.bool_] = np.not_equal(array.view(np.uint8) if array.dtype.kind == "b" else array, 0)
    if array.dtype.kind != "b" and (array[chosen] != 1).any():
        _refuse(ValueError, argument, "booleans, or numbers 0 and 1", "others")
    return chosen


def _to_numbers(given: Any, argument: str) -> NDArray[np.float32]:
    array = _to_array(given, argument, _as_array)
    if array.dtype.kind not in "biuf":
        _refuse(TypeError, argument, "numbers", array.dtype)
    # A number too large becomes an infinity, which the Rust part refuses.
    with np.errstate(over="ignore"):
        return np.require(array, np.float32, ["C", "ALIGNED"])
