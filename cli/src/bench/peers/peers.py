#!/usr/bin/env python3
"""What other libraries take for the work that `nearfield bench` times, on the same vectors.

`nearfield bench peers` runs this script, which is part of the program; it also runs alone, on vectors in .npy files:

    python3 -m venv venv && venv/bin/pip install -r cli/src/bench/peers/requirements.txt
    venv/bin/python cli/src/bench/peers/peers.py --rows-file base.npy --queries-file query.npy > peers.jsonl
    venv/bin/python cli/src/bench/peers/peers.py --suites select,reduce > peers.jsonl

Needs Python 3.9 or later and numpy; of the libraries it measures those that it finds, and says of the others why not.

exact    numpy      product of matrices in blocks, `argpartition` of the k best, these sorted
         faiss-cpu  IndexFlatL2, or IndexFlatIP for ip; for cosine IndexFlatIP on rows and queries of norm 1
         usearch    usearch.index.search with exact=True
         torch      product of matrices and `topk` on a GPU: torch-f32 (TF32 off), torch-f16 (rounds rows and queries)
         cuvs       brute_force
         faiss-gpu  GpuIndexFlatL2 or GpuIndexFlatIP
ivf      faiss-cpu, faiss-gpu: IndexIVFFlat; cuvs: ivf_flat. Lists of --lists, a case for every number of --probes
select   torch      topk, the smallest k in order, of what lies on the GPU
reduce   torch      dot, sum, ... of what lies on the GPU, and its copy

How it is measured. Every peer of a suite has a process of its own: no thread pool of another one is beside it, and one that
dies takes nobody along. Rows are where a peer wants them, and an index is built, before anything is timed; what a metric
needs of the rows is part of that, what it needs of the queries part of a search. A case runs until clocks are up, 0.3 s,
then up to --runs times, at least 3, in 20 s or its share of --seconds; where a single call takes longer, that call is the
figure, and `runs` is 1. Up to four batches of queries are taken in turn.
  ms         wall clock from queries in the host's memory to ids and distances there; of select to the end of the
             selection on the device; of reduce to the number on the host. The median
  device_ms  of torch and cuvs, by events of the device around a call: queries lie there, results stay there
  back_to_back_ms  of select and reduce, the mean of as many calls without a wait between them
Operands of select and reduce that would fit a cache are there several times and taken in turn.

What is checked, before it is timed. `recall` is that of ann-benchmarks: the part of the k results that are no farther than
the k-th true neighbour plus 0.001, by L2 and not its square; distances are computed here in f64 from the ids, an id counts
once. It is of the first --verify queries (`verified`). A low recall ends nothing, it is a result: torch-f16 and lists are
inexact. A selection is held against a sort, a reduction against f64; a peer whose result is wrong is not timed.
`own_cpus` and `other_cpus` are how many processors this process and all others kept busy in the runs (Linux only): a
figure beside `other_cpus` above 0.1 is one of a disturbed machine, and --quiet waits for it to be quiet before each case.

JSON lines, one object each; times in milliseconds, rates a second; docs/benchmark.md says more:
  {"record":"peers", adapter, driver, cpu, isa, threads, python, versions, os, date}
  {"record":"peer", suite, peer, on, ..., runs, ms, ms_least, ms_most, device_ms, queries_per_s, recall, verified, ...}
  {"record":"peer", suite, peer, ..., not_run}
"""

import argparse
import contextlib
import datetime
import importlib
import json
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

SUITES = {
    "exact": ["numpy", "faiss-cpu", "usearch", "torch", "cuvs", "faiss-gpu"],
    "ivf": ["faiss-cpu", "cuvs", "faiss-gpu"],
    "select": ["torch"],
    "reduce": ["torch"],
}
PEERS = SUITES["exact"]
# Packages whose versions are told, where they are installed.
PACKAGES = [
    "numpy", "faiss-cpu", "faiss-gpu", "faiss-gpu-cu11", "faiss-gpu-cu12", "usearch", "torch", "cuvs-cu12", "cuvs-cu13",
]
KINDS = ["normal", "equal", "sorted", "reversed", "infinite-10", "infinite-90", "infinite-99.9", "infinite-100"]
# Queries of a call, neighbours wanted and lists probed, where nobody says and there are as many.
QUERIES, K, PROBES = [1, 1024], 10, [1, 4, 16, 64]
# Squared norms of vectors that are not zeros, for which nearfield promises distances.
SHORTEST, LONGEST = 2.0**-100, 2.0**100
METRICS = ["cosine", "ip", "l2sq", "l2"]
# How much farther than the k-th true neighbour a result may be, as in ann-benchmarks.
TOLERANCE = 1e-3
# Seconds that a case runs before it is timed, and that it takes at most.
WARM_UP, CASE = 0.3, 20.0
LEAST_RUNS = 3
# Batches of queries that are taken in turn, as nearfield's are.
BATCHES = 4
# Bytes of operands that no cache holds.
CACHE = 256 << 20
# Bytes of a matrix of scores in the host's memory, and rows at a time when the truth is computed in f64.
SCORES, PIECE = 256 << 20, 1 << 14
NO_TIME = "no time was left of --budget"
# Whatever a process loads is of its time.
STARTED = time.monotonic()
# Instruction sets that decide what programs on a processor run at.
ISA = ["avx2", "f16c", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8", "amx_tile",
       "asimddp", "i8mm", "sve"]


