"""`write_index` and `read_index`: an index as one zip file, without compression.

`index.json` tells the classes from the outermost inwards, and their settings. `native.nf` is the native index, absent before the
training; `ids.npy` has the native id at each position where these differ; `labels0.npy`, … have the ids of a class's rows.
"""

import errno
import io
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from nearfield import Flat, load
from nearfield.faiss._given import as_integer, check_kind
from nearfield.faiss._indexes import (
    NAMES,
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
)
from nearfield.faiss._rows import Column, Rows

_FORMAT = "nearfield.faiss"
_VERSION = 1


# Of `read_index`: how faiss reads a file. Here each reads it whole.
IO_FLAG_READ_ONLY = 2
IO_FLAG_SKIP_PRECOMPUTE_TABLE = 16
IO_FLAG_MMAP = 0x646F0008


class PyCallbackIOWriter:
    """Writes an index by a function of bytes: `write_index(index, PyCallbackIOWriter(file.write))`."""

    def __init__(self, callback: Callable[[bytes], object], bs: int = 1 << 20) -> None:
        self._write = callback
        self._bytes = as_integer("bs", bs, 1)


class PyCallbackIOReader:
    """Reads an index by a function of a size, which returns that many bytes, or fewer: `read_index(PyCallbackIOReader(file.read))`."""

    def __init__(self, callback: Callable[[int], bytes], bs: int = 1 << 20) -> None:
        self._read = callback
        self._bytes = as_integer("bs", bs, 1)


def BufferedIOWriter(writer: PyCallbackIOWriter, bsz: int = 1 << 20) -> PyCallbackIOWriter:
    """A writer that gives at most `bsz` bytes to the function at a time."""
    check_kind("writer", writer, PyCallbackIOWriter)
    return PyCallbackIOWriter(writer._write, bsz)


def BufferedIOReader(reader: PyCallbackIOReader, bsz: int = 1 << 20) -> PyCallbackIOReader:
    """A reader that takes at most `bsz` bytes from the function at a time."""
    check_kind("reader", reader, PyCallbackIOReader)
    return PyCallbackIOReader(reader._read, bsz)


def write_index(index: Index, path: str | os.PathLike[str] | PyCallbackIOWriter) -> None:
    """Writes an index to a file, whole or not at all, or to a writer.

    A file that is there already is replaced, by one of the same mode. Where the path is a link, this is the file it leads to.
    """
    check_kind("index", index, Index)
    if isinstance(path, PyCallbackIOWriter):
        with tempfile.TemporaryDirectory(prefix=".nearfield-") as folder, open(_write(index, Path(folder)), "rb") as file:
            while piece := file.read(path._bytes):
                path._write(piece)
        return
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "There is something else than a file", os.fspath(path))
    try:
        with tempfile.TemporaryDirectory(prefix=".nearfield-", dir=target.parent) as folder:
            whole = _write(index, Path(folder))
            if target.exists():
                shutil.copymode(target, whole)
            os.replace(whole, target)
    except OSError as error:
        if error.errno is None:
            raise
        # The caller knows nothing of the temporary folder.
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def serialize_index(index: Index) -> NDArray[np.uint8]:
    """The bytes that `write_index` writes."""
    pieces: list[bytes] = []
    write_index(index, PyCallbackIOWriter(pieces.append))
    return np.frombuffer(b"".join(pieces), dtype=np.uint8).copy()


def deserialize_index(data: NDArray[np.uint8], io_flags: int = 0, *, device: Any | None = None) -> Any:
    """The index with the bytes of `serialize_index`."""
    return read_index(PyCallbackIOReader(io.BytesIO(np.ascontiguousarray(data).tobytes()).read), io_flags, device=device)


def _write(index: Index, folder: Path) -> Path:
    """Writes the file into a folder, and returns its path."""
    with index._lock.reading():
        return _written(index, folder / "whole", folder)


def _written(index: Index, whole: Path, folder: Path) -> Path:
    layers: list[dict[str, Any]] = []
    # Big files are the reason for the folder: a native index saves to a path, not into a zip file.
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as file:
        rows = index._held()
        if rows is not None:
            native = folder / "native.nf"
            rows.native.save(native)
            file.write(native, native.name)
            native.unlink()
            if rows.ids is not None:
                _write_column(file, "ids.npy", rows.ids)
        layer: Index | None = index
        while layer is not None:
            settings: dict[str, Any] = {"class": type(layer).__name__, "d": layer.d, "metric_type": layer.metric_type}
            if isinstance(layer, IndexScalarQuantizer):
                settings["qtype"] = layer.sq.qtype
            if isinstance(layer, IndexIVFFlat):
                settings |= {"nlist": layer.nlist, "nprobe": layer.nprobe}
            if layer._labels is not None:
                _write_column(file, f"labels{len(layers)}.npy", layer._labels.values)
            layers.append(settings)
            layer = layer.index if isinstance(layer, IndexIDMap) else None
        file.writestr("index.json", json.dumps({"format": _FORMAT, "version": _VERSION, "layers": layers}))
    return whole


