"""Documents of several token vectors are found by MaxSim, however their tokens are given."""

import asyncio
import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_arrays import Tensor

import nearfield as nf

DIM = 24


def unit(rng: Any, lengths: Any) -> list[Any]:
    """Documents or queries of these numbers of tokens, all of length 1."""
    each = [rng.standard_normal((length, DIM), dtype=np.float32) for length in lengths]
    return [tokens / np.linalg.norm(tokens, axis=1, keepdims=True) for tokens in each]


@pytest.fixture(scope="module")
def documents() -> list[Any]:
    rng = np.random.default_rng(4)
    return unit(rng, rng.integers(1, 30, 150))


@pytest.fixture(scope="module")
def queries() -> list[Any]:
    return unit(np.random.default_rng(5), [1, 7, 32, 7, 100])


@pytest.fixture
def index(documents: Any) -> nf.MultiVector:
    index = nf.MultiVector(DIM)
    assert index.add(documents).tolist() == list(range(150))
    return index


def scores(queries: Any, documents: Any, weights: Any = None) -> Any:
    """MaxSim in float64, `[queries, documents]`."""
    weights = weights or [np.ones(len(query)) for query in queries]
    largest = [[(query.astype(float) @ document.astype(float).T).max(axis=1) for document in documents] for query in queries]
    return np.array([[own @ of_tokens for of_tokens in each] for own, each in zip(weights, largest)])


def check(found: nf.Ranking, exact: Any, k: int, ids: Any = None) -> None:
    """Checks an answer: its scores, their order, and that no document of a larger score is missing."""
    ids = np.arange(exact.shape[1]) if ids is None else np.asarray(ids)
    assert found.scores.dtype == np.float32 and found.ids.dtype == np.int64
    assert found.scores.shape == found.ids.shape == (len(exact), min(k, len(ids)))
    for own, by_score, by_id in zip(exact, found.scores, found.ids):
        places = np.searchsorted(ids, by_id)
        np.testing.assert_array_equal(ids[places], by_id)
        np.testing.assert_allclose(by_score, own[places], atol=1e-3)
        pairs = list(zip(-by_score, by_id))
        assert pairs == sorted(pairs) and len(set(by_id)) == len(by_id)
        assert np.delete(own, places).max(initial=-np.inf) <= by_score[-1] + 1e-3


def padded(each: Any) -> tuple[Any, Any]:
    """Matrices in one array, and which of its tokens count: those around them are larger."""
    longest = max(map(len, each))
    mask = np.arange(longest) < np.array([[len(one)] for one in each])
    array = np.full((len(each), longest, DIM), 9, np.float32)
    array[mask] = np.concatenate(each)
    return array, mask


def flat(each: Any) -> tuple[Any, Any]:
    return np.concatenate(each), np.cumsum([0, *map(len, each)])


def test_lists_padded_arrays_and_offsets_are_the_same_documents(index: Any, documents: Any, queries: Any) -> None:
    expected = index.search(queries, 9)
    check(expected, scores(queries, documents), 9)
    (array, mask), (rows, offsets) = padded(queries), flat(queries)
    for given, options in (
        (tuple(queries), {}),
        ([np.asfortranarray(query) for query in queries], {}),
        (array, {"mask": mask}),
        (list(array), {"mask": mask.astype(np.int64).tolist()}),
        (rows, {"offsets": offsets}),
        (rows.tolist(), {"offsets": offsets.tolist()}),
    ):
        for found, of_lists in zip(index.search(given, 9, **options), expected):
            np.testing.assert_array_equal(found, of_lists)
    array, mask = padded(documents)
    for documents_options in ({"mask": mask}, {"mask": mask.astype(np.float32)}, {"offsets": flat(documents)[1]}):
        other = nf.MultiVector(DIM, capacity=3000)
        other.add(flat(documents)[0] if "offsets" in documents_options else array, **documents_options)
        assert other.tokens == index.tokens == sum(map(len, documents))
        np.testing.assert_array_equal(other.search(queries, 9).scores, expected.scores)