class NotRun(Exception):
    """Why a peer or a case is not run."""


class Stop(Exception):
    """Why nothing can be run."""


def numbers(text):
    values = [int(part) for part in text.split(",")]
    if min(values) < 1:
        raise ValueError
    return values


def names(text):
    return text.split(",")


def shapes(text):
    pairs = [tuple(int(length) for length in part.split("x")) for part in text.split(",")]
    if any(len(pair) != 2 or min(pair) < 1 for pair in pairs):
        raise ValueError
    return pairs


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    usual = ",".join(SUITES)
    add("--suites", type=names, default=list(SUITES), metavar="NAME,…", help=f"of {usual} (default all)")
    add("--peers", type=names, default=PEERS, metavar="NAME,…", help=f"of {','.join(PEERS)} (default all)")
    add("--rows-file", metavar="FILE", help="file of the rows: .npy, [rows, dim] of f32 or f16, widened to f32")
    add("--queries-file", metavar="FILE", help="file of the queries")
    add("--data", metavar="NAME", help="what the lines call the vectors (default the files)")
    add("--queries", type=numbers, metavar="Q,…",
        help="queries of a call, a case each (default 1,1024, or as many as there are)")
    add("-k", type=numbers, metavar="K,…",
        help="neighbours wanted, a case each; ivf takes the first (default 10, or as many as there are rows)")
    add("--metric", choices=METRICS, default="cosine", help="default cosine; l2 is searched as its square")
    add("--lists", type=int, metavar="N", help="lists (default four times the square root of the rows)")
    add("--probes", type=numbers, metavar="P,…",
        help="lists probed, a case each (default 1,4,16,64, or as many as there are lists)")
    add("--shapes", type=shapes, default=shapes("20000x500,1000x10000,100x100000,10x1000000"), metavar="ROWSxLENGTH,…",
        help="of select, a case each (default 20000x500,1000x10000,100x100000,10x1000000)")
    add("--select-k", type=numbers, default=[1, 16, 256], metavar="K,…", help="of select, a case each (default 1,16,256)")
    add("--values", type=names, default=["normal"], metavar="KIND,…", help=f"of select: {','.join(KINDS)} (default normal)")
    add("--length", type=numbers, default=[1 << 26], metavar="N,…", help="numbers of reduce, a case each (default 2^26)")
    add("--operation", type=names, metavar="NAME,…", help=f"of reduce: {','.join(OPERATIONS)} (default all)")
    add("--threads", type=int, metavar="N", help="threads of peers on the processor (default all)")
    add("--runs", type=int, default=20, metavar="N", help="timed runs of a case at most (default 20)")
    add("--verify", type=int, default=100, metavar="N", help="queries whose results are checked (default 100)")
    add("--seconds", type=float, metavar="S", help="time for everything; cases that are not reached are named")
    add("--quiet", type=float, default=0.0, metavar="S",
        help="wait so long at most, before each case, until the rest of the machine is idle (default 0)")
    add("--device", choices=["gpu", "cpu"], default="gpu", help="where torch computes; cpu only to try the script")
    # Of the program that starts this one: the directory to remove when that is gone. Of this one: what a process does.
    add("--scratch", help=argparse.SUPPRESS)
    add("--job", help=argparse.SUPPRESS)
    add("--limits", help=argparse.SUPPRESS)
    args = parser.parse_args()
    for name in ("threads", "lists", "runs", "verify"):
        value = getattr(args, name)
        if value is not None and value < 1:
            parser.error(f"--{name}: needed at least 1, given {value}")
    args.operation = args.operation or list(OPERATIONS)
    for name, known in (("suites", list(SUITES)), ("peers", PEERS), ("values", KINDS), ("operation", list(OPERATIONS))):
        unknown = [one for one in getattr(args, name) if one not in known]
        if unknown:
            parser.error(f"--{name}: needed of {','.join(known)}, given {','.join(unknown)}")
    args.searches = [suite for suite in args.suites if suite in ("exact", "ivf")]
    if args.searches and not (args.rows_file and args.queries_file):
        parser.error(f"--rows-file, --queries-file: needed for {args.searches[0]}")
    args.threads = args.threads or processors()
    return args


def processors():
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def say(line):
    print(json.dumps(line, allow_nan=False), flush=True)


def first_line(error):
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else repr(error))[:200]


def fetch(module, package):
    """A module, or why there is none."""
    try:
        return importlib.import_module(module)
    # A library may be there and fail in ways of its own.
    except Exception as error:
        raise NotRun(f"needs {package}: {first_line(error)}") from None


# What lies where.


def read(argument, path):
    """The vectors of a file, without reading them yet."""
    try:
        array = numpy.load(path, mmap_mode="r", allow_pickle=False)
        if array.ndim != 2 or array.dtype.kind != "f" or array.dtype.itemsize > 4 or 0 in array.shape:
            raise ValueError(f"needed [rows, dim] of f32 or f16, found {array.dtype} {list(array.shape)}")
    except (OSError, ValueError, EOFError) as error:
        raise Stop(f"{argument} {path}: {first_line(error)}")
    return array


