"""The stubs say what the module has, and type checkers accept the package and its examples."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")


def run(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stubs_are_those_of_the_module() -> None:
    # From here Python finds the package that is installed, which has the module.
    run(PACKAGE / "tests", "mypy.stubtest", "nearfield._native")


@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="needs scikit-learn, whose classes are bases")
@pytest.mark.parametrize("folder", ["nearfield", "examples"])
def test_types_are_strict(folder: str) -> None:
    run(PACKAGE, "mypy", "--strict", "--cache-dir", os.devnull, folder)
