"""The module for ann-benchmarks runs in a harness of its form: a package tree, a base class, `config.yml`."""

import importlib
import itertools
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

yaml = pytest.importorskip("yaml")

PYTHON = Path(__file__).resolve().parents[1]
FOLDER = PYTHON / "benchmarks" / "ann_benchmarks" / "nearfield"
DATA = PYTHON.parent / "cli" / "data"
SCALE = np.load(DATA / "scale.f32.npy")
ROWS = np.load(DATA / "base.f16.npy").astype(np.float32) * SCALE[:4000, None]
QUERIES = np.load(DATA / "query.f16.npy").astype(np.float32) * SCALE[4000:, None]
TRUTH = {
    metric: np.load(DATA / f"groundtruth-scaled-{name}.npz")["ids"]
    for metric, name in (("angular", "cosine"), ("euclidean", "l2sq"))
}

# The base class of a harness: its methods hold where an algorithm has none of its own.
BASE = '''
class BaseANN:
    def done(self):
        pass

    def fit(self, X):
        raise NotImplementedError

    def query(self, q, n):
        raise NotImplementedError

    def batch_query(self, X, n):
        self.results = [self.query(q, n) for q in X]

    def get_batch_results(self):
        return self.results

    def get_additional(self):
        return {}

    def __str__(self):
        return self.name
'''


@pytest.fixture
def harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A tree of packages as the harness has it, with the module copied into its place."""
    algorithms = tmp_path / "ann_benchmarks" / "algorithms"
    (algorithms / "base").mkdir(parents=True)
    for folder in (algorithms.parent, algorithms, algorithms / "base"):
        (folder / "__init__.py").touch()
    (algorithms / "base" / "module.py").write_text(BASE)
    shutil.copytree(FOLDER, algorithms / "nearfield")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield algorithms / "nearfield"
    for name in [name for name in sys.modules if name.split(".")[0] == "ann_benchmarks"]:
        del sys.modules[name]


def definitions(folder: Path) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in yaml.safe_load((folder / "config.yml").read_text())["float"]["any"]}


def combinations(args: list[Any]) -> list[tuple[Any, ...]]:
    """The harness tries every choice of one from each list."""
    return list(itertools.product(*(each if isinstance(each, list) else [each] for each in args)))


def algorithm(definition: dict[str, Any], metric: str, *args: Any) -> Any:
    module = importlib.import_module(definition["module"] + ".module")
    base = [metric if each == "@metric" else each for each in definition["base_args"]]
    return getattr(module, definition["constructor"])(*base, *args)


def recall(found: Any, truth: Any) -> float:
    return float(np.mean([len(set(map(int, ids)) & set(row[:10])) / 10 for ids, row in zip(found, truth, strict=True)]))


@pytest.mark.parametrize("metric", ["angular", "euclidean"])
def test_flat_finds_the_true_neighbours(harness: Path, metric: str) -> None:
    definition = definitions(harness)["nearfield-flat"]
    [args] = combinations(definition["run_groups"]["base"]["args"])
    flat = algorithm(definition, metric, *args)
    # Some data sets of the harness are float64.
    flat.fit(ROWS.astype(np.float64))
    single = [flat.query(query, 10) for query in QUERIES]
    assert all(len(ids) == 10 for ids in single)
    assert recall(single, TRUTH[metric]) == 1
    flat.batch_query(QUERIES.astype(np.float64), 10)
    np.testing.assert_array_equal(flat.get_batch_results(), single)
    assert str(flat) == "nearfield-flat"
    assert flat.get_additional() == {}
    flat.done()
    with pytest.raises(RuntimeError, match=r"^index: needed a call of fit\(X\) first$"):
        flat.query(QUERIES[0], 10)


@pytest.mark.parametrize("metric", ["angular", "euclidean"])
def test_ivf_finds_more_with_more_probes_and_all_with_all(harness: Path, metric: str) -> None:
    definition = definitions(harness)["nearfield-ivf"]
    group = definition["run_groups"]["base"]
    lists = combinations(group["args"])[0]
    ivf = algorithm(definition, metric, *lists)
    ivf.fit(ROWS)
    recalls = []
    for probes in combinations(group["query_args"]):
        ivf.set_query_arguments(*probes)
        ivf.batch_query(QUERIES, 10)
        found = ivf.get_batch_results()
        np.testing.assert_array_equal(ivf.query(QUERIES[3], 10), found[3])
        recalls.append(recall(found, TRUTH[metric]))
        assert str(ivf) == f"nearfield-ivf(lists={lists[0]}, probes={min(probes[0], lists[0])})"
    assert recalls == sorted(recalls)
    # A GPU goes through all of so few rows, whatever the probes.
    assert recalls[0] < 0.9 or ivf._index.device.kind != "host"
    assert recalls[-1] == 1
    ivf.done()


def test_more_lists_than_rows_are_as_many_as_rows(harness: Path) -> None:
    ivf = algorithm(definitions(harness)["nearfield-ivf"], "euclidean", 4096)
    ivf.fit(ROWS[:100])
    ivf.set_query_arguments(256)
    assert str(ivf) == "nearfield-ivf(lists=100, probes=100)"
    np.testing.assert_array_equal([ivf.query(row, 1)[0] for row in ROWS[:5]], np.arange(5))


def test_other_metrics_are_refused(harness: Path) -> None:
    with pytest.raises(ValueError, match="^metric: needed one of angular, euclidean, given hamming$"):
        algorithm(definitions(harness)["nearfield-flat"], "hamming")


def test_the_container_is_built_from_that_of_the_harness() -> None:
    assert (FOLDER / "Dockerfile").read_text().startswith("FROM ann-benchmarks\n")
    for definition in definitions(FOLDER).values():
        assert definition["docker_tag"] == "ann-benchmarks-nearfield"
        assert definition["module"] == "ann_benchmarks.algorithms.nearfield"
