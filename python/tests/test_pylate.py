"""An index that retrievers of PyLate take, and what encoders of late interaction return. Models are tiny, of random weights. PyLate and
sentence-transformers are large: scripts/test --all installs them. 20 s, in which they are imported."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_documents import DIM, scores, unit

import nearfield as nf
from nearfield.pylate import Index

# Ids of both kinds.
IDS: list[Any] = [*range(100, 140), *map(str, range(100, 120))]


@pytest.fixture(scope="module")
def documents() -> list[Any]:
    rng = np.random.default_rng(5)
    return unit(rng, rng.integers(1, 20, len(IDS)))


@pytest.fixture(scope="module")
def queries() -> list[Any]:
    return unit(np.random.default_rng(6), [5, 1, 8])


@pytest.fixture
def index(documents: Any) -> Index:
    index = Index(DIM)
    assert index.add_documents(IDS[:30], documents[:30]) is index
    return index.add_documents(documents_ids=iter(IDS[30:]), documents_embeddings=documents[30:], batch_size=7)


def check(found: Any, exact: Any, ids: Any, k: int) -> None:
    assert [len(own) for own in found] == [min(k, len(ids))] * len(exact)
    for own, true in zip(found, exact):
        best = np.argsort(-true, kind="stable")[:k]
        assert [one["id"] for one in own] == [ids[place] for place in best]
        assert all(type(one["score"]) is float and {*one} == {"id", "score"} for one in own)
        np.testing.assert_allclose([one["score"] for one in own], true[best], atol=1e-4)


def test_documents_are_found_under_their_ids(index: Index, documents: Any, queries: Any) -> None:
    exact = scores(queries, documents)
    check(index(queries, k=7), exact, IDS, 7)
    check(index(queries), exact, IDS, 10)
    check(index(queries[0], k=3), exact[:1], IDS, 3)
    check(index(queries, k=100), exact, IDS, 100)
    assert len(index) == len(IDS) and 100 in index and "100" in index and "139" not in index and repr(index).startswith("<nearfield.pylate.Index of")
    assert index.is_end_to_end_index and Index(DIM)(queries) == [[], [], []]


def test_a_subset_is_of_all_queries_or_of_each(index: Index, documents: Any, queries: Any) -> None:
    exact = scores(queries, documents)
    few = [IDS[5], IDS[50], "who", IDS[31]]
    check(index(queries, k=9, subset=few), exact[:, [5, 31, 50]], [IDS[5], IDS[31], IDS[50]], 9)
    found = index(queries, k=2, subset=[[IDS[5]], few, []])
    assert [len(own) for own in found] == [1, 2, 0] and found[0][0]["id"] == IDS[5]
    check(found[1:2], exact[1:2, [5, 31, 50]], [IDS[5], IDS[31], IDS[50]], 2)
    assert index(queries[0], subset=[[IDS[5]]])[0][0]["id"] == IDS[5]
    assert index(queries, subset=[]) == [[], [], []]


def test_documents_are_removed_and_read_back(index: Index, documents: Any, queries: Any) -> None:
    index.remove_documents([IDS[0], IDS[59], IDS[0]]).remove_documents(IDS[1])
    check(index(queries, k=70), scores(queries, documents[2:59]), IDS[2:59], 70)
    index.add_documents(IDS[0], documents[0])
    order = [*IDS[2:59], IDS[0]]
    check(index(queries, k=70), scores(queries, [*documents[2:59], documents[0]]), order, 70)
    tokens = index.get_documents_embeddings([[IDS[0], IDS[7]], [IDS[58]]])
    for own, true in zip([*tokens[0], *tokens[1]], [documents[0], documents[7], documents[58]]):
        np.testing.assert_array_equal(own, true)


@pytest.mark.parametrize("options", [{}, {"store": np.float16, "device": "host"}])
def test_files_and_pickles_hold_the_ids(documents: Any, queries: Any, options: Any, tmp_path: Path) -> None:
    index = Index(DIM, capacity=500, **options).add_documents(IDS, documents).remove_documents(IDS[-1])
    path = tmp_path / "documents.nf"
    index.save(path)
    assert len(nf.MultiVector.load(path)) == len(IDS) - 1 and len([*tmp_path.iterdir()]) == 2
    expected = index(queries, k=5)
    for same in (Index.load(str(path), **{key: value for key, value in options.items() if key == "device"}), pickle.loads(pickle.dumps(index))):
        assert same(queries, k=5) == expected
        # No number is given twice, though the largest was free.
        same.add_documents("new", documents[-1])
        assert same.documents.ids[-1] == len(IDS) and same(documents[-1], k=1)[0][0]["id"] == "new"
    kept = tmp_path / "documents.nf.ids.json"
    kept.write_text(json.dumps({**json.loads(kept.read_text()), "numbers": [*range(1, len(IDS))]}))
    with pytest.raises(ValueError, match="^path: needed ids of the 59 documents in .*, given those of others"):
        Index.load(path)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda i, d: i.add_documents(["x", "x"], d[:2]), ValueError, "documents_ids: needed ids that the index does not have, each once, given 'x'"),
        (lambda i, d: i.add_documents([1, 100], d[:2]), ValueError, "documents_ids: needed ids that the index does not have, each once, given 100"),
        (lambda i, d: i.add_documents([1.5], d[:1]), TypeError, "documents_ids: needed texts or whole numbers, given 1.5"),
        (lambda i, d: i.add_documents(["x"], d[:2]), ValueError, "ids: needed 2 ids"),
        (lambda i, d: i.add_documents(["x"], [d[0][:, :3]]), ValueError, "documents: needed dim 24"),
        (lambda i, d: i.remove_documents([100, "who"]), ValueError, "documents_ids: needed ids that the index has, given 'who'"),
        (lambda i, d: i.get_documents_embeddings([[7]]), ValueError, "documents_ids: needed ids that the index has, given 7"),
        (lambda i, d: i(d[:2], subset=[[100]]), ValueError, "subset: needed ids for each of 2 queries, given those of 1"),
        (lambda i, d: i(d[:1], subset=[[1.5]]), TypeError, "subset: needed texts or whole numbers, given 1.5"),
        (lambda i, d: i.remove_documents(None), TypeError, "documents_ids: needed texts or whole numbers, given None"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(index: Index, documents: Any, call: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=f"^{words}"):
        call(index, documents)
    assert len(index) == len(IDS) and index.add_documents("after", documents[0])(documents[3], k=1)[0][0]["id"] == IDS[3]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a BERT of one layer, of random weights."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("model")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]", ".", *"abcdefgh"]
    (folder / "vocab.txt").write_text("\n".join(words))
    config = transformers.BertConfig(vocab_size=len(words), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32)
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


TEXTS, QUESTIONS = ["a b c.", "d e f g h", "a h", "b b b d."], ["a b", "g f e d c", "h"]


@pytest.mark.nightly
def test_retrievers_of_pylate_take_the_index(model: Path) -> None:
    models = pytest.importorskip("pylate.models")
    rank, retrieve = pytest.importorskip("pylate.rank"), pytest.importorskip("pylate.retrieve")
    encoder = models.ColBERT(str(model), embedding_size=16, device="cpu", query_length=8)
    ids, index = ["w", "x", 2, "z"], Index(16)
    for form in ({}, {"convert_to_tensor": True}):
        tokens = encoder.encode(TEXTS, is_query=False, **form)
        if not form:
            index.add_documents(documents_ids=ids, documents_embeddings=tokens)
        asked = encoder.encode(QUESTIONS, is_query=True, **form)
        found = retrieve.ColBERT(index=index).retrieve(queries_embeddings=asked, k=4)
        for own, query in zip(found, asked):
            # One document each: the padding of several would count as tokens.
            for one in own:
                document = tokens[ids.index(one["id"])]
                again = rank.rerank([[one["id"]]], [query], [[document]])[0][0]
                np.testing.assert_allclose(one["score"], again["score"], rtol=1e-5)
        read = index.get_documents_embeddings([ids])[0]
        assert rank.rerank([ids], asked[:1], [read]) == rank.rerank([ids], asked[:1], [tokens])
        # One question is one array.
        alone = retrieve.ColBERT(index=index).retrieve(encoder.encode(QUESTIONS[0], is_query=True, **form), k=2, subset=["w", 2])
        assert len(alone) == 1 and {one["id"] for one in alone[0]} == {"w", 2}


@pytest.mark.nightly
@pytest.mark.parametrize("convert_to_numpy", [False, True])
def test_encoders_of_sentence_transformers_need_no_adapter(model: Path, convert_to_numpy: bool) -> None:
    library = pytest.importorskip("sentence_transformers", minversion="6.0")
    encoder, form = library.MultiVectorEncoder(str(model), device="cpu"), {"convert_to_numpy": convert_to_numpy}
    tokens, asked = encoder.encode_document(TEXTS, **form), encoder.encode_query(QUESTIONS, **form)
    index = nf.MultiVector(encoder.get_embedding_dimension())
    index.add(tokens[:3])
    index.add(encoder.encode_document(TEXTS[3], **form))
    true = np.asarray(encoder.similarity(asked, tokens))
    np.testing.assert_allclose(nf.maxsim(asked, tokens), true, rtol=1e-5)
    found = index.search(asked, 4)
    np.testing.assert_allclose(found.scores, -np.sort(-true, axis=1), rtol=1e-5)
    np.testing.assert_array_equal(found.ids, np.argsort(-true, axis=1))
    assert index.search(encoder.encode_query(QUESTIONS[1], **form), 1).ids.tolist() == found.ids[1:2, :1].tolist()
    assert index.add(encoder.encode_document([], **form)).size == 0 and index.search(encoder.encode_query([], **form), 2).ids.shape == (0, 2)
    encoder.similarity_fn_name = "meanmaxsim"
    mean = index.search(asked, 4, mean=True)
    np.testing.assert_allclose(mean.scores, -np.sort(-np.asarray(encoder.similarity(asked, tokens)), axis=1), rtol=1e-5)


@pytest.mark.nightly
def test_tokens_in_bfloat16_are_widened(documents: Any, queries: Any) -> None:
    torch = pytest.importorskip("torch")
    half = [torch.from_numpy(document).bfloat16() for document in documents]
    check(Index(DIM).add_documents(IDS, half)(queries, k=5), scores(queries, [one.float().numpy() for one in half]), IDS, 5)
