"""The examples run, and the notebook draws its picture."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def run(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_the_semantic_search_finds_a_package_of_the_same_kind() -> None:
    done = run("semantic_search.py", "librust-gir-format-check-dev")
    assert done.returncode == 0, done.stderr
    assert "Rust source code" in done.stdout.splitlines()[3], done.stdout


def test_the_semantic_search_names_what_it_does_not_know() -> None:
    done = run("semantic_search.py", "no-such-package")
    assert done.returncode == 1 and "no-such-package" in done.stderr


def test_the_pipeline_classifies_digits() -> None:
    done = run("sklearn_pipeline.py")
    assert done.returncode == 0, done.stderr
    assert "embedding (1797, 2)" in done.stdout
    assert float(done.stdout.split()[-1]) > 0.95, done.stdout


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_tensors_of_pytorch_find_themselves() -> None:
    done = run("pytorch_tensors.py")
    assert done.returncode == 0, done.stderr
    assert "tensor(" in done.stdout


def test_the_notebook_runs_and_draws() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.read(EXAMPLES / "recall.ipynb", 4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    kinds = [kind for cell in notebook.cells for output in cell.get("outputs", []) for kind in output.get("data", {})]
    assert "image/png" in kinds
