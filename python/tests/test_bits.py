"""Indexes of bits: distances by a count of every pair, ties by the smaller id."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import nearfield as nf
import nearfield.faiss as faiss

METRICS = pytest.mark.parametrize("metric", ["hamming", "jaccard"])


def bits(count: int, dim: int, seed: int) -> NDArray[np.uint8]:
    random = np.random.default_rng(seed)
    dense = random.integers(0, 256, (count, dim), dtype=np.uint8)
    dense[::3] &= random.integers(0, 256, (len(dense[::3]), dim), dtype=np.uint8)
    dense[5::7] = dense[4::7][: len(dense[5::7])]
    return dense


def truth(metric: str, queries: NDArray[np.uint8], rows: NDArray[np.uint8], k: int) -> tuple[NDArray[Any], NDArray[Any]]:
    q, x = np.unpackbits(queries, axis=1)[:, None], np.unpackbits(rows, axis=1)[None]
    different, either = (q != x).sum(axis=2), (q | x).sum(axis=2)
    distances = different.astype(np.float64)
    if metric == "jaccard":
        distances = np.where(either == 0, 1, different / np.maximum(either, 1))
    ids = np.argsort(distances.astype(np.float32), axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, ids, axis=1).astype(np.float32), ids


@METRICS
def test_bits_are_counted(metric: Any, tmp_path: Path) -> None:
    rows, queries = bits(700, 16, 1), bits(9, 16, 2)
    index = nf.Flat(rows, metric=metric)
    assert (index.dtype, index.dim, index.metric) == ("ubinary", 16, metric)
    distances, ids = truth(metric, queries, rows, 12)
    index.save(tmp_path / "bits.nf")
    for other in (index, nf.load(tmp_path / "bits.nf"), nf.from_bytes(index.to_bytes()), nf.Flat(rows, metric=metric, dtype="ubinary")):
        found = other.search(queries, 12)
        np.testing.assert_array_equal(found.ids, ids)
        np.testing.assert_array_equal(found.distances, distances)
    np.testing.assert_array_equal(nf.knn(rows, queries, 12, metric=metric).ids, ids)
    stored = index.get([3, 5])
    assert stored.dtype == np.uint8
    np.testing.assert_array_equal(stored, rows[[3, 5]])
    within = index.search_within(queries[:1], float(distances[0, 5]))
    assert (within.distances < distances[0, 5]).all()
    assert index.search(queries[:0], 3).ids.shape == (0, 3)
    assert "ubinary" in repr(index)


def test_what_is_no_byte_is_refused() -> None:
    rows = bits(10, 4, 1)
    index = nf.Flat(rows, metric="hamming")
    with pytest.raises(TypeError, match=r"rows: needed uint8.*np\.packbits.*given float32"):
        index.add(np.zeros((1, 4), np.float32))
    with pytest.raises(TypeError, match="queries: needed uint8.*given int8"):
        index.search(np.zeros((1, 4), np.int8))
    with pytest.raises(ValueError, match="metric: needed hamming or jaccard for bits, given cosine"):
        nf.Flat(rows, dtype="ubinary")
    with pytest.raises(ValueError, match="elements: needed bits for the metric hamming, given u8"):
        nf.Flat(rows, metric="hamming", dtype=np.uint8)
    with pytest.raises(TypeError, match="rows: needed uint8.*given float32"):
        nf.Ivf(np.zeros((9, 4), np.float32), lists=2, metric="hamming")


def test_lists_of_bits_answer_as_all_rows() -> None:
    rows, queries = bits(900, 16, 1), bits(9, 16, 2)
    lists = nf.Ivf(rows, lists=8, metric="jaccard")
    assert (lists.dtype, lists.dim, lists.lists, lists.centroids.shape) == ("ubinary", 16, 8, (8, 128))
    distances, ids = truth("jaccard", queries, rows, 12)
    again = nf.from_bytes(lists.to_bytes())
    for index in (lists, again):
        found = index.search(queries, 12, probes=8)
        np.testing.assert_array_equal(found.ids, ids)
        np.testing.assert_array_equal(found.distances, distances)
    assert 1 <= lists.probes_for_recall(queries, 5, 0.8) <= 8


def test_faiss_has_an_index_of_bits(tmp_path: Path) -> None:
    rows, queries = bits(300, 8, 3), bits(5, 8, 4)
    index = faiss.IndexBinaryFlat(64)
    index.add(rows)
    assert (index.d, index.code_size, index.ntotal, index.is_trained) == (64, 8, 300, True)
    distances, ids = truth("hamming", queries, rows, 6)
    found = index.search(queries, 6)
    assert found[0].dtype == np.int32
    np.testing.assert_array_equal(found[0], distances)
    np.testing.assert_array_equal(found[1], ids)
    padded = index.search(queries, 301)
    assert (padded[0][:, 300] == 2**31 - 1).all() and (padded[1][:, 300] == -1).all()
    limits, near, _ = index.range_search(queries, 20)
    assert near.dtype == np.float32
    assert (near < 20).all() and limits[-1] == len(near)
    np.testing.assert_array_equal(index.reconstruct(7), rows[7])
    assert index.reconstruct_n(0, 0).shape == (0, 8)
    path = str(tmp_path / "bits")
    faiss.write_index_binary(index, path)
    again = faiss.read_index_binary(path)
    assert type(again) is faiss.IndexBinaryFlat
    np.testing.assert_array_equal(again.search(queries, 6)[1], ids)

    named = faiss.IndexBinaryIDMap(faiss.IndexBinaryFlat(64))
    named.add_with_ids(rows, np.arange(300) + 1000)
    np.testing.assert_array_equal(named.search(queries, 6)[1], ids + 1000)
    assert named.remove_ids(np.array([1000, 1001])) == 2
    with pytest.raises(TypeError, match="x: needed uint8"):
        index.add(rows.astype(np.float32))
    with pytest.raises(TypeError, match="index: needed an object of IndexBinaryFlat, given IndexFlatL2"):
        faiss.IndexBinaryIDMap(faiss.IndexFlatL2(8))
    assert type(faiss.index_binary_factory(64, "BFlat")) is faiss.IndexBinaryFlat
    with pytest.raises(ValueError, match="multiple of 8"):
        faiss.IndexBinaryFlat(12)
    with pytest.raises(ValueError, match=r"x: needed the shape \[n, 8\]"):
        index.search(bits(1, 9, 5), 1)


def test_candidates_of_bits_are_refined() -> None:
    random = np.random.default_rng(5)
    rows, queries = (random.standard_normal((n, 40), dtype=np.float32) for n in (600, 7))
    index = nf.Flat(nf.quantize(rows, "ubinary"), metric="hamming")
    np.testing.assert_array_equal(index.get(np.arange(600)), np.packbits(rows > 0, axis=1))
    candidates = index.search(nf.quantize(queries, "ubinary"), 50).ids
    exact = nf.Flat(rows, device="host")
    found = exact.refine(queries, candidates, 9)
    assert found.ids.shape == found.distances.shape == (7, 9)
    for query, ids, near, distances in zip(queries, candidates, *(found.ids, found.distances)):
        wanted = exact.search(query, 9, filter=ids)
        np.testing.assert_array_equal(near, wanted.ids[0])
        np.testing.assert_array_equal(distances, wanted.distances[0])
    np.testing.assert_array_equal(exact.refine(queries[0], candidates[0], 60).ids[0, :9], found.ids[0])
    with pytest.raises(ValueError, match=r"ids: needed \[7, candidates\], a row for each query, given shape \[6, 50\]"):
        exact.refine(queries, candidates[:6])
    with pytest.raises(ValueError, match="ids: needed each id once for a query"):
        exact.refine(queries[0], [3, 3, 4])
    with pytest.raises(ValueError, match="given 600, which no row has"):
        exact.refine(queries[0], [600])


def test_rows_are_quantised_on_their_way_in() -> None:
    rows = np.random.default_rng(6).standard_normal((300, 24), dtype=np.float32)
    scaled = nf.quantize(rows)
    np.testing.assert_array_equal(scaled, np.round(rows * (127 / np.abs(rows).max(axis=1, keepdims=True).astype(np.float64))))
    index = nf.Flat(rows, store="int8")
    assert index.dtype == np.int8
    np.testing.assert_array_equal(index.get(np.arange(300)), scaled)
    again = nf.from_bytes(index.to_bytes())
    again.add(rows[:2])
    np.testing.assert_array_equal(again.get([301]), scaled[1:2])
    lists = nf.Ivf(rows, store=np.int8, lists=4)
    np.testing.assert_array_equal(lists.get([7]), scaled[7:8])
    with pytest.raises(ValueError, match="store: needed dtype or store, given both"):
        nf.Flat(rows, store="int8", dtype="int8")
    with pytest.raises(ValueError, match="store: needed f32, f16 or bf16, or i8 under the metric cosine"):
        nf.Flat(rows, store="int8", metric="ip")
    with pytest.raises(ValueError, match='dtype: needed "int8", "float16" or "ubinary", given uint8'):
        nf.quantize(rows, "uint8")
