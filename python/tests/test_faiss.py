"""`nearfield.faiss` answers as faiss does: the same calls on both, with the vectors that come with the repository."""

import errno
import json
import pickle
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import nearfield as nf
import nearfield.faiss as ours
import numpy as np
import pytest
from numpy.typing import NDArray

theirs = pytest.importorskip("faiss")

DATA = Path(__file__).resolve().parents[2] / "cli" / "data"
SCALE = np.load(DATA / "scale.f32.npy")
ROWS = np.load(DATA / "base.f16.npy").astype(np.float32) * SCALE[:4000, None]
QUERIES = np.load(DATA / "query.f16.npy").astype(np.float32) * SCALE[4000:, None]
D = ROWS.shape[1]
METRICS = [pytest.param(ours.METRIC_L2, id="l2"), pytest.param(ours.METRIC_INNER_PRODUCT, id="ip")]
MAPS = ["IndexIDMap", "IndexIDMap2"]


def assert_same(found: tuple[Any, Any], expected: tuple[Any, Any]) -> None:
    """Equal distances but for rounding, and equal ids but where rounding exchanges neighbours."""
    for mine, other in zip(found, expected, strict=True):
        assert isinstance(mine, np.ndarray)
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-5, atol=2e-5)
    assert np.count_nonzero(found[1] != expected[1]) <= found[1].size // 1000


def assert_same_range(found: tuple[Any, ...], expected: tuple[Any, ...], thresh: float) -> None:
    """The same rows in any order, but for those at the threshold."""
    assert [array.dtype for array in found] == [array.dtype for array in expected]
    assert found[0].shape == expected[0].shape
    for query in range(len(found[0]) - 1):
        (mine, of_mine), (other, of_other) = (clear(lims, D, I, query, thresh) for lims, D, I in (found, expected))
        np.testing.assert_array_equal(of_mine, of_other)
        np.testing.assert_allclose(mine, other, rtol=2e-5, atol=2e-5)


def clear(lims: Any, D: Any, I: Any, query: int, thresh: float) -> tuple[Any, Any]:
    """The distances and ids of a query that are not at the threshold, in the order of ids."""
    part = slice(int(lims[query]), int(lims[query + 1]))
    distances, ids = D[part], I[part]
    is_clear = np.abs(distances - thresh) > 1e-4
    distances, ids = distances[is_clear], ids[is_clear]
    order = np.lexsort((distances, ids))
    return distances[order], ids[order]


def both(make: Any) -> list[Any]:
    """The same of both modules."""
    return [make(ours), make(theirs)]


def flats(metric: int = 1, rows: NDArray[Any] = ROWS) -> list[Any]:
    indexes = both(lambda module: module.IndexFlat(D, metric))
    for index in indexes:
        index.add(rows)
    return indexes


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 10, 100])
def test_flat_finds_what_faiss_finds(metric: int, k: int) -> None:
    mine, other = flats(metric)
    assert_same(mine.search(QUERIES, k), other.search(QUERIES, k))


@pytest.mark.parametrize(("metric", "name"), [(1, "l2sq"), (0, "dot")])
def test_flat_finds_the_true_neighbours(metric: int, name: str) -> None:
    truth = np.load(DATA / f"groundtruth-scaled-{name}.npz")
    assert_same(flats(metric)[0].search(QUERIES, 20), (truth["distances"], truth["ids"].astype(np.int64)))


@pytest.mark.parametrize("metric", METRICS)
def test_missing_rows_are_padded_as_in_faiss(metric: int) -> None:
    mine, other = flats(metric, ROWS[:5])
    found, expected = mine.search(QUERIES, 8), other.search(QUERIES, 8)
    assert_same(found, expected)
    assert (found[1][:, 5:] == -1).all()
    np.testing.assert_array_equal(found[0][:, 5:], expected[0][:, 5:])
    for index in (mine, other):
        index.reset()
        assert index.ntotal == 0
    assert_same(mine.search(QUERIES, 3), other.search(QUERIES, 3))
    assert_same(mine.search(QUERIES[:0], 3), other.search(QUERIES[:0], 3))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("thresh", [0.6, 1.3, -1e9, 1e9])
