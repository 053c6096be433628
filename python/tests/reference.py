"""Vectors that come with the repository, and answers in float64 by numpy, which tests compare with."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATA = Path(__file__).resolve().parents[2] / "cli" / "data"
METRICS = ("l2sq", "l2", "cosine", "ip")


def scaled() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """4,000 embeddings of 384 elements and 200 queries, of the lengths that they had before they were normalised."""
    scale = np.load(DATA / "scale.f32.npy")[:, None]
    rows, queries = (np.load(DATA / f"{name}.f16.npy").astype(np.float32) for name in ("base", "query"))
    return rows * scale[:4000], queries * scale[4000:]


def all_distances(rows: NDArray[Any], queries: NDArray[Any], metric: str) -> NDArray[np.float64]:
    """The distances of all pairs, `[queries, rows]`."""
    rows, queries = rows.astype(np.float64), queries.astype(np.float64)
    dots = queries @ rows.T
    if metric == "ip":
        return 0.0 - dots
    if metric == "cosine":
        norms = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(rows, axis=1)
        return 1.0 - np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0).clip(-1, 1)
    squared = np.array([((query - rows) ** 2).sum(axis=1) for query in queries]).reshape(len(queries), len(rows))
    return np.sqrt(squared) if metric == "l2" else squared


def error_bound(rows: NDArray[Any], queries: NDArray[Any], metric: str) -> NDArray[np.float64]:
    """The largest documented difference of a reported distance from `all_distances`, `[queries, rows]`."""
    dim, unit = rows.shape[1], 2.0**-23
    exact = all_distances(rows, queries, metric)
    if metric == "cosine":
        return np.full_like(exact, (dim + 16) * unit)
    if metric == "ip":
        norms = np.linalg.norm(queries.astype(np.float64), axis=1)[:, None] * np.linalg.norm(rows.astype(np.float64), axis=1)
        return (dim + 4) * unit * norms + dim * 2.0**-126
    # Half of the relative error of the square, and one rounding, are below the whole of it.
    return (dim + 4) * unit * exact + np.sqrt(dim * 2.0**-126)


def nearest(
    rows: NDArray[Any],
    queries: NDArray[Any],
    k: int,
    metric: str,
    ids: NDArray[np.int64] | None = None,
    allowed: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The k nearest rows by (distance, id). `allowed` has a value for each row."""
    ids = np.arange(len(rows)) if ids is None else np.asarray(ids)
    if allowed is not None:
        rows, ids = rows[allowed], ids[allowed]
    distances = all_distances(rows, queries, metric)
    k = min(k, len(rows))
    order = np.array([np.lexsort((ids, of_query))[:k] for of_query in distances], dtype=np.int64).reshape(len(queries), k)
    return np.take_along_axis(distances, order, axis=1), ids[order]


def assert_nearest(found: Any, rows: NDArray[Any], queries: NDArray[Any], k: int, metric: str) -> None:
    """Checks an answer for rows whose ids are their numbers, up to the documented error: distances are those of their rows, no row that
    is nearer by more than the error is missing, and the order is by (distance, id)."""
    distances, ids = found
    exact, bound = all_distances(rows, queries, metric), error_bound(rows, queries, metric)
    k = min(k, len(rows))
    assert distances.shape == ids.shape == (len(queries), k)
    assert distances.dtype == np.float32 and ids.dtype == np.int64
    assert (np.abs(np.take_along_axis(exact, ids, axis=1) - distances) <= np.take_along_axis(bound, ids, axis=1)).all()
    assert all(len(set(of_query)) == k for of_query in ids.tolist()), "a row is found twice"
    for number in range(len(queries)):
        pairs = list(zip(distances[number].tolist(), ids[number].tolist()))
        assert pairs == sorted(pairs), f"query {number}: not in the order of (distance, id)"
        if k < len(rows):
            missed = np.setdiff1d(np.arange(len(rows)), ids[number])
            assert (exact + bound)[number, missed].min() >= distances[number, -1], f"query {number}: a nearer row is missing"


def assert_same(found: Any, expected: Any) -> None:
    """Checks ids and distances bit for bit, as they have to be where no sum is rounded."""
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0], expected[0].astype(np.float32))


def assert_soon(seconds: float, limit: float) -> None:
    """Fails if something took too long, where the clock counts: in `scripts/test --all`, on a machine that does nothing else."""
    assert os.environ.get("NEARFIELD_CLOCK") != "1" or seconds < limit, f"{seconds} s, more than {limit}"