def widened(array):
    """A copy in memory, in f32."""
    return numpy.array(array, dtype=numpy.float32, order="C")


class Vectors:
    """The two files, held against the arguments."""

    def __init__(self, args):
        self.rows, self.queries = read("--rows-file", args.rows_file), read("--queries-file", args.queries_file)
        (count, dim), (there, other) = self.rows.shape, self.queries.shape
        if dim != other:
            raise Stop(f"--queries-file: needed dim {dim}, as --rows-file has, given dim {other}")
        args.lists = args.lists or max(1, min(count, round(4 * count**0.5)))
        args.queries = args.queries or sorted({min(queries, there) for queries in QUERIES})
        args.k = args.k or [min(K, count)]
        args.probes = args.probes or sorted({min(probes, args.lists) for probes in PROBES})
        limits = [
            ("--queries", max(args.queries), there, "as the file has"),
            ("-k", max(args.k), count, "the number of rows"),
        ]
        if "ivf" in args.suites:
            limits.append(("--lists", args.lists, count, "the number of rows"))
            limits.append(("--probes", max(args.probes), args.lists, "the number of lists"))
        for name, given, most, why in limits:
            if given > most:
                raise Stop(f"{name}: needed at most {most}, {why}, given {given}")
        # As many queries as the largest case has, and as are checked in batches of any size.
        self.queries = self.queries[: max(*args.queries, 2 * args.verify)]
        self.about = {"rows": count, "dim": dim, "metric": args.metric, "data": args.data or f"{args.rows_file} with {args.queries_file}"}

    def check(self):
        """Refuses what the suites refuse: what has no distances, or none in the precision that is promised."""
        for argument, array in (("--rows-file", self.rows), ("--queries-file", self.queries)):
            other = None
            for first in range(0, len(array), PIECE):
                piece = array[first : first + PIECE].astype(numpy.float64)
                wrong = numpy.flatnonzero(~numpy.isfinite(piece).all(axis=1))
                if len(wrong):
                    raise Stop(f"{argument}: needed finite values, row {first + wrong[0]} holds a NaN or an infinity")
                squares = numpy.einsum("ij,ij->i", piece, piece)
                wrong = numpy.flatnonzero((squares != 0) & ((squares < SHORTEST) | (squares > LONGEST)))
                if len(wrong) and other is None:
                    other = first + wrong[0]
            if other is not None:
                raise Stop(f"{argument}: needed norms that are 0 or within 2^-50 .. 2^50, row {other} has another")


def norms(vectors):
    """Norms `[rows, 1]`; 1 where the norm is 0, so that a quotient stays 0."""
    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return numpy.where(lengths > 0, lengths, lengths.dtype.type(1))


def between(metric, queries, rows):
    """Distances in f64, `[queries, rows]`, by L2 and not its square. Of products: their error is far below TOLERANCE."""
    queries, rows = queries.astype(numpy.float64), rows.astype(numpy.float64)
    products = queries @ rows.T
    if metric == "ip":
        return -products
    if metric == "cosine":
        return 1 - products / norms(queries) / norms(rows).T
    squares = (queries * queries).sum(1)[:, None] + (rows * rows).sum(1) - 2 * products
    return numpy.sqrt(numpy.maximum(squares, 0))


def limits(metric, rows, queries, counts):
    """The k-th smallest distance of every query, `[queries, counts]`."""
    most = max(counts)
    best = numpy.empty((len(queries), 0))
    for first in range(0, len(rows), PIECE):
        best = numpy.concatenate([best, between(metric, queries, rows[first : first + PIECE])], axis=1)
        if best.shape[1] > most:
            best = numpy.partition(best, most - 1, axis=1)[:, :most]
    best.sort(axis=1)
    return best[:, [k - 1 for k in counts]]


def recall(metric, rows, queries, ids, limit, k):
    """The part of the results that are no farther than the k-th true neighbour."""
    right = 0
    for query, some, most in zip(queries, ids, limit):
        one = numpy.array(sorted({int(place) for place in some[:k] if 0 <= place < len(rows)}), dtype=numpy.int64)
        right += int((between(metric, query[None], rows[one]) <= most + TOLERANCE).sum())
    return right / (len(queries) * k)


# Time.


def busy():
    """Processor seconds that the whole machine has used, where the system tells, and this process."""
    try:
        with open("/proc/stat") as file:
            ticks = [int(part) for part in file.readline().split()[1:9]]
        return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK"), time.process_time()
    except (OSError, ValueError, IndexError):
        return None, time.process_time()