def test_range_search_finds_what_faiss_finds(metric: int, thresh: float) -> None:
    mine, other = flats(metric, ROWS[:1000])
    assert_same_range(mine.range_search(QUERIES, thresh), other.range_search(QUERIES, thresh), thresh)
    for index in (mine, other):
        index.reset()
    assert_same_range(mine.range_search(QUERIES, thresh), other.range_search(QUERIES, thresh), thresh)


@pytest.mark.parametrize("metric", METRICS)
def test_a_removal_renumbers_a_flat_index_as_in_faiss(metric: int) -> None:
    mine, other = flats(metric)
    removals: list[Any] = [
        lambda module: np.array([3, 17, 3, 99_999, -1]),
        lambda module: module.IDSelectorRange(100, 1100),
        lambda module: module.IDSelectorBatch(np.arange(0, 3000, 7)),
        lambda module: np.empty(0, dtype=np.int64),
    ]
    for number, removal in enumerate(removals, start=1):
        assert mine.remove_ids(removal(ours)) == other.remove_ids(removal(theirs))
        assert mine.ntotal == other.ntotal
        assert_same(mine.search(QUERIES, 10), other.search(QUERIES, 10))
        for index in (mine, other):
            index.add(ROWS[:50] * (1 + number / 8))
        assert_same(mine.search(QUERIES, 10), other.search(QUERIES, 10))
        np.testing.assert_array_equal(mine.reconstruct_n(5, 200), other.reconstruct_n(5, 200))
        found, expected = (index.range_search(QUERIES[:9], 1.2) for index in (mine, other))
        assert_same_range(found, expected, 1.2)


def test_rows_come_back_as_in_faiss() -> None:
    mine, other = flats()
    np.testing.assert_array_equal(mine.reconstruct(7), other.reconstruct(7))
    np.testing.assert_array_equal(mine.reconstruct_n(), other.reconstruct_n())
    np.testing.assert_array_equal(mine.reconstruct_n(3990), other.reconstruct_n(3990))
    np.testing.assert_array_equal(mine.reconstruct_batch([5, 2, 5]), other.reconstruct_batch([5, 2, 5]))
    assert mine.reconstruct_n(4, 0).shape == (0, D)
    for index in (mine, other):
        with pytest.raises(RuntimeError):
            index.reconstruct(4000)
        with pytest.raises(RuntimeError):
            index.reconstruct_n(3999, 2)


@pytest.mark.parametrize(
    "convert",
    [np.float64, np.float16, lambda x: np.asfortranarray(x), lambda x: (x * 100).astype(np.int32), lambda x: np.repeat(x, 2, 0)[::2]],
    ids=["float64", "float16", "fortran", "int32", "strided"],
)
def test_numbers_of_any_type_and_layout_are_converted(convert: Any) -> None:
    mine, other = flats(rows=convert(ROWS))
    assert_same(mine.search(convert(QUERIES), 5), other.search(convert(QUERIES), 5))


def test_results_go_into_given_arrays() -> None:
    mine = flats(rows=ROWS[:3])[0]
    distances, ids = np.empty((200, 4), np.float32), np.empty((200, 4), np.int64)
    found = mine.search(QUERIES, 4, D=distances, I=ids)
    assert found[0] is distances
    assert found[1] is ids
    assert_same((distances, ids), mine.search(QUERIES, 4))
    with pytest.raises(ValueError, match=r"^I: needed int64 of the shape \[200, 4\], given int32 of the shape \[200, 4\]$"):
        mine.search(QUERIES, 4, I=ids.astype(np.int32))


@pytest.mark.parametrize("kind", MAPS)
@pytest.mark.parametrize("metric", METRICS)
def test_a_map_keeps_any_ids_as_in_faiss(kind: str, metric: int) -> None:
    # Some negative, some beyond 2^32, some twice.
    ids = np.random.default_rng(1).permutation(4000) * 2_000_003 - 1_000_000
    ids[100:200] = ids[:100]
    mine, other = both(lambda module: getattr(module, kind)(module.IndexFlat(D, metric)))
    for index in (mine, other):
        index.add_with_ids(ROWS[:2500], ids[:2500])
        index.add_with_ids(ROWS[2500:], ids[2500:])
    removals: list[Any] = [lambda module: ids[50:300], lambda module: module.IDSelectorRange(0, 10**9), lambda module: np.array([-5])]
    for removal in removals:
        assert_same(mine.search(QUERIES, 10), other.search(QUERIES, 10))
        assert_same_range(mine.range_search(QUERIES, 1.1), other.range_search(QUERIES, 1.1), 1.1)
        np.testing.assert_array_equal(mine.id_map, theirs.vector_to_array(other.id_map))
        assert mine.remove_ids(removal(ours)) == other.remove_ids(removal(theirs))
        assert mine.ntotal == other.ntotal
    some = int(mine.id_map[20])
    np.testing.assert_array_equal(mine.reconstruct(some), ROWS[np.flatnonzero(ids == some)[-1]])
    with pytest.raises(RuntimeError, match="^key: needed the id of a row, given 1$"):
        mine.reconstruct(1)


