#!/usr/bin/env python3
"""What exact search by PyTorch and cuVS takes on an NVIDIA GPU, to hold `nearfield bench exact` against.

Needs Python 3.8 or later, a GPU of NVIDIA, numpy, and PyTorch with CUDA; cuVS is measured where it is installed. Both
programs search the same files, which `nearfield generate` writes:

    pip install numpy torch && pip install cuvs-cu12 --extra-index-url https://pypi.nvidia.com
    nearfield generate --data low-rank --rows 1000000 --dim 768 --out-rows base.npy --queries 10000 --out-queries query.npy
    nearfield bench exact --rows-file base.npy --queries-file query.npy --queries 1,8,100,1024,10000 --metric cosine
    python3 benches/peers/exact.py --rows base.npy --queries query.npy --metric cosine

or which this script writes first, on the device (mixture of 1,000 normal distributions in 32 dimensions, projected, noise
of 0.1 added, norms 1):

    python3 benches/peers/exact.py --rows base.npy --queries query.npy --write 1000000 768 10000

Every peer is measured in two ways, by the clock of the host around a call that has finished; rows are on the device
before, and prepared (norms, for cosine rows of norm 1):
  "from": "host"    queries in the host's memory to ids and distances in the host's memory, as `nearfield bench exact`
  "from": "device"  queries on the device, results left there
PyTorch: a product of matrices and `topk`, in f32 (TF32 off) and in f16, which rounds rows and queries. cuVS: brute_force,
in f32. What a call returns is checked before it is timed: `recall` is the part of its ids that are among the k nearest by
distances in f64, of the first --verify queries; a row as near as the k-th counts. A low recall ends nothing, it is a
result: f16 is inexact.

JSON lines, one object each; times in milliseconds, rates per second:
  {"record":"device", adapter, driver, torch, cuvs, cuda, python, date}
  {"record":"peer", suite, peer, rows, dim, queries, k, metric, from, runs, ms, ms_least, ms_most, queries_per_s, recall,
   verified}
  {"record":"peer", suite, peer, rows, dim, queries, k, metric, not_run}, of a peer that is not there without queries, k
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import time

try:
    import numpy
    import torch
except ImportError as error:
    sys.exit(f"error: needed numpy and PyTorch (pip install numpy torch): {error}")

from timing import driver

# Queries at a time: a matrix of scores of all rows for more of them would not fit the memory.
BLOCK = 1024
# Rows at a time when the truth is computed in f64.
PIECE = 1 << 16
# Relative slack of a distance in f64.
SLACK = 1e-9


def read(argument, path):
    """The vectors of a file, without reading them yet."""
    ending = os.path.splitext(path)[1].lower()
    try:
        if ending == ".npy":
            array = numpy.load(path, mmap_mode="r", allow_pickle=False)
        elif ending in (".fbin", ".f16bin"):
            rows, dim = (int(length) for length in numpy.fromfile(path, dtype="<u4", count=2))
            kind = "<f4" if ending == ".fbin" else "<f2"
            array = numpy.memmap(path, dtype=kind, mode="r", offset=8, shape=(rows, dim))
        else:
            raise ValueError("needed a name that ends in .npy, .fbin or .f16bin")
        if array.ndim != 2 or array.dtype.kind != "f" or array.dtype.itemsize > 4 or 0 in array.shape:
            raise ValueError(f"needed [rows, dim] of f32 or f16, found {array.dtype} {list(array.shape)}")
    except (OSError, ValueError) as error:
        sys.exit(f"error: {argument} {path}: {error}")
    return array


def write(args, device):
    """Writes a set to the two files."""
    rows, dim, queries = args.write
    generator = torch.Generator(device=device).manual_seed(0)
    normal = lambda *shape: torch.randn(*shape, generator=generator, device=device)
    centres = normal(1000, 32) * 1.5
    projection = normal(32, dim) / 32**0.5

    def draw(count):
        chosen = torch.randint(0, 1000, (count,), generator=generator, device=device)
        inner = centres[chosen] + normal(count, 32)
        return torch.nn.functional.normalize(inner @ projection + 0.1 * normal(count, dim)).cpu().numpy()

    for argument, path, count in (("--rows", args.rows, rows), ("--queries", args.queries, queries)):
        if os.path.exists(path):
            sys.exit(f"error: {argument}: needed a new file for --write, {path} is there")
        try:
            # Under another name until it is whole.
            with open(path + ".part", "wb") as file:
                numpy.save(file, draw(count))
            os.replace(path + ".part", path)
        except OSError as error:
            sys.exit(f"error: {argument} {path}: {error}")


class Torch:
    """A product of matrices, then the k largest of every row."""

    def __init__(self, rows, metric, kind):
        self.metric = metric
        self.rows = (torch.nn.functional.normalize(rows) if metric == "cosine" else rows).to(kind)
        self.squares = (rows * rows).sum(1).to(kind) if metric == "l2sq" else None

    def search(self, queries, k):
        """Ids and distances, on the device."""
        ids, distances = [], []
        for some in queries.split(BLOCK):
            if self.metric == "cosine":
                some = torch.nn.functional.normalize(some)
            narrow = some.to(self.rows.dtype)
            if self.metric == "l2sq":
                scores = torch.addmm(self.squares, narrow, self.rows.T, beta=-1, alpha=2)
            else:
                scores = narrow @ self.rows.T
            best, places = torch.topk(scores, k, dim=1)
            best = best.float()
            ids.append(places)
            if self.metric == "l2sq":
                distances.append((some * some).sum(1, keepdim=True) - best)
            else:
                distances.append(1 - best if self.metric == "cosine" else -best)
        return torch.cat(ids), torch.cat(distances)


class Cuvs:
    """cuVS' brute force."""

    def __init__(self, brute_force, rows, metric):
        self.brute_force = brute_force
        names = {"l2sq": "sqeuclidean", "ip": "inner_product", "cosine": "cosine"}
        # The index may refer to the rows, so they have to stay.
        self.rows = rows
        self.index = brute_force.build(rows, metric=names[metric])

    def search(self, queries, k):
        distances, ids = self.brute_force.search(self.index, queries, k)
        return torch.as_tensor(ids, device=queries.device), torch.as_tensor(distances, device=queries.device)