def settle(seconds):
    """Waits until the machine has been idle for half a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and busy()[0] is not None:
        before = busy()[0]
        time.sleep(0.5)
        if busy()[0] - before <= 0.03:
            return


class Clock:
    """The time of a job, and how its cases share it."""

    def __init__(self, args, cases):
        self.args, self.cases = args, cases
        self.end = None if args.seconds is None else STARTED + args.seconds

    def share(self):
        """Seconds for the next case."""
        left = CASE if self.end is None else self.end - time.monotonic()
        if left <= 0:
            raise NotRun(NO_TIME)
        return min(CASE, left / max(1, self.cases))

    def measure(self, call, first, share, on_device=None):
        """Times of a call, which is told its number; `first` is what it took before, in seconds. `on_device` gives the
        milliseconds of a call by the device's clock."""
        settle(self.args.quiet)
        start, number, last = time.perf_counter(), 0, first
        while first < share and time.perf_counter() - start < min(WARM_UP, share / 5):
            last = elapsed(call, number)
            number += 1
        parts = 2 if on_device else 1
        fit = (share - (time.perf_counter() - start)) / parts / max(last, 1e-7)
        runs = int(max(LEAST_RUNS, min(fit, self.args.runs, 1e6)))
        (all_before, own_before), begin = busy(), time.perf_counter()
        # A call that is longer than all the time there is stands for itself.
        times = [first] if first >= share else [elapsed(call, number) for number in range(runs)]
        wall, (all_after, own_after) = max(time.perf_counter() - begin, 1e-9), busy()
        device = [on_device(number) for number in range(runs)] if on_device and first < share else []
        own = (own_after - own_before) / wall
        others = None if all_before is None else round(max((all_after - all_before) / wall - own, 0.0), 2)
        is_whole = wall > 0.2
        return {
            "runs": len(times), **spread("ms", [1e3 * one for one in times]), **spread("device_ms", device),
            # Ticks are a hundredth of a second: of less than twenty they say nothing.
            "own_cpus": round(own, 2) if is_whole else None, "other_cpus": others if is_whole else None,
        }


def elapsed(call, number):
    start = time.perf_counter()
    call(number)
    return time.perf_counter() - start


def spread(name, times):
    if not times:
        return {name: None}
    values = (statistics.median(times), min(times), max(times))
    return {key: round(value, 5) for key, value in zip((name, name + "_least", name + "_most"), values)}


class Gpu:
    """Where torch computes."""

    def __init__(self, args):
        self.torch = torch = fetch("torch", "PyTorch")
        mps = getattr(torch.backends, "mps", None)
        if args.device == "cpu":
            self.name = "cpu"
            torch.set_num_threads(args.threads)
        elif torch.cuda.is_available():
            # CUDA, or ROCm under its name.
            self.name = "cuda"
        elif mps and mps.is_available():
            self.name = "mps"
        else:
            raise NotRun(f"needs a GPU: PyTorch {torch.__version__} finds neither CUDA nor ROCm nor Metal")
        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.manual_seed(1)
        self.wait = {"cuda": torch.cuda.synchronize, "mps": lambda: torch.mps.synchronize(), "cpu": lambda: None}[self.name]

    def timed(self, call, numbers):
        """Milliseconds that calls take by events of the device; None where it has none."""
        if self.name == "cpu":
            return None
        kind = self.torch.cuda.Event if self.name == "cuda" else self.torch.mps.event.Event
        start, end = kind(enable_timing=True), kind(enable_timing=True)
        self.wait()
        start.record()
        for number in numbers:
            call(number)
        end.record()
        self.wait()
        return start.elapsed_time(end)

    def scores(self):
        """Bytes for a matrix of scores; selecting from it takes as many again."""
        return self.torch.cuda.mem_get_info()[0] // 4 if self.name == "cuda" else 1 << 30

    def adapter(self):
        if self.name == "cuda":
            return self.torch.cuda.get_device_name()
        return "Apple GPU" if self.name == "mps" else None


# Peers that search. Each has `search`: arrays in the host's memory to ids there. Those on a GPU have `near`: the same there.


