"""What a call from Python takes beyond the same call of the Rust library: for one query, for a batch, and for adding rows.

The module times the library's calls itself, between calls from Python, so both meet the same machine. It needs a build with the feature
`timing`:

    maturin develop --release --features timing --manifest-path python/Cargo.toml
    python python/benchmarks/overhead.py --rows 100000 --dim 768 --device host
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np

import nearfield as nf
from nearfield import _native


def microseconds(times: list[float]) -> float:
    return statistics.median(times) * 1e6


def timed(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    # Freed after the clock stopped, as in the Rust part.
    _answer = call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000, metavar="N")
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--batch", type=int, default=1000, metavar="QUERIES")
    parser.add_argument("--device", default=None, help="a name, as for nearfield.Device")
    parser.add_argument("--rounds", type=int, default=25, help="times that both are measured in turn")
    args = parser.parse_args()
    if not hasattr(_native, "_time_search"):
        parser.error("this build of nearfield has no timing: build it with --features timing")

    random = np.random.default_rng(0)
    rows = random.standard_normal((args.rows, args.dim), dtype=np.float32)
    queries = random.standard_normal((args.batch, args.dim), dtype=np.float32)
    device = nf.Device(args.device)
    print(f"nearfield {nf.__version__}, {device}, {args.rows} x {args.dim}, k = {args.k}\n")

    adding: dict[str, list[float]] = {"Rust": [], "Python": []}
    for _ in range(5):
        adding["Rust"].append(_native._time_add(rows, "cosine", device))
        adding["Python"].append(timed(lambda: nf.Flat(rows, device=device)))
    # The first of each takes memory from the system that the others find.
    rust, python = (min(times[1:]) for times in adding.values())
    print("| call | Rust | Python | more |\n|---|---|---|---|")
    print(f"| add {args.rows} rows | {rust * 1e3:.1f} ms | {python * 1e3:.1f} ms | {python / rust - 1:+.1%} |")

    index = nf.Flat(rows, device=device)
    index.warm_up()
    for count, calls in [(1, 200), (args.batch, 1)]:
        some = queries[:count]
        assert (index.search(some, args.k).ids == nf.knn(rows, some, args.k, metric="cosine", device=device).ids).all()
        searching: dict[str, list[float]] = {"Rust": [], "Python": []}
        for _ in range(args.rounds):
            searching["Rust"] += _native._time_search(index, some, args.k, calls)
            searching["Python"] += [timed(lambda: index.search(some, args.k)) for _ in range(calls)]
        rust, python = (microseconds(times) for times in searching.values())
        print(f"| {count} queries | {rust:.1f} µs | {python:.1f} µs | {python - rust:+.1f} µs, {python / rust - 1:+.1%} |")


if __name__ == "__main__":
    main()
