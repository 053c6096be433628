#!/usr/bin/env python3
"""Times other libraries at the work that `nearfield bench` times, on the same vectors.

`nearfield bench peers` runs this script, which is part of the program. It also runs alone, on .npy files:

    python3 -m venv venv && venv/bin/pip install -r cli/src/bench/peers/requirements.txt
    venv/bin/python cli/src/bench/peers/peers.py --rows-file base.npy --queries-file query.npy > peers.jsonl

It needs Python 3.9 and numpy 2. Each library runs in a process of its own for each suite; one that is not installed or
fails is named with the reason. docs/benchmark.md says what is timed and lists the fields of the JSON lines.
"""

import argparse
import contextlib
import importlib.metadata
import itertools
import json
import multiprocessing
import os
import platform
import shutil
import signal
import subprocess
import sys
import threading
import time

try:
    import numpy as np
except ImportError as error:
    print(json.dumps({"record": "failed", "reason": f"needed numpy: {error}"}))
    sys.exit(1)

PACKAGES = "numpy faiss-cpu faiss-gpu faiss-gpu-cu11 faiss-gpu-cu12 usearch torch cuvs-cu12 cuvs-cu13".split()
THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
# Seconds of warm-up, of a case, and of everything without --budget.
WARM_UP, CASE, UNLIMITED = 0.3, 20.0, 4e5
# Batches of queries that take turns; queries whose answers are checked.
BATCHES, CHECKED = 4, 100
# How much farther than the k-th true neighbour a result may be, as in ann-benchmarks; the largest error of a reduction.
TOLERANCE, LARGEST_ERROR = 1e-3, 1e-4
# Bytes that no cache holds; rows converted to f64 at a time.
CACHE, PIECE = 256 << 20, 1 << 14
# Options, how they are read, and their defaults.
NAMES, NUMBERS = lambda text: text.split(","), lambda text: [int(part) for part in text.split(",")]
OPTIONS = [
    ("suites", NAMES, "exact,ivf,select,reduce"), ("peers", NAMES, "numpy,faiss-cpu,usearch,torch,cuvs,faiss-gpu"),
    ("rows-file", str, "rows.npy"), ("queries-file", str, "queries.npy"), ("data", str, "files"),
    ("metric", str, "cosine"), ("queries", NUMBERS, "1,1024"), ("k", NUMBERS, "10"), ("lists", int, "1000"),
    ("probes", NUMBERS, "1,4,16,64"), ("shapes", NAMES, "20000x500,1000x10000,100x100000,10x1000000"),
    ("select-k", NUMBERS, "1,16,256"), ("length", NUMBERS, "67108864"), ("runs", int, "20"),
]


def say(line):
    print(json.dumps(line, allow_nan=False), flush=True)


@contextlib.contextmanager
def attempt(line, reason="not_run"):
    """Says why a line has no figures when the block fails, and goes on."""
    try:
        yield
    except Exception as error:
        say({**line, reason: (str(error).strip() or repr(error)).splitlines()[0][:200]})


def prepare(args):
    """Checks the files, and finds how far the true neighbours of some queries are. Returns identity fields."""
    rows, queries = np.load(args.rows_file, mmap_mode="r"), np.load(args.queries_file, mmap_mode="r")
    for argument, array in ("--rows-file", rows), ("--queries-file", queries):
        squares = np.einsum("ij,ij->i", array, array, dtype=np.float64)
        outside = (squares != 0) & ((squares < 2.0**-100) | (squares > 2.0**100))
        for wrong, needed in (
            (~np.isfinite(squares), "finite values, row {} holds a NaN or an infinity"),
            (outside, "norms that are 0 or within 2^-50 .. 2^50, row {} has another"),
        ):
            if wrong.any():
                raise ValueError(f"{argument}: needed " + needed.format(wrong.argmax()))
    if rows.shape[1] != queries.shape[1]:
        raise ValueError(f"--queries-file: needed dim {rows.shape[1]}, as --rows-file has, given {queries.shape[1]}")
    # The k-th smallest distance of every checked query for each k, [queries, k].
    best = np.empty((len(queries[:CHECKED]), 0))
    for first in range(0, len(rows), PIECE):
        best = np.hstack([best, distances(args.metric, queries[:CHECKED], rows[first : first + PIECE])])
        best = np.sort(best, axis=1)[:, : max(args.k)]
    args.limits = best[:, [k - 1 for k in args.k]]
    return {"rows": len(rows), "dim": rows.shape[1], "metric": args.metric, "data": args.data}