def test_one_array_is_one_query_and_all_tokens_count_without_a_mask(index: Any, documents: Any, queries: Any) -> None:
    check(index.search(queries[1], 4), scores(queries[1:2], documents), 4)
    check(index.search(np.stack([queries[1], queries[3]]), 4), scores([queries[1], queries[3]], documents), 4)
    check(index.search([query.tolist() for query in queries], 4), scores(queries, documents), 4)
    # A vector is a token.
    check(index.search(queries[0][0], 500), scores(queries[:1], documents), 500)
    assert index.search([], 7).ids.shape == (0, 7) and index.add([]).shape == (0,)


@pytest.mark.parametrize("library", ["none", "torch"])
def test_tensors_are_documents(documents: Any, queries: Any, library: str) -> None:
    torch = pytest.importorskip("torch") if library == "torch" else None
    tensor = torch.from_numpy if torch else lambda array: Tensor(array, 1)
    index = nf.MultiVector(DIM)
    index.add([tensor(document) for document in documents])
    (array, mask), exact = padded(queries), scores(queries, documents)
    check(index.search([tensor(query) for query in queries], 5), exact, 5)
    check(index.search(tensor(array), 5, mask=tensor(mask.astype(np.int64))), exact, 5)
    np.testing.assert_allclose(nf.maxsim(tensor(array), documents, queries_mask=mask), exact, atol=1e-3)
    if torch:
        check(index.search(tensor(queries[1]).requires_grad_(), 5, weights=torch.ones(7)), exact[1:2], 5)


def test_filters_weights_and_means(index: Any, documents: Any, queries: Any) -> None:
    exact, few = scores(queries, documents), [3, 40, 41, 149]
    for given in (few, np.isin(np.arange(150), few), lambda id: id in few):
        check(index.search(queries, 3, filter=given), exact[:, few], 3, few)
    rng = np.random.default_rng(6)
    weights = [rng.random(len(query)) for query in queries]
    weighted = scores(queries, documents, weights)
    array, mask = padded(queries)
    for each in (weights, np.concatenate(weights)):
        check(index.search(queries, 6, weights=each), weighted, 6)
    of_padded = np.full(mask.shape, 7.0)
    of_padded[mask] = np.concatenate(weights)
    check(index.search(array, 6, mask=mask, weights=of_padded), weighted, 6)
    check(index.search(queries[1], 6, weights=weights[1]), weighted[1:2], 6)
    lengths = np.array([[len(query)] for query in queries])
    check(index.search(queries, 6, mean=True), exact / lengths, 6)
    check(index.search(queries, 6, mean=True, weights=weights), weighted / [[sum(each)] for each in weights], 6)


def test_equal_scores_are_in_the_order_of_ids() -> None:
    index = nf.MultiVector(2)
    index.add(np.ones((5, 3, 2), np.float32), ids=[9, 2, 7, 4, 30])
    found = index.search(np.ones((2, 2), np.float32), 4)
    assert found.ids.tolist() == [[2, 4, 7, 9]] and found.scores.tolist() == [[4.0] * 4]


def test_documents_are_removed_and_replaced(index: Any, documents: Any, queries: Any) -> None:
    assert index.remove([3, 149, 3]) == 2 and 3 not in index and 4 in index and len(index) == 148
    index.update([4, 5], [documents[0], documents[1][:1]])
    np.testing.assert_array_equal(index.get(4), documents[0])
    index.compact()
    left = [documents[id] for id in range(149) if id != 3]
    left[3:5] = [documents[0], documents[1][:1]]
    check(index.search(queries, 20), scores(queries, left), 20, index.ids)
    told: list[Any] = []
    assert index.add(documents[:2], ids=[1000, 3], progress=lambda *step: told.append(step)).tolist() == [1000, 3]
    tokens = sum(map(len, documents[:2]))
    assert told[-1] == ("adding", tokens, tokens)
    # Insertion numbers count all documents.
    assert index.add(documents[0]).tolist() == [152]

    def refuse(*_: Any) -> None:
        raise KeyError("enough")

    with pytest.raises(KeyError):
        index.add(documents, progress=refuse)
    assert len(index) == 151


