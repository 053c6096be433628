"""An index for PyLate that finds the documents of largest MaxSim among all, on any GPU or without one.

    from nearfield.pylate import Index
    from pylate import models, retrieve

    model = models.ColBERT("lightonai/GTE-ModernColBERT-v1")
    index = Index(128)
    index.add_documents(documents_ids=["a", "b"], documents_embeddings=model.encode(texts, is_query=False))
    retriever = retrieve.ColBERT(index=index)
    results = retriever.retrieve(queries_embeddings=model.encode(questions, is_query=True), k=10)

`Index` has the methods of those in `pylate.indexes` (PyLate 1.6 or later). What differs: it is exact and needs no training, documents
can be read back, and it lies in memory until `save` writes it. `pylate.rank.rerank` pads the shorter documents with tokens of zeros, which
count as tokens: a score that it reports is larger where all products with a token of the query are negative. This module needs neither
PyLate nor PyTorch.
"""

import json
import numbers
import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import DTypeLike, NDArray

from nearfield import Device, MultiVector
from nearfield._arrays import _refuse
from nearfield._locks import Lock, changes, reads

__all__ = ["Index", "RerankResult"]


class RerankResult(TypedDict):
    """A document that a query has found, as in `pylate.rank`."""

    id: int | str
    score: float


class Index:
    """Documents of `dim` elements a token, under ids that are texts or whole numbers.

    `dtype`, `store`, `capacity` and `device` are those of `nearfield.MultiVector`, which is the attribute `documents`.
    """

    # PyLate: a call answers with ranked documents, not with tokens to be scored.
    is_end_to_end_index = True

    def __init__(
        self,
        dim: int,
        *,
        dtype: DTypeLike | None = None,
        store: DTypeLike | None = None,
        capacity: int = 0,
        device: Device | str | None = None,
    ) -> None:
        self._hold(MultiVector(dim, dtype=dtype, store=store, capacity=capacity, device=device), {}, 0)

    def _hold(self, documents: MultiVector, ids: dict[int, int | str], next_number: int) -> None:
        self.documents = documents
        # The caller's ids by the numbers that documents have. No number is given twice.
        self._ids = ids
        self._numbers = {id: number for number, id in ids.items()}
        self._next = next_number
        self._lock = Lock()

    @changes
    def add_documents(
        self,
        documents_ids: int | str | Iterable[int | str],
        documents_embeddings: Any,
        batch_size: int | None = None,
    ) -> "Index":
        """Adds documents under new ids: all or, after an error, none.

        `documents_embeddings` is what `encode` returns, or anything else that `MultiVector.add` takes. `batch_size` has no effect.
        """
        ids = _to_ids(documents_ids)
        again = next((id for id, count in Counter(ids).items() if count > 1 or id in self._numbers), None)
        if again is not None:
            _refuse(ValueError, "documents_ids", "ids that the index does not have, each once", repr(again))
        given = range(self._next, self._next + len(ids))
        self.documents.add(documents_embeddings, np.array(given, np.int64))
        self._next += len(ids)
        self._ids.update(zip(given, ids))
        self._numbers.update(zip(ids, given))
        return self

    @changes
    def remove_documents(self, documents_ids: int | str | Iterable[int | str]) -> "Index":
        """Removes documents: all or, after an error, none."""
        ids = {*_to_ids(documents_ids)}
        self.documents.remove(self._numbers_of(ids))
        for id in ids:
            del self._ids[self._numbers.pop(id)]
        return self

    @reads
    def __call__(
        self,
        queries_embeddings: Any,
        k: int = 10,
        subset: Sequence[int | str] | Sequence[Sequence[int | str]] | None = None,
    ) -> list[list[RerankResult]]:
        """The k documents of largest MaxSim for each query, the largest first.

        `subset` are ids of the documents that may be found, of all queries or of each; those that the index does not have are left out.
        """
        if subset is None or not subset or isinstance(subset[0], (int, str, numbers.Integral)):
            return self._found(queries_embeddings, k, subset)
        queries = [queries_embeddings] if np.ndim(queries_embeddings[0]) == 1 else queries_embeddings
        if len(subset) != len(queries):
            _refuse(ValueError, "subset", f"ids for each of {len(queries)} queries", f"those of {len(subset)}")
        return [self._found(query, k, own)[0] for query, own in zip(queries, subset)]

    def _found(self, queries: Any, k: int, subset: Any) -> list[list[RerankResult]]:
        few = None if subset is None else [self._numbers[id] for id in _to_ids(subset, "subset") if id in self._numbers]
        found = self.documents.search(queries, k, filter=few)
        return [
            [{"id": self._ids[number], "score": score} for number, score in zip(*own)]
            for own in zip(found.ids.tolist(), found.scores.tolist())
        ]

    @reads
    def get_documents_embeddings(self, documents_ids: Iterable[Iterable[int | str]]) -> list[list[NDArray[np.float32]]]:
        """The tokens of documents, float32 `[tokens, dim]` each, in lists as the ids are: what `pylate.rank.rerank` takes."""
        return [[self.documents.get(number) for number in self._numbers_of(_to_ids(ids))] for ids in documents_ids]

    @reads
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to a file that `nearfield.MultiVector.load` reads too, and its ids to another, of that name and `.ids.json`."""
        self.documents.save(path)
        ids = _ids_file(path)
        made = ids.with_name(ids.name + ".part")
        made.write_text(json.dumps({"next": self._next, "numbers": [*self._ids], "ids": [*self._ids.values()]}), "utf-8")
        made.replace(ids)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: Device | str | None = None) -> "Index":
        """Loads an index that `save` has written, on a device or on the best."""
        documents, kept = MultiVector.load(path, device), json.loads(_ids_file(path).read_text("utf-8"))
        if sorted(kept["numbers"]) != documents.ids.tolist():
            _refuse(ValueError, "path", f"ids of the {len(documents)} documents in {_ids_file(path)}", "those of others")
        index = cls.__new__(cls)
        index._hold(documents, dict(zip(kept["numbers"], kept["ids"])), kept["next"])
        return index

    def _numbers_of(self, ids: Collection[int | str]) -> list[int]:
        missing = next((id for id in ids if id not in self._numbers), None)
        if missing is not None:
            _refuse(ValueError, "documents_ids", "ids that the index has", repr(missing))
        return [self._numbers[id] for id in ids]

    def __len__(self) -> int:
        return len(self.documents)

    def __contains__(self, id: object) -> bool:
        return id in self._numbers

    def __repr__(self) -> str:
        return f"<nearfield.pylate.Index of {self.documents!r}>"


def _ids_file(path: str | os.PathLike[str]) -> Path:
    return Path(os.fspath(path) + ".ids.json")


def _to_ids(given: Any, argument: str = "documents_ids") -> list[int | str]:
    """Ids as JSON keeps them."""
    each = [given] if isinstance(given, str) or not isinstance(given, Iterable) else [*given]
    for id in each:
        if not isinstance(id, (str, numbers.Integral)) or isinstance(id, bool):
            _refuse(TypeError, argument, "texts or whole numbers", repr(id))
    return [id if isinstance(id, str) else int(id) for id in each]