def normalized(vectors):
    """Vectors of norm 1; zero vectors stay zero."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)


def distances(metric, queries, rows):
    """Distances in f64, [queries, rows], by L2 for l2sq too. The error of products is far below TOLERANCE."""
    queries, rows = queries.astype(np.float64), rows.astype(np.float64)
    if metric == "cosine":
        queries, rows = normalized(queries), normalized(rows)
    products = queries @ rows.T
    if metric in ("cosine", "ip"):
        return -products
    squares = (queries * queries).sum(1)[:, None] + (rows * rows).sum(1) - 2 * products
    return np.sqrt(np.maximum(squares, 0))


def recall(metric, rows, queries, ids, limits):
    """The share of the results that are no farther than the k-th true neighbour. An id counts once."""
    right = 0
    for query, found, limit in zip(queries, ids, limits):
        found = np.unique(found[found >= 0])
        right += int((distances(metric, query[None], rows[found]) <= limit + TOLERANCE).sum())
    return right / ids.size


def repeat(call, least, most, seconds):
    """Calls with the turn until the time is over, and returns the results."""
    end, results = time.perf_counter() + seconds, []
    while len(results) < least or (len(results) < most and time.perf_counter() < end):
        results.append(call(len(results)))
    return results


def measure(args, call, on_device=None):
    """Times a call, which is told its turn, in a quarter of the time that this process has left. `on_device` calls and
    returns the milliseconds by the device's clock."""
    seconds = min(CASE, (args.end - time.monotonic()) / 4)
    if seconds <= 0:
        raise TimeoutError("no time was left of --budget")

    def timed(turn):
        start = time.perf_counter()
        call(turn)
        return (time.perf_counter() - start) * 1e3

    first = repeat(timed, 1, sys.maxsize, min(WARM_UP, seconds / 5))[0]
    bounds = (3 if first < seconds * 1e3 else 1), args.runs, seconds / 2
    times = repeat(timed, *bounds)
    figures = {"runs": len(times), "device_ms": None}
    for name, results in ("ms", times), ("device_ms", on_device and repeat(on_device, *bounds)):
        if results:
            spread = {name: np.median(results), name + "_least": min(results), name + "_most": max(results)}
            figures.update((key, round(float(figure), 5)) for key, figure in spread.items())
    return figures


# Libraries that search: `search` takes arrays on the host and returns ids there; on a GPU, `near` does the same there.


