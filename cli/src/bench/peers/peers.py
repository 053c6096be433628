#!/usr/bin/env python3
"""Times other libraries at the work that `nearfield bench` times, on the same vectors.

`nearfield bench peers` runs this script, which is part of the program. It also runs alone, on .npy files:

    python3 -m venv venv && venv/bin/pip install -r cli/src/bench/peers/requirements.txt
    venv/bin/python cli/src/bench/peers/peers.py --rows-file base.npy --queries-file query.npy > peers.jsonl
    venv/bin/python cli/src/bench/peers/peers.py --suites select,reduce > peers.jsonl

It needs Python 3.9 and numpy. Each library runs in a process of its own for each suite; one that is not installed or
fails is named with the reason. docs/benchmark.md says what is timed and lists the fields of the JSON lines.
"""

import argparse
import contextlib
import datetime
import functools
import importlib
import json
import multiprocessing
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from importlib import metadata

try:
    import numpy as np
except ImportError:
    np = None

SUITES = {
    "exact": ["numpy", "faiss-cpu", "usearch", "torch", "cuvs", "faiss-gpu"],
    "ivf": ["faiss-cpu", "cuvs", "faiss-gpu"],
    "select": ["torch"],
    "reduce": ["torch"],
}
PACKAGES = "numpy faiss-cpu faiss-gpu faiss-gpu-cu11 faiss-gpu-cu12 usearch torch cuvs-cu12 cuvs-cu13".split()
# Instruction sets that decide how fast a processor computes.
ISA = "avx2 f16c fma avx_vnni avx512f avx512_vnni avx512_bf16 avx512_fp16 amx_int8 amx_tile asimddp i8mm sve".split()
# Seconds of warm-up and of a case; the fewest runs; batches of queries that take turns; queries that are checked.
WARM_UP, CASE, LEAST_RUNS, BATCHES, CHECKED = 0.3, 20.0, 3, 4, 100
# How much farther than the k-th true neighbour a result may be, as in ann-benchmarks.
TOLERANCE = 1e-3
# Bytes that no cache holds; rows that are converted to f64 at a time.
CACHE, PIECE = 256 << 20, 1 << 14


class NotRun(Exception):
    """Why a peer or a case does not run."""


class Stop(Exception):
    """Why nothing runs."""


# The options and their defaults; what is empty is filled in from the files. All but the names take several values.
OPTIONS = {
    "suites": "exact,ivf,select,reduce", "peers": "numpy,faiss-cpu,usearch,torch,cuvs,faiss-gpu", "metric": "cosine",
    "rows-file": "", "queries-file": "", "data": "", "queries": "", "k": "", "lists": "", "probes": "", "runs": "20",
    "shapes": "20000x500,1000x10000,100x100000,10x1000000", "select-k": "1,16,256", "length": "67108864",
}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in OPTIONS.items():
        parser.add_argument("--" + name, default=default, help="default " + (default or "from the files"))
    # The program that starts this script passes its directory here, and the time on the standard input.
    parser.add_argument("--scratch", help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in ("queries", "k", "probes", "select_k", "length"):
        setattr(args, name, [int(part) for part in getattr(args, name).split(",") if part])
    args.suites, args.peers = args.suites.split(","), args.peers.split(",")
    args.shapes = [tuple(map(int, shape.split("x"))) for shape in args.shapes.split(",")]
    args.lists, args.runs, args.end = int(args.lists or 0), int(args.runs), None
    args.threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return args


def say(line):
    print(json.dumps(line, allow_nan=False), flush=True)


def first_line(error):
    return (str(error).strip().splitlines() or [repr(error)])[0][:200]


def fetch(module, package):
    try:
        return importlib.import_module(module)
    except Exception as error:  # An installed library may fail in its own ways.
        raise NotRun(f"needs {package}: {first_line(error)}") from None


@contextlib.contextmanager
def attempt(line):
    """Says why a line has no figures when the block fails, and goes on."""
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, NotRun) else f"{type(error).__name__}: {first_line(error)}"
        say({**line, "not_run": reason})


# Vectors, and what is true of them.


