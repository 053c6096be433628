"""The stubs say what the module has, and type checkers accept the package and its examples."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="needs mypy")


@pytest.mark.parametrize(
    ("folder", "command"),
    [
        # From here Python finds the package that is installed, which has the module.
        ("tests", ["mypy.stubtest", "nearfield._native"]),
        ("", ["mypy", "--strict", "--cache-dir", os.devnull, "nearfield", "examples"]),
    ],
    ids=["stubs", "strict"],
)
def test_types_are_right(folder: str, command: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, timeout=300, cwd=PACKAGE / folder)
    assert done.returncode == 0, done.stdout + done.stderr