def exact(rows, queries, metric):
    """Distances in f64, `[queries, rows]`. Of products: their error, about 1e-13, is below SLACK."""
    rows, queries = rows.double(), queries.double()
    products = queries @ rows.T
    if metric == "ip":
        return -products
    if metric == "cosine":
        norms = queries.norm(dim=1)[:, None] * rows.norm(dim=1)
        return 1 - torch.where(norms > 0, products / norms, torch.zeros_like(products))
    return (queries * queries).sum(1)[:, None] + (rows * rows).sum(1) - 2 * products


def limits(rows, queries, metric, k):
    """The k-th smallest distance of every query, in f64, and how large the numbers are that it was computed from."""
    best = torch.empty((len(queries), 0), dtype=torch.float64, device=rows.device)
    for piece in rows.split(PIECE):
        both = torch.cat([best, exact(piece, queries, metric)], dim=1)
        best = torch.topk(both, min(k, both.shape[1]), dim=1, largest=False).values
    largest = max(piece.norm(dim=1).max().item() for piece in rows.split(PIECE))
    lengths = queries.double().norm(dim=1)
    scale = {"cosine": torch.ones_like(lengths), "ip": lengths * largest, "l2sq": (lengths + largest) ** 2}[metric]
    return best[:, -1], scale


def recall(ids, rows, queries, metric, limit, scale):
    """The part of the ids that are no farther than the k-th nearest. An id counts once."""
    right = 0
    for number, some in enumerate(ids.cpu().tolist()):
        one = torch.tensor(sorted({place for place in some if 0 <= place < len(rows)}), device=rows.device)
        if len(one) > 0:
            distances = exact(rows[one], queries[number : number + 1], metric)[0]
            right += (distances <= limit[number] + SLACK * scale[number]).sum().item()
    return right / ids.numel()


def measure(call, wait, runs):
    """Times of a call, until its results are there."""
    def once():
        start = time.perf_counter()
        call()
        wait()
        return (time.perf_counter() - start) * 1e3

    # Long enough for a card to raise its clocks.
    warm = once()
    while warm < 300.0:
        warm += once()
    times = sorted(once() for _ in range(runs))
    return {"runs": runs, "ms": statistics.median(times), "ms_least": times[0], "ms_most": times[-1]}