def test_rows_of_a_map_come_back_by_their_ids_as_in_faiss() -> None:
    ids = np.random.default_rng(2).permutation(4000) - 100
    # The row that came last has the id.
    ids[50:60] = ids[10]
    mine, other = both(lambda module: module.IndexIDMap2(module.IndexFlatL2(D)))
    assert mine.reconstruct_batch([]).shape == (0, D)
    with pytest.raises(RuntimeError, match="^key: needed the id of a row, given 3$"):
        mine.reconstruct_batch([3])
    for part in (slice(2000), slice(2000, 4000)):
        for index in (mine, other):
            index.add_with_ids(ROWS[part], ids[part])
        np.testing.assert_array_equal(mine.reconstruct_batch(ids[part]), other.reconstruct_batch(ids[part]))
    again = pickle.loads(pickle.dumps(mine))
    for index in (mine, again):
        np.testing.assert_array_equal(index.reconstruct(int(ids[10])), ROWS[59])
    some = int(ids[3000])
    for n0, ni in ((some, 1), (-100, 0), (10**6, 0)):
        np.testing.assert_array_equal(mine.reconstruct_n(n0, ni), other.reconstruct_n(n0, ni))
    index = ours.IndexIDMap2(ours.IndexFlatL2(D))
    index.add_with_ids(ROWS[:3], np.array([7, 5, 6]))
    np.testing.assert_array_equal(index.reconstruct_n(5, 3), ROWS[[1, 2, 0]])
    with pytest.raises(RuntimeError, match="^n0, ni: needed the id of a row, given 8$"):
        index.reconstruct_n(6, 3)
    for n0, ni in ((5, 4), (5, -2), (5, -1)):
        with pytest.raises(RuntimeError, match="^n0, ni: needed a range of at most 3 rows, given"):
            index.reconstruct_n(n0, ni)


def test_a_map_copies_the_ids_it_is_given() -> None:
    index = ours.IndexIDMap(ours.IndexFlatL2(D))
    ids = np.arange(10)
    index.add_with_ids(ROWS[:10], ids)
    ids[:] = -7
    np.testing.assert_array_equal(index.id_map, np.arange(10))


def test_what_the_state_forbids_is_a_runtime_error_as_in_faiss() -> None:
    for module in (ours, theirs):
        flat = module.IndexFlatL2(D)
        with pytest.raises(RuntimeError):
            flat.add_with_ids(ROWS[:2], np.arange(2))
        with pytest.raises(RuntimeError):
            module.IndexIDMap(module.IndexFlatL2(D)).add(ROWS[:2])
        flat.add(ROWS[:2])
        with pytest.raises(RuntimeError):
            module.IndexIDMap(flat)
        lists = module.IndexIVFFlat(module.IndexFlatL2(D), D, 8)
        assert not lists.is_trained
        for call in (lambda: lists.add(ROWS), lambda: lists.search(QUERIES, 1), lambda: lists.train(ROWS[:7])):
            with pytest.raises(RuntimeError):
                call()  # type: ignore[no-untyped-call]


def lists_of(module: ModuleType, metric: int = 1, nlist: int = 16) -> Any:
    index = module.IndexIVFFlat(module.IndexFlat(D, metric), D, nlist, metric)
    index.train(ROWS)
    return index


@pytest.mark.parametrize("metric", METRICS)
def test_all_lists_find_what_a_flat_index_finds(metric: int) -> None:
    index = lists_of(ours, metric)
    assert (index.ntotal, index.nlist, index.nprobe, index.is_trained) == (0, 16, 1, True)
    index.add(ROWS[:1000])
    index.add(ROWS[1000:])
    index.nprobe = 1000
    expected = flats(metric)[1]
    assert_same(index.search(QUERIES, 10), expected.search(QUERIES, 10))
    assert_same_range(index.range_search(QUERIES, 1.2), expected.range_search(QUERIES, 1.2), 1.2)
    distances, ids = index.search(QUERIES[:3], 4500)
    assert_same((distances, ids), expected.search(QUERIES[:3], 4500))


