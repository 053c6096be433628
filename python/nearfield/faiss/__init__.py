"""The interface of faiss over nearfield: a script runs by importing `nearfield.faiss as faiss`.

Indexes: `IndexFlat(d, metric)`, `IndexFlatL2(d)`, `IndexFlatIP(d)`, `IndexIVFFlat(quantizer, d, nlist, metric)`,
`IndexScalarQuantizer(d, qtype, metric)` with `ScalarQuantizer.QT_fp16`, `QT_8bit_direct` and `QT_8bit_direct_signed`,
`IndexIDMap(index)` and `IndexIDMap2(index)`; of bits, Hamming distances: `IndexBinaryFlat(d)`, `IndexBinaryIDMap(index)` and
`IndexBinaryIDMap2(index)`; with

- `add`, `add_with_ids`, `train`, `search`, `range_search`, `assign`, `remove_ids`, `reconstruct`, `reconstruct_n`,
  `reconstruct_batch`, `merge_from`, `reset`;
- `d`, `ntotal`, `is_trained`, `metric_type`, `verbose`; `nlist`, `nprobe`, `quantizer` and `make_direct_map` of an
  `IndexIVFFlat`; `index` and `id_map` of an `IndexIDMap`.

Beside them: `METRIC_L2`, `METRIC_INNER_PRODUCT`, `SearchParameters`, `SearchParametersIVF`, `IDSelectorArray`,
`IDSelectorBatch`, `IDSelectorRange`, `IDSelectorNot`, `normalize_L2`, `index_factory` ("Flat", "IVF256,Flat", "IDMap,Flat", "SQ8_direct"
and the like), `index_binary_factory` ("BFlat"), `write_index`, `read_index`, `write_index_binary`, `read_index_binary`, `serialize_index`, `deserialize_index`, `PyCallbackIOWriter`, `PyCallbackIOReader`,
`BufferedIOWriter`, `BufferedIOReader`, `downcast_index`, `extract_index_ivf`, `vector_to_array`, and for scripts that use a GPU
`StandardGpuResources`, `index_cpu_to_gpu`, `index_cpu_to_all_gpus`, `index_gpu_to_cpu`, `get_num_gpus`.
Any other name is an `AttributeError`, also where it is set on an index or on parameters.

Results have faiss's shapes, types and values: `search` gives float32 distances `[n, k]` and int64 ids `[n, k]`, nearest first;
where there are fewer than k rows, ids are -1 and distances the largest float32 (for inner products the lowest). L2 distances
are squared, inner products larger first. Any numbers are converted to float32; arrays of objects are refused.

What differs from faiss:

- Threads may use one index at once, and change it.
- An index is on a device from the start: the best GPU, or the processor where there is none. `device=` of a constructor and of
  `read_index` chooses one. `index_cpu_to_gpu` and its like return the index that they were given.
- Rows at the same distance come in the order in which they were added. faiss leaves their order open.
- Vectors with a NaN or an infinity are a `ValueError`, for rows and for queries, and so is a `thresh` that is NaN.
- `d` is at least 1. Ids are integers of any type: floats are a `TypeError`.
- `nprobe` is the fewest lists that a search goes through. A query whose lists hold fewer than k rows probes more of them, so padding
  means that there are no more rows; and a GPU goes through all rows where that takes no longer.
- `range_search` of an `IndexIVFFlat` goes through all lists. Results of every `range_search` are sorted, nearest first.
- An `IndexIVFFlat` trains its own centroids; after `train` the quantizer holds them. A quantizer that has rows before is refused.
- `reconstruct` of an `IndexIVFFlat` needs no `make_direct_map`, and `IndexIDMap` has it too.
- `remove_ids` of an `IndexIDMap` over an `IndexIVFFlat` keeps rows and ids together.
- An `IndexScalarQuantizer` rounds rows alone, to the nearest float16 or down to an integer, and refuses numbers beyond the integers.
- `write_index` writes a format of its own. `read_index` reads no files of faiss.
- Arguments of a wrong shape are a `ValueError`; what the state of an index forbids is a `RuntimeError`, as in faiss.
"""

import re
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nearfield import devices
from nearfield.faiss._files import (
    IO_FLAG_MMAP,
    IO_FLAG_READ_ONLY,
    IO_FLAG_SKIP_PRECOMPUTE_TABLE,
    BufferedIOReader,
    BufferedIOWriter,
    PyCallbackIOReader,
    PyCallbackIOWriter,
    deserialize_index,
    read_index,
    serialize_index,
    write_index,
)
from nearfield.faiss._given import check_kind
from nearfield.faiss._indexes import (
    METRIC_INNER_PRODUCT,
    METRIC_L2,
    Index,
    IndexBinaryFlat,
    IndexBinaryIDMap,
    IndexBinaryIDMap2,
    IndexFlat,
    IndexFlatIP,
    IndexFlatL2,
    IndexIDMap,
    IndexIDMap2,
    IndexIVFFlat,
    IndexScalarQuantizer,
    ScalarQuantizer,
)
from nearfield.faiss._selectors import (
    IDSelector,
    IDSelectorArray,
    IDSelectorBatch,
    IDSelectorNot,
    IDSelectorRange,
    SearchParameters,
    SearchParametersIVF,
)

