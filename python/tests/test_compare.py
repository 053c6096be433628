"""`benchmarks/compare.py` prints a table, and refuses to time wrong answers."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

PATH = Path(__file__).resolve().parents[1] / "benchmarks" / "compare.py"


def compare(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, PATH, *arguments], capture_output=True, text=True)


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare", PATH)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    # dataclasses look the module up by its name.
    monkeypatch.setitem(sys.modules, "compare", loaded)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize("metric", ["l2sq", "cosine", "ip"])
def test_every_installed_library_has_a_row(metric: str) -> None:
    pytest.importorskip("faiss")
    done = compare("--random", "3000x24", "--batch", "30", "--runs", "2", "--metric", metric, "-k", "7", "--only", "nearfield,faiss-cpu")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line for line in done.stdout.splitlines() if line.startswith(("| nearfield ", "| faiss-cpu "))]
    assert len(rows) == 2
    for row in rows:
        *_, build, one, batch, rate = row.strip("| ").split("|")
        assert float(build) >= 0
        assert float(one) > 0
        # Both are rounded.
        assert float(rate.replace(",", "")) == pytest.approx(30 / float(batch) * 1000, rel=0.2)
    assert f"3,000 rows of 24 from random, seed 0, {metric}, k = 7" in done.stdout
    assert f"--metric {metric} -k 7" in done.stdout


def test_files_and_the_vectors_of_the_repository_are_searched(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((50, 8))
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "queries.npy", rows[:3].astype(np.float16))
    files = ("--rows", str(tmp_path / "rows.npy"), "--queries", str(tmp_path / "queries.npy"))
    assert "50 rows of 8" in compare(*files, "--only", "nearfield", "--batch", "9", "--runs", "1").stdout
    assert "4,000 rows of 384" in compare("--only", "nearfield", "--batch", "9", "--runs", "1").stdout


@pytest.mark.parametrize("metric", ["l2sq", "cosine", "ip"])
def test_wrong_answers_are_told_from_right_ones(module: ModuleType, metric: str) -> None:
    generator = np.random.default_rng(1)
    rows = generator.standard_normal((40_000, 6), dtype=np.float32)
    queries = generator.standard_normal((90, 6), dtype=np.float32)
    task = module.Task(rows, metric, 5, None, "cpu")
    truth = module.nearest(rows, queries, metric, 5)
    distances = module.exact(rows, queries, metric)
    order = np.argsort(distances, axis=1)
    np.testing.assert_allclose(truth, np.take_along_axis(distances, order[:, :5], axis=1))
    right = order[:, :5]
    assert module.wrong(right, task, queries, truth) is None
    # faiss and others may return unsorted or unsigned ids; only the set matters.
    assert module.wrong(right[:, ::-1].astype(np.uint64), task, queries, truth) is None

    def changed(place: tuple[int, int], id: int) -> Any:
        ids = right.copy()
        ids[place] = id
        return ids

    assert "times as far" in module.wrong(changed((80, 4), order[80, 60]), task, queries, truth)
    assert "twice" in module.wrong(changed((3, 1), right[3, 0]), task, queries, truth)
    assert "no row" in module.wrong(changed((0, 0), -1), task, queries, truth)
    assert "no row" in module.wrong(changed((0, 0), 40_000), task, queries, truth)
    assert module.wrong(right[:, :4], task, queries, truth) == "shape [90, 4], needed [90, 5]"


def test_a_library_with_wrong_answers_is_not_timed(module: ModuleType, monkeypatch: Any, capsys: Any) -> None:
    wrong = module.Contender(lambda queries: np.tile(np.arange(3), (len(queries), 1)), "nowhere")
    monkeypatch.setitem(module.CONTENDERS, "nearfield", ("nearfield", lambda _, task: wrong))
    monkeypatch.setattr(sys, "argv", ["compare.py", "--random", "100x8", "-k", "3", "--batch", "5", "--only", "nearfield"])
    assert module.main() == 1
    printed = capsys.readouterr().out
    assert "WRONG: distances" in printed
    assert "nowhere" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "annoy"], "compare.py: --only: needed some of nearfield,faiss-cpu,usearch,hnswlib,torch, given annoy"),
        (["--rows", "x.npy"], "compare.py: --rows and --queries: needed both or none"),
        (["-k", "4001"], "compare.py: -k: needed at most 4000, as many as there are rows, given 4001"),
    ],
)
def test_wrong_arguments_are_errors_of_one_line(arguments: list[str], message: str) -> None:
    done = compare(*arguments)
    assert done.returncode == 1
    assert done.stderr.strip() == message