@pytest.mark.parametrize("metric", METRICS)
def test_more_probes_find_more(metric: int) -> None:
    indexes = both(lambda module: lists_of(module, metric))
    truth = flats(metric)[1].search(QUERIES, 10)[1]
    for index in indexes:
        index.add(ROWS)

    def recall(index: Any) -> float:
        found = index.search(QUERIES, 10)[1]
        return float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, truth, strict=True)]))

    last = 0.0
    for nprobe in (1, 4, 8, 16):
        for index in indexes:
            index.nprobe = nprobe
        mine, other = map(recall, indexes)
        assert mine >= last
        # Another training than that of faiss, but no worse one.
        assert mine > other - 0.1
        last = mine
    assert last == 1


def test_parameters_of_a_search_override_the_probes() -> None:
    # A GPU goes through all of so few rows, whatever the probes.
    index = ours.IndexIVFFlat(ours.IndexFlatL2(D), D, 16, device="host")
    index.train(ROWS)
    index.add(ROWS)
    one = index.search(QUERIES, 10)
    everything = index.search(QUERIES, 10, params=ours.SearchParametersIVF(nprobe=16))
    assert_same(everything, flats()[1].search(QUERIES, 10))
    assert not np.array_equal(one[1], everything[1])
    index.nprobe = 16
    np.testing.assert_array_equal(index.search(QUERIES, 10, params=ours.SearchParametersIVF(nprobe=1))[1], one[1])


def test_an_index_of_lists_keeps_and_gives_ids_as_in_faiss() -> None:
    indexes = both(lists_of)
    for index in indexes:
        index.nprobe = 16
        index.add_with_ids(ROWS[:100], np.arange(100) * 1_000_000_007 - 3)
        index.add(ROWS[100:3000])
        assert index.remove_ids(np.arange(100, 140)) == 40
        assert index.remove_ids(np.array([-3])) == 1
        # The next id is ntotal, which another row has already.
        index.add(ROWS[3000:])
    mine, other = indexes
    assert mine.ntotal == other.ntotal
    assert_same(mine.search(QUERIES, 10), other.search(QUERIES, 10))
    np.testing.assert_array_equal(mine.reconstruct(1_000_000_004), ROWS[1])
    np.testing.assert_array_equal(mine.reconstruct(150), ROWS[150])
    for index in indexes:
        index.reset()
        assert (index.ntotal, index.is_trained) == (0, True)
        index.add(ROWS[:500])
    assert_same(mine.search(QUERIES, 10), other.search(QUERIES, 10))


def test_the_quantizer_gets_the_centroids() -> None:
    quantizer = ours.IndexFlatL2(D)
    index = ours.IndexIVFFlat(quantizer, D, 16)
    index.train(ROWS)
    assert quantizer.ntotal == 16
    centroids = quantizer.reconstruct_n()
    index.train(ROWS[:100])
    np.testing.assert_array_equal(quantizer.reconstruct_n(), centroids)
    # They are trained: the rows are nearer to them than to the mean of all, and than to 16 rows.
    nearest = quantizer.search(ROWS, 1)[0].sum()
    untrained = ours.IndexFlatL2(D)
    untrained.add(ROWS[:16])
    assert nearest < 0.9 * untrained.search(ROWS, 1)[0].sum()
    assert nearest < 0.95 * ((ROWS - ROWS.mean(axis=0)) ** 2).sum()
    with pytest.raises(ValueError, match="^quantizer: needed an empty index, because train finds the centroids, given one with 16 rows$"):
        ours.IndexIVFFlat(quantizer, D, 16)
    with pytest.raises(ValueError, match="^quantizer: needed one of d 8, given 384$"):
        ours.IndexIVFFlat(ours.IndexFlatL2(D), 8, 16)


def test_a_training_that_fails_leaves_the_index_untrained() -> None:
    index = ours.IndexIVFFlat(ours.IndexIDMap(ours.IndexFlatL2(D)), D, 4)
    with pytest.raises(RuntimeError, match="^ids: needed one for each row"):
        index.train(ROWS[:50])
    assert not index.is_trained


