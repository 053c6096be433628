"""Selectors of ids, and the parameters of a search that hold them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfield.faiss._given import Settings, as_ids


class IDSelector:
    """Says which ids a search may return, or `remove_ids` removes."""

    def mask(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each id is selected."""
        raise NotImplementedError(f"{type(self).__name__} has no method mask(ids)")

    def is_member(self, id: int) -> bool:
        """Whether this id is selected."""
        return bool(self.mask(np.array([id], dtype=np.int64))[0])


class IDSelectorRange(IDSelector):
    """Selects `imin <= id < imax`."""

    def __init__(self, imin: int, imax: int) -> None:
        self.imin = imin
        self.imax = imax

    def mask(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        return (ids >= self.imin) & (ids < self.imax)


class IDSelectorArray(IDSelector):
    """Selects the ids of an array."""

    def __init__(self, ids: ArrayLike) -> None:
        self.ids = as_ids("ids", ids)

    def mask(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        return np.isin(ids, self.ids)


class IDSelectorBatch(IDSelectorArray):
    """Selects the ids of an array. faiss looks these up faster; here both are the same."""


class IDSelectorNot(IDSelector):
    """Selects what another selector does not."""

    def __init__(self, sel: IDSelector) -> None:
        self.sel = sel

    def mask(self, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
        return ~self.sel.mask(ids)


class SearchParameters(Settings):
    """Parameters of one search: `sel` selects the ids that it may return."""

    _SETTINGS = frozenset({"sel"})

    def __init__(self, sel: IDSelector | None = None) -> None:
        self.sel = sel


class SearchParametersIVF(SearchParameters):
    """Parameters of one search of an `IndexIVFFlat`: `nprobe` lists instead of the index's own number."""

    _SETTINGS = SearchParameters._SETTINGS | {"nprobe"}

    def __init__(self, sel: IDSelector | None = None, nprobe: int | None = None) -> None:
        super().__init__(sel)
        self.nprobe = nprobe
