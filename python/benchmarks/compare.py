"""Times exact search of nearfield beside faiss-cpu, usearch, hnswlib and PyTorch, and prints a table in Markdown.

Every library's answers are compared with the truth, found in float64, before they are timed. Libraries that are not installed are
left out.
"""

import argparse
import datetime
import importlib
import importlib.metadata
import platform
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nearfield as nf
import numpy as np
from numpy.typing import NDArray

EXAMPLES = """examples:
  python compare.py                                        the 4,000 vectors that come with the repository
  python compare.py --metric ip -k 100
  python compare.py --rows base.npy --queries query.npy    float16, float32 or float64, [n, dim] each
  python compare.py --random 1000000x768 --batch 1000
  python compare.py --only nearfield,faiss-cpu --device host
  python compare.py --only nearfield,torch --device gpu --torch-device cuda
"""
DATA = Path(__file__).resolve().parents[2] / "cli" / "data"
METRICS = ("cosine", "ip", "l2sq")

Floats = NDArray[np.float32]
# Queries [n, dim] to the ids of their nearest rows [n, k].
Search = Callable[[Floats], NDArray[Any]]


@dataclass
class Task:
    """Rows to search among, and what is wanted."""

    rows: Floats
    metric: str
    k: int
    device: str | None
    torch_device: str


@dataclass
class Contender:
    """A library that is ready to search."""

    search: Search
    where: str


