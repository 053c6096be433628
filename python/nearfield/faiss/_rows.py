"""Rows of a native index by position, which is what faiss counts in."""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from nearfield import Flat, Ivf, Ragged
from nearfield.faiss._given import faiss_names


class Column:
    """int64 values that grow at the end. Pieces are joined when they are read, so that many short ones cost no copies."""

    def __init__(self, values: NDArray[np.int64]) -> None:
        self._pieces = [values]
        # The places in ascending order of their values, once somebody looks for one. Of less length: values came since.
        self._order = np.empty(0, dtype=np.intp)

    def __reduce__(self) -> tuple[Any, ...]:
        return Column, (self.values,)

    def append(self, values: NDArray[np.int64]) -> None:
        self._pieces.append(values)

    @property
    def values(self) -> NDArray[np.int64]:
        # Threads that search at once may all join them: each puts an equal list there.
        pieces = self._pieces
        if len(pieces) > 1:
            self._pieces = pieces = [np.concatenate(pieces)]
        return pieces[0]

    def places_of(self, sought: NDArray[np.int64]) -> NDArray[np.int64]:
        """The last place of each value that is sought; -1 where it is not there."""
        values, order = self.values, self._order
        if not len(values):
            return np.full(len(sought), -1, dtype=np.int64)
        if len(order) < len(values):
            self._order = order = np.argsort(values, kind="stable")
        # A value below all others gets the place of the largest, which it does not equal.
        places = order[np.searchsorted(values, sought, side="right", sorter=order) - 1]
        return np.where(values[places] == sought, places, -1).astype(np.int64, copy=False)


class Rows:
    """Rows at positions 0, 1, 2, …, in the order in which they were added. A removal moves the later ones down.

    A native index never gives an insertion number twice, so its ids stay in the order of positions. Ties, which go to the
    smaller id, therefore go to the smaller position.
    """

    def __init__(self, native: Flat | Ivf, ids: NDArray[np.int64] | None = None) -> None:
        self.native = native
        # The native id at each position, ascending. None: they are the positions.
        self._ids = None if ids is None else Column(ids)

    def __len__(self) -> int:
        return len(self.native)

    @property
    def ids(self) -> NDArray[np.int64] | None:
        """The native id at each position, ascending; None where ids are positions."""
        return None if self._ids is None else self._ids.values

    def _ids_at(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return positions if self._ids is None else self._ids.values[positions]

    def _positions_of(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        return ids if self._ids is None else np.searchsorted(self._ids.values, ids).astype(np.int64, copy=False)

    @faiss_names()
    def add(self, rows: NDArray[Any]) -> None:
        """Adds rows `[n, d]` at the end."""
        if len(rows):
            ids = self.native.add(rows)
            if self._ids is not None:
                self._ids.append(ids)

    def remove(self, removed: NDArray[np.bool_]) -> int:
        """Removes the rows at marked positions; returns how many those are."""
        ids = np.arange(len(self), dtype=np.int64) if self._ids is None else self._ids.values
        count = int(np.count_nonzero(removed))
        if count:
            self.native.remove(ids[removed])
            self._ids = Column(ids[~removed])
        return count

    def get(self, positions: NDArray[np.int64]) -> NDArray[Any]:
        """The rows at these positions, `[n, d]`."""
        return self.native.get(self._ids_at(positions))

    def _filter(self, allowed: NDArray[np.bool_] | None) -> NDArray[np.int64] | None:
        return None if allowed is None else self._ids_at(np.flatnonzero(allowed).astype(np.int64, copy=False))

    @faiss_names()
    def search(
        self, queries: NDArray[Any], k: int, allowed: NDArray[np.bool_] | None, probes: int | None
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Distances and positions of up to k nearest rows, `[queries, at most k]`."""
        found = self.native.search(queries, k, probes=probes, filter=self._filter(allowed))
        return found.distances, self._positions_of(found.ids)

    @faiss_names()
    def within(self, queries: NDArray[Any], radius: float, allowed: NDArray[np.bool_] | None) -> Ragged:
        """The rows nearer than a radius; `ids` are positions."""
        found = self.native.search_within(queries, radius, filter=self._filter(allowed))
        return found._replace(ids=self._positions_of(found.ids))

    @property
    def centroids(self) -> NDArray[np.float32]:
        return cast(Ivf, self.native).centroids