def numbers(text):
    values = [int(part) for part in text.split(",")]
    if min(values) < 1:
        raise ValueError
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", required=True, metavar="FILE", help="file of the rows: .npy, .fbin or .f16bin")
    parser.add_argument("--queries", required=True, metavar="FILE", help="file of the queries")
    parser.add_argument(
        "--write", nargs=3, type=int, metavar=("ROWS", "DIM", "QUERIES"), help="write the two files (.npy) first"
    )
    parser.add_argument(
        "--queries-counts", type=numbers, default=[1, 8, 100, 1024, 10000], metavar="Q,…",
        help="numbers of queries, a case each (default 1,8,100,1024,10000)",
    )
    parser.add_argument("-k", type=numbers, default=[10], metavar="K,…", help="neighbours wanted, a case each (default 10)")
    parser.add_argument("--metric", choices=["cosine", "ip", "l2sq"], default="cosine", help="default cosine")
    parser.add_argument("--runs", type=int, default=20, help="timed runs of a case, at least 5 (default 20)")
    parser.add_argument("--verify", type=int, default=100, help="queries whose results are checked (default 100)")
    parser.add_argument("--device", default="cuda", help="device of PyTorch (default cuda); cpu only to try the script")
    args = parser.parse_args()
    for name, value, least in (("--runs", args.runs, 5), ("--verify", args.verify, 1)):
        if value < least:
            parser.error(f"{name}: needed at least {least}, given {value}")
    if args.write and (min(args.write) < 1 or not (args.rows + args.queries).count(".npy") == 2):
        parser.error("--write: needed numbers of at least 1, and names that end in .npy")
    device = torch.device(args.device)
    on_card = device.type == "cuda"
    if on_card and not torch.cuda.is_available():
        sys.exit("error: --device: needed CUDA, this PyTorch finds none")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_grad_enabled(False)
    try:
        import cuvs
        from cuvs.neighbors import brute_force
    except ImportError as error:
        brute_force, missing = None, f"needs cuVS, {error}"

    if args.write:
        write(args, device)
    row_array, query_array = read("--rows", args.rows), read("--queries", args.queries)
    if row_array.shape[1] != query_array.shape[1]:
        sys.exit(f"error: --queries: needed dim {row_array.shape[1]}, as --rows has, given dim {query_array.shape[1]}")
    most = max(args.queries_counts)
    if most > len(query_array):
        sys.exit(f"error: --queries-counts: needed at most {len(query_array)}, as the file has, given {most}")
    if max(args.k) > len(row_array):
        sys.exit(f"error: -k: needed at most {len(row_array)}, the number of rows, given {max(args.k)}")
    line = {
        "record": "device",
        "adapter": torch.cuda.get_device_name() if on_card else platform.processor() or platform.machine(),
        "driver": driver() if on_card else None,
        "torch": torch.__version__,
        "cuvs": getattr(cuvs, "__version__", "unknown") if brute_force else None,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }
    print(json.dumps(line), flush=True)

    rows = torch.from_numpy(numpy.array(row_array)).to(device).float()
    host_queries = torch.from_numpy(numpy.array(query_array[:most])).float()
    device_queries = host_queries.to(device)
    sample = device_queries[: args.verify]
    wait = torch.cuda.synchronize if on_card else lambda: None
    limit_of = {k: limits(rows, sample, args.metric, k) for k in args.k}

    makers = [
        ("torch-f32", lambda: Torch(rows, args.metric, torch.float32)),
        ("torch-f16", lambda: Torch(rows, args.metric, torch.float16)),
        ("cuvs", (lambda: Cuvs(brute_force, rows, args.metric)) if brute_force and on_card else None),
    ]
    for name, make in makers:
        about = {"record": "peer", "suite": "exact", "peer": name, "rows": len(rows), "dim": rows.shape[1]}
        peer, reason = None, None
        if make is None:
            reason = "needs CUDA" if brute_force else missing
        else:
            try:
                peer = make()
            except (RuntimeError, ValueError, TypeError) as error:
                reason = first_line(error)
        if peer is None:
            print(json.dumps({**about, "metric": args.metric, "not_run": reason}), flush=True)
            continue
        for count in args.queries_counts:
            for k in args.k:
                case = {**about, "queries": count, "k": k, "metric": args.metric}
                try:
                    run_case(args, case, peer, host_queries[:count], device_queries[:count], rows, limit_of[k], wait)
                # A peer that cannot do one case may do the next.
                except (RuntimeError, ValueError, TypeError) as error:
                    print(json.dumps({**case, "not_run": first_line(error)}), flush=True)
        # The next one needs its memory.
        del peer
        if on_card:
            torch.cuda.empty_cache()


def first_line(error):
    return (str(error).strip().splitlines() or [repr(error)])[0][:200]


def run_case(args, case, peer, host_queries, device_queries, rows, limit, wait):
    """Checks what a peer finds, then times it in both ways."""
    k, metric = case["k"], case["metric"]
    ids, _ = peer.search(device_queries, k)
    wait()
    checked = min(args.verify, len(ids))
    part = recall(ids[:checked], rows, device_queries[:checked], metric, *limit)

    def from_host():
        return [one.cpu() for one in peer.search(host_queries.to(rows.device), k)]

    for where, call in (("host", from_host), ("device", lambda: peer.search(device_queries, k))):
        times = measure(call, wait, args.runs)
        rate = len(ids) / times["ms"] * 1e3
        line = {**case, "from": where, **times, "queries_per_s": rate, "recall": part, "verified": checked}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