def test_a_map_over_lists_keeps_rows_and_ids_together() -> None:
    index = ours.index_factory(D, "IDMap,IVF16,Flat")
    assert not index.is_trained
    index.train(ROWS)
    assert index.is_trained
    ids = np.arange(4000) * 10
    index.add_with_ids(ROWS, ids)
    ours.extract_index_ivf(index).nprobe = 16
    assert index.remove_ids(ids[::3]) == 1334
    kept = np.delete(np.arange(4000), np.s_[::3])
    found = index.search(QUERIES, 10)
    expected = theirs.IndexFlatL2(D)
    expected.add(ROWS[kept])
    distances, positions = expected.search(QUERIES, 10)
    assert_same(found, (distances, kept[positions] * 10))
    np.testing.assert_array_equal(index.reconstruct(40), ROWS[4])
    # The index inside still answers by itself.
    assert (index.index.search(QUERIES, 10)[1] >= 0).all()


KEPT: list[Any] = []


def kept(selector: Any) -> Any:
    """faiss leaves it to the caller that a selector inside another lives on."""
    KEPT.append(selector)
    return selector


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    "select",
    [
        lambda module: module.IDSelectorRange(1000, 1500),
        lambda module: module.IDSelectorBatch(np.arange(0, 4000, 9)),
        lambda module: module.IDSelectorArray(np.array([5, 1, 7, 100_000])),
        lambda module: module.IDSelectorNot(kept(module.IDSelectorRange(0, 3900))),
        lambda module: module.IDSelectorBatch(np.array([9000])),
    ],
    ids=["range", "batch", "array", "not", "none"],
)
def test_selectors_restrict_a_search_as_in_faiss(metric: int, select: Any) -> None:
    indexes = flats(metric)
    selectors = both(select)
    found = [
        index.search(QUERIES, 10, params=module.SearchParameters(sel=selector))
        for module, index, selector in zip((ours, theirs), indexes, selectors, strict=True)
    ]
    assert_same(found[0], found[1])
    ranges = [
        index.range_search(QUERIES, 1.1, params=module.SearchParameters(sel=selector))
        for module, index, selector in zip((ours, theirs), indexes, selectors, strict=True)
    ]
    assert_same_range(ranges[0], ranges[1], 1.1)
    for id in (-1, 1, 1200, 3950, 9000):
        assert selectors[0].is_member(id) == selectors[1].is_member(id)


def test_selectors_of_a_map_take_its_ids_as_in_faiss() -> None:
    found = []
    for module in (ours, theirs):
        index = module.IndexIDMap(module.IndexFlatL2(D))
        index.add_with_ids(ROWS, np.arange(4000) + 10_000)
        index.remove_ids(np.arange(10_100, 10_200))
        selector = module.IDSelectorRange(10_050, 10_900)
        found.append(index.search(QUERIES, 10, params=module.SearchParameters(sel=selector)))
    assert_same(found[0], found[1])


def test_normalize_l2_is_that_of_faiss() -> None:
    mine, other = ROWS.copy(), ROWS.copy()
    mine[3] = other[3] = 0
    ours.normalize_L2(mine)
    theirs.normalize_L2(other)
    np.testing.assert_allclose(mine, other, rtol=1e-6)
    with pytest.raises(TypeError, match="^x: needed a numpy array of float32, because it changes in place, given float64$"):
        ours.normalize_L2(ROWS.astype(np.float64))


@pytest.mark.parametrize(
    "description",
    ["Flat", "IVF8,Flat", "IDMap,Flat", "IDMap2,Flat", "Flat,IDMap", "Flat,IDMap2", "IDMap,IVF8,Flat", "IVF8,Flat,IDMap"],
)
@pytest.mark.parametrize("metric", METRICS)
def test_the_factory_makes_what_that_of_faiss_makes(description: str, metric: int) -> None:
    found = []
    for module in (ours, theirs):
        index = module.index_factory(D, description, metric)
        assert (index.d, index.metric_type, index.ntotal, index.is_trained) == (D, metric, 0, "IVF" not in description)
        index.train(ROWS)
        if "IVF" in description:
            module.extract_index_ivf(index).nprobe = 8
        if "IDMap" in description:
            index.add_with_ids(ROWS, np.arange(4000) + 7)
        else:
            index.add(ROWS)
        found.append(index.search(QUERIES, 5))
    assert_same(found[0], found[1])


