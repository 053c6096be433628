#!/usr/bin/env python3
"""Times other libraries at the work that `nearfield bench` times, on the same vectors.

`nearfield bench peers` runs this script, which is part of the program. It also runs alone, on .npy files:

    python3 -m venv venv && venv/bin/pip install -r cli/src/bench/peers/requirements.txt
    venv/bin/python cli/src/bench/peers/peers.py --rows-file base.npy --queries-file query.npy > peers.jsonl
    venv/bin/python cli/src/bench/peers/peers.py --suites select,reduce > peers.jsonl

It needs Python 3.9 and numpy, times the libraries it finds, and says why it does not run the others.

exact    numpy: product of matrices in blocks, `argpartition`; faiss-cpu, faiss-gpu: flat index; usearch: exact search;
         torch: product of matrices and `topk` on a GPU, as torch-f32 (TF32 off) and torch-f16; cuvs: brute_force
ivf      faiss-cpu, faiss-gpu: IVFFlat; cuvs: ivf_flat. --lists lists, one case for each number of --probes
select   torch: `topk` of values on the GPU          reduce   torch: dot, sum, ... and a copy of values on the GPU

Each library runs in a process of its own for each suite. Indexes are built before anything is timed. Before a case is
timed, its recall (of the first 100 queries, in f64) or its result is checked. A case warms up for 0.3 s and runs up to
--runs times, at least 3, within 20 s or its share of --seconds; one call that takes longer is the figure.
`ms` is the median wall clock from queries on the host to ids and distances there; `device_ms` comes from the device's
events around a call whose operands and results stay there. docs/benchmark.md lists the fields of the JSON lines.
"""

import argparse
import contextlib
import datetime
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
import tempfile
import threading
import time
from importlib import metadata

try:
    import numpy as np
except ImportError as error:
    np, NO_NUMPY = None, f"needed numpy, this Python ({sys.executable}) has none: {error}"

SUITES = {
    "exact": ["numpy", "faiss-cpu", "usearch", "torch", "cuvs", "faiss-gpu"],
    "ivf": ["faiss-cpu", "cuvs", "faiss-gpu"],
    "select": ["torch"],
    "reduce": ["torch"],
}
PACKAGES = ["numpy", "faiss-cpu", "faiss-gpu", "faiss-gpu-cu11", "faiss-gpu-cu12", "usearch", "torch", "cuvs-cu12", "cuvs-cu13"]
# Instruction sets that decide how fast a processor computes.
ISA = "avx2 f16c fma avx_vnni avx512f avx512_vnni avx512_bf16 avx512_fp16 amx_int8 amx_tile asimddp i8mm sve".split()
# Seconds of warm-up and of a case; the fewest runs; batches of queries that take turns; queries that are checked.
WARM_UP, CASE, LEAST_RUNS, BATCHES, CHECKED = 0.3, 20.0, 3, 4, 100
# How much farther than the k-th true neighbour a result may be, as in ann-benchmarks.
TOLERANCE = 1e-3
# Bytes of operands that no cache holds, and of a block of scores on the host; rows converted to f64 at a time.
CACHE, SCORES, PIECE = 256 << 20, 256 << 20, 1 << 14
NO_TIME = "no time was left of --budget"


class NotRun(Exception):
    """Why a peer or a case does not run."""


class Stop(Exception):
    """Why nothing runs."""


