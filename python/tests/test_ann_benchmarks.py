"""The module for ann-benchmarks runs in a harness of its form: a package tree, a base class, `config.yml`."""

import itertools
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from reference import DATA, scaled

yaml = pytest.importorskip("yaml")

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "ann_benchmarks" / "nearfield"
CONFIG = {each["name"]: each for each in yaml.safe_load((FOLDER / "config.yml").read_text())["float"]["any"]}
ROWS, QUERIES = scaled()
METRICS = pytest.mark.parametrize(("metric", "truth"), [("angular", "cosine"), ("euclidean", "l2sq")])


class BaseANN:
    """That of a harness: its methods hold where an algorithm has none of its own."""

    def get_additional(self) -> dict[str, Any]:
        return {}


@pytest.fixture(autouse=True)
def harness() -> Iterator[None]:
    """Packages as the harness has them, the folder among its algorithms."""
    packages: dict[str, dict[str, Any]] = {
        "ann_benchmarks": {"__path__": []},
        "ann_benchmarks.algorithms": {"__path__": [str(FOLDER.parent)]},
        "ann_benchmarks.algorithms.base": {"__path__": []},
        "ann_benchmarks.algorithms.base.module": {"BaseANN": BaseANN},
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, contents in packages.items():
            patch.setitem(sys.modules, name, ModuleType(name))
            vars(sys.modules[name]).update(contents)
        yield


def combinations(args: list[Any]) -> list[tuple[Any, ...]]:
    """The harness tries every choice of one from each list."""
    return list(itertools.product(*(each if isinstance(each, list) else [each] for each in args)))


def algorithm(name: str, metric: str, *args: Any) -> Any:
    module = import_module(CONFIG[name]["module"] + ".module")
    base = [metric if each == "@metric" else each for each in CONFIG[name]["base_args"]]
    return getattr(module, CONFIG[name]["constructor"])(*base, *args)


def recall(found: Any, truth: str) -> float:
    ids = np.load(DATA / f"groundtruth-scaled-{truth}.npz")["ids"]
    return float(np.mean([len(set(map(int, mine)) & set(true[:10])) / 10 for mine, true in zip(found, ids, strict=True)]))


@METRICS
def test_flat_finds_the_true_neighbours(metric: str, truth: str) -> None:
    [args] = combinations(CONFIG["nearfield-flat"]["run_groups"]["base"]["args"])
    flat = algorithm("nearfield-flat", metric, *args)
    # Some data sets of the harness are float64.
    flat.fit(ROWS.astype(np.float64))
    single = [flat.query(query, 10) for query in QUERIES]
    assert all(len(ids) == 10 for ids in single) and recall(single, truth) == 1
    flat.batch_query(QUERIES.astype(np.float64), 10)
    np.testing.assert_array_equal(flat.get_batch_results(), single)
    assert str(flat) == "nearfield-flat" and flat.get_additional() == {}
    flat.done()
    with pytest.raises(RuntimeError, match=r"^index: needed a call of fit\(X\) first$"):
        flat.query(QUERIES[0], 10)


@METRICS
def test_ivf_finds_more_with_more_probes_and_all_with_all(metric: str, truth: str) -> None:
    group = CONFIG["nearfield-ivf"]["run_groups"]["base"]
    lists = combinations(group["args"])[0]
    ivf = algorithm("nearfield-ivf", metric, *lists)
    ivf.fit(ROWS)
    recalls = []
    for probes in combinations(group["query_args"]):
        ivf.set_query_arguments(*probes)
        ivf.batch_query(QUERIES, 10)
        found = ivf.get_batch_results()
        np.testing.assert_array_equal(ivf.query(QUERIES[3], 10), found[3])
        recalls.append(recall(found, truth))
        assert str(ivf) == f"nearfield-ivf(lists={lists[0]}, probes={min(probes[0], lists[0])})"
    assert recalls == sorted(recalls) and recalls[-1] == 1
    # A GPU goes through all of so few rows, whatever the probes.
    assert recalls[0] < 0.9 or ivf._index.device.kind != "host"


def test_more_lists_than_rows_are_as_many_as_rows() -> None:
    ivf = algorithm("nearfield-ivf", "euclidean", 4096)
    ivf.fit(ROWS[:100])
    ivf.set_query_arguments(256)
    assert str(ivf) == "nearfield-ivf(lists=100, probes=100)"
    np.testing.assert_array_equal([ivf.query(row, 1)[0] for row in ROWS[:5]], np.arange(5))


def test_other_metrics_are_refused() -> None:
    with pytest.raises(ValueError, match="^metric: needed one of angular, euclidean, given hamming$"):
        algorithm("nearfield-flat", "hamming")


def test_the_container_is_built_from_that_of_the_harness() -> None:
    assert (FOLDER / "Dockerfile").read_text().startswith("FROM ann-benchmarks\n")
    for definition in CONFIG.values():
        assert definition["docker_tag"] == "ann-benchmarks-nearfield"
        assert definition["module"] == "ann_benchmarks.algorithms.nearfield"
