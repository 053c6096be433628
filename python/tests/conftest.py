"""What the tests share. They run on the device that the environment variable NEARFIELD_ADAPTER names: `host`, or `gpu`, which may be a
software driver. So data are small here."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import DATA

import nearfield as nf


@pytest.fixture(scope="session")
def real() -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """4,000 embeddings of 384 elements and 200 queries, float16."""
    return np.load(DATA / "base.f16.npy"), np.load(DATA / "query.f16.npy")


@pytest.fixture(scope="session")
def integers() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """500 rows and 20 queries of small integers, whose sums no precision rounds; with many ties."""
    rng = np.random.default_rng(1)
    rows = rng.integers(-3, 4, (500, 12)).astype(np.float32)
    return rows, rng.integers(-3, 4, (20, 12)).astype(np.float32)


@pytest.fixture
def index(integers: tuple[NDArray[np.float32], NDArray[np.float32]]) -> nf.Flat:
    """An exact index of the integers, for each test its own."""
    return nf.Flat(integers[0], metric="l2sq")


@pytest.fixture(scope="session")
def on_host() -> bool:
    """Whether the suite runs on the host engine."""
    return nf.Flat(dim=1).device.kind == "host"


@pytest.fixture
def child() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs a Python program in a process of its own and returns what it wrote."""

    def run(program: str, timeout: float = 60, **options: Any) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", program]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=dict(os.environ), **options)

    return run
