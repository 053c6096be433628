"""`nearfield.faiss` answers as faiss does: the same calls on both, with the vectors that come with the repository."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import nearfield.faiss as ours
import numpy as np
import pytest
from reference import scaled

theirs = pytest.importorskip("faiss")

ROWS, QUERIES = scaled()
D = ROWS.shape[1]
METRICS = pytest.mark.parametrize("metric", [ours.METRIC_L2, ours.METRIC_INNER_PRODUCT], ids=["l2", "ip"])


def assert_same(found: Any, expected: Any) -> None:
    """Equal distances but for rounding, and equal ids but where rounding exchanges neighbours."""
    for mine, other in zip(found, expected, strict=True):
        assert isinstance(mine, np.ndarray)
        assert (mine.dtype, mine.shape) == (other.dtype, other.shape)
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-5, atol=2e-5)
    assert np.count_nonzero(found[1] != expected[1]) <= found[1].size // 1000


def assert_same_range(found: Any, expected: Any, thresh: float) -> None:
    """The same rows in any order, but for those at the threshold."""
    assert [array.dtype for array in found] == [array.dtype for array in expected]
    assert found[0].shape == expected[0].shape
    (*rows, distances), (*expected_rows, expected_distances) = (clear(answer, thresh) for answer in (found, expected))
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(distances, expected_distances, rtol=2e-5, atol=2e-5)


def clear(answer: Any, thresh: float) -> tuple[Any, Any, Any]:
    """Queries, ids and distances of what is not at the threshold, in the order of queries and ids."""
    lims, distances, ids = answer
    queries = np.repeat(np.arange(len(lims) - 1), np.diff(lims.astype(np.int64)))
    order = np.lexsort((distances, ids, queries))
    order = order[np.abs(distances[order] - thresh) > 1e-4]
    return queries[order], ids[order], distances[order]


class Both:
    """An index of ours and one of faiss: every call goes to both, which have to answer the same.

    Arguments that are functions make an argument for a module.
    """

    def __init__(self, make: Any) -> None:
        self.indexes = [(module, make(module)) for module in (ours, theirs)]
        self.mine, self.other = (index for _, index in self.indexes)

    def __getattr__(self, name: str) -> Any:
        mine, other = (getattr(index, name) for _, index in self.indexes)
        if callable(mine):
            return lambda *given, **options: self._call(name, given, options)
        np.testing.assert_array_equal(mine, theirs.vector_to_array(other) if name == "id_map" else other)
        return mine

    def _call(self, name: str, given: Any, options: Any) -> Any:
        answers = []
        for module, index in self.indexes:
            made = [each(module) if callable(each) else each for each in given]
            answers.append(getattr(index, name)(*made, **{key: each(module) for key, each in options.items()}))
        mine, other = answers
        if name == "range_search":
            assert_same_range(mine, other, given[1])
        elif isinstance(mine, tuple):
            assert_same(mine, other)
        else:
            np.testing.assert_array_equal(mine, other)
        return mine

    def probe(self, nprobe: int) -> None:
        for module, index in self.indexes:
            module.extract_index_ivf(index).nprobe = nprobe


def flats(metric: int = ours.METRIC_L2, rows: Any = ROWS) -> Both:
    index = Both(lambda module: module.IndexFlat(D, metric))
    index.add(rows)
    return index


@METRICS
def test_a_flat_index_finds_what_that_of_faiss_finds(metric: int) -> None:
    index = flats(metric)
    for k in (1, 10, 100):
        index.search(QUERIES, k)


@METRICS
def test_missing_rows_are_padded_as_in_faiss(metric: int) -> None:
    index = flats(metric, ROWS[:5])
    distances, ids = index.search(QUERIES, 8)
    assert (ids[:, 5:] == -1).all() and (np.abs(distances[:, 5:]) == np.finfo(np.float32).max).all()
    index.reset()
    assert index.ntotal == 0
    for queries in (QUERIES, QUERIES[:0]):
        index.search(queries, 3)


@METRICS
def test_range_search_finds_what_faiss_finds(metric: int) -> None:
    index = flats(metric, ROWS[:1000])
    for _ in range(2):
        for thresh in (0.6, 1.3, -1e9, 1e9):
            index.range_search(QUERIES, thresh)
        index.reset()


@METRICS
def test_a_removal_renumbers_a_flat_index_as_in_faiss(metric: int) -> None:
    index = flats(metric)
    removals: list[Any] = [
        np.array([3, 17, 3, 99_999, -1]),
        lambda module: module.IDSelectorRange(100, 1100),
        lambda module: module.IDSelectorBatch(np.arange(0, 3000, 7)),
        np.empty(0, dtype=np.int64),
    ]
    for number, removal in enumerate(removals, start=1):
        index.remove_ids(removal)
        assert index.ntotal == len(index.mine.reconstruct_n())
        index.search(QUERIES, 10)
        index.add(ROWS[:50] * (1 + number / 8))
        index.search(QUERIES, 10)
        index.reconstruct_n(5, 200)
        index.range_search(QUERIES[:9], 1.2)


def test_rows_come_back_as_in_faiss() -> None:
    index = flats()
    for arguments in ((), (3990,), (4, 0)):
        index.reconstruct_n(*arguments)
    index.reconstruct(7)
    index.reconstruct_batch([5, 2, 5])
    for _, each in index.indexes:
        with pytest.raises(RuntimeError):
            each.reconstruct(4000)
        with pytest.raises(RuntimeError):
            each.reconstruct_n(3999, 2)


@pytest.mark.parametrize(
    "convert",
    [np.float64, np.float16, np.asfortranarray, lambda x: (x * 100).astype(np.int32), lambda x: np.repeat(x, 2, 0)[::2]],
    ids=["float64", "float16", "fortran", "int32", "strided"],
)
def test_numbers_of_any_type_and_layout_are_converted(convert: Any) -> None:
    flats(rows=convert(ROWS)).search(convert(QUERIES), 5)


def test_results_go_into_given_arrays() -> None:
    mine = flats(rows=ROWS[:3]).mine
    distances, ids = np.empty((200, 4), np.float32), np.empty((200, 4), np.int64)
    found = mine.search(QUERIES, 4, D=distances, I=ids)
    assert found[0] is distances and found[1] is ids
    assert_same(found, mine.search(QUERIES, 4))
    with pytest.raises(ValueError, match=r"^I: needed int64 of the shape \[200, 4\], given int32 of the shape \[200, 4\]$"):
        mine.search(QUERIES, 4, I=ids.astype(np.int32))


@pytest.mark.parametrize("kind", ["IndexIDMap", "IndexIDMap2"])
@METRICS
def test_a_map_keeps_any_ids_as_in_faiss(kind: str, metric: int) -> None:
    # Some negative, some beyond 2^32, some twice.
    ids = np.random.default_rng(1).permutation(4000) * 2_000_003 - 1_000_000
    ids[100:200] = ids[:100]
    index = Both(lambda module: getattr(module, kind)(module.IndexFlat(D, metric)))
    given = ids.copy()
    index.add_with_ids(ROWS[:2500], given[:2500])
    index.add_with_ids(ROWS[2500:], given[2500:])
    # The index has a copy.
    given[:] = -7
    removals: list[Any] = [ids[50:300], lambda module: module.IDSelectorRange(0, 10**9), np.array([-5])]
    for removal in removals:
        index.search(QUERIES, 10)
        index.range_search(QUERIES, 1.1)
        assert len(index.id_map) == index.ntotal
        index.remove_ids(removal)
    some = int(index.id_map[20])
    np.testing.assert_array_equal(index.mine.reconstruct(some), ROWS[np.flatnonzero(ids == some)[-1]])
    with pytest.raises(RuntimeError, match="^key: needed the id of a row, given 1$"):
        index.mine.reconstruct(1)


def test_rows_of_a_map_come_back_by_their_ids_as_in_faiss() -> None:
    ids = np.random.default_rng(2).permutation(4000) - 100
    # The row that came last has the id.
    ids[50:60] = ids[10]
    index = Both(lambda module: module.IndexIDMap2(module.IndexFlatL2(D)))
    assert index.mine.reconstruct_batch([]).shape == (0, D)
    with pytest.raises(RuntimeError, match="^key: needed the id of a row, given 3$"):
        index.mine.reconstruct_batch([3])
    for part in (slice(2000), slice(2000, 4000)):
        index.add_with_ids(ROWS[part], ids[part])
        index.reconstruct_batch(ids[part])
    for each in (index.mine, pickle.loads(pickle.dumps(index.mine))):
        np.testing.assert_array_equal(each.reconstruct(int(ids[10])), ROWS[59])
    for n0, ni in ((int(ids[3000]), 1), (-100, 0), (10**6, 0)):
        index.reconstruct_n(n0, ni)
    mine = ours.IndexIDMap2(ours.IndexFlatL2(D))
    mine.add_with_ids(ROWS[:3], np.array([7, 5, 6]))
    np.testing.assert_array_equal(mine.reconstruct_n(5, 3), ROWS[[1, 2, 0]])
    for n0, ni, words in (
        (6, 3, "needed the id of a row, given 8$"),
        (5, 4, "needed a range of at most 3 rows, given"),
        (5, -2, "needed a range of at most 3 rows, given"),
        (5, -1, "needed a range of at most 3 rows, given"),
    ):
        with pytest.raises(RuntimeError, match=f"^n0, ni: {words}"):
            mine.reconstruct_n(n0, ni)


def test_what_the_state_forbids_is_a_runtime_error_as_in_faiss() -> None:
    for module in (ours, theirs):
        flat = module.IndexFlatL2(D)
        flat.add(ROWS[:2])
        lists = module.IndexIVFFlat(module.IndexFlatL2(D), D, 8)
        assert not lists.is_trained
        calls: list[Any] = [
            lambda: flat.add_with_ids(ROWS[:2], np.arange(2)),
            lambda: module.IndexIDMap(module.IndexFlatL2(D)).add(ROWS[:2]),
            lambda: module.IndexIDMap(flat),
            lambda: lists.add(ROWS),
            lambda: lists.search(QUERIES, 1),
            lambda: lists.train(ROWS[:7]),
        ]
        for call in calls:
            with pytest.raises(RuntimeError):
                call()


def lists_of(module: Any, metric: int = ours.METRIC_L2) -> Any:
    index = module.IndexIVFFlat(module.IndexFlat(D, metric), D, 16, metric)
    index.train(ROWS)
    return index


@METRICS
def test_more_probes_find_more(metric: int) -> None:
    index = Both(lambda module: lists_of(module, metric))
    index.add(ROWS)
    truth = flats(metric).other.search(QUERIES, 10)[1]

    def recall(index: Any) -> float:
        found = index.search(QUERIES, 10)[1]
        return float(np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found, truth, strict=True)]))

    last = 0.0
    for nprobe in (1, 4, 8, 16):
        index.probe(nprobe)
        mine, other = recall(index.mine), recall(index.other)
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
    assert_same(everything, flats().other.search(QUERIES, 10))
    assert not np.array_equal(one[1], everything[1])
    index.nprobe = 16
    np.testing.assert_array_equal(index.search(QUERIES, 10, params=ours.SearchParametersIVF(nprobe=1))[1], one[1])


@METRICS
def test_an_index_of_lists_keeps_and_gives_ids_as_in_faiss(metric: int) -> None:
    index = Both(lambda module: lists_of(module, metric))
    assert (index.mine.nlist, index.mine.nprobe) == (16, 1)
    index.probe(16)
    index.add_with_ids(ROWS[:100], np.arange(100) * 1_000_000_007 - 3)
    index.add(ROWS[100:3000])
    assert index.remove_ids(np.arange(100, 140)) == 40
    assert index.remove_ids(np.array([-3])) == 1
    # The next id is ntotal, which another row has already.
    index.add(ROWS[3000:])
    assert index.ntotal == 3959
    for k in (10, 4500):
        index.search(QUERIES[:50], k)
    index.range_search(QUERIES, 1.2)
    np.testing.assert_array_equal(index.mine.reconstruct(1_000_000_004), ROWS[1])
    np.testing.assert_array_equal(index.mine.reconstruct(150), ROWS[150])
    index.reset()
    assert index.ntotal == 0 and index.is_trained
    index.search(QUERIES, 10)
    index.range_search(QUERIES, 1.2)
    index.range_search(QUERIES[:0], 1.2)
    index.add(ROWS[:500])
    index.search(QUERIES, 10)


def test_the_quantizer_gets_the_centroids() -> None:
    quantizer = ours.IndexFlatL2(D)
    index = ours.IndexIVFFlat(quantizer, D, 16)
    index.train(ROWS)
    assert quantizer.ntotal == 16
    centroids = quantizer.reconstruct_n()
    index.train(ROWS[:100])
    np.testing.assert_array_equal(quantizer.reconstruct_n(), centroids)
    # A training that fails leaves the index untrained.
    index = ours.IndexIVFFlat(ours.IndexIDMap(ours.IndexFlatL2(D)), D, 4)
    with pytest.raises(RuntimeError, match="^ids: needed one for each row"):
        index.train(ROWS[:50])
    assert not index.is_trained


def test_a_map_over_lists_keeps_rows_and_ids_together() -> None:
    index = ours.index_factory(D, "IDMap,IVF16,Flat")
    index.train(ROWS)
    ids = np.arange(4000) * 10
    index.add_with_ids(ROWS, ids)
    ours.extract_index_ivf(index).nprobe = 16
    assert index.remove_ids(ids[::3]) == 1334
    kept = np.delete(np.arange(4000), np.s_[::3])
    distances, positions = flats(rows=ROWS[kept]).other.search(QUERIES, 10)
    assert_same(index.search(QUERIES, 10), (distances, kept[positions] * 10))
    np.testing.assert_array_equal(index.reconstruct(40), ROWS[4])
    # The index inside still answers by itself.
    assert (index.index.search(QUERIES, 10)[1] >= 0).all()


KEPT: list[Any] = []


def kept(selector: Any) -> Any:
    """faiss leaves it to the caller that a selector inside of another object lives on."""
    KEPT.append(selector)
    return selector


@METRICS
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
    def params(module: Any) -> Any:
        return module.SearchParameters(sel=kept(select(module)))

    index = flats(metric)
    index.search(QUERIES, 10, params=params)
    index.range_search(QUERIES, 1.1, params=params)
    # Those of a map take its ids.
    index = Both(lambda module: module.IndexIDMap(module.IndexFlat(D, metric)))
    index.add_with_ids(ROWS, np.arange(4000) + 100)
    index.search(QUERIES, 10, params=params)
    mine, other = select(ours), select(theirs)
    for id in (-1, 1, 1200, 3950, 9000):
        assert mine.is_member(id) == other.is_member(id)


def test_normalize_l2_is_that_of_faiss() -> None:
    mine, other = ROWS.copy(), ROWS.copy()
    mine[3] = other[3] = 0
    ours.normalize_L2(mine)
    theirs.normalize_L2(other)
    np.testing.assert_allclose(mine, other, rtol=1e-6)


@pytest.mark.parametrize(
    "description",
    ["Flat", "IVF8,Flat", "IDMap,Flat", "IDMap2,Flat", "Flat,IDMap", "Flat,IDMap2", "IDMap,IVF8,Flat", "IVF8,Flat,IDMap"],
)
@METRICS
def test_the_factory_makes_what_that_of_faiss_makes(description: str, metric: int) -> None:
    index = Both(lambda module: module.index_factory(D, description, metric))
    assert (index.d, index.metric_type, index.ntotal, index.is_trained) == (D, metric, 0, "IVF" not in description)
    index.train(ROWS)
    if "IVF" in description:
        index.probe(8)
    if "IDMap" in description:
        index.add_with_ids(ROWS, np.arange(4000) + 7)
    else:
        index.add(ROWS)
    index.search(QUERIES, 5)


def test_scripts_for_gpus_run_and_a_device_can_be_chosen() -> None:
    resources = ours.StandardGpuResources()
    resources.setTempMemory(1 << 20)
    resources.noTempMemory()
    flat = ours.IndexFlatL2(D)
    assert ours.index_cpu_to_gpu(resources, 0, flat) is flat
    assert ours.index_cpu_to_all_gpus(flat) is ours.index_gpu_to_cpu(flat) is ours.downcast_index(flat) is flat
    assert ours.get_num_gpus() >= 0
    index = ours.index_factory(D, "IDMap,IVF8,Flat", device="host")
    index.train(ROWS)
    assert index.index._rows.native.device.kind == "host"
    with pytest.raises(Exception, match="no such device"):
        ours.IndexFlatL2(D, device="no such device")


def test_other_names_are_attribute_errors() -> None:
    for owner, name in ((ours, "IndexHNSWFlat"), (ours.IndexFlatL2(D), "hnsw")):
        with pytest.raises(AttributeError):
            getattr(owner, name)
    assert all(hasattr(ours, name) for name in ours.__all__)


def test_threads_search_at_once() -> None:
    index = ours.index_factory(D, "IDMap,Flat")
    # Many pieces of ids, which the first searches join.
    for at in range(0, 4000, 50):
        index.add_with_ids(ROWS[at : at + 50], np.arange(at, at + 50) * 3)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda at: index.search(QUERIES[at : at + 5], 10), range(0, 200, 5)))
    for mine, expected in zip(map(np.concatenate, zip(*found)), index.search(QUERIES, 10), strict=True):
        np.testing.assert_array_equal(mine, expected)


def probing(nprobe: Any) -> None:
    index = ours.index_factory(4, "IVF1,Flat")
    index.train(ROWS[:9, :4])
    index.add(ROWS[:9, :4])
    index.nprobe = nprobe
    index.search(ROWS[:1, :4], 1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda index: index.add(ROWS[:, :5]), ValueError, r"x: needed the shape \[n, 384\], given \[4000, 5\]"),
        (lambda index: index.search(QUERIES[0], 1), ValueError, r"x: needed the shape \[n, 384\], given \[384\]"),
        (lambda index: index.search(QUERIES, 0), ValueError, "k: needed at least 1, given 0"),
        (lambda index: index.search(np.full((1, D), np.nan), 1), ValueError, "x: .*row 0 .*"),
        (lambda index: index.add(np.full((1, D), 1e300)), ValueError, "x: .*row 0 .*"),
        (lambda index: index.range_search(np.full((1, D), np.nan), 1.0), ValueError, "x: .*row 0 .*"),
        (lambda index: ours.IndexIVFFlat(ours.IndexFlatL2(D), D, 1).train(np.full((1, D), np.nan)), ValueError, "x: .*row 0 .*"),
        (lambda index: index.range_search(QUERIES, float("nan")), ValueError, "thresh: needed a number, given nan"),
        (lambda index: index.add(np.ma.array(ROWS[:3], mask=True)), ValueError, "x: needed an array without masked elements, .*"),
        (lambda index: index.remove_ids(np.ma.array([0, 1], mask=[False, True])), ValueError, "x: needed an array without masked elements, .*"),
        (lambda index: index.search(QUERIES, 2**70), ValueError, r"k: needed at most 2\^63 - 1, given 1180591620717411303424"),
        (lambda index: ours.IndexFlatL2(0), ValueError, "d: needed at least 1, given 0"),
        (lambda index: ours.IndexFlatL2(2**40), ValueError, "d: needed 1 to .*, given 1099511627776"),
        (lambda index: ours.IndexFlat(D, 23), ValueError, "metric: needed METRIC_L2 or METRIC_INNER_PRODUCT, given 23"),
        (lambda index: ours.IndexIVFFlat(ours.IndexFlatL2(D), D, 0), ValueError, "nlist: needed at least 1, given 0"),
        (lambda index: ours.IndexIVFFlat(ours.IndexFlatL2(D), 8, 16), ValueError, "quantizer: needed one of d 8, given 384"),
        (lambda index: ours.IndexIVFFlat(index, D, 16), ValueError, "quantizer: needed an empty index, .*, given one with 10 rows"),
        (lambda index: ours.IndexIDMap(ours.IndexFlatL2(D)).add_with_ids(ROWS[:3], [1, 2]), ValueError, "ids: needed one for each of 3 rows, given 2"),
        (lambda index: index.remove_ids([[1]]), ValueError, r"x: needed one dimension, \[n\], given shape \[1, 1\]"),
        (lambda index: index.remove_ids([1.5]), TypeError, "x: needed integers, given float64"),
        (lambda index: index.search(QUERIES, 1.5), TypeError, "k: needed an integer, given float"),
        (lambda index: index.search(QUERIES.astype(object), 1), TypeError, "x: needed numbers, given object"),
        (lambda index: index.search(QUERIES, 1, D=[1]), TypeError, "D: needed an object of ndarray, given list"),
        (lambda index: index.search(QUERIES, 1, params=3), TypeError, "params: needed an object of SearchParameters, given int"),
        (lambda index: index.search(QUERIES, 1, params=ours.SearchParameters(3)), TypeError, "params.sel: needed an object of IDSelector, given int"),
        (lambda index: index.range_search(QUERIES, None), TypeError, "thresh: needed a number, given NoneType"),
        (lambda index: index.reconstruct("1"), TypeError, "key: needed an integer, given str"),
        (lambda index: index.reconstruct_n(0.5), TypeError, "n0: needed an integer, given float"),
        (lambda index: ours.IndexIDMap(3), TypeError, "index: needed an object of Index, given int"),
        (lambda index: ours.IndexIVFFlat(3, 4, 5), TypeError, "quantizer: needed an object of Index, given int"),
        (lambda index: ours.write_index(3, "index"), TypeError, "index: needed an object of Index, given int"),
        (lambda index: ours.index_factory(4, 4), TypeError, "description: needed an object of str, given int"),
        (lambda index: probing("a"), TypeError, "nprobe: needed an integer, given str"),
        (lambda index: ours.normalize_L2(ROWS.astype(np.float64)), TypeError, "x: needed a numpy array of float32, .*, given float64"),
        *(
            (lambda index, given=given: ours.index_factory(D, given), RuntimeError, f'description: needed "Flat", .* given "{given}"')
            for given in ("PQ8", "IVF8", "Flat,Flat", "IDMap,Flat,IDMap", "", "IVF,Flat", "HNSW32,Flat", "IVF99999999999999999999,Flat")
        ),
    ],
)
def test_what_does_not_fit_is_an_error_of_one_line(call: Any, error: type[Exception], message: str) -> None:
    if error is TypeError:
        # That an index is empty is no reason to accept a wrong type.
        with pytest.raises(error, match=f"^{message}$"):
            call(ours.IndexFlatIP(D))
    index = ours.IndexFlatL2(D)
    index.add(ROWS[:10])
    with pytest.raises(error, match=f"^{message}$"):
        call(index)
    assert index.ntotal == 10
    np.testing.assert_array_equal(index.search(ROWS[:10], 1)[1][:, 0], np.arange(10))


def test_threads_that_add_at_once_keep_rows_and_ids_together() -> None:
    index = ours.IndexIDMap(ours.IndexFlatL2(D))
    batches = np.arange(len(ROWS) // 20 * 20).reshape(-1, 20)

    def change(batch: Any) -> None:
        index.add_with_ids(ROWS[batch], 3 * batch)
        if batch[0] % 3 == 0:
            index.remove_ids(3 * batch[:5])
        assert index.search(QUERIES[:1], 1)[1][0, 0] % 3 == 0

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(change, batches))
    left = np.array([row for batch in batches for row in (batch[5:] if batch[0] % 3 == 0 else batch)])
    assert index.ntotal == len(left)
    np.testing.assert_array_equal(index.reconstruct_batch(3 * left), ROWS[left])


@pytest.mark.parametrize("make", [lambda: ours.IndexFlatL2(D), lambda: ours.index_factory(D, "IVF4,Flat"), ours.SearchParametersIVF])
def test_attributes_that_are_not_there_are_refused(make: Any) -> None:
    one = make()
    for name in ("nprob", "max_codes", "lookup_stop"):
        with pytest.raises(AttributeError, match=name):
            setattr(one, name, 5)
    with pytest.raises(TypeError):
        ours.SearchParametersIVF(max_codes=5)


@pytest.mark.parametrize("description", ["Flat", "IVF8,Flat", "IDMap,Flat"])
def test_merged_indexes_answer_as_those_of_faiss(description: str) -> None:
    def merged(module: Any) -> Any:
        one, other = (module.index_factory(D, description) for _ in range(2))
        for index, rows in ((one, ROWS[:2000]), (other, ROWS[2000:])):
            index.train(ROWS)
            if description.startswith("IDMap"):
                index.add_with_ids(rows, np.arange(len(rows)))
            else:
                index.add(rows)
        one.merge_from(other, 2000 if description != "Flat" else 0)
        assert (one.ntotal, other.ntotal) == (len(ROWS), 0)
        if "IVF" in description:
            one.nprobe = 8
        return one.search(QUERIES[:50], 5)

    assert_same(merged(ours), merged(theirs))
    index = ours.IndexFlatL2(D)
    for other in (index, ours.IndexFlatL2(D + 1), ours.IndexFlatIP(D)):
        with pytest.raises(RuntimeError, match="^otherIndex: needed"):
            index.merge_from(other)


def test_centroids_of_rows_that_cancel_each_other_out_are_found() -> None:
    rows = np.concatenate([np.eye(4), -np.eye(4) * (1 + 2.0**-23)]).astype(np.float32)
    index = ours.index_factory(4, "IVF1,Flat", ours.METRIC_INNER_PRODUCT)
    index.train(rows)
    assert index.quantizer.ntotal == 1


def test_a_call_from_within_another_one_does_not_wait_for_itself() -> None:
    index = ours.IndexFlatL2(D)
    index.add(ROWS[:20])

    class Odd(ours.IDSelector):
        def mask(self, ids: Any) -> Any:
            assert index.reconstruct(3).shape == (D,)
            with pytest.raises(RuntimeError, match="within another call"):
                index.reset()
            return ids % 2 == 1

    assert index.remove_ids(Odd()) == 10
    assert index.search(ROWS[:1], 3, params=ours.SearchParameters(sel=Odd()))[1].tolist()[0][0] % 2 == 1


@METRICS
@pytest.mark.parametrize("qtype", ["QT_fp16", "QT_8bit_direct", "QT_8bit_direct_signed"])
def test_a_scalar_quantizer_answers_as_that_of_faiss(qtype: str, metric: int) -> None:
    # Numbers that the type holds: faiss rounds ties and queries in another way.
    scale, least = {"QT_fp16": (1, 0), "QT_8bit_direct": (300, 100), "QT_8bit_direct_signed": (300, 0)}[qtype]
    limits = (-128, 127) if "signed" in qtype else (0, 255)
    given = (values[:1500] * scale + least for values in (ROWS, QUERIES))
    rows, queries = (np.rint(values).clip(*limits) if scale > 1 else values.astype(np.float16).astype(np.float32) for values in given)
    index = Both(lambda module: module.IndexScalarQuantizer(D, getattr(module.ScalarQuantizer, qtype), metric))
    index.add(rows)
    index.reconstruct_n(3, 9)
    mine, other = (one.search(queries, 10) for one in (index.mine, index.other))
    np.testing.assert_allclose(mine[0], other[0], rtol=2e-5, atol=2e-5)
    # Inner products of integers differ by few units, which rounding exchanges in either.
    assert np.count_nonzero(mine[1] != other[1]) <= mine[1].size // 100
    again = ours.deserialize_index(ours.serialize_index(index.mine))
    assert type(again) is ours.IndexScalarQuantizer and again.sq.qtype == getattr(ours.ScalarQuantizer, qtype)
    assert_same(again.search(queries, 5), index.mine.search(queries, 5))


@pytest.mark.parametrize("description", ["SQfp16", "SQ8_direct", "IDMap,SQ8_direct_signed"])
def test_scalar_quantizers_are_made_by_their_descriptions(description: str) -> None:
    index = ours.index_factory(D, description)
    kinds = [type(one).__name__ for one in (index, theirs.index_factory(D, description))]
    assert kinds[0] == kinds[1]
    whole = np.trunc(ROWS[:9] * 50).clip(0)
    index.add_with_ids(whole, range(9)) if "IDMap" in description else index.add(whole)
    np.testing.assert_array_equal(index.search(whole, 1)[1][:, 0], np.arange(9))


def test_a_scalar_quantizer_refuses_what_its_integers_do_not_hold() -> None:
    index = ours.IndexScalarQuantizer(2, ours.ScalarQuantizer.QT_8bit_direct)
    for wrong in (-1.0, 256.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="^x: needed numbers from 0 to 255, given others in row 1$"):
            index.add([[1, 2], [wrong, 0]])
    assert index.ntotal == 0
    for qtype in ("QT_8bit_direct", "QT_8bit_direct_signed"):
        mine, other = (module.IndexScalarQuantizer(4, getattr(module.ScalarQuantizer, qtype)) for module in (ours, theirs))
        fractions = np.array([[0.2, 1.5, 3.7, 100.9], [-1.5, -3.7, -0.2, 7.5]], dtype=np.float32)
        fractions = fractions if "signed" in qtype else abs(fractions)
        mine.add(fractions), other.add(fractions)
        np.testing.assert_array_equal(mine.reconstruct_n(0, 2), other.reconstruct_n(0, 2))
    with pytest.raises(ValueError, match="^qtype: needed QT_fp16, QT_8bit_direct or QT_8bit_direct_signed, given 0$"):
        ours.IndexScalarQuantizer(2, 0)