class Numpy:
    def __init__(self, _, rows, metric, lists):
        self.rows = normalized(rows) if metric == "cosine" else rows
        # Half the squares of the rows minus the products; the norms of queries change no order.
        self.offsets = (rows * rows).sum(1) / 2 if metric in ("l2sq", "l2") else 0
        self.block = max(1, min(250, CACHE // (4 * len(rows))))

    def search(self, queries, k):
        found = []
        for first in range(0, len(queries), self.block):
            scores = queries[first : first + self.block] @ self.rows.T
            np.subtract(self.offsets, scores, out=scores)
            best = np.argpartition(scores, k - 1, axis=1)[:, :k]
            order = np.argsort(np.take_along_axis(scores, best, axis=1), axis=1)
            found.append(np.take_along_axis(best, order, axis=1))
        return np.concatenate(found)


class Usearch:
    def __init__(self, _, rows, metric, lists):
        self.module, self.rows = importlib.import_module("usearch.index"), rows
        self.metric = {"cosine": "cos", "ip": "ip"}.get(metric, "l2sq")

    def search(self, queries, k):
        found = self.module.search(self.rows, queries, k, metric=self.metric, exact=True, threads=0)
        return np.atleast_2d(found.keys).astype(np.int64)


class Faiss:
    def __init__(self, peer, rows, metric, lists):
        faiss, is_gpu = importlib.import_module("faiss"), peer == "faiss-gpu"
        if is_gpu and not (hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0):
            raise RuntimeError(f"needs faiss with a GPU: this is {faiss.__version__}, which finds none")
        self.is_cosine = metric == "cosine"
        kind = faiss.METRIC_L2 if metric in ("l2sq", "l2") else faiss.METRIC_INNER_PRODUCT
        self.index = faiss.index_factory(rows.shape[1], f"IVF{lists},Flat" if lists else "Flat", kind)
        if is_gpu:
            self.resources = faiss.StandardGpuResources()
            self.index = faiss.index_cpu_to_gpu(self.resources, 0, self.index)
        rows = normalized(rows) if self.is_cosine else rows
        self.index.train(rows)
        self.index.add(rows)

    def probe(self, probes):
        self.index.nprobe = probes

    def search(self, queries, k):
        return self.index.search(normalized(queries) if self.is_cosine else queries, k)[1]


class Gpu:
    """The GPU that torch computes on: CUDA, or ROCm under its name."""

    def __init__(self):
        self.torch = torch = importlib.import_module("torch")
        if not torch.cuda.is_available():
            raise RuntimeError(f"needs a GPU: PyTorch {torch.__version__} finds neither CUDA nor ROCm")
        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.manual_seed(1)
        self.wait = torch.cuda.synchronize

    def upload(self, array):
        return self.torch.from_numpy(array).to("cuda")

    def search(self, queries, k):
        ids, distances = self.near(self.upload(queries), k)
        distances.cpu()
        return ids.cpu().numpy()

    def timed(self, call, turns):
        """Milliseconds that calls take by the device's events."""
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.wait()
        start.record()
        for turn in turns:
            call(turn)
        end.record()
        self.wait()
        return start.elapsed_time(end)


class Torch(Gpu):
    def __init__(self, peer, rows, metric, lists):
        super().__init__()
        rows, kind = self.upload(rows), getattr(self.torch, peer.replace("torch-f", "float"))
        self.metric, self.normalize = metric, self.torch.nn.functional.normalize
        self.squares = (rows * rows).sum(1).to(kind) if metric in ("l2sq", "l2") else None
        self.rows = (self.normalize(rows) if metric == "cosine" else rows).to(kind)
        del rows
        # A block of scores takes a quarter of the free memory, because selecting from it takes as much again.
        free = self.torch.cuda.mem_get_info()[0]
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
    def __init__(self, _, rows, metric, lists):
        self.module = importlib.import_module("cuvs.neighbors." + ("ivf_flat" if lists else "brute_force"))
        super().__init__()
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
        return self.torch.as_tensor(ids, device="cuda"), self.torch.as_tensor(distances, device="cuda")


def search(args, line):
    """Builds the index of a library, and checks and times its searches."""
    suite, peer = line["suite"], line["peer"]
    lists = args.lists if suite == "ivf" else None
    rows = np.ascontiguousarray(np.load(args.rows_file), np.float32)
    queries = np.ascontiguousarray(np.load(args.queries_file)[: max(*args.queries, 2 * CHECKED)], np.float32)
    start = time.perf_counter()
    index = LIBRARIES[peer.split("-")[0]](peer, rows, args.metric, lists)
    built = round((time.perf_counter() - start) * 1e3, 3)
    on, threads = ("cpu", THREADS) if peer in ("numpy", "faiss-cpu", "usearch") else ("cuda", None)
    line = {**line, "on": on, "threads": threads, "build_ms": built}
    limits = list(zip(args.k, args.limits.T))[: 1 if lists else None]
    for probes, count, (k, limit) in itertools.product(args.probes if lists else [None], args.queries, limits):
        if lists:
            index.probe(probes)
            line.update(lists=lists, probes=probes)
        case = {**line, "queries": count, "k": k}
        with attempt(case):
            part = recall(args.metric, rows, queries, index.search(queries[: len(limit)], k), limit)
            turns = min(BATCHES, len(queries) // count)
            batches, on_device = np.split(queries[: turns * count], turns), None
            if isinstance(index, Gpu):
                there = [index.upload(batch) for batch in batches]
                on_device = lambda turn: index.timed(lambda turn: index.near(there[turn % turns], k), [turn])
            case.update(measure(args, lambda turn: index.search(batches[turn % turns], k), on_device))
            rate = round(count / case["ms"] * 1e3, 2)
            say({**case, "queries_per_s": rate, "recall": round(part, 6), "verified": len(limit), "rotated": turns})


def copies(gpu, least, shape, spread, mean):
    """Enough arrays of normal numbers that no cache holds them all."""
    count = max(least, min(64, -(-CACHE // (4 * int(np.prod(shape))))))
    return [gpu.torch.randn(*shape, device="cuda") * spread + mean for _ in range(count)]


def kernel(args, gpu, line, launch, finish, error_of, moved):
    """Checks the first result of a selection or a reduction of values on a GPU, and times it."""
    with attempt(line):
        error = float(error_of(launch(0)))
        if not error <= LARGEST_ERROR:
            raise ValueError("its result is wrong")
        times = measure(args, lambda turn: finish(launch(turn)), lambda turn: gpu.timed(launch, [turn]))
        together = round(gpu.timed(launch, range(times["runs"])) / times["runs"], 5)
        rate = round(moved / times["device_ms"] * 1e3)
        say({**line, **times, "back_to_back_ms": together, "bytes_per_s": rate, "error": error, "verified": True})


def select(args, line):
    gpu = Gpu()
    for rows, length in (map(int, shape.split("x")) for shape in args.shapes):
        values = copies(gpu, 1, (rows, length), 100, 10)
        for k in args.select_k:

            def error_of(found):
                wanted = values[0].sort(dim=1).values[:, :k]
                is_right = gpu.torch.equal(found[0], wanted) and gpu.torch.equal(values[0].gather(1, found[1]), wanted)
                return 0 if is_right else float("inf")

            launch = lambda turn: values[turn % len(values)].topk(k, dim=1, largest=False, sorted=True)
            fields = {"on": "cuda", "rows": rows, "length": length, "values": "normal", "k": k, "rotated": len(values)}
            kernel(args, gpu, {**line, **fields}, launch, lambda _: gpu.wait(), error_of, 4 * rows * length)


# The same calls reduce in torch, and in numpy to check them.
METHODS = ["sum", "mean", "min", "max", "argmin", "argmax"]
OPERATIONS = {
    "dot": lambda library, a, b: library.dot(a, b),
    "l1": lambda library, a, b: library.linalg.vector_norm(a, ord=1),
    "l2": lambda library, a, b: library.linalg.vector_norm(a),
    "max-norm": lambda library, a, b: library.linalg.vector_norm(a, ord=float("inf")),
    **{name: lambda library, a, b, name=name: getattr(a, name)() for name in METHODS},
}


def reduce(args, line):
    gpu = Gpu()
    for length, (operation, call) in itertools.product(args.length, OPERATIONS.items()):
        # Around 1, as in nearfield's suite: the sum is about as large as the magnitudes that go into it.
        values = copies(gpu, 2, (length,), 0.5, 1)
        # Half of the arrays apart, so that no array is read again before the others.
        operands = lambda turn: (values[turn % len(values)], values[(turn + len(values) // 2) % len(values)])

        def error_of(result):
            """The error relative to the magnitudes, in f64."""
            arrays, value = [one.cpu().numpy().astype(np.float64) for one in operands(0)], result.item()
            true, scale = call(np, *arrays), call(np, *map(abs, arrays))
            if operation.startswith("arg"):
                # torch does not promise which of equal values it returns, so the value there is checked.
                value, true = arrays[0][value], arrays[0][true]
            if operation.startswith(("min", "max", "arg")):
                return 0 if value == true else float("inf")
            return abs(value - true) / scale

        launch = lambda turn: call(gpu.torch, *operands(turn))
        fields = {"on": "cuda", "length": length, "operation": operation, "elements": "f32", "summation": "plain"}
        moved = 4 * length * (2 if operation == "dot" else 1)
        case = {**line, **fields, "rotated": len(values)}
        kernel(args, gpu, case, launch, lambda result: result.item(), error_of, moved)


LIBRARIES = {"numpy": Numpy, "faiss": Faiss, "usearch": Usearch, "torch": Torch, "cuvs": Cuvs}
# The function that runs each suite, and the libraries.
SUITES = {
    "exact": (search, ["numpy", "faiss-cpu", "usearch", "torch-f32", "torch-f16", "cuvs", "faiss-gpu"]),
    "ivf": (search, ["faiss-cpu", "cuvs", "faiss-gpu"]),
    "select": (select, ["torch"]),
    "reduce": (reduce, ["torch"]),
}


def describe():
    """Says what the libraries run on."""
    adapter, driver, cpu, packages = "", "", platform.machine(), importlib.metadata.distributions()
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        cpu = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), cpu)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        cards = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
        adapter, _, driver = cards.partition("\n")[0].partition(", ")
    versions = {one.metadata["Name"]: one.version for one in packages if one.metadata["Name"] in PACKAGES}
    say({
        "record": "peers", "adapter": adapter or cpu, "driver": driver or None, "cpu": cpu, "threads": THREADS,
        "python": platform.python_version(), "versions": versions, "date": time.strftime("%Y-%m-%d"),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
    })


def work(args, line):
    with attempt(line):
        SUITES[line["suite"]][0](args, line)


def follow(scratch):
    """Returns the time there is, or ends with the program that started this script, which closes the standard input."""
    # Not through sys.stdin, whose lock would be held at exit.
    text = os.read(0, 100)
    if text:
        return float(text.strip() or UNLIMITED)
    for process in multiprocessing.active_children():
        process.kill()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind, default in OPTIONS:
        parser.add_argument("--" + name, type=kind, default=default, help="default " + default)
    # The program that starts this script passes its directory here, and the time on the standard input.
    parser.add_argument("--scratch", help=argparse.SUPPRESS)
    args, end = parser.parse_args(), time.monotonic() + UNLIMITED
    jobs = [(suite, peer) for suite in args.suites for peer in SUITES[suite][1] if peer.startswith(tuple(args.peers))]
    if args.scratch:
        # An interrupt ends the program, and so this script.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        end = time.monotonic() + follow(args.scratch)
        threading.Thread(target=follow, args=(args.scratch,), daemon=True).start()
    with attempt({"record": "failed"}, "reason"):
        searched = prepare(args) if "exact" in args.suites or "ivf" in args.suites else {}
        describe()
        for number, (suite, peer) in enumerate(jobs):
            # An equal part of the time that is left.
            share = max(end - time.monotonic(), 0.0) / (len(jobs) - number)
            line = {"record": "peer", "suite": suite, "peer": peer, **(searched if suite in ("exact", "ivf") else {})}
            args.end = time.monotonic() + share
            process = multiprocessing.get_context("spawn").Process(target=work, args=(args, line))
            process.start()
            # One call of a slow library may take longer; a library that hangs is not waited for.
            process.join(60 + 4 * share)
            if process.exitcode is None:
                process.kill()
                say({**line, "not_run": "it took longer than its share of --budget"})
            elif process.exitcode:
                say({**line, "not_run": f"it ended with exit status {process.exitcode}, perhaps for want of memory"})
        return
    sys.exit(1)


if __name__ == "__main__":
    main()