def read_index(path: str | os.PathLike[str] | PyCallbackIOReader, io_flags: int = 0, *, device: Any | None = None) -> Any:
    """Reads an index that `write_index` wrote. Its class is the one it had. The flags have no effect."""
    if as_integer("io_flags", io_flags, 0) & ~(IO_FLAG_READ_ONLY | IO_FLAG_SKIP_PRECOMPUTE_TABLE | IO_FLAG_MMAP):
        raise ValueError(f"io_flags: needed those of IO_FLAG_MMAP, IO_FLAG_READ_ONLY and IO_FLAG_SKIP_PRECOMPUTE_TABLE, given {io_flags}")
    # Here, where an error is not taken for damage of the file.
    device = Flat(dim=1, device=device).device
    with _opened(path) as raw:
        try:
            with zipfile.ZipFile(raw) as file:
                return _read(file, device)
        except Exception as cause:
            # What zipfile, json and numpy raise for damaged bytes is open-ended. A damaged offset is an invalid argument of a call to
            # the system; what else the system says is no fault of the file.
            if isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno not in (None, errno.EINVAL)):
                raise
            needed = "a whole file of nearfield.faiss.write_index"
            raise RuntimeError(f"path: needed {needed}, given {path}: {cause}") from cause


def _opened(path: str | os.PathLike[str] | PyCallbackIOReader) -> IO[bytes]:
    """The file at a path, or one with what a reader gives."""
    if not isinstance(path, PyCallbackIOReader):
        return open(path, "rb")
    # A zip file ends with its directory.
    file = tempfile.TemporaryFile(prefix=".nearfield-")
    while piece := path._read(path._bytes):
        file.write(piece)
    file.seek(0)
    return file


def _read(file: zipfile.ZipFile, device: Any | None) -> Index:
    # A compressed member may hold a thousand times the bytes of the file.
    packed = [member.filename for member in file.infolist() if member.compress_type != zipfile.ZIP_STORED]
    if packed:
        raise ValueError(f"{packed[0]} is compressed")
    head = json.loads(file.read("index.json"))
    if head["format"] != _FORMAT or head["version"] != _VERSION:
        raise ValueError(f"format {head['format']}, version {head['version']}")
    # Constructors make the classes without rows, from the innermost outwards; then rows and ids come in.
    layers: list[Index] = []
    for settings in reversed(head["layers"]):
        layers.insert(0, _empty(settings, layers[0] if layers else None, device))
    innermost = layers[-1]
    if "native.nf" in file.namelist():
        with tempfile.TemporaryDirectory(prefix=".nearfield-") as folder:
            native = load(file.extract("native.nf", folder), device)
        empty = innermost._held()
        # Lists are there only now.
        wanted = (innermost.d, NAMES[innermost.metric_type]) if empty is None else (empty.native.dim, empty.native.metric)
        if (native.dim, native.metric) != wanted:
            raise ValueError(f"native.nf has dim {native.dim} and metric {native.metric}")
        ids = _read_column(file, "ids.npy", len(native)) if "ids.npy" in file.namelist() else None
        innermost._rows = Rows(native, ids)
        if isinstance(innermost, IndexIVFFlat):
            innermost.quantizer.add(innermost._rows.centroids)
    for number, layer in enumerate(layers):
        if layer._labels is not None:
            layer._labels = Column(_read_column(file, f"labels{number}.npy", layer.ntotal))
    return layers[0]


def _empty(settings: dict[str, Any], inner: Index | None, device: Any | None) -> Index:
    """An index of a class and with settings of the file, without rows."""
    d, metric = settings["d"], settings["metric_type"]
    match settings["class"], inner:
        case "IndexIDMap", Index():
            return IndexIDMap(inner)
        case "IndexIDMap2", Index():
            return IndexIDMap2(inner)
        case "IndexBinaryIDMap", IndexBinaryFlat():
            return IndexBinaryIDMap(inner)
        case "IndexBinaryIDMap2", IndexBinaryFlat():
            return IndexBinaryIDMap2(inner)
        case "IndexBinaryFlat", None:
            return IndexBinaryFlat(d, device=device)
        case "IndexFlat", None:
            return IndexFlat(d, metric, device=device)
        case "IndexFlatL2", None:
            return IndexFlatL2(d, device=device)
        case "IndexFlatIP", None:
            return IndexFlatIP(d, device=device)
        case "IndexScalarQuantizer", None:
            return IndexScalarQuantizer(d, settings["qtype"], metric, device=device)
        case "IndexIVFFlat", None:
            index = IndexIVFFlat(IndexFlat(d, metric, device=device), d, settings["nlist"], metric, device=device)
            index.nprobe = settings["nprobe"]
            return index
        case name, _:
            raise ValueError(f"class {name}")


def _write_column(file: zipfile.ZipFile, name: str, values: NDArray[np.int64]) -> None:
    with file.open(name, "w", force_zip64=True) as member:
        np.lib.format.write_array(member, values, allow_pickle=False)


def _read_column(file: zipfile.ZipFile, name: str, needed: int) -> NDArray[np.int64]:
    with file.open(name) as member:
        values = np.lib.format.read_array(member, allow_pickle=False)
    if values.dtype != np.int64 or values.shape != (needed,):
        raise ValueError(f"{name} has {values.dtype} of the shape {list(values.shape)}, needed int64 [{needed}]")
    return values