class Numpy:
    """A product of matrices, then the k best of every row of it."""

    on = "cpu"

    def __init__(self, _, rows, metric):
        self.metric = metric
        self.rows = rows / norms(rows) if metric == "cosine" else rows
        self.squares = (rows * rows).sum(1) if metric in ("l2sq", "l2") else None
        self.block = max(1, min(250, SCORES // (4 * len(rows))))

    def search(self, queries, k):
        return numpy.concatenate([self.some(queries[at : at + self.block], k) for at in range(0, len(queries), self.block)])

    def some(self, queries, k):
        # Norms of queries change no order.
        scores = queries @ self.rows.T
        if self.squares is not None:
            scores *= -2
            scores += self.squares
        else:
            numpy.negative(scores, out=scores)
        best = numpy.argpartition(scores, k - 1, axis=1)[:, :k]
        order = numpy.argsort(numpy.take_along_axis(scores, best, axis=1), axis=1)
        return numpy.take_along_axis(best, order, axis=1)


class Usearch:
    """usearch's exact search."""

    on = "cpu"

    def __init__(self, args, rows, metric):
        self.module, self.rows, self.threads = fetch("usearch.index", "usearch"), rows, args.threads
        self.metric = {"cosine": "cos", "ip": "ip"}.get(metric, "l2sq")

    def search(self, queries, k):
        found = self.module.search(self.rows, queries, k, metric=self.metric, exact=True, threads=self.threads)
        return numpy.atleast_2d(found.keys).astype(numpy.int64)


class Faiss:
    """An index of faiss on a processor or a GPU, flat or of lists."""

    def __init__(self, args, rows, metric, is_ivf, is_gpu):
        self.on = "cuda" if is_gpu else "cpu"
        faiss = fetch("faiss", "faiss-gpu" if is_gpu else "faiss-cpu")
        faiss.omp_set_num_threads(args.threads)
        if is_gpu and not (hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0):
            raise NotRun(f"needs faiss with a GPU: this is {faiss.__version__}, which finds none")
        dim, self.is_cosine = rows.shape[1], metric == "cosine"
        is_l2 = metric in ("l2sq", "l2")
        kind = faiss.METRIC_L2 if is_l2 else faiss.METRIC_INNER_PRODUCT
        self.resources = faiss.StandardGpuResources() if is_gpu else None
        if is_gpu and is_ivf:
            self.index = faiss.GpuIndexIVFFlat(self.resources, dim, args.lists, kind)
        elif is_gpu:
            self.index = (faiss.GpuIndexFlatL2 if is_l2 else faiss.GpuIndexFlatIP)(self.resources, dim)
        else:
            self.index = (faiss.IndexFlatL2 if is_l2 else faiss.IndexFlatIP)(dim)
            if is_ivf:
                # Its constructor in Python keeps the quantizer alive.
                self.index = faiss.IndexIVFFlat(self.index, dim, args.lists, kind)
        rows = rows / norms(rows) if self.is_cosine else rows
        if not self.index.is_trained:
            self.index.train(rows)
        self.index.add(rows)

    def probe(self, probes):
        self.index.nprobe = probes

    def search(self, queries, k):
        return self.index.search(queries / norms(queries) if self.is_cosine else queries, k)[1]


class OnGpu:
    """What peers share whose arrays are torch's."""

    def __init__(self, gpu, rows, metric):
        self.gpu, self.torch, self.on, self.metric = gpu, gpu.torch, gpu.name, metric
        self.rows = self.there(rows)

    def there(self, array):
        return self.torch.from_numpy(array).to(self.on)

    def search(self, queries, k):
        ids, distances = self.near(self.there(queries), k)
        distances.cpu()
        return ids.cpu().numpy()


class Torch(OnGpu):
    """A product of matrices, then the k largest of every row."""

    def __init__(self, gpu, rows, metric, kind):
        super().__init__(gpu, rows, metric)
        rows = self.rows
        self.squares = (rows * rows).sum(1).to(kind) if metric in ("l2sq", "l2") else None
        self.rows = (self.torch.nn.functional.normalize(rows) if metric == "cosine" else rows).to(kind)
        del rows
        self.block = max(1, min(1024, gpu.scores() // (len(self.rows) * self.rows.element_size())))

    def near(self, queries, k):
        torch, ids, distances = self.torch, [], []
        for some in queries.split(self.block):
            if self.metric == "cosine":
                some = torch.nn.functional.normalize(some)
            narrow = some.to(self.rows.dtype)
            if self.squares is not None:
                scores = torch.addmm(self.squares, narrow, self.rows.T, beta=-1, alpha=2)
            else:
                scores = narrow @ self.rows.T
            best, places = torch.topk(scores, k, dim=1)
            best = best.float()
            ids.append(places)
            if self.squares is not None:
                distances.append((some * some).sum(1, keepdim=True) - best)
            else:
                distances.append(1 - best if self.metric == "cosine" else -best)
        return torch.cat(ids), torch.cat(distances)


class Cuvs(OnGpu):
    """cuVS' brute force, or its lists."""

    def __init__(self, args, rows, metric, is_ivf):
        module = fetch("cuvs.neighbors." + ("ivf_flat" if is_ivf else "brute_force"), "cuVS")
        gpu = Gpu(args)
        if gpu.name != "cuda":
            raise NotRun("needs PyTorch with CUDA beside cuVS")
        super().__init__(gpu, rows, metric)
        self.module, self.parameters, self.is_normed = module, None, False
        kind = {"ip": "inner_product", "cosine": "cosine"}.get(metric, "sqeuclidean")
        if not is_ivf:
            # The index may refer to the rows, so they have to stay.
            self.index = module.build(self.rows, metric=kind)
        else:
            # On rows and queries of norm 1 the order by L2 is that by cosine.
            self.is_normed = metric == "cosine"
            self.rows = self.torch.nn.functional.normalize(self.rows) if self.is_normed else self.rows
            kind = "sqeuclidean" if self.is_normed else kind
            self.index = module.build(module.IndexParams(n_lists=args.lists, metric=kind), self.rows)
        gpu.wait()

    def probe(self, probes):
        self.parameters = self.module.SearchParams(n_probes=probes)

    def near(self, queries, k):
        if self.is_normed:
            queries = self.torch.nn.functional.normalize(queries)
        before = [] if self.parameters is None else [self.parameters]
        distances, ids = self.module.search(*before, self.index, queries, k)
        return self.torch.as_tensor(ids, device=self.on), self.torch.as_tensor(distances, device=self.on)


def searchers(args, suite, peer, rows):
    """Names of what is measured of a peer, and how to build it."""
    metric, is_ivf = args.metric, suite == "ivf"
    if peer == "numpy":
        return [("numpy", lambda: Numpy(args, rows, metric))]
    if peer == "usearch":
        return [("usearch", lambda: Usearch(args, rows, metric))]
    if peer == "cuvs":
        return [("cuvs", lambda: Cuvs(args, rows, metric, is_ivf))]
    if peer in ("faiss-cpu", "faiss-gpu"):
        return [(peer, lambda: Faiss(args, rows, metric, is_ivf, peer == "faiss-gpu"))]
    gpu = Gpu(args)
    kinds = [("torch-f32", gpu.torch.float32), ("torch-f16", gpu.torch.float16)]
    return [(name, lambda kind=kind: Torch(gpu, rows, metric, kind)) for name, kind in kinds]


def search(args, suite, peer):
    """Suites exact and ivf of a peer."""
    vectors = Vectors(args)
    base = {"record": "peer", "suite": suite, "peer": peer, **vectors.about}
    with job(base):
        rows, queries = widened(vectors.rows), widened(vectors.queries)
        limit = numpy.load(args.limits)
        makers = searchers(args, suite, peer, rows)
        wanted = args.k[:1] if suite == "ivf" else args.k
        probes = args.probes if suite == "ivf" else [None]
        clock = Clock(args, len(makers) * len(wanted) * len(probes) * len(args.queries))
        for name, make in makers:
            with job({**base, "peer": name}):
                start = time.perf_counter()
                one = make()
                case = {**base, "peer": name, "on": one.on, "threads": args.threads if one.on == "cpu" else None}
                case["build_ms"] = round((time.perf_counter() - start) * 1e3, 3)
                for some in probes:
                    if some is not None:
                        one.probe(some)
                        case.update(lists=args.lists, probes=some)
                    for count in args.queries:
                        for k in wanted:
                            line = {**case, "queries": count, "k": k}
                            with job(line):
                                line.update(searched(args, clock, one, (rows, queries), limit[:, args.k.index(k)], count, k))
                                say(line)
                            clock.cases -= 1
                # The next one needs its memory.
                del one


def searched(args, clock, peer, vectors, limit, count, k):
    """Checks what a peer finds, then times it."""
    share = clock.share()
    rows, queries = vectors
    batches = [queries[at : at + count] for at in range(0, len(queries) - count + 1, count)]
    start = time.perf_counter()
    found = [peer.search(batches[0], k)]
    first, checked = time.perf_counter() - start, min(len(limit), count)
    # A few queries would say little about lists; but what is checked must not take the time of what is measured.
    for number in range(1, len(batches)):
        if checked >= len(limit) or time.perf_counter() - start > share / 2:
            break
        found.append(peer.search(batches[number], k))
        checked = min(len(limit), (number + 1) * count)
    ids = numpy.concatenate(found)[:checked]
    part = recall(args.metric, rows, queries[:checked], ids, limit[:checked], k)
    batches, on_device = batches[:BATCHES], None
    if isinstance(peer, OnGpu):
        there = [peer.there(batch) for batch in batches]
        if peer.on != "cpu":
            on_device = lambda number: peer.gpu.timed(lambda number: peer.near(there[number % len(there)], k), [number])
    times = clock.measure(lambda number: peer.search(batches[number % len(batches)], k), first, share, on_device)
    rate = round(count / times["ms"] * 1e3, 2)
    return {**times, "queries_per_s": rate, "recall": round(part, 6), "verified": checked, "rotated": len(batches)}


# Selections and reductions of what lies on a GPU.


def kernel(gpu, clock, line, launch, finish, moved, copies):
    """Times what is launched on operands on the device, and tells it."""
    share = clock.share()

    def whole(number):
        finish(launch(number))

    on_device = None if gpu.name == "cpu" else lambda number: gpu.timed(launch, [number])
    line.update(clock.measure(whole, elapsed(whole, 0), share, on_device))
    together = gpu.timed(launch, range(line["runs"]))
    line["back_to_back_ms"] = None if together is None else round(together / line["runs"], 5)
    line["bytes_per_s"] = round(moved / (line["device_ms"] or line["ms"]) * 1e3)
    line.update(verified=True, rotated=copies)
    say(line)


def copies_of(size):
    """Copies of operands that are taken in turn, so that they do not come from a cache."""
    return max(1, min(64, -(-CACHE // size)))


def made(gpu, rows, length, kind):
    """The same kinds of elements as those of `nearfield bench select`."""
    torch = gpu.torch
    normal = torch.randn(rows, length, device=gpu.name) * 100 + 10
    if kind == "normal":
        return normal
    if kind == "equal":
        return torch.full_like(normal, -0.25)
    if kind in ("sorted", "reversed"):
        row = torch.arange(length, device=gpu.name, dtype=torch.float32) - length / 2
        return (row if kind == "sorted" else -row).expand(rows, length).contiguous()
    normal[torch.rand_like(normal) < float(kind.partition("-")[2]) / 100] = float("inf")
    return normal


def is_selected(torch, values, k, smallest, places):
    """Whether these are the k smallest of each row, in order, each from a place of its own. Some rows at a time: a sort
    takes memory."""
    rows = max(1, (1 << 26) // values.shape[1])
    for start in range(0, len(values), rows):
        some, found, at = (array[start : start + rows] for array in (values, smallest, places))
        ordered = torch.sort(at, dim=1).values
        is_there = torch.equal(torch.gather(some, 1, at), found)
        is_least = torch.equal(found, torch.sort(some, dim=1).values[:, :k])
        if not (is_there and is_least) or bool((ordered[:, 1:] == ordered[:, :-1]).any()):
            return False
    return True


def select(args, suite, peer):
    base = {"record": "peer", "suite": suite, "peer": peer}
    with job(base):
        gpu = Gpu(args)
        torch = gpu.torch
        cases = [(shape, kind, [k for k in args.select_k if k <= shape[1]]) for shape in args.shapes for kind in args.values]
        clock = Clock(args, sum(len(wanted) for _, _, wanted in cases))
        for (rows, length), kind, wanted in cases:
            shape = {**base, "on": gpu.name, "rows": rows, "length": length, "values": kind}
            with job(shape):
                copies = [made(gpu, rows, length, kind)]
                copies += [copies[0].clone() for _ in range(copies_of(4 * rows * length) - 1)]
                for k in wanted:
                    line = {**shape, "k": k}

                    def launch(number):
                        return torch.topk(copies[number % len(copies)], k, dim=1, largest=False, sorted=True)

                    with job(line):
                        clock.share()
                        if not is_selected(torch, copies[0], k, *launch(0)):
                            raise NotRun("its result is wrong")
                        kernel(gpu, clock, line, launch, lambda _: gpu.wait(), 4 * rows * length, len(copies))
                    clock.cases -= 1


# Name: operands, and the call.
OPERATIONS = {
    "copy": (2, lambda torch, a, b: b.copy_(a)),
    "dot": (2, lambda torch, a, b: torch.dot(a, b)),
    "sum": (1, lambda torch, a, b: torch.sum(a)),
    "mean": (1, lambda torch, a, b: torch.mean(a)),
    "l1": (1, lambda torch, a, b: torch.linalg.vector_norm(a, 1)),
    "l2": (1, lambda torch, a, b: torch.linalg.vector_norm(a)),
    "max-norm": (1, lambda torch, a, b: torch.linalg.vector_norm(a, float("inf"))),
    "min": (1, lambda torch, a, b: torch.min(a)),
    "max": (1, lambda torch, a, b: torch.max(a)),
    "argmin": (1, lambda torch, a, b: torch.argmin(a)),
    "argmax": (1, lambda torch, a, b: torch.argmax(a)),
}


def sums(a, b):
    """What the results have to be, in f64 and piece by piece: f64 of everything may not fit the memory."""
    parts = []
    for first in range(0, len(a), 1 << 22):
        one, other = (array[first : first + (1 << 22)].astype(numpy.float64) for array in (a, b))
        products = one * other
        parts.append((products.sum(), abs(products).sum(), one.sum(), abs(one).sum(), (one * one).sum()))
    dot, dot_scale, total, scale, squares = (float(sum(column)) for column in zip(*parts))
    return {
        # The result, and what its error is relative to.
        "dot": (dot, dot_scale), "sum": (total, scale), "mean": (total / len(a), scale / len(a)), "l1": (scale, scale),
        "l2": (squares**0.5, squares**0.5), "max-norm": (float(abs(a).max()), 0),
        "min": (float(a.min()), 0), "max": (float(a.max()), 0),
    }


def fault(operation, result, host, target, truth):
    """The error of a result; None of those that are right or wrong."""
    if operation == "copy":
        error = None if numpy.array_equal(target.cpu().numpy(), host) else 1.0
    elif operation in ("argmin", "argmax"):
        # torch does not promise which of equal numbers.
        error = None if host[int(result.item())] == truth[operation[3:]][0] else 1.0
    else:
        true, scale = truth[operation]
        off = abs(result.item() - true)
        error = off / scale if scale else (0.0 if off == 0 else 1.0)
    if error is not None and error > 1e-4:
        raise NotRun("its result is wrong")
    return error


def reduce(args, suite, peer):
    base = {"record": "peer", "suite": suite, "peer": peer}
    with job(base):
        gpu = Gpu(args)
        torch = gpu.torch
        clock = Clock(args, len(args.length) * len(args.operation))
        for length in args.length:
            of = {**base, "on": gpu.name, "elements": "f32", "summation": "plain", "length": length}
            with job(of):
                # Around 1, as those of nearfield: the sum is about as large as its magnitudes.
                a, b = (torch.randn(length, device=gpu.name) * 0.5 + 1 for _ in range(2))
                host, target = a.cpu().numpy(), torch.empty_like(a)
                truth = sums(host, b.cpu().numpy())
                copies = [(a, b)] + [(a.clone(), b.clone()) for _ in range(copies_of(4 * length) - 1)]
                for operation in args.operation:
                    line = {**of, "operation": operation}
                    operands, of_torch = OPERATIONS[operation]

                    def launch(number):
                        one, other = copies[number % len(copies)]
                        return of_torch(torch, one, target if operation == "copy" else other)

                    def finish(result):
                        return gpu.wait() if operation == "copy" else result.item()

                    with job(line):
                        clock.share()
                        line["error"] = fault(operation, launch(0), host, target, truth)
                        kernel(gpu, clock, line, launch, finish, 4 * operands * length, len(copies))
                    clock.cases -= 1


# Processes: one that starts the others, and one for every peer of a suite.


@contextlib.contextmanager
def job(line):
    """Says why something is not run, where it fails, and goes on."""
    try:
        yield
    except BrokenPipeError:
        raise
    except NotRun as reason:
        say({**line, "not_run": str(reason)})
    except MemoryError as error:
        say({**line, "not_run": f"out of memory: {first_line(error)}"})
    # A library may fail in ways of its own.
    except Exception as error:
        say({**line, "not_run": f"{type(error).__name__}: {first_line(error)}"})


def printed(*command):
    """The first line that a program prints, if there is such a program."""
    try:
        text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return text.strip().partition("\n")[0].strip() or None


def processor():
    """The processor's name, and those of its instruction sets that matter here."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line.partition(":") for line in file]
    except OSError:
        name = printed("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor() or platform.machine()
        return name, None
    of = {name.strip(): value.strip() for name, _, value in reversed(lines)}
    flags = set(of.get("flags", of.get("Features", "")).split())
    return of.get("model name", platform.machine()), [one for one in ISA if one in flags]


def about(args):
    """What the peers run on."""
    cpu, isa = processor()
    card = printed("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    adapter, _, driver = (card or "").partition(",")
    if not adapter and "torch" in args.peers:
        try:
            adapter = Gpu(args).adapter()
        except NotRun:
            pass
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            pass
    say({
        "record": "peers", "adapter": adapter or cpu, "driver": driver.strip() or None, "cpu": cpu, "isa": isa,
        "threads": args.threads, "python": platform.python_version(), "versions": versions,
        "os": f"{platform.system()} {platform.release()} {platform.machine()}", "date": datetime.date.today().isoformat(),
    })


class Parent:
    """The process that starts the others."""

    def __init__(self, args):
        self.args, self.child = args, None
        self.scratch = args.scratch or tempfile.mkdtemp(prefix="nearfield-peers-")

    def follow(self):
        """Waits until the program that started this one is ready and says how much time there is, and ends with it: its end
        closes the standard input."""
        # Not by sys.stdin: its lock would be in the way at the end.
        line = b""
        while not line.endswith(b"\n"):
            one = os.read(0, 1)
            if not one:
                self.end()
            line += one
        self.args.seconds = float(line) if line.strip() else None

        def wait():
            while os.read(0, 1):
                pass
            self.end()

        threading.Thread(target=wait, daemon=True).start()

    def end(self):
        self.clear()
        os._exit(1)

    def clear(self):
        child = self.child
        if child and child.poll() is None:
            child.kill()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def start(self, name, *more, timeout=None):
        """Runs a process of this script, and says why it did not end as it should."""
        command = [sys.executable, os.path.abspath(__file__), *sys.argv[1:], "--job", name, *more]
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        try:
            status = self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            return "it took longer than its share of --budget"
        if status < 0:
            by = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
            return f"it was ended by {by}" + (", as for want of memory" if by == "SIGKILL" else "")
        return f"it ended with exit status {status}" if status else None

    def run(self):
        args = self.args
        end = None if args.seconds is None else time.monotonic() + args.seconds
        vectors = Vectors(args) if args.searches else None
        if vectors:
            vectors.check()
        self.start("about")
        more, base = [], {}
        if vectors:
            base = vectors.about
            limit = os.path.join(self.scratch, "limits.npy")
            numpy.save(limit, limits(args.metric, vectors.rows, widened(vectors.queries[: args.verify]), args.k))
            more = ["--limits", limit, "--lists", str(args.lists)]
        jobs = [(suite, peer) for suite in args.suites for peer in SUITES[suite] if peer in args.peers]
        for number, (suite, peer) in enumerate(jobs):
            line = {"record": "peer", "suite": suite, "peer": peer, **(base if suite in args.searches else {})}
            time_of, timeout = [], None
            if end is not None:
                share = (end - time.monotonic()) / (len(jobs) - number)
                if share <= 0:
                    say({**line, "not_run": NO_TIME})
                    continue
                # A single call of a slow peer may be longer; what hangs is not waited for.
                time_of, timeout = ["--seconds", str(share)], 60 + 4 * share
            reason = self.start(f"{suite}:{peer}", *more, *time_of, timeout=timeout)
            if reason:
                say({**line, "not_run": reason})


def fail(args, reason):
    """Ends with a reason; the program that started this one says it in its own way."""
    if not args.scratch:
        sys.exit(f"error: {reason}")
    say({"record": "failed", "reason": reason})
    sys.exit(1)


def main():
    global numpy
    args = parse()
    # The threads of numpy's BLAS are chosen when it is loaded.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(args.threads)
    parent = None
    try:
        if not args.job:
            parent = Parent(args)
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
            if args.scratch:
                parent.follow()
        try:
            import numpy
        except ImportError as error:
            raise Stop(f"needed numpy, this Python ({sys.executable}) has none: {first_line(error)}") from None
        if parent:
            parent.run()
            return
        # An interrupt ends this process without a word; the one that started it cleans up.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        suite, _, peer = args.job.partition(":")
        if suite == "about":
            about(args)
        else:
            {"exact": search, "ivf": search, "select": select, "reduce": reduce}[suite](args, suite, peer)
    except Stop as reason:
        fail(args, str(reason))
    except (BrokenPipeError, KeyboardInterrupt):
        # Whoever reads has gone, or has had enough. The last lines must not be tried again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(130)
    finally:
        if parent:
            parent.clear()


if __name__ == "__main__":
    main()