def load(argument, path):
    """Maps the vectors of a file into memory, and refuses those without distances."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if array.ndim != 2 or array.dtype.kind != "f" or array.dtype.itemsize > 4 or 0 in array.shape:
            raise ValueError(f"needed [rows, dim] of f32 or f16, found {array.dtype} {list(array.shape)}")
    except (OSError, TypeError, ValueError, EOFError) as error:
        raise Stop(f"{argument} {path}: {first_line(error)}")
    for first in range(0, len(array), PIECE):
        squares = np.square(array[first : first + PIECE].astype(np.float64)).sum(1)
        infinite, outside = ~np.isfinite(squares), (squares != 0) & ((squares < 2.0**-100) | (squares > 2.0**100))
        if infinite.any():
            raise Stop(f"{argument}: needed finite values, row {first + infinite.argmax()} holds a NaN or an infinity")
        if outside.any():
            raise Stop(f"{argument}: needed norms that are 0 or within 2^-50 .. 2^50, row {first + outside.argmax()} has another")
    return array


def prepare(args):
    """Checks the files and the options about them, and fills in the defaults."""
    rows, queries = load("--rows-file", args.rows_file), load("--queries-file", args.queries_file)
    (count, dim), (there, other) = rows.shape, queries.shape
    if dim != other:
        raise Stop(f"--queries-file: needed dim {dim}, as --rows-file has, given dim {other}")
    args.lists = args.lists or max(1, min(count, round(4 * count**0.5)))
    args.queries = args.queries or sorted({min(queries, there) for queries in (1, 1024)})
    args.k = args.k or [min(10, count)]
    args.probes = args.probes or sorted({min(probes, args.lists) for probes in (1, 4, 16, 64)})
    bounds = [("--queries", args.queries, there), ("-k", args.k, count)]
    if "ivf" in args.suites:
        bounds += [("--lists", [args.lists], count), ("--probes", args.probes, args.lists)]
    for name, given, most in bounds:
        if max(given) > most:
            raise Stop(f"{name}: needed at most {most}, as there are no more, given {max(given)}")
    args.query_count = max(*args.queries, 2 * CHECKED)
    args.base = {
        "rows": count, "dim": dim, "metric": args.metric,
        "data": args.data or f"{args.rows_file} with {args.queries_file}",
    }
    # The k-th smallest distance of every checked query for each k, [queries, k].
    best = np.empty((min(CHECKED, there), 0))
    for first in range(0, count, PIECE):
        best = np.concatenate([best, distances(args.metric, queries[:CHECKED], rows[first : first + PIECE])], axis=1)
        best = np.sort(best, axis=1)[:, : max(args.k)]
    args.limits = best[:, [k - 1 for k in args.k]]


def norms(vectors):
    """Norms, [rows, 1], with 1 for zero vectors, so that dividing leaves them zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.where(lengths > 0, lengths, lengths.dtype.type(1))


def distances(metric, queries, rows):
    """Distances in f64, [queries, rows], by L2 for l2sq too. The error of products is far below TOLERANCE."""
    queries, rows = queries.astype(np.float64), rows.astype(np.float64)
    products = queries @ rows.T
    if metric == "ip":
        return -products
    if metric == "cosine":
        return 1 - products / norms(queries) / norms(rows).T
    squares = (queries * queries).sum(1)[:, None] + (rows * rows).sum(1) - 2 * products
    return np.sqrt(np.maximum(squares, 0))


def recall(metric, rows, queries, ids, limit, k):
    """The part of the results that are no farther than the k-th true neighbour. An id counts once."""
    right = 0
    for query, found, most in zip(queries, ids, limit):
        found = np.unique([place for place in found[:k] if 0 <= place < len(rows)]).astype(np.int64)
        right += int((distances(metric, query[None], rows[found]) <= most + TOLERANCE).sum())
    return right / (len(queries) * k)


# Time.


def busy():
    """Seconds of all processors that the machine has used (NaN where it does not say), and this process."""
    try:
        with open("/proc/stat") as file:
            ticks = [int(part) for part in file.readline().split()[1:9]]
        return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK"), time.process_time()
    except (OSError, ValueError, IndexError):
        return float("nan"), time.process_time()