@pytest.mark.parametrize(
    "description", ["PQ8", "IVF8", "Flat,Flat", "IDMap,Flat,IDMap", "", "IVF,Flat", "HNSW32,Flat", "IVF99999999999999999999,Flat"]
)
def test_the_factory_names_what_there_is(description: str) -> None:
    with pytest.raises(RuntimeError, match='^description: needed "Flat", .* given "' + description + '"$'):
        ours.index_factory(D, description)


def saved() -> dict[str, Any]:
    """One index of each kind, with removals."""
    flat = ours.IndexFlatIP(D)
    flat.add(ROWS)
    flat.remove_ids(np.arange(9))
    lists = lists_of(ours)
    lists.add(ROWS)
    lists.nprobe = 5
    mapped = ours.index_factory(D, "IDMap2,IVF8,Flat", ours.METRIC_INNER_PRODUCT)
    mapped.train(ROWS)
    mapped.add_with_ids(ROWS, np.arange(4000) - 2000)
    mapped.remove_ids(ours.IDSelectorRange(-5, 5))
    untrained = ours.index_factory(D, "IVF8,Flat")
    return {"flat": flat, "lists": lists, "mapped": mapped, "untrained": untrained, "empty": ours.IndexFlat(D)}


@pytest.mark.parametrize("name", ["flat", "lists", "mapped", "untrained", "empty"])
@pytest.mark.parametrize("way", ["file", "pickle"])
def test_an_index_that_was_written_answers_the_same(name: str, way: str, tmp_path: Path) -> None:
    index = saved()[name]
    if way == "file":
        ours.write_index(index, str(tmp_path / "index"))
        ours.write_index(index, tmp_path / "index")
        assert [path.name for path in tmp_path.iterdir()] == ["index"]
        again = ours.read_index(str(tmp_path / "index"))
    else:
        again = pickle.loads(pickle.dumps(index))
    assert type(again) is type(index)
    for each in ("d", "ntotal", "metric_type", "is_trained", "nprobe", "nlist"):
        assert getattr(again, each, None) == getattr(index, each, None)
    if not index.is_trained:
        again.train(ROWS)
        return
    for mine, other in zip(again.search(QUERIES, 10), index.search(QUERIES, 10), strict=True):
        np.testing.assert_array_equal(mine, other)
    # It also goes on the same way.
    for each in (again, index):
        if isinstance(each, ours.IndexIDMap):
            each.add_with_ids(ROWS[:3] + 1, np.array([1, 2, 3]))
        else:
            each.add(ROWS[:3] + 1)
        each.remove_ids(np.array([2]))
    for mine, other in zip(again.search(QUERIES + 1, 10), index.search(QUERIES + 1, 10), strict=True):
        np.testing.assert_array_equal(mine, other)


def test_the_quantizer_is_there_after_reading(tmp_path: Path) -> None:
    lists = saved()["lists"]
    ours.write_index(lists, tmp_path / "index")
    again = ours.read_index(tmp_path / "index")
    np.testing.assert_array_equal(again.quantizer.reconstruct_n(), lists.quantizer.reconstruct_n())


def test_a_damaged_file_is_an_error_of_one_line(tmp_path: Path) -> None:
    index = ours.IndexIDMap(ours.IndexFlatL2(8))
    index.add_with_ids(ROWS[:20, :8], np.arange(20))
    path = tmp_path / "index"
    ours.write_index(index, path)
    whole = path.read_bytes()
    expected = index.search(QUERIES[:5, :8], 20)
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
            for mine, other in zip(again.search(QUERIES[:5, :8], 20), expected, strict=True):
                np.testing.assert_array_equal(mine, other)
    assert refused > 0.8 * len(damages)
    with pytest.raises(FileNotFoundError):
        ours.read_index(tmp_path / "none")
    path.write_bytes(whole)
    with pytest.raises(nf.Error, match="^device: needed an adapter"):
        ours.read_index(path, device="no such device")


def test_what_the_system_says_while_reading_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours.write_index(flats(rows=ROWS[:3])[0], tmp_path / "index")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "extract", full)
    with pytest.raises(OSError, match="No space left"):
        ours.read_index(tmp_path / "index")


