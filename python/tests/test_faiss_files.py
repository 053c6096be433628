"""Files of `nearfield.faiss`: whole or not at all, and read back the same."""

import errno
import json
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import nearfield as nf
import nearfield.faiss as ours
import numpy as np
import pytest
from reference import scaled

ROWS, QUERIES = scaled()
D = ROWS.shape[1]


def assert_equal(found: Any, expected: Any) -> None:
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine, other)


def made(description: str) -> Any:
    """An index with removals."""
    index = ours.index_factory(D, description, ours.METRIC_INNER_PRODUCT)
    index.train(ROWS)
    if "IDMap" in description:
        index.add_with_ids(ROWS, np.arange(4000) - 2000)
    else:
        index.add(ROWS)
    index.remove_ids(ours.IDSelectorRange(-5, 9))
    if "IVF" in description:
        ours.extract_index_ivf(index).nprobe = 5
    return index


def through_a_file(index: Any, folder: Path) -> Any:
    ours.write_index(index, str(folder / "index"))
    ours.write_index(index, folder / "index")
    assert [path.name for path in folder.iterdir()] == ["index"]
    return ours.read_index(str(folder / "index"))


WAYS = pytest.mark.parametrize("way", [through_a_file, lambda index, _: pickle.loads(pickle.dumps(index))], ids=["file", "pickle"])


@WAYS
@pytest.mark.parametrize("description", ["Flat", "IVF16,Flat", "IDMap2,IVF8,Flat"])
def test_an_index_that_was_written_answers_the_same(description: str, way: Any, tmp_path: Path) -> None:
    index = made(description)
    again = way(index, tmp_path)
    assert type(again) is type(index)
    for name in ("d", "ntotal", "metric_type", "is_trained", "nprobe", "nlist"):
        assert getattr(again, name, None) == getattr(index, name, None)
    if "IVF" in description:
        quantizers = [ours.extract_index_ivf(each).quantizer.reconstruct_n() for each in (again, index)]
        np.testing.assert_array_equal(*quantizers)
    assert_equal(again.search(QUERIES, 10), index.search(QUERIES, 10))
    # It also goes on the same way.
    for each in (again, index):
        if "IDMap" in description:
            each.add_with_ids(ROWS[:3] + 1, np.array([1, 2, 3]))
        else:
            each.add(ROWS[:3] + 1)
        each.remove_ids(np.array([2]))
    assert_equal(again.search(QUERIES + 1, 10), index.search(QUERIES + 1, 10))


@WAYS
def test_an_index_without_rows_comes_back(way: Any, tmp_path: Path) -> None:
    untrained = way(ours.index_factory(D, "IVF8,Flat"), tmp_path)
    assert (untrained.nlist, untrained.is_trained) == (8, False)
    untrained.train(ROWS)
    for index in (ours.IndexFlat(D), ours.IndexFlatL2(D), ours.IndexFlatIP(D)):
        empty = way(index, tmp_path)
        assert (type(empty), empty.metric_type, empty.d, empty.ntotal) == (type(index), index.metric_type, D, 0)


@pytest.fixture
def small() -> Any:
    index = ours.IndexIDMap(ours.IndexFlatL2(8))
    index.add_with_ids(ROWS[:20, :8], np.arange(20))
    return index


def test_a_damaged_file_is_an_error_of_one_line(small: Any, tmp_path: Path) -> None:
    path = tmp_path / "index"
    ours.write_index(small, path)
    whole = path.read_bytes()
    expected = small.search(QUERIES[:5, :8], 20)
    damages = [whole[:at] for at in range(0, len(whole), 97)]
    damages += [whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :] for at in range(0, len(whole), 13)]
    damages.append(b"IxF2" + bytes(100))
    refused = 0
    for damage in damages:
        path.write_bytes(damage)
        try:
            again = ours.read_index(path)
        except RuntimeError as error:
            refused += 1
            assert "\n" not in str(error)
            assert str(error).startswith(f"path: needed a whole file of nearfield.faiss.write_index, given {path}: ")
        else:
            # Dates and the like in a zip file are under no checksum.
            assert_equal(again.search(QUERIES[:5, :8], 20), expected)
    assert refused > 0.8 * len(damages)