def elapsed(call, turn):
    start = time.perf_counter()
    call(turn)
    return time.perf_counter() - start


def spread(name, times):
    if not times:
        return {name: None}
    figures = {name: statistics.median(times), name + "_least": min(times), name + "_most": max(times)}
    return {key: round(figure, 5) for key, figure in figures.items()}


def share_of(args):
    """Seconds for a case, which begins, of the time of this process."""
    left = CASE if args.end is None else (args.end - time.monotonic()) / max(args.cases, 1)
    args.cases -= 1
    if left <= 0:
        raise NotRun("no time was left of --budget")
    return min(CASE, left)


def measure(args, call, first, share, on_device=None):
    """Times a call, which is told its turn and took `first` seconds before. `on_device` returns the milliseconds of
    a call by the device's clock. One call that takes longer than the share is the figure."""
    start, turn, last = time.perf_counter(), 0, first
    while first < share and time.perf_counter() - start < min(WARM_UP, share / 5):
        last, turn = elapsed(call, turn), turn + 1
    left = (share - (time.perf_counter() - start)) / (2 if on_device else 1)
    runs = int(max(LEAST_RUNS, min(left / max(last, 1e-7), args.runs)))
    before, begin = busy(), time.perf_counter()
    times = [first] if first >= share else [elapsed(call, turn) for turn in range(runs)]
    wall, after = max(time.perf_counter() - begin, 1e-9), busy()
    device = [on_device(turn) for turn in range(runs)] if on_device and first < share else []
    whole, own = ((later - earlier) / wall for later, earlier in zip(after, before))
    # The machine counts in hundredths of a second, which say nothing of less than twenty.
    is_long, is_known = wall > 0.2, whole == whole
    return {
        "runs": len(times), **spread("ms", [1e3 * one for one in times]), **spread("device_ms", device),
        "own_cpus": round(own, 2) if is_long else None,
        "other_cpus": round(max(whole - own, 0.0), 2) if is_long and is_known else None,
    }


# Peers that search: `search` takes arrays on the host and returns ids there; on a GPU, `near` does the same there.