def test_a_file_whose_parts_do_not_belong_together_is_refused(tmp_path: Path) -> None:
    for name, index in (("ip", ours.IndexFlatIP(8)), ("l2", ours.IndexFlatL2(8))):
        index.add(ROWS[:20, :8])
        ours.write_index(index, tmp_path / name)
    with zipfile.ZipFile(tmp_path / "ip") as one, zipfile.ZipFile(tmp_path / "l2") as two:
        with zipfile.ZipFile(tmp_path / "mixed", "w") as mixed:
            mixed.writestr("index.json", one.read("index.json"))
            mixed.writestr("native.nf", two.read("native.nf"))
    with pytest.raises(RuntimeError, match="native.nf has dim 8 and metric l2sq$"):
        ours.read_index(tmp_path / "mixed")


def test_a_failed_write_leaves_the_file_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = ours.IndexFlatL2(8)
    index.add(ROWS[:20, :8])
    ours.write_index(index, tmp_path / "index")
    with monkeypatch.context() as patched:
        patched.setattr(json, "dumps", None)
        with pytest.raises(TypeError):
            ours.write_index(ours.IndexFlatL2(8), tmp_path / "index")
    assert ours.read_index(tmp_path / "index").ntotal == 20
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="links and modes are those of Unix")
def test_a_file_keeps_its_mode_and_a_link_its_place(tmp_path: Path) -> None:
    index = ours.IndexFlatL2(8)
    (tmp_path / "folder").mkdir()
    link, target = tmp_path / "link", tmp_path / "folder" / "index"
    link.symlink_to(Path("folder", "index"))
    ours.write_index(index, link)
    target.chmod(0o640)
    ours.write_index(index, link)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in target.parent.iterdir()] == ["index"]