__all__ = [
    "IO_FLAG_MMAP",
    "IO_FLAG_READ_ONLY",
    "IO_FLAG_SKIP_PRECOMPUTE_TABLE",
    "METRIC_INNER_PRODUCT",
    "METRIC_L2",
    "BufferedIOReader",
    "BufferedIOWriter",
    "IDSelector",
    "IDSelectorArray",
    "IDSelectorBatch",
    "IDSelectorNot",
    "IDSelectorRange",
    "Index",
    "IndexBinaryFlat",
    "IndexBinaryIDMap",
    "IndexBinaryIDMap2",
    "IndexFlat",
    "IndexFlatIP",
    "IndexFlatL2",
    "IndexIDMap",
    "IndexIDMap2",
    "IndexIVFFlat",
    "IndexScalarQuantizer",
    "PyCallbackIOReader",
    "PyCallbackIOWriter",
    "ScalarQuantizer",
    "SearchParameters",
    "SearchParametersIVF",
    "StandardGpuResources",
    "deserialize_index",
    "downcast_index",
    "extract_index_ivf",
    "get_num_gpus",
    "index_binary_factory",
    "index_cpu_to_all_gpus",
    "index_cpu_to_gpu",
    "index_factory",
    "index_gpu_to_cpu",
    "normalize_L2",
    "read_index",
    "read_index_binary",
    "serialize_index",
    "vector_to_array",
    "write_index",
    "write_index_binary",
]

# faiss has functions of their own for indexes of bits.
read_index_binary, write_index_binary = read_index, write_index


def normalize_L2(x: NDArray[np.float32]) -> None:
    """Divides the rows of a float32 array `[n, d]` by their L2 norms, in place. Rows of zeros stay."""
    if not isinstance(x, np.ndarray) or x.dtype != np.float32:
        given = x.dtype if isinstance(x, np.ndarray) else type(x).__name__
        raise TypeError(f"x: needed a numpy array of float32, because it changes in place, given {given}")
    if x.ndim != 2:
        raise ValueError(f"x: needed the shape [n, d], given {list(x.shape)}")
    # float64, because squares of large float32 values are infinite in float32. einsum makes no array of the squares.
    norms = np.sqrt(np.einsum("nd,nd->n", x, x, dtype=np.float64))
    norms[norms == 0] = 1
    np.divide(x, norms[:, None], out=x, casting="same_kind")


def index_factory(d: int, description: str, metric: int = METRIC_L2, *, device: Any | None = None) -> Any:
    """An index by its description: "Flat", "IVF256,Flat", "SQfp16", "SQ8_direct" or "SQ8_direct_signed".

    For ids of one's own with "IDMap," or "IDMap2," in front.
    """
    check_kind("description", description, str)
    found = re.fullmatch(r"(?:(IDMap2?),)?(?:(?:IVF([0-9]{1,9}),)?Flat|SQ(fp16|8_direct|8_direct_signed))(?:,(IDMap2?))?", description)
    if found is None or (found[1] and found[4]):
        needed = '"Flat", "IVFn,Flat", "SQfp16", "SQ8_direct", "SQ8_direct_signed", or one of them behind "IDMap," or "IDMap2,"'
        raise RuntimeError(f'description: needed {needed}, given "{description}"')
    index: IndexFlat | IndexIVFFlat | IndexScalarQuantizer
    if found[3]:
        names = {"fp16": "QT_fp16", "8_direct": "QT_8bit_direct", "8_direct_signed": "QT_8bit_direct_signed"}
        index = IndexScalarQuantizer(d, getattr(ScalarQuantizer, names[found[3]]), metric, device=device)
    elif found[2]:
        index = IndexIVFFlat(IndexFlat(d, metric, device=device), d, int(found[2]), metric, device=device)
    else:
        index = IndexFlat(d, metric, device=device)
    kind = found[1] or found[4]
    return {"IDMap": IndexIDMap, "IDMap2": IndexIDMap2}[kind](index) if kind else index


def index_binary_factory(d: int, description: str, *, device: Any | None = None) -> Any:
    """An index of `d` bits by its description: "BFlat", the exact one."""
    check_kind("description", description, str)
    if description != "BFlat":
        raise RuntimeError(f'description: needed "BFlat", given "{description}"')
    return IndexBinaryFlat(d, device=device)


def downcast_index(index: Index) -> Index:
    """The index itself: it has its own class already."""
    return index


def extract_index_ivf(index: Index) -> IndexIVFFlat:
    """The `IndexIVFFlat` that an index is, or that an `IndexIDMap` has inside."""
    while isinstance(index, IndexIDMap):
        index = index.index
    if not isinstance(index, IndexIVFFlat):
        raise RuntimeError(f"index: needed one with an IndexIVFFlat inside, given an {type(index).__name__}")
    return index


def vector_to_array(v: ArrayLike) -> NDArray[Any]:
    """A copy of `id_map` as a numpy array."""
    return np.array(v)


class StandardGpuResources:
    """Stands where scripts for GPUs make one. nearfield manages memory itself, so the settings have no effect."""

    def setTempMemory(self, size: int) -> None:
        """No effect."""

    def noTempMemory(self) -> None:
        """No effect."""

    def setPinnedMemory(self, size: int) -> None:
        """No effect."""


def index_cpu_to_gpu(res: StandardGpuResources, device: int, index: Index, options: object = None) -> Index:
    """The index itself: it is on the best device already. `res`, `device` and `options` have no effect."""
    return index


def index_cpu_to_all_gpus(index: Index, co: object = None, ngpu: int = -1) -> Index:
    """The index itself: it is on the best device already. `co` and `ngpu` have no effect."""
    return index


def index_gpu_to_cpu(index: Index) -> Index:
    """The index itself: it answers the same on every device."""
    return index


def get_num_gpus() -> int:
    """How many GPUs there are, software drivers and the processor left out."""
    return sum(device.kind not in ("host", "software") for device in devices())