class Numpy:
    on = "cpu"

    def __init__(self, rows, metric, _):
        self.rows = rows / norms(rows) if metric == "cosine" else rows
        self.squares = (rows * rows).sum(1) if metric in ("l2sq", "l2") else None
        self.block = max(1, min(250, CACHE // (4 * len(rows))))

    def search(self, queries, k):
        return np.concatenate([self.near(queries[at : at + self.block], k) for at in range(0, len(queries), self.block)])

    def near(self, queries, k):
        # The norms of queries change no order.
        scores = queries @ self.rows.T
        if self.squares is None:
            np.negative(scores, out=scores)
        else:
            scores *= -2
            scores += self.squares
        best = np.argpartition(scores, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(scores, best, axis=1), axis=1)
        return np.take_along_axis(best, order, axis=1)


class Usearch:
    on = "cpu"

    def __init__(self, rows, metric, _):
        self.module, self.rows = fetch("usearch.index", "usearch"), rows
        self.metric = {"cosine": "cos", "ip": "ip"}.get(metric, "l2sq")

    def search(self, queries, k):
        found = self.module.search(self.rows, queries, k, metric=self.metric, exact=True, threads=0)
        return np.atleast_2d(found.keys).astype(np.int64)


class Faiss:
    def __init__(self, rows, metric, lists, is_gpu=False):
        faiss = fetch("faiss", "faiss-gpu" if is_gpu else "faiss-cpu")
        if is_gpu and not (hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0):
            raise NotRun(f"needs faiss with a GPU: this is {faiss.__version__}, which finds none")
        self.on, self.is_cosine = "cuda" if is_gpu else "cpu", metric == "cosine"
        kind = faiss.METRIC_L2 if metric in ("l2sq", "l2") else faiss.METRIC_INNER_PRODUCT
        self.index = faiss.index_factory(rows.shape[1], f"IVF{lists},Flat" if lists else "Flat", kind)
        if is_gpu:
            self.resources = faiss.StandardGpuResources()
            self.index = faiss.index_cpu_to_gpu(self.resources, 0, self.index)
        rows = rows / norms(rows) if self.is_cosine else rows
        self.index.train(rows)
        self.index.add(rows)

    def probe(self, probes):
        self.index.nprobe = probes

    def search(self, queries, k):
        return self.index.search(queries / norms(queries) if self.is_cosine else queries, k)[1]


class Gpu:
    """The GPU that torch computes on."""

    def __init__(self):
        self.torch = torch = fetch("torch", "PyTorch")
        mps = getattr(torch.backends, "mps", None)
        # CUDA, or ROCm under its name.
        self.on = "cuda" if torch.cuda.is_available() else "mps" if mps and mps.is_available() else None
        if not self.on:
            raise NotRun(f"needs a GPU: PyTorch {torch.__version__} finds neither CUDA nor ROCm nor Metal")
        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.manual_seed(1)
        self.wait = torch.cuda.synchronize if self.on == "cuda" else torch.mps.synchronize
        self.adapter = torch.cuda.get_device_name() if self.on == "cuda" else "Apple GPU"

    def upload(self, array):
        return self.torch.from_numpy(array).to(self.on)

    def search(self, queries, k):
        ids, distances = self.near(self.upload(queries), k)
        distances.cpu()
        return ids.cpu().numpy()

    def timed(self, call, turns):
        """Milliseconds that calls take by the device's events."""
        event = self.torch.cuda.Event if self.on == "cuda" else self.torch.mps.event.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        self.wait()
        start.record()
        for turn in turns:
            call(turn)
        end.record()
        self.wait()
        return start.elapsed_time(end)


class Torch(Gpu):
    def __init__(self, rows, metric, _, kind):
        super().__init__()
        rows, kind = self.upload(rows), getattr(self.torch, kind)
        self.metric, self.normalize = metric, self.torch.nn.functional.normalize
        self.squares = (rows * rows).sum(1).to(kind) if metric in ("l2sq", "l2") else None
        self.rows = (self.normalize(rows) if metric == "cosine" else rows).to(kind)
        del rows
        # A block of scores takes a quarter of the free memory, because selecting from it takes as much again.
        free = self.torch.cuda.mem_get_info()[0] if self.on == "cuda" else 4 << 30
        self.block = max(1, min(1024, free // 4 // (len(self.rows) * self.rows.element_size())))

    def near(self, queries, k):
        ids, distances = [], []
        for some in queries.split(self.block):
            some = self.normalize(some) if self.metric == "cosine" else some
            narrow = some.to(self.rows.dtype)
            if self.squares is None:
                best, places = (narrow @ self.rows.T).topk(k, dim=1)
                distances.append(1 - best.float() if self.metric == "cosine" else -best.float())
            else:
                best, places = self.torch.addmm(self.squares, narrow, self.rows.T, beta=-1, alpha=2).topk(k, dim=1)
                distances.append((some * some).sum(1, keepdim=True) - best.float())
            ids.append(places)
        return self.torch.cat(ids), self.torch.cat(distances)


class Cuvs(Gpu):
    def __init__(self, rows, metric, lists):
        self.module = fetch("cuvs.neighbors." + ("ivf_flat" if lists else "brute_force"), "cuVS")
        super().__init__()
        if self.on != "cuda":
            raise NotRun("needs PyTorch with CUDA beside cuVS")
        # On vectors of norm 1 the order by L2 is the order by cosine.
        is_normed, self.parameters = bool(lists) and metric == "cosine", []
        self.normalize = self.torch.nn.functional.normalize if is_normed else lambda vectors: vectors
        kind = {"ip": "inner_product", "cosine": "sqeuclidean" if lists else "cosine"}.get(metric, "sqeuclidean")
        # The index may refer to the rows, which therefore stay.
        self.rows = self.normalize(self.upload(rows))
        if lists:
            self.index = self.module.build(self.module.IndexParams(n_lists=lists, metric=kind), self.rows)
        else:
            self.index = self.module.build(self.rows, metric=kind)
        self.wait()

    def probe(self, probes):
        self.parameters = [self.module.SearchParams(n_probes=probes)]

    def near(self, queries, k):
        distances, ids = self.module.search(*self.parameters, self.index, self.normalize(queries), k)
        return self.torch.as_tensor(ids, device=self.on), self.torch.as_tensor(distances, device=self.on)


# What each peer searches with, by its name in the lines. A maker takes rows, metric, and lists, None for exact.
MAKERS = {
    "numpy": {"numpy": Numpy},
    "usearch": {"usearch": Usearch},
    "faiss-cpu": {"faiss-cpu": Faiss},
    "faiss-gpu": {"faiss-gpu": functools.partial(Faiss, is_gpu=True)},
    "torch": {f"torch-{kind[0]}{kind[-2:]}": functools.partial(Torch, kind=kind) for kind in ("float32", "float16")},
    "cuvs": {"cuvs": Cuvs},
}


def search(args, suite, peer):
    """Runs the suites exact and ivf of a peer."""
    base = {"record": "peer", "suite": suite, **args.base}
    lists = args.lists if suite == "ivf" else None
    ks, probes = (args.k[:1], args.probes) if lists else (args.k, [None])
    args.cases = len(MAKERS[peer]) * len(ks) * len(probes) * len(args.queries)
    for name, maker in MAKERS[peer].items():
        with attempt({**base, "peer": name}):
            rows, queries = (
                np.array(np.load(file, mmap_mode="r")[:count], np.float32, order="C")
                for file, count in ((args.rows_file, None), (args.queries_file, args.query_count))
            )
            start = time.perf_counter()
            index = maker(rows, args.metric, lists)
            built = round((time.perf_counter() - start) * 1e3, 3)
            threads = args.threads if index.on == "cpu" else None
            case = {**base, "peer": name, "on": index.on, "threads": threads, "build_ms": built}
            for count in probes:
                if lists:
                    index.probe(count)
                    case.update(lists=lists, probes=count)
                for batch in args.queries:
                    for k, limit in zip(ks, args.limits.T):
                        line = {**case, "queries": batch, "k": k}
                        with attempt(line):
                            say({**line, **searched(args, index, rows, queries, batch, k, limit)})
            # The next one needs the memory.
            del index


def searched(args, index, rows, queries, count, k, limit):
    """Checks what a peer finds, then times it."""
    share = share_of(args)
    batches = [queries[at : at + count] for at in range(0, len(queries) - count + 1, count)]
    start = time.perf_counter()
    found = [index.search(batches[0], k)]
    first = time.perf_counter() - start
    # A few queries say little about lists, but checking must not take the time of measuring.
    for batch in batches[1:]:
        if len(found) * count >= len(limit) or time.perf_counter() - start > share / 2:
            break
        found.append(index.search(batch, k))
    checked = min(len(limit), len(found) * count)
    part = recall(args.metric, rows, queries[:checked], np.concatenate(found)[:checked], limit[:checked], k)
    batches, on_device = batches[:BATCHES], None
    if isinstance(index, Gpu):
        there = [index.upload(batch) for batch in batches]
        on_device = lambda turn: index.timed(lambda turn: index.near(there[turn % len(there)], k), [turn])
    times = measure(args, lambda turn: index.search(batches[turn % len(batches)], k), first, share, on_device)
    rate = round(count / times["ms"] * 1e3, 2)
    return {**times, "queries_per_s": rate, "recall": round(part, 6), "verified": checked, "rotated": len(batches)}


# Selections and reductions of values on a GPU.


def copies_of(operands):
    """Enough copies of some arrays that no cache holds them all."""
    size = operands[0].numel() * 4
    return [operands] + [[one.clone() for one in operands] for _ in range(max(1, min(64, -(-CACHE // size))) - 1)]


def kernels(args, suite, peer):
    """Runs the suites select and reduce: checks the first result of each case on operands on the device, and times it."""
    gpu, base = Gpu(), {"record": "peer", "suite": suite, "peer": peer}
    cases = selections if suite == "select" else reductions
    for fields, launch, check, finish, moved, copies in cases(args, gpu):
        line = {**base, "on": gpu.on, **fields}
        with attempt(line):
            share, whole = share_of(args), lambda turn: finish(launch(turn))
            line.update(check(launch(0)))
            line.update(measure(args, whole, elapsed(whole, 0), share, lambda turn: gpu.timed(launch, [turn])))
            line["back_to_back_ms"] = round(gpu.timed(launch, range(line["runs"])) / line["runs"], 5)
            line["bytes_per_s"] = round(moved / (line["device_ms"] or line["ms"]) * 1e3)
            say({**line, "verified": True, "rotated": copies})


def check_selected(torch, values, k, found):
    """Checks that these are the k smallest of each row, in order, each from its own place. Sorts a few rows at a time,
    because sorting takes memory."""
    rows = max(1, (1 << 26) // values.shape[1])
    for part, smallest, places in zip(*(one.split(rows) for one in (values, *found))):
        ordered = places.sort(dim=1).values
        is_there = torch.equal(part.gather(1, places), smallest) and bool((ordered[:, 1:] != ordered[:, :-1]).all())
        if not (is_there and torch.equal(smallest, part.sort(dim=1).values[:, :k])):
            raise NotRun("its result is wrong")
    return {}


def selections(args, gpu):
    args.cases = sum(k <= length for _, length in args.shapes for k in args.select_k)
    for rows, length in args.shapes:
        copies = copies_of([gpu.torch.randn(rows, length, device=gpu.on) * 100 + 10])
        for k in (k for k in args.select_k if k <= length):
            launch = lambda turn: copies[turn % len(copies)][0].topk(k, dim=1, largest=False, sorted=True)
            check = lambda found: check_selected(gpu.torch, copies[0][0], k, found)
            fields = {"rows": rows, "length": length, "values": "normal", "k": k}
            yield fields, launch, check, lambda _: gpu.wait(), 4 * rows * length, len(copies)


# Each operation: how many operands it reads or writes, the call, its result in f64, and what its error is relative to.
OPERATIONS = {
    "copy": (2, lambda torch, a, b: b.copy_(a), None),
    "dot": (2, lambda torch, a, b: torch.dot(a, b), lambda a, b: ((a * b).sum(), abs(a * b).sum())),
    "sum": (1, lambda torch, a, b: a.sum(), lambda a, b: (a.sum(), abs(a).sum())),
    "mean": (1, lambda torch, a, b: a.mean(), lambda a, b: (a.mean(), abs(a).mean())),
    "l1": (1, lambda torch, a, b: torch.linalg.vector_norm(a, 1), lambda a, b: (abs(a).sum(), abs(a).sum())),
    "l2": (1, lambda torch, a, b: torch.linalg.vector_norm(a), lambda a, b: ((a * a).sum() ** 0.5, (a * a).sum() ** 0.5)),
    "max-norm": (1, lambda torch, a, b: torch.linalg.vector_norm(a, float("inf")), lambda a, b: (abs(a).max(), 0)),
    "min": (1, lambda torch, a, b: a.min(), lambda a, b: (a.min(), 0)),
    "max": (1, lambda torch, a, b: a.max(), lambda a, b: (a.max(), 0)),
    # torch does not promise which of equal values it returns, so the value there is checked.
    "argmin": (1, lambda torch, a, b: a.argmin(), lambda a, b: (a.min(), 0)),
    "argmax": (1, lambda torch, a, b: a.argmax(), lambda a, b: (a.max(), 0)),
}


def check_reduced(operation, result, a, b):
    """The relative error of a result; None of those that are either right or wrong."""
    if operation == "copy":
        value, true, scale = 0.0 if bool((result == a).all()) else 1.0, 0.0, 0
    else:
        value = a[result].item() if operation.startswith("arg") else result.item()
        # On the host: Metal has no f64.
        true, scale = (float(one) for one in OPERATIONS[operation][2](*(one.cpu().numpy().astype(np.float64) for one in (a, b))))
    error = abs(value - true) / (scale or 1.0)
    if not error <= (1e-4 if scale else 0.0):
        raise NotRun("its result is wrong")
    return {"error": None if operation in ("copy", "argmin", "argmax") else error}


def reductions(args, gpu):
    args.cases = len(args.length) * len(OPERATIONS)
    for length in args.length:
        # Around 1, as in nearfield's suite: the sum is about as large as the magnitudes that go into it.
        copies = copies_of([gpu.torch.randn(length, device=gpu.on) * 0.5 + 1 for _ in range(2)])
        target = gpu.torch.empty_like(copies[0][0])
        for operation, (operands, call, _) in OPERATIONS.items():

            def launch(turn):
                a, b = copies[turn % len(copies)]
                return call(gpu.torch, a, target if operation == "copy" else b)

            check = lambda result: check_reduced(operation, result, *copies[0])
            finish = lambda result: gpu.wait() if operation == "copy" else result.item()
            fields = {"elements": "f32", "summation": "plain", "length": length, "operation": operation}
            yield fields, launch, check, finish, 4 * operands * length, len(copies)


# Processes: this one starts one for each peer of each suite.


def describe(args):
    """Says what the peers run on."""
    cpu, isa, adapter, driver, versions = platform.processor() or platform.machine(), None, "", "", {}
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in file)}
        flags = fields.get("flags", fields.get("Features", "")).split()
        cpu, isa = fields.get("model name", platform.machine()), [one for one in ISA if one in flags]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        cards = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
        adapter, _, driver = cards.strip().partition("\n")[0].partition(",")
    if not adapter and "torch" in args.peers:
        with contextlib.suppress(NotRun):
            adapter = Gpu().adapter
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    say({
        "record": "peers", "adapter": adapter or cpu, "driver": driver.strip() or None, "cpu": cpu, "isa": isa,
        "threads": args.threads, "python": platform.python_version(), "versions": versions,
        "os": f"{platform.system()} {platform.release()} {platform.machine()}", "date": datetime.date.today().isoformat(),
    })


def job(args, suite, peer):
    with attempt({"record": "peer", "suite": suite, "peer": peer}):
        (search if suite in ("exact", "ivf") else kernels)(args, suite, peer)


def start(call, *of, timeout=None):
    """Runs a call in a process of its own, and returns why it did not end well."""
    process = multiprocessing.get_context("spawn").Process(target=call, args=of)
    process.start()
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        return "it took longer than its share of --budget"
    if process.exitcode < 0:
        return f"it was ended by {signal.Signals(-process.exitcode).name}, perhaps for want of memory"
    return f"it ended with exit status {process.exitcode}" if process.exitcode else None


def run(args):
    if not np:
        raise Stop(f"needed numpy, this Python ({sys.executable}) has none")
    if "exact" in args.suites or "ivf" in args.suites:
        prepare(args)
    start(describe, args)
    jobs = [(suite, peer) for suite in args.suites for peer in SUITES[suite] if peer in args.peers]
    end, timeout = args.end, None
    for number, (suite, peer) in enumerate(jobs):
        if end is not None:
            share = max(end - time.monotonic(), 0.0) / (len(jobs) - number)
            # One call of a slow peer may take longer; a peer that hangs is not waited for.
            args.end, timeout = time.monotonic() + share, 60 + 4 * share
        reason = start(job, args, suite, peer, timeout=timeout)
        if reason:
            base = args.base if suite in ("exact", "ivf") else {}
            say({"record": "peer", "suite": suite, "peer": peer, **base, "not_run": reason})


def follow(args):
    """Waits for the time there is, and ends with the program that started this script, which closes the standard input."""

    def read():
        # Not through sys.stdin, whose lock would be held at exit.
        text = os.read(0, 100)
        if not text:
            for process in multiprocessing.active_children():
                process.kill()
            shutil.rmtree(args.scratch, ignore_errors=True)
            os._exit(1)
        return text.strip()

    # An interrupt ends the program, and so this script.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    left = read()
    args.end = time.monotonic() + float(left) if left else None
    threading.Thread(target=read, daemon=True).start()


def main():
    args = parse()
    try:
        if args.scratch:
            follow(args)
        run(args)
    except Stop as reason:
        if not args.scratch:
            sys.exit(f"error: {reason}")
        say({"record": "failed", "reason": str(reason)})
        sys.exit(1)


if __name__ == "__main__":
    main()