@pytest.mark.parametrize(
    ("path", "error"), [("no folder/index", FileNotFoundError), ("", OSError), (".", OSError)], ids=["folder", "empty", "directory"]
)
def test_a_path_that_cannot_be_written_is_named(path: str, error: type[OSError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error) as raised:
        ours.write_index(ours.IndexFlatL2(8), path)
    assert (raised.value.filename, raised.value.filename2) == (path, None)


def test_scripts_for_gpus_run() -> None:
    resources = ours.StandardGpuResources()
    resources.setTempMemory(1 << 20)
    resources.noTempMemory()
    flat = ours.IndexFlatL2(D)
    assert ours.index_cpu_to_gpu(resources, 0, flat) is flat
    assert ours.index_cpu_to_all_gpus(flat) is flat
    assert ours.index_gpu_to_cpu(flat) is flat
    assert ours.get_num_gpus() >= 0


def test_a_device_can_be_chosen() -> None:
    index = ours.index_factory(D, "IDMap,IVF8,Flat", device="host")
    index.train(ROWS)
    index.add_with_ids(ROWS, np.arange(4000))
    assert index.index._rows.native.device.kind == "host"
    with pytest.raises(Exception, match="no such device"):
        ours.IndexFlatL2(D, device="no such device")


def test_other_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError):
        ours.IndexHNSWFlat  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError):
        ours.IndexFlatL2(D).hnsw  # type: ignore[attr-defined]  # noqa: B018
    assert all(hasattr(ours, name) for name in ours.__all__)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.add(ROWS[:, :5]), r"x: needed the shape \[n, 384\], given \[4000, 5\]"),
        (lambda index: index.search(QUERIES[0], 1), r"x: needed the shape \[n, 384\], given \[384\]"),
        (lambda index: index.search(QUERIES, 0), "k: needed at least 1, given 0"),
        (lambda index: index.search(np.full((1, D), np.nan), 1), "x: .*row 0 .*"),
        (lambda index: index.add(np.full((1, D), 1e300)), "x: .*row 0 .*"),
        (lambda index: index.range_search(np.full((1, D), np.nan), 1.0), "x: .*row 0 .*"),
        (lambda index: ours.IndexIVFFlat(ours.IndexFlatL2(D), D, 1).train(np.full((1, D), np.nan)), "x: .*row 0 .*"),
        (lambda index: index.range_search(QUERIES, float("nan")), "thresh: needed a number, given nan"),
        (lambda index: index.add(np.ma.array(ROWS[:3], mask=True)), "x: needed an array without masked elements, .*"),
        (lambda index: index.remove_ids(np.ma.array([0, 1], mask=[False, True])), "x: needed an array without masked elements, .*"),
        (lambda index: index.search(QUERIES, 2**70), r"k: needed at most 2\^63 - 1, given 1180591620717411303424"),
        (lambda index: ours.IndexFlatL2(0), "d: needed at least 1, given 0"),
        (lambda index: ours.IndexFlatL2(2**40), "d: needed 1 to .*, given 1099511627776"),
        (lambda index: ours.IndexFlat(D, 23), "metric: needed METRIC_L2 or METRIC_INNER_PRODUCT, given 23"),
        (lambda index: ours.IndexIVFFlat(ours.IndexFlatL2(D), D, 0), "nlist: needed at least 1, given 0"),
        (
            lambda index: ours.IndexIDMap(ours.IndexFlatL2(D)).add_with_ids(ROWS[:3], [1, 2]),
            "ids: needed one for each of 3 rows, given 2",
        ),
        (lambda index: index.remove_ids([[1]]), r"x: needed one dimension, \[n\], given shape \[1, 1\]"),
    ],
)
def test_wrong_arguments_are_value_errors_of_one_line(call: Any, message: str) -> None:
    index = ours.IndexFlatL2(D)
    index.add(ROWS[:10])
    with pytest.raises(ValueError, match=f"^{message}$"):
        call(index)
    assert index.ntotal == 10
    np.testing.assert_array_equal(index.search(ROWS[:10], 1)[1][:, 0], np.arange(10))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda index: index.remove_ids([1.5]), "x: needed integers, given float64"),
        (lambda index: index.search(QUERIES, 1.5), "k: needed an integer, given float"),
        (lambda index: index.search([["1"] * D], 1), "x: needed numbers, given <U1"),
        (lambda index: index.search(QUERIES.astype(object), 1), "x: needed numbers, given object"),
        (lambda index: index.search(QUERIES, 1, D=[1]), "D: needed an object of ndarray, given list"),
        (lambda index: index.search(QUERIES, 1, params=3), "params: needed an object of SearchParameters, given int"),
        (
            lambda index: index.search(QUERIES, 1, params=ours.SearchParameters(3)),  # type: ignore[arg-type]
            "params.sel: needed an object of IDSelector, given int",
        ),
        (lambda index: index.range_search(QUERIES, None), "thresh: needed a number, given NoneType"),
        (lambda index: index.range_search(QUERIES, "1"), "thresh: needed a number, given str"),
        (lambda index: index.reconstruct("1"), "key: needed an integer, given str"),
        (lambda index: index.reconstruct_n(0.5), "n0: needed an integer, given float"),
        (lambda index: ours.IndexFlatL2(1.5), "d: needed an integer, given float"),  # type: ignore[arg-type]
        (lambda index: ours.IndexIDMap(3), "index: needed an object of Index, given int"),  # type: ignore[arg-type]
        (lambda index: ours.IndexIVFFlat(3, 4, 5), "quantizer: needed an object of Index, given int"),  # type: ignore[arg-type]
        (lambda index: ours.write_index(3, "index"), "index: needed an object of Index, given int"),  # type: ignore[arg-type]
        (lambda index: ours.index_factory(4, 4), "description: needed an object of str, given int"),  # type: ignore[arg-type]
        (lambda index: probing("a"), "nprobe: needed an integer, given str"),
    ],
)
@pytest.mark.parametrize("metric", METRICS)
def test_wrong_types_are_type_errors_of_one_line(call: Any, message: str, metric: int) -> None:
    # The index is empty, which is no reason to accept them.
    with pytest.raises(TypeError, match=f"^{message}$"):
        call(ours.IndexFlat(D, metric))


def probing(nprobe: Any) -> None:
    index = ours.index_factory(4, "IVF1,Flat")
    index.train(ROWS[:9, :4])
    index.add(ROWS[:9, :4])
    index.nprobe = nprobe
    index.search(ROWS[:1, :4], 1)


def test_threads_search_at_once() -> None:
    index = ours.index_factory(D, "IDMap,Flat")
    # Many pieces of ids, which the first searches join.
    for at in range(0, 4000, 50):
        index.add_with_ids(ROWS[at : at + 50], np.arange(at, at + 50) * 3)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: index.search(QUERIES[at : at + 5], 10), range(0, 200, 5)))
    expected = index.search(QUERIES, 10)
    np.testing.assert_array_equal(np.concatenate([ids for _, ids in found]), expected[1])
    np.testing.assert_array_equal(np.concatenate([distances for distances, _ in found]), expected[0])