@pytest.mark.parametrize("options", [{}, {"dtype": "float16"}, {"store": np.float16}])
def test_files_bytes_and_pickles_hold_the_index(documents: Any, queries: Any, options: Any, tmp_path: Path) -> None:
    index = nf.MultiVector(DIM, **options)
    index.add([document.astype(options.get("dtype", np.float32)) for document in documents], ids=np.arange(150) * 2)
    index.save(tmp_path / "documents.nf")
    assert (tmp_path / "documents.nf").read_bytes() == index.to_bytes()
    expected = index.search(queries, 8)
    check(expected, scores(queries, [index.get(id) for id in index.ids]), 8, index.ids)
    for same in (
        nf.MultiVector.load(str(tmp_path / "documents.nf")),
        nf.MultiVector.from_bytes(index.to_bytes(), index.device),
        pickle.loads(pickle.dumps(index)),
        copy.copy(index),
    ):
        assert (len(same), same.tokens, same.dim, same.dtype) == (150, index.tokens, DIM, np.float16 if options else np.float32)
        assert repr(same) == repr(index) and same.nbytes > 0 and same.device.kind == index.device.kind
        for found, of_index in zip(same.search(queries, 8), expected):
            np.testing.assert_array_equal(found, of_index)
    with pytest.raises(nf.Error, match="needed an index of kind multivector, found one of kind flat"):
        nf.MultiVector.from_bytes(nf.Flat(documents[0]).to_bytes())


def test_maxsim_scores_all_pairs(index: Any, documents: Any, queries: Any) -> None:
    exact = scores(queries, documents)
    (array, mask), (rows, offsets) = padded(queries), flat(documents)
    for found in (
        nf.maxsim(queries, documents),
        nf.maxsim(array, rows, queries_mask=mask, documents_offsets=offsets),
        nf.maxsim(queries, documents, device="host"),
        np.concatenate([nf.maxsim(query, documents) for query in queries]),
    ):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, exact, atol=1e-3)
    assert nf.maxsim([], documents).shape == (0, 150)