def test_what_is_no_damage_keeps_its_error(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "index"
    with pytest.raises(FileNotFoundError):
        ours.read_index(path)
    ours.write_index(small, path)
    with pytest.raises(nf.Error, match="^device: needed an adapter"):
        ours.read_index(path, device="no such device")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "extract", full)
    with pytest.raises(OSError, match="No space left"):
        ours.read_index(path)


def test_a_file_whose_parts_do_not_belong_together_is_refused(tmp_path: Path) -> None:
    for name, index in (("ip", ours.IndexFlatIP(8)), ("l2", ours.IndexFlatL2(8))):
        index.add(ROWS[:20, :8])
        ours.write_index(index, tmp_path / name)
    with zipfile.ZipFile(tmp_path / "mixed", "w") as mixed:
        for name, part in (("ip", "index.json"), ("l2", "native.nf")):
            with zipfile.ZipFile(tmp_path / name) as file:
                mixed.writestr(part, file.read(part))
    with pytest.raises(RuntimeError, match="native.nf has dim 8 and metric l2sq$"):
        ours.read_index(tmp_path / "mixed")


def test_a_failed_write_leaves_the_file_that_was_there(small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours.write_index(small, tmp_path / "index")
    with monkeypatch.context() as patched:
        patched.setattr(json, "dumps", None)
        with pytest.raises(TypeError):
            ours.write_index(ours.IndexFlatL2(8), tmp_path / "index")
    assert ours.read_index(tmp_path / "index").ntotal == 20
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes are those of Unix")
def test_a_file_keeps_its_mode_and_a_link_its_place(small: Any, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link, target = tmp_path / "link", tmp_path / "folder" / "index"
    link.symlink_to(Path("folder", "index"))
    ours.write_index(small, link)
    target.chmod(0o640)
    ours.write_index(small, link)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in target.parent.iterdir()] == ["index"]


@pytest.mark.parametrize(("path", "error"), [("no folder/index", FileNotFoundError), ("", OSError), (".", OSError)])
def test_a_path_that_cannot_be_written_is_named(
    small: Any, path: str, error: type[OSError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as raised:
        ours.write_index(small, path)
    assert (raised.value.filename, raised.value.filename2) == (path, None)


def test_an_index_goes_through_functions_bytes_and_flags(tmp_path: Path) -> None:
    index = made("IDMap2,IVF8,Flat")
    expected = index.search(QUERIES, 5)
    with open(tmp_path / "index", "wb") as file:
        ours.write_index(index, ours.BufferedIOWriter(ours.PyCallbackIOWriter(file.write), 1000))
    for flags in (0, ours.IO_FLAG_MMAP, ours.IO_FLAG_READ_ONLY):
        assert_equal(ours.read_index(str(tmp_path / "index"), flags).search(QUERIES, 5), expected)
    with open(tmp_path / "index", "rb") as file:
        assert_equal(ours.read_index(ours.BufferedIOReader(ours.PyCallbackIOReader(file.read), 77_777)).search(QUERIES, 5), expected)
    assert_equal(ours.deserialize_index(ours.serialize_index(index)).search(QUERIES, 5), expected)
    with pytest.raises(ValueError, match="^io_flags: needed"):
        ours.read_index(str(tmp_path / "index"), 1)


def test_a_compressed_file_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    ours.write_index(made("Flat"), tmp_path / "index")
    with zipfile.ZipFile(tmp_path / "index") as whole, zipfile.ZipFile(tmp_path / "packed", "w", zipfile.ZIP_DEFLATED) as packed:
        for name in whole.namelist():
            packed.writestr(name, whole.read(name))
    with pytest.raises(RuntimeError, match="is compressed"):
        ours.read_index(tmp_path / "packed")