def unit(vectors: Floats) -> Floats:
    """Vectors over their norms; zeros stay."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(norms == 0, 1, norms)).astype(np.float32, copy=False)


def with_nearfield(_: Any, task: Task) -> Contender:
    index = nf.Flat(task.rows, metric=task.metric, device=task.device)  # type: ignore[arg-type]
    index.warm_up()
    device = index.device
    return Contender(lambda queries: index.search(queries, task.k).ids, f"{device.name} ({device.backend})")


def with_faiss(faiss: Any, task: Task) -> Contender:
    is_cosine = task.metric == "cosine"
    index = (faiss.IndexFlatL2 if task.metric == "l2sq" else faiss.IndexFlatIP)(task.rows.shape[1])
    index.add(unit(task.rows) if is_cosine else task.rows)
    # The order by cosine needs no unit queries.
    return Contender(lambda queries: index.search(queries, task.k)[1], f"{faiss.omp_get_max_threads()} threads")


def with_usearch(usearch: Any, task: Task) -> Contender:
    metric = {"cosine": usearch.MetricKind.Cos, "ip": usearch.MetricKind.IP, "l2sq": usearch.MetricKind.L2sq}[task.metric]

    def search(queries: Floats) -> NDArray[Any]:
        found = usearch.search(task.rows, queries, task.k, metric, exact=True)
        return np.asarray(found.keys).reshape(len(queries), -1)

    return Contender(search, "all threads")


def with_hnswlib(hnswlib: Any, task: Task) -> Contender:
    space = {"cosine": "cosine", "ip": "ip", "l2sq": "l2"}[task.metric]
    index = hnswlib.BFIndex(space=space, dim=task.rows.shape[1])
    index.init_index(max_elements=len(task.rows))
    index.add_items(task.rows)
    return Contender(lambda queries: index.knn_query(queries, k=task.k)[0], "all threads")


def with_torch(torch: Any, task: Task) -> Contender:
    device = torch.device(task.torch_device)
    rows = torch.from_numpy(unit(task.rows) if task.metric == "cosine" else task.rows).to(device)
    halves = (rows * rows).sum(1) / 2 if task.metric == "l2sq" else None

    def search(queries: Floats) -> NDArray[Any]:
        with torch.inference_mode():
            scores = torch.from_numpy(queries).to(device) @ rows.T
            if halves is not None:
                # |q - x|^2 = |q|^2 - 2 (q.x - |x|^2 / 2), and |q|^2 is the same for all rows.
                scores -= halves
            ids: NDArray[Any] = scores.topk(task.k, dim=1).indices.cpu().numpy()
            return ids

    threads = f"{torch.get_num_threads()} threads"
    return Contender(search, threads if device.type == "cpu" else torch.cuda.get_device_name(device))


# By the name of the package: the module to import, and what gets it ready.
CONTENDERS: dict[str, tuple[str, Callable[[Any, Task], Contender]]] = {
    "nearfield": ("nearfield", with_nearfield),
    "faiss-cpu": ("faiss", with_faiss),
    "usearch": ("usearch.index", with_usearch),
    "hnswlib": ("hnswlib", with_hnswlib),
    "torch": ("torch", with_torch),
}


def exact(rows: NDArray[Any], queries: NDArray[Any], metric: str) -> NDArray[np.float64]:
    """Distances in float64 as nearfield defines them, `[queries, rows]`, or `[queries, k]` of rows `[queries, k, dim]`."""
    x, q = rows.astype(np.float64), queries.astype(np.float64)
    products = q @ x.T if x.ndim == 2 else np.einsum("qd,qkd->qk", q, x)
    squares = np.einsum("...d,...d->...", x, x)
    lengths = np.einsum("qd,qd->q", q, q)[:, None]
    distances: NDArray[np.float64]
    if metric == "ip":
        distances = -products
    elif metric == "l2sq":
        distances = np.maximum(lengths - 2 * products + squares, 0)
    else:
        norms = np.sqrt(lengths * squares)
        distances = 1 - np.divide(products, norms, out=np.zeros_like(products), where=norms > 0)
    return distances


def nearest(rows: Floats, queries: Floats, metric: str, k: int) -> NDArray[np.float64]:
    """The distances of the k nearest rows of each query in float64, ascending, `[queries, k]`."""
    best = np.empty((len(queries), 0))
    for at in range(0, len(rows), 16384):
        best = np.concatenate([best, exact(rows[at : at + 16384], queries, metric)], axis=1)
        if best.shape[1] > k:
            best = np.partition(best, k - 1, axis=1)[:, :k]
    return np.sort(best, axis=1)


def wrong(ids: NDArray[Any], task: Task, queries: Floats, truth: NDArray[np.float64]) -> str | None:
    """What is wrong with answers, or None. Rows may change places with others that are as near but for rounding to float32."""
    if ids.shape != truth.shape:
        return f"shape {list(ids.shape)}, needed {list(truth.shape)}"
    ids = ids.astype(np.int64)
    ordered = np.sort(ids, axis=1)
    if ordered.min() < 0 or ordered.max() >= len(task.rows) or (ordered[:, 1:] == ordered[:, :-1]).any():
        return "ids that no row has, or the same one twice"
    found = np.concatenate(
        [exact(task.rows[ids[at : at + 64]], queries[at : at + 64], task.metric) for at in range(0, len(ids), 64)]
    )
    # Sums of products of float32 are off by some units of 2^-24 of the vectors' norms.
    longest = np.sqrt(max(float(np.einsum("d,d", row, row)) for row in task.rows)) if task.metric != "cosine" else 1.0
    lengths = np.linalg.norm(queries.astype(np.float64), axis=1) if task.metric != "cosine" else np.ones(len(queries))
    scale = (lengths + longest) ** 2 if task.metric == "l2sq" else lengths * longest
    excess = (np.abs(np.sort(found, axis=1) - truth) / (scale[:, None] * 2.0**-20)).max()
    return None if excess <= 1 else f"distances {excess:.3g} times as far from the truth as rounding explains"


def milliseconds(search: Search, queries: list[Floats]) -> float:
    """The median time of some searches."""
    times = []
    for given in queries:
        start = time.perf_counter()
        search(given)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1000


def vectors_of(path: Path) -> Floats:
    array = np.load(path)
    if array.ndim != 2 or array.dtype.kind != "f":
        raise SystemExit(f"compare.py: {path}: needed floats [n, dim], given {array.dtype} of the shape {list(array.shape)}")
    return np.ascontiguousarray(array, dtype=np.float32)


def data_of(options: argparse.Namespace) -> tuple[Floats, Floats, str]:
    """Rows, queries, and where they come from."""
    if options.random is not None:
        count, dim = options.random
        generator = np.random.default_rng(options.seed)
        rows = generator.standard_normal((count, dim), dtype=np.float32)
        return rows, generator.standard_normal((options.batch, dim), dtype=np.float32), f"random, seed {options.seed}"
    if (options.rows is None) != (options.queries is None):
        raise SystemExit("compare.py: --rows and --queries: needed both or none")
    rows = vectors_of(options.rows or DATA / "base.f16.npy")
    queries = vectors_of(options.queries or DATA / "query.f16.npy")
    if rows.shape[1] != queries.shape[1]:
        raise SystemExit(f"compare.py: --queries: needed a dim of {rows.shape[1]}, given {queries.shape[1]}")
    # Fewer queries than a batch are repeated.
    queries = np.resize(queries, (options.batch, rows.shape[1]))
    return rows, queries, str(options.rows or DATA.relative_to(DATA.parents[1]))


def size(text: str) -> tuple[int, int]:
    count, dim = text.split("x")
    return int(count), int(dim)


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=Path, metavar="FILE", help="npy file to search among")
    parser.add_argument("--queries", type=Path, metavar="FILE", help="npy file of queries")
    parser.add_argument("--random", type=size, metavar="ROWSxDIM", help="normally distributed vectors instead of files")
    parser.add_argument("--seed", type=int, default=0, help="seed of --random (0)")
    parser.add_argument("--metric", choices=METRICS, default="l2sq", help="l2sq")
    parser.add_argument("-k", type=positive, default=10, help="neighbours of each query (10)")
    parser.add_argument("--batch", type=positive, default=1000, help="queries of a batch (1000)")
    parser.add_argument("--runs", type=positive, default=7, help="searches of which the median counts (7; one query: 7 times as many)")
    parser.add_argument("--only", metavar="NAMES", default=",".join(CONTENDERS), help="some of " + ",".join(CONTENDERS))
    parser.add_argument("--device", help="device of nearfield: host, gpu or part of a name")
    parser.add_argument("--torch-device", default="cpu", help="device of PyTorch (cpu)")
    return parser.parse_args()


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(": ", 1)[1] for line in lines if line.startswith("model name")), platform.machine())


def main() -> int:
    options = arguments()
    names = options.only.split(",")
    for name in names:
        if name not in CONTENDERS:
            raise SystemExit(f"compare.py: --only: needed some of {','.join(CONTENDERS)}, given {name}")
    rows, queries, source = data_of(options)
    if options.k > len(rows):
        raise SystemExit(f"compare.py: -k: needed at most {len(rows)}, as many as there are rows, given {options.k}")
    task = Task(rows, options.metric, options.k, options.device, options.torch_device)
    truth = nearest(rows, queries, task.metric, task.k)
    singles = [queries[number % len(queries)][None] for number in range(7 * options.runs)]
    lines, failures = [], []
    for name in names:
        print(f"{name} ...", file=sys.stderr)
        try:
            version = nf.__version__ if name == "nearfield" else importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            failures.append(f"{name}: not installed")
            continue
        module, prepare = CONTENDERS[name]
        try:
            imported = importlib.import_module(module)
        except Exception as cause:
            # Such as PyTorch where a library of CUDA is missing.
            failures.append(f"{name} {version}: cannot be imported: {' '.join(str(cause).split())}")
            continue
        start = time.perf_counter()
        contender = prepare(imported, task)
        build = time.perf_counter() - start
        # These first searches are not timed either.
        answers = (contender.search(queries), np.concatenate([contender.search(query[None]) for query in queries[:20]]))
        faults = [wrong(ids, task, queries[: len(ids)], truth[: len(ids)]) for ids in answers]
        if any(faults):
            failures.append(f"{name} {version}: WRONG: {'; '.join(fault for fault in faults if fault)}")
            continue
        one = milliseconds(contender.search, singles)
        batch = milliseconds(contender.search, [queries] * options.runs)
        rate = len(queries) / batch * 1000
        lines.append(f"| {name} {version} | {contender.where} | {build:.2f} | {one:.3f} | {batch:.2f} | {rate:,.0f} |")
        # The next one gets the memory.
        del contender
    print(f"{datetime.date.today()}, {processor()}, Python {platform.python_version()}, numpy {np.__version__}")
    print(f"`{shlex.join(['python', *sys.argv])}`")
    print(f"{len(rows):,} rows of {rows.shape[1]} from {source}, {task.metric}, k = {task.k}, medians of {options.runs} runs\n")
    print(f"| library | where | build, s | one query, ms | {len(queries)} queries, ms | queries/s of the batch |")
    print("|---|---|--:|--:|--:|--:|")
    print("\n".join(lines))
    for failure in failures:
        print(f"\n{failure}")
    return int(any("WRONG" in failure for failure in failures))


if __name__ == "__main__":
    sys.exit(main())
