"""The examples run and print what they promise."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        ("semantic_search.py librust-gir-format-check-dev", 0, "Rust source code"),
        ("semantic_search.py no-such-package", 1, "no-such-package"),
        ("recall.py", 0, " 64 probes  1.000"),
        ("sklearn_pipeline.py", 0, "embedding (1797, 2)"),
        ("pytorch_tensors.py", 0, "tensor("),
    ],
)
def test_an_example_runs(command: str, status: int, words: str) -> None:
    name, *arguments = command.split()
    if "pytorch" in name and importlib.util.find_spec("torch") is None:
        pytest.skip("needs PyTorch")
    done = subprocess.run([sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == status, done.stderr
    assert words in done.stdout + done.stderr
    if "sklearn" in name:
        assert float(done.stdout.split()[-1]) > 0.95, done.stdout