def parse():
    def counts(text):
        values = [int(part) for part in text.split(",")]
        if min(values) < 1:
            raise ValueError
        return values

    def some_of(known):
        return lambda text: [known[known.index(name)] for name in text.split(",")]

    def shapes(text):
        return [(rows, length) for rows, length in (counts(part.replace("x", ",")) for part in text.split(","))]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add, suites, peers = parser.add_argument, list(SUITES), SUITES["exact"]
    add("--suites", type=some_of(suites), default=suites, metavar="NAME,…", help=f"of {','.join(suites)} (default all)")
    add("--peers", type=some_of(peers), default=peers, metavar="NAME,…", help=f"of {','.join(peers)} (default all)")
    add("--rows-file", metavar="FILE", help="rows: .npy, [rows, dim] of f32 or f16, which is widened")
    add("--queries-file", metavar="FILE", help="queries, likewise")
    add("--data", metavar="NAME", help="name of the vectors in the lines (default the files)")
    add("--queries", type=counts, metavar="Q,…", help="queries of a call, one case each (default 1,1024)")
    add("-k", "--k", type=counts, metavar="K,…", help="neighbours, one case each; ivf takes the first (default 10)")
    add("--metric", choices=["cosine", "ip", "l2sq", "l2"], default="cosine", help="default cosine; l2 is searched as l2sq")
    add("--lists", type=int, metavar="N", help="lists (default four times the square root of the rows)")
    add("--probes", type=counts, metavar="P,…", help="lists probed, one case each (default 1,4,16,64)")
    add("--shapes", type=shapes, default="20000x500,1000x10000,100x100000,10x1000000", metavar="ROWSxLENGTH,…",
        help="of select, one case each (default %(default)s)")
    add("--select-k", type=counts, default="1,16,256", metavar="K,…", help="of select, one case each (default %(default)s)")
    add("--length", type=counts, default=str(1 << 26), metavar="N,…", help="values to reduce, one case each (default 2^26)")
    add("--runs", type=int, default=20, metavar="N", help="most timed runs of a case (default %(default)s)")
    add("--seconds", type=float, metavar="S", help="time for everything; cases without time left are named")
    # The program that starts this script passes its directory here, and the time on the standard input.
    add("--scratch", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.searches = [suite for suite in args.suites if suite in ("exact", "ivf")]
    if args.searches and not (args.rows_file and args.queries_file):
        parser.error(f"--rows-file, --queries-file: needed for {args.searches[0]}")
    args.threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    args.end = None if args.seconds is None else time.monotonic() + args.seconds
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
    except BrokenPipeError:
        raise
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
    except (OSError, ValueError, EOFError) as error:
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
    """Checks the files and the arguments about them, and fills in the defaults."""
    rows, queries = load("--rows-file", args.rows_file), load("--queries-file", args.queries_file)
    (count, dim), (there, other) = rows.shape, queries.shape
    if dim != other:
        raise Stop(f"--queries-file: needed dim {dim}, as --rows-file has, given dim {other}")
    args.lists = args.lists or max(1, min(count, round(4 * count**0.5)))
    args.queries = args.queries or sorted({min(queries, there) for queries in (1, 1024)})
    args.k = args.k or [min(10, count)]
    args.probes = args.probes or sorted({min(probes, args.lists) for probes in (1, 4, 16, 64)})
    bounds = [("--queries", args.queries, there, "as the file has"), ("-k", args.k, count, "the number of rows")]
    if "ivf" in args.suites:
        bounds.append(("--lists", [args.lists], count, "the number of rows"))
        bounds.append(("--probes", args.probes, args.lists, "the number of lists"))
    for name, given, most, why in bounds:
        if max(given) > most:
            raise Stop(f"{name}: needed at most {most}, {why}, given {max(given)}")
    queries = queries[: max(*args.queries, 2 * CHECKED)]
    data = args.data or f"{args.rows_file} with {args.queries_file}"
    args.base = {"rows": count, "dim": dim, "metric": args.metric, "data": data}
    args.query_count = len(queries)
    args.limits = limits(args.metric, rows, queries[:CHECKED], args.k)


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


def limits(metric, rows, queries, counts):
    """The k-th smallest distance of every query for each k, [queries, counts]."""
    best = np.empty((len(queries), 0))
    for first in range(0, len(rows), PIECE):
        best = np.concatenate([best, distances(metric, queries, rows[first : first + PIECE])], axis=1)
        best = np.sort(best, axis=1)[:, : max(counts)]
    return best[:, [k - 1 for k in counts]]


def recall(metric, rows, queries, ids, limit, k):
    """The part of the results that are no farther than the k-th true neighbour. An id counts once."""
    right = 0
    for query, found, most in zip(queries, ids, limit):
        found = np.unique([place for place in found[:k] if 0 <= place < len(rows)]).astype(np.int64)
        right += int((distances(metric, query[None], rows[found]) <= most + TOLERANCE).sum())
    return right / (len(queries) * k)


# Time.


def busy():
    """Seconds of all processors that the machine has used (None where it does not say), and this process."""
    try:
        with open("/proc/stat") as file:
            ticks = [int(part) for part in file.readline().split()[1:9]]
        return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK"), time.process_time()
    except (OSError, ValueError, IndexError):
        return None, time.process_time()


def elapsed(call, turn):
    start = time.perf_counter()
    call(turn)
    return time.perf_counter() - start


def spread(name, times):
    if not times:
        return {name: None}
    return {name: round(statistics.median(times), 5), name + "_least": round(min(times), 5), name + "_most": round(max(times), 5)}


class Clock:
    """Shares out the time of a job among its cases."""

    def __init__(self, args, cases):
        self.runs, self.end, self.cases = args.runs, args.end, cases

    def share(self):
        """Seconds for a case, which begins."""
        self.cases -= 1
        left = CASE if self.end is None else self.end - time.monotonic()
        if left <= 0:
            raise NotRun(NO_TIME)
        return min(CASE, left / (self.cases + 1))

    def measure(self, call, first, share, on_device=None):
        """Times a call, which is told its turn and took `first` seconds before. `on_device` returns the milliseconds of
        a call by the device's clock."""
        start, turn, last = time.perf_counter(), 0, first
        while first < share and time.perf_counter() - start < min(WARM_UP, share / 5):
            last, turn = elapsed(call, turn), turn + 1
        left = (share - (time.perf_counter() - start)) / (2 if on_device else 1)
        runs = int(max(LEAST_RUNS, min(left / max(last, 1e-7), self.runs)))
        (all_before, own_before), begin = busy(), time.perf_counter()
        times = [first] if first >= share else [elapsed(call, turn) for turn in range(runs)]
        wall, (all_after, own_after) = max(time.perf_counter() - begin, 1e-9), busy()
        device = [on_device(turn) for turn in range(runs)] if on_device and first < share else []
        own = (own_after - own_before) / wall
        others = None if all_before is None else round(max((all_after - all_before) / wall - own, 0.0), 2)
        # The machine counts in hundredths of a second, which say nothing of less than twenty.
        is_long = wall > 0.2
        return {
            "runs": len(times), **spread("ms", [1e3 * one for one in times]), **spread("device_ms", device),
            "own_cpus": round(own, 2) if is_long else None, "other_cpus": others if is_long else None,
        }


# Peers that search: `search` takes arrays on the host and returns ids there; on a GPU, `near` does the same there.


class Numpy:
    on = "cpu"

    def __init__(self, rows, metric):
        self.rows = rows / norms(rows) if metric == "cosine" else rows
        self.squares = (rows * rows).sum(1) if metric in ("l2sq", "l2") else None
        self.block = max(1, min(250, SCORES // (4 * len(rows))))

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

    def __init__(self, rows, metric):
        self.module, self.rows = fetch("usearch.index", "usearch"), rows
        self.metric = {"cosine": "cos", "ip": "ip"}.get(metric, "l2sq")

    def search(self, queries, k):
        found = self.module.search(self.rows, queries, k, metric=self.metric, exact=True, threads=0)
        return np.atleast_2d(found.keys).astype(np.int64)


class Faiss:
    def __init__(self, rows, metric, lists, is_gpu):
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
        self.name = "cuda" if torch.cuda.is_available() else "mps" if mps and mps.is_available() else None
        if not self.name:
            raise NotRun(f"needs a GPU: PyTorch {torch.__version__} finds neither CUDA nor ROCm nor Metal")
        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.manual_seed(1)
        self.wait = torch.cuda.synchronize if self.name == "cuda" else torch.mps.synchronize
        self.adapter = torch.cuda.get_device_name() if self.name == "cuda" else "Apple GPU"

    def timed(self, call, turns):
        """Milliseconds that calls take by the device's events."""
        event = self.torch.cuda.Event if self.name == "cuda" else self.torch.mps.event.Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        self.wait()
        start.record()
        for turn in turns:
            call(turn)
        end.record()
        self.wait()
        return start.elapsed_time(end)


class OnGpu:
    """A peer whose arrays are torch's."""

    def __init__(self, rows, metric):
        self.gpu = Gpu()
        self.torch, self.on, self.metric = self.gpu.torch, self.gpu.name, metric
        self.normalize = self.torch.nn.functional.normalize
        self.rows = self.upload(rows)

    def upload(self, array):
        return self.torch.from_numpy(array).to(self.on)

    def search(self, queries, k):
        ids, distances = self.near(self.upload(queries), k)
        distances.cpu()
        return ids.cpu().numpy()


class Torch(OnGpu):
    def __init__(self, rows, metric, kind):
        super().__init__(rows, metric)
        kind = getattr(self.torch, kind)
        self.squares = (self.rows * self.rows).sum(1).to(kind) if metric in ("l2sq", "l2") else None
        self.rows = (self.normalize(self.rows) if metric == "cosine" else self.rows).to(kind)
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


class Cuvs(OnGpu):
    def __init__(self, rows, metric, lists):
        self.module = fetch("cuvs.neighbors." + ("ivf_flat" if lists else "brute_force"), "cuVS")
        super().__init__(rows, metric)
        if self.on != "cuda":
            raise NotRun("needs PyTorch with CUDA beside cuVS")
        # On vectors of norm 1 the order by L2 is the order by cosine.
        self.is_normed, self.parameters = bool(lists) and metric == "cosine", []
        kind = {"ip": "inner_product", "cosine": "sqeuclidean" if lists else "cosine"}.get(metric, "sqeuclidean")
        # The index may refer to the rows, which therefore stay.
        self.rows = self.normalize(self.rows) if self.is_normed else self.rows
        if lists:
            self.index = self.module.build(self.module.IndexParams(n_lists=lists, metric=kind), self.rows)
        else:
            self.index = self.module.build(self.rows, metric=kind)
        self.gpu.wait()

    def probe(self, probes):
        self.parameters = [self.module.SearchParams(n_probes=probes)]

    def near(self, queries, k):
        queries = self.normalize(queries) if self.is_normed else queries
        distances, ids = self.module.search(*self.parameters, self.index, queries, k)
        return self.torch.as_tensor(ids, device=self.on), self.torch.as_tensor(distances, device=self.on)


def search(args, suite, peer):
    """Runs the suites exact and ivf of a peer."""
    base = {"record": "peer", "suite": suite, **args.base}
    lists = args.lists if suite == "ivf" else None
    wanted, probes = (args.k[:1], args.probes) if lists else (args.k, [None])
    makers = {
        "numpy": Numpy, "usearch": Usearch,
        "faiss-cpu": lambda *of: Faiss(*of, lists, False), "faiss-gpu": lambda *of: Faiss(*of, lists, True),
        "torch-f32": lambda *of: Torch(*of, "float32"), "torch-f16": lambda *of: Torch(*of, "float16"),
        "cuvs": lambda *of: Cuvs(*of, lists),
    }
    names = ["torch-f32", "torch-f16"] if peer == "torch" else [peer]
    clock = Clock(args, len(names) * len(wanted) * len(probes) * len(args.queries))
    for name in names:
        with attempt({**base, "peer": name}):
            rows = np.array(np.load(args.rows_file, mmap_mode="r"), np.float32, order="C")
            queries = np.array(np.load(args.queries_file, mmap_mode="r")[: args.query_count], np.float32, order="C")
            start = time.perf_counter()
            index = makers[name](rows, args.metric)
            built = round((time.perf_counter() - start) * 1e3, 3)
            case = {**base, "peer": name, "on": index.on, "threads": args.threads if index.on == "cpu" else None, "build_ms": built}
            for count in probes:
                if lists:
                    index.probe(count)
                    case.update(lists=lists, probes=count)
                for batch, place in ((batch, place) for batch in args.queries for place in range(len(wanted))):
                    line = {**case, "queries": batch, "k": wanted[place]}
                    with attempt(line):
                        say({**line, **searched(args, clock, index, (rows, queries), batch, place)})
            # The next one needs the memory.
            del index


def searched(args, clock, index, vectors, count, place):
    """Checks what a peer finds, then times it."""
    share, (rows, queries), k, limit = clock.share(), vectors, args.k[place], args.limits[:, place]
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
    if isinstance(index, OnGpu):
        there = [index.upload(batch) for batch in batches]
        on_device = lambda turn: index.gpu.timed(lambda turn: index.near(there[turn % len(there)], k), [turn])
    times = clock.measure(lambda turn: index.search(batches[turn % len(batches)], k), first, share, on_device)
    rate = round(count / times["ms"] * 1e3, 2)
    return {**times, "queries_per_s": rate, "recall": round(part, 6), "verified": checked, "rotated": len(batches)}


# Selections and reductions of values on a GPU.


def copies_of(operands):
    """Enough copies of some arrays that no cache holds them all."""
    size = operands[0].numel() * 4
    return [operands] + [[one.clone() for one in operands] for _ in range(max(1, min(64, -(-CACHE // size))) - 1)]


def kernel(gpu, clock, share, line, launch, finish, moved, copies):
    """Times what is launched on operands on the device."""
    whole = lambda turn: finish(launch(turn))
    line.update(clock.measure(whole, elapsed(whole, 0), share, lambda turn: gpu.timed(launch, [turn])))
    line["back_to_back_ms"] = round(gpu.timed(launch, range(line["runs"])) / line["runs"], 5)
    line["bytes_per_s"] = round(moved / (line["device_ms"] or line["ms"]) * 1e3)
    say({**line, "verified": True, "rotated": copies})


def is_selected(torch, values, k, smallest, places):
    """Whether these are the k smallest of each row, in order, each from its own place. Sorts a few rows at a time, because
    sorting takes memory."""
    rows = max(1, (1 << 26) // values.shape[1])
    for part, found, at in zip(values.split(rows), smallest.split(rows), places.split(rows)):
        ordered = at.sort(dim=1).values
        is_there = torch.equal(part.gather(1, at), found) and not bool((ordered[:, 1:] == ordered[:, :-1]).any())
        if not (is_there and torch.equal(found, part.sort(dim=1).values[:, :k])):
            return False
    return True


def select(args, suite, peer):
    base = {"record": "peer", "suite": suite, "peer": peer}
    with attempt(base):
        gpu = Gpu()
        cases = [(rows, length, [k for k in args.select_k if k <= length]) for rows, length in args.shapes]
        clock = Clock(args, sum(len(wanted) for _, _, wanted in cases))
        for rows, length, wanted in cases:
            shape = {**base, "on": gpu.name, "rows": rows, "length": length, "values": "normal"}
            with attempt(shape):
                copies = copies_of([gpu.torch.randn(rows, length, device=gpu.name) * 100 + 10])
                for k in wanted:
                    launch = lambda turn: copies[turn % len(copies)][0].topk(k, dim=1, largest=False, sorted=True)
                    line = {**shape, "k": k}
                    with attempt(line):
                        share = clock.share()
                        if not is_selected(gpu.torch, copies[0][0], k, *launch(0)):
                            raise NotRun("its result is wrong")
                        kernel(gpu, clock, share, line, launch, lambda _: gpu.wait(), 4 * rows * length, len(copies))


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


def error_of(operation, result, a, b):
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
    return None if operation in ("copy", "argmin", "argmax") else error


def reduce(args, suite, peer):
    base = {"record": "peer", "suite": suite, "peer": peer}
    with attempt(base):
        gpu = Gpu()
        clock = Clock(args, len(args.length) * len(OPERATIONS))
        for length in args.length:
            case = {**base, "on": gpu.name, "elements": "f32", "summation": "plain", "length": length}
            with attempt(case):
                # Around 1, as in nearfield's suite: the sum is about as large as the magnitudes that go into it.
                copies = copies_of([gpu.torch.randn(length, device=gpu.name) * 0.5 + 1 for _ in range(2)])
                target = gpu.torch.empty_like(copies[0][0])
                for operation, (operands, call, _) in OPERATIONS.items():
                    is_copy = operation == "copy"

                    def launch(turn):
                        a, b = copies[turn % len(copies)]
                        return call(gpu.torch, a, target if is_copy else b)

                    line = {**case, "operation": operation}
                    with attempt(line):
                        share = clock.share()
                        line["error"] = error_of(operation, launch(0), *copies[0])
                        finish = (lambda _: gpu.wait()) if is_copy else (lambda result: result.item())
                        kernel(gpu, clock, share, line, launch, finish, 4 * operands * length, len(copies))


# Processes: this one starts one for each peer of each suite.


def describe(args, *_):
    """Says what the peers run on."""
    try:
        with open("/proc/cpuinfo") as file:
            fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in file)}
        flags = fields.get("flags", fields.get("Features", "")).split()
        cpu, isa = fields.get("model name", platform.machine()), [one for one in ISA if one in flags]
    except OSError:
        cpu, isa = platform.processor() or platform.machine(), None
    adapter, driver = "", ""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        cards = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
        adapter, _, driver = cards.strip().partition("\n")[0].partition(",")
    if not adapter and "torch" in args.peers:
        with contextlib.suppress(NotRun):
            adapter = Gpu().adapter
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    say({
        "record": "peers", "adapter": adapter or cpu, "driver": driver.strip() or None, "cpu": cpu, "isa": isa,
        "threads": args.threads, "python": platform.python_version(), "versions": versions,
        "os": f"{platform.system()} {platform.release()} {platform.machine()}", "date": datetime.date.today().isoformat(),
    })


def job(call, *of):
    """The main function of a started process. An interrupt ends it without a word: its parent cleans up."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with contextlib.suppress(BrokenPipeError):
        call(*of)


def start(call, *of, timeout=None):
    """Runs a call in a process of its own, and returns why it did not end well."""
    process = multiprocessing.get_context("spawn").Process(target=job, args=(call, *of))
    process.start()
    process.join(timeout)
    if process.exitcode is None:
        process.kill()
        return "it took longer than its share of --budget"
    if process.exitcode < 0:
        name = signal.Signals(-process.exitcode).name
        return f"it was ended by {name}" + (", as for want of memory" if name == "SIGKILL" else "")
    return f"it ended with exit status {process.exitcode}" if process.exitcode else None


def run(args):
    if not np:
        raise Stop(NO_NUMPY)
    if args.searches:
        prepare(args)
    start(describe, args)
    jobs = [(suite, peer) for suite in args.suites for peer in SUITES[suite] if peer in args.peers]
    end, calls = args.end, {"select": select, "reduce": reduce}
    for number, (suite, peer) in enumerate(jobs):
        line = {"record": "peer", "suite": suite, "peer": peer, **(args.base if suite in args.searches else {})}
        timeout = None
        if end is not None:
            share = (end - time.monotonic()) / (len(jobs) - number)
            if share <= 0:
                say({**line, "not_run": NO_TIME})
                continue
            # One call of a slow peer may take longer; a peer that hangs is not waited for.
            args.end, timeout = time.monotonic() + share, 60 + 4 * share
        reason = start(calls.get(suite, search), args, suite, peer, timeout=timeout)
        if reason:
            say({**line, "not_run": reason})


def clear(scratch):
    for process in multiprocessing.active_children():
        process.kill()
    shutil.rmtree(scratch, ignore_errors=True)


def follow(args):
    """Waits until the program that started this script says how much time there is, then ends when that program ends,
    which closes the standard input."""

    def until(end):
        text = b""
        # Not through sys.stdin, whose lock would be held at exit.
        while not text.endswith(end):
            byte = os.read(0, 1)
            if not byte:
                clear(args.scratch)
                os._exit(1)
            text += byte
        return text

    line = until(b"\n").strip()
    args.end = time.monotonic() + float(line) if line else None
    threading.Thread(target=until, args=(b"\0",), daemon=True).start()


def main():
    args = parse()
    scratch = args.scratch or tempfile.mkdtemp(prefix="nearfield-peers-")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        if args.scratch:
            follow(args)
        run(args)
    except Stop as reason:
        if not args.scratch:
            sys.exit(f"error: {reason}")
        say({"record": "failed", "reason": str(reason)})
        sys.exit(1)
    except (BrokenPipeError, KeyboardInterrupt):
        # The reader has gone: nothing may be written at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(130)
    finally:
        clear(scratch)


if __name__ == "__main__":
    main()
