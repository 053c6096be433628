"""Indexes go into files, bytes and pickles, to other devices, and come back the same."""

import copy
import os
import pickle
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearfield as nf


def same(one: Any, other: Any, queries: Any) -> None:
    assert type(one) is type(other)
    for name in ("dim", "metric", "dtype"):
        assert getattr(one, name) == getattr(other, name)
    np.testing.assert_array_equal(one.ids, other.ids)
    for found, expected in zip(one.search(queries, 9), other.search(queries, 9)):
        np.testing.assert_array_equal(found, expected)


@pytest.fixture(params=["flat", "half", "ivf", "empty"])
def any_index(request: Any, integers: Any) -> Any:
    rows = integers[0]
    return {
        "flat": lambda: nf.Flat(rows, metric="l2sq", ids=np.arange(500) * 3),
        "half": lambda: nf.Flat(rows.astype(np.float16), metric="cosine"),
        "ivf": lambda: nf.Ivf(rows, lists=5, metric="l2"),
        "empty": lambda: nf.Flat(dim=12, metric="ip"),
    }[request.param]()


def test_files_and_bytes_hold_the_index(any_index: Any, integers: Any, tmp_path: Path) -> None:
    data = any_index.to_bytes()
    assert type(data) is bytes
    same(nf.from_bytes(data, any_index.device), any_index, integers[1])
    path = tmp_path / "an index ü.nearfield"
    for given in (path, str(path)):
        any_index.save(given)
        assert path.read_bytes() == data
        same(nf.load(given, any_index.device), any_index, integers[1])


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_hold_the_index(any_index: Any, integers: Any, protocol: int) -> None:
    back = pickle.loads(pickle.dumps(any_index, protocol))
    same(back, any_index, integers[1])
    assert back.device.kind == any_index.device.kind


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_is_an_index_of_its_own(any_index: Any, integers: Any, copied: Any) -> None:
    other = copied(any_index)
    same(other, any_index, integers[1])
    before = len(any_index)
    other.add(integers[0][:4].astype(any_index.dtype), ids=range(9000, 9004))
    assert len(other) == before + 4 and len(any_index) == before


def test_an_index_moves_to_the_processor_and_back(any_index: Any, integers: Any) -> None:
    host = any_index.to("host")
    assert host.device.kind == "host" and type(host) is type(any_index)
    same(host.to(any_index.device), any_index, integers[1])


def test_numbers_of_rows_go_on_after_loading(index: Any, integers: Any) -> None:
    index.remove([499])
    assert nf.from_bytes(index.to_bytes()).add(integers[0][:1]).tolist() == [500]


class Named(nf.Flat):
    """What a user may write."""

    def twice(self, queries: Any) -> Any:
        return self.search(queries, 2)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda index: pickle.loads(pickle.dumps(index))])
def test_a_subclass_is_an_index_and_a_copy_not_turned_into_its_base(integers: Any, copied: Any) -> None:
    index = Named(integers[0], metric="l2sq")
    index.name = "mine"  # type: ignore[attr-defined]
    assert isinstance(index, nf.Index) and index.twice(integers[1]).ids.shape == (20, 2)
    assert repr(index).startswith("<nearfield.Flat")
    with pytest.raises(TypeError, match="^Named: needed a __reduce__ of its own to be pickled or copied, given a subclass of nearfield.Flat"):
        copied(index)


class Restored(nf.Flat):
    def __reduce__(self) -> Any:
        return restored, (self.get(self.ids), self.ids)


def restored(rows: Any, ids: Any) -> Restored:
    return Restored(rows, ids=ids, metric="l2sq")


def test_a_subclass_may_pickle_itself(integers: Any) -> None:
    index = Restored(integers[0], metric="l2sq")
    same(pickle.loads(pickle.dumps(index)), index, integers[1])


def test_paths_that_hold_no_file_are_named(index: Any, tmp_path: Path) -> None:
    for call in (index.save, nf.load):
        for path, error in (
            (tmp_path / "missing" / "index", FileNotFoundError),
            (tmp_path, OSError),
            (str(tmp_path / "a\0b"), OSError),
        ):
            with pytest.raises(error) as raised:
                call(path)
            assert str(tmp_path) in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="the administrator may write everywhere")
def test_a_directory_that_cannot_be_written_is_named(index: Any, tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(PermissionError):
        index.save(tmp_path / "index")


def test_a_failed_save_keeps_the_former_file(index: Any, integers: Any, tmp_path: Path) -> None:
    path = tmp_path / "index"
    index.save(path)
    before = path.read_bytes()
    index.add(integers[0])
    with pytest.raises(OSError):
        index.save(path / "below")
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["index"]


def test_damaged_bytes_are_refused_in_one_line(any_index: Any) -> None:
    data = any_index.to_bytes()
    rng = np.random.default_rng(3)
    damaged = [b"", b"abc", data[:-1], data + b"x", data[: len(data) // 2], b"\0" * len(data), data[::-1]]
    for place in rng.integers(0, len(data), 200):
        other = bytearray(data)
        other[place] ^= 1 << rng.integers(8)
        damaged.append(bytes(other))
    for given in damaged:
        try:
            index = nf.from_bytes(given, any_index.device)
        except nf.Error as error:
            assert "\n" not in str(error) and str(error).startswith("bytes of an index: "), error
        else:
            # Padding carries no information.
            assert index.to_bytes() == data


def test_a_damaged_file_is_named(index: Any, tmp_path: Path) -> None:
    path = tmp_path / "index"
    path.write_bytes(index.to_bytes()[:-9])
    with pytest.raises(nf.Error, match=f"^{path}: needed") as raised:
        nf.load(path)
    assert "\n" not in str(raised.value) and not isinstance(raised.value, (ValueError, OSError))


@pytest.mark.parametrize("given", [bytearray(5), 5, "text", None])
def test_what_is_no_bytes_is_refused(given: Any) -> None:
    with pytest.raises(TypeError, match="^data: needed bytes, given"):
        nf.from_bytes(given)