def test_a_search_leaves_an_event_loop_free(index: Any, queries: Any) -> None:
    found = asyncio.run(index.search_async(queries, 3, mean=True))
    np.testing.assert_array_equal(found.ids, index.search(queries, 3, mean=True).ids)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda i, d: i.add(d[1][:, :5]), ValueError, "documents: needed dim 24, as the index has, given 5"),
        (lambda i, d: i.add([d[1], d[2][:, :5]]), ValueError, r"documents\[1\]: needed float32 of dim 24, as documents\[0\], given float32 of dim 5"),
        (lambda i, d: i.add([d[1], d[2].astype(np.float16)]), ValueError, r"documents\[1\]: needed float32 of dim 24, .* given float16"),
        (lambda i, d: i.add([d[1].astype(float)]), TypeError, r"documents\[0\]: needed float32, .*convert it by documents\[0\].astype"),
        (lambda i, d: i.add([d[1], d[2][:0]]), ValueError, r"documents: needed at least one token each, given none in documents\[1\]"),
        (lambda i, d: i.add([d[1], d[2] * np.nan]), ValueError, "documents: needed finite values, row"),
        (lambda i, d: i.add(d[:2], ids=[1000]), ValueError, "ids: needed 2 ids"),
        (lambda i, d: i.add(None), TypeError, "documents: needed an array, a tensor or a list, given NoneType"),
        (lambda i, d: i.update([1, 2], d[:1]), ValueError, "documents: needed 2 documents, one per id, given 1"),
        (lambda i, d: i.update([1, 1], d[:2]), ValueError, "ids: needed each id once, given 1 twice"),
        (lambda i, d: i.remove([900]), ValueError, "ids: needed .* given 900"),
        (lambda i, d: i.get(-1), ValueError, "id: needed a whole number"),
        (lambda i, d: i.search(d[1][:, :5]), ValueError, "queries: needed dim 24, as the index has, given 5"),
        (lambda i, d: i.search(d[1], 0), ValueError, "k: needed at least 1, given 0"),
        (lambda i, d: i.search(d[1], mean=1), TypeError, "mean: needed True or False, given 1"),
        (lambda i, d: i.search(d[1], mask=[1]), ValueError, r"queries: needed \[n, tokens, dim\] beside mask, given shape"),
        (lambda i, d: i.search(d[1][None], mask=[[1, 0, 1] * 99]), ValueError, r"mask: needed \[1, \d+\], a value for each token, given shape \[1, 297\]"),
        (lambda i, d: i.search(d[1][None], mask=[[2] * len(d[1])]), ValueError, "mask: needed booleans, or numbers 0 and 1, given others"),
        (lambda i, d: i.search(d[1][None], mask=[[0] * len(d[1])]), ValueError, r"queries: needed at least one token each, given none in queries\[0\]"),
        (lambda i, d: i.search(d[1], mask=[1], offsets=[0]), ValueError, "offsets: needed mask or offsets, given both"),
        (lambda i, d: i.search(d[1], offsets=[0, 900]), ValueError, "offsets: needed numbers that ascend from 0 to .* given 0 to 900"),
        (lambda i, d: i.search(d[1], weights=[1] * 900), ValueError, r"weights: needed \[\d+\], a number for each token .*, given shape \[900\]"),
        (lambda i, d: i.search(d[:2], weights=[[1], [1] * 900]), ValueError, r"weights\[[01]\]: needed \[\d+\], a number for each token"),
        (lambda i, d: i.search(d[1][:1], weights=[-1]), ValueError, "weights: needed numbers from 0 to 1,000,000, given -1"),
        (lambda i, d: nf.maxsim(d[1], d[2], documents_offsets=[1]), ValueError, "documents_offsets: needed numbers that ascend"),
        (lambda i, d: nf.maxsim(d[1][:, :5], d), ValueError, "queries: needed dim 24, as the documents have, given 5"),
        (lambda i, d: nf.MultiVector(0), ValueError, "dim: needed 1 to"),
        (lambda i, d: nf.MultiVector(8, dtype="ubinary"), ValueError, "dtype: needed a type of numbers, given ubinary"),
        (lambda i, d: nf.from_bytes(i.to_bytes()), nf.Error, "bytes of an index: needed an index of kind flat or ivf, found one of kind multivector"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(index: Any, documents: Any, call: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=f"^{words}") as raised:
        call(index, documents)
    assert "\n" not in str(raised.value) and len(index) == 150


def test_lists_nominate_documents(index: nf.MultiVector, documents: Any, queries: Any) -> None:
    with pytest.raises(ValueError, match="build_lists"):
        index.search(queries, 5, probes=1)
    index.build_lists(6)
    assert index.lists == 6
    exact = index.search(queries, 5)
    all_of_them = index.search(queries, 5, probes=6, candidates_per_token=index.tokens, candidates=150)
    np.testing.assert_array_equal(all_of_them.ids, exact.ids)
    few = index.search(queries, 5, probes=2, candidates_per_token=20, candidates=20)
    true = scores(queries, documents)
    np.testing.assert_allclose(few.scores, np.take_along_axis(true, few.ids, axis=1), atol=1e-3)
    with pytest.raises(ValueError, match="1 to 6"):
        index.search(queries, 5, probes=7)
    index.build_lists()
    assert index.lists > 6
