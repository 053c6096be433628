#!/usr/bin/env python3
"""What exact and IVF search by numpy, faiss-cpu and usearch take on a processor, to hold the host engine against.

Needs Python 3.11 or later under Linux, and the versions that benches/peers/cpu-requirements.txt pins:

    python3 -m venv venv && venv/bin/pip install -r benches/peers/cpu-requirements.txt
    venv/bin/python benches/peers/cpu.py --rows base.f16.npy --queries query.f16.npy > peers-cpu.jsonl
    venv/bin/python benches/peers/cpu.py --rows base.f16.npy --queries query.f16.npy --threads 1 --peers faiss,numpy

Rows and queries in f16 are widened to f32 before anything is timed. Every peer is measured with all queries in one call
("mode": "batch") and with one query a call ("mode": "single"), by the clock around calls that have finished. An index is
built once, outside of the times:
  numpy          product of matrices in blocks of --block queries, `argpartition` of the k best, these sorted
  faiss-flat     IndexFlatL2, or IndexFlatIP for ip; for cosine IndexFlatIP on rows and queries of norm 1
  faiss-ivf      IndexIVFFlat of --lists lists on the same, a case for every number of probes
  usearch-exact  usearch.index.search with exact=True
Query norms of cosine are part of a search, row norms are not.

What a call returns is checked before it is timed: `recall` is the part of its ids that are among the k nearest by distances
in f64; a row as near as the k-th counts, within 1e-6, as f32 may swap such rows. It is printed with every figure. A low
recall ends nothing, but for the exact peers it means that their figure is worth nothing.

Runs are --runs, or as many as --seconds has room for, at least 5. `ms` is the median of a call and `ms_least` the best; of
"single", a run is --single calls in a row, and its times are divided by them.
`own_cpus` and `other_cpus` are how many processors this process and all others kept busy in the runs: a figure beside
`other_cpus` above 0.1 is one of a disturbed machine, and --quiet waits for it to be quiet before each case.

JSON lines, one object each; times in milliseconds, rates per second:
  {"record":"device", adapter, cpu, cpus, isa, threads, kernel, python, versions, faiss_options, loadavg, date}
  {"record":"peer", suite, peer, mode, rows, dim, queries, k, metric, threads, lists, probes, runs, ms, ms_least, ms_most,
   queries_per_s, queries_per_s_best, recall, verified, build_ms, own_cpus, other_cpus, loadavg}; lists and probes of
   faiss-ivf only; `queries` is of one call
  {"record":"peer", suite, peer, metric, not_run}, of a peer that is not there without rows and what follows
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
import time
from importlib import metadata

# Processor time that one tick of /proc/stat stands for.
TICK = os.sysconf("SC_CLK_TCK")
# How far beyond the k-th nearest row another one still counts: what f32 may swap on rows of norm near 1.
SLACK = 1e-6
# Instruction sets that decide what such programs run at.
ISA = ("avx2", "f16c", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8", "amx_tile",
       "asimddp", "i8mm", "sve")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", required=True, metavar="FILE", help="file of the rows: .npy, [rows, dim] of f32 or f16")
    parser.add_argument("--queries", required=True, metavar="FILE", help="file of the queries")
    parser.add_argument("-k", type=int, default=10, help="neighbours wanted (default 10)")
    parser.add_argument("--metric", choices=["cosine", "ip", "l2sq"], default="l2sq", help="default l2sq")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads (default all)")
    parser.add_argument(
        "--peers", type=lambda text: text.split(","), default=["numpy", "faiss", "usearch"], metavar="NAME,…",
        help="of numpy, faiss, usearch (default all)",
    )
    parser.add_argument("--lists", type=int, default=256, help="lists of faiss-ivf (default 256)")
    parser.add_argument(
        "--probes", type=lambda text: [int(part) for part in text.split(",")], default=[1, 2, 4, 8, 16, 32, 64],
        metavar="P,…", help="numbers of probes, a case each (default 1,2,4,8,16,32,64)",
    )
    parser.add_argument("--block", type=int, default=250, help="queries of a block of numpy's batch (default 250)")
    parser.add_argument("--single", type=int, default=100, help="queries that are searched one a call (default 100)")
    parser.add_argument("--runs", type=int, default=30, help="timed runs of a case at most, at least 5 (default 30)")
    parser.add_argument("--seconds", type=float, default=5.0, help="for the runs of a case, beyond the first 5 (default 5)")
    parser.add_argument("--quiet", type=float, default=0.0, metavar="SECONDS",
                        help="wait so long at most, before each case, until the rest of the machine is idle (default 0)")
    args = parser.parse_args()
    for name in ("k", "threads", "lists", "block", "single"):
        if getattr(args, name) < 1:
            parser.error(f"{'-k' if name == 'k' else '--' + name}: needed at least 1, given {getattr(args, name)}")
    if args.runs < 5:
        parser.error(f"--runs: needed at least 5, given {args.runs}")
    if not 1 <= min(args.probes) <= max(args.probes) <= args.lists:
        parser.error(f"--probes: needed 1 to {args.lists}, the number of lists")
    unknown = set(args.peers) - {"numpy", "faiss", "usearch"}
    if unknown:
        parser.error(f"--peers: needed numpy, faiss or usearch, given {', '.join(sorted(unknown))}")
    return args


def read(argument, path):
    """The vectors of a file, in f32."""
    try:
        array = numpy.load(path, allow_pickle=False)
        if array.ndim != 2 or array.dtype.kind != "f" or array.dtype.itemsize > 4 or 0 in array.shape:
            raise ValueError(f"needed [rows, dim] of f32 or f16, found {array.dtype} {list(array.shape)}")
    except (OSError, ValueError) as error:
        sys.exit(f"error: {argument} {path}: {error}")
    return numpy.ascontiguousarray(array, dtype=numpy.float32)


def norms(vectors):
    """Norms `[rows, 1]`; 1 where the norm is 0, so that a quotient stays 0."""
    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return numpy.where(lengths > 0, lengths, lengths.dtype.type(1))


class Numpy:
    """A product of matrices, then the k best of every row of it."""

    def __init__(self, rows, metric, block):
        self.metric, self.block = metric, block
        self.rows = rows / norms(rows) if metric == "cosine" else rows
        self.squares = (rows * rows).sum(1) if metric == "l2sq" else None

    def search(self, queries, k):
        return numpy.concatenate([
            self.some(queries[first : first + self.block], k) for first in range(0, len(queries), self.block)
        ])

    def some(self, queries, k):
        # Norms of queries change no order.
        scores = queries @ self.rows.T
        if self.metric == "l2sq":
            scores *= -2
            scores += self.squares
        else:
            numpy.negative(scores, out=scores)
        k = min(k, scores.shape[1])
        best = numpy.argpartition(scores, k - 1, axis=1)[:, :k]
        order = numpy.argsort(numpy.take_along_axis(scores, best, axis=1), axis=1)
        return numpy.take_along_axis(best, order, axis=1)


class Faiss:
    """An index of faiss, given and trained."""

    def __init__(self, index, rows, metric):
        self.cosine = metric == "cosine"
        rows = rows / norms(rows) if self.cosine else rows
        if not index.is_trained:
            index.train(rows)
        index.add(rows)
        self.index = index

    def search(self, queries, k):
        return self.index.search(queries / norms(queries) if self.cosine else queries, k)[1]


class Usearch:
    """usearch's exact search."""

    def __init__(self, module, rows, metric, threads):
        self.module, self.rows, self.threads = module, rows, threads
        self.metric = {"cosine": "cos", "ip": "ip", "l2sq": "l2sq"}[metric]

    def search(self, queries, k):
        found = self.module.search(self.rows, queries, k, metric=self.metric, exact=True, threads=self.threads)
        return numpy.atleast_2d(found.keys).astype(numpy.int64)


class Truth:
    """Distances in f64, and the k-th smallest of every query. Of products: their error is far below SLACK."""

    def __init__(self, rows, queries, metric, k):
        self.metric, self.rows, self.queries = metric, rows, queries
        self.limit = numpy.concatenate([self.limits(first, k) for first in range(0, len(queries), 100)])

    def limits(self, first, k):
        distances = self.between(self.queries[first : first + 100], self.rows)
        return numpy.partition(distances, min(k, len(self.rows)) - 1, axis=1)[:, min(k, len(self.rows)) - 1]

    def between(self, queries, rows):
        queries, rows = queries.astype(numpy.float64), rows.astype(numpy.float64)
        products = queries @ rows.T
        if self.metric == "ip":
            return -products
        if self.metric == "cosine":
            return 1 - products / norms(queries) / norms(rows).T
        return (queries * queries).sum(1)[:, None] + (rows * rows).sum(1) - 2 * products

    def recall(self, ids, k):
        """The part of the ids that are no farther than the k-th nearest. An id counts once."""
        right = 0
        for number, some in enumerate(ids):
            one = numpy.array(sorted({int(place) for place in some if 0 <= place < len(self.rows)}), dtype=numpy.int64)
            distances = self.between(self.queries[number : number + 1], self.rows[one])
            right += int((distances <= self.limit[number] + SLACK).sum())
        return right / (len(ids) * min(k, len(self.rows)))


def busy():
    """Processor seconds that the whole machine and this process have used."""
    with open("/proc/stat") as file:
        ticks = [int(part) for part in file.readline().split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / TICK, time.process_time()


def settle(seconds):
    """Waits until the machine has been idle for half a second."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = busy()[0]
        time.sleep(0.5)
        if busy()[0] - before <= 0.03:
            return


def measure(args, call):
    """Times of a call, its warm-up before."""
    settle(args.quiet)
    call()
    times, (all_before, own_before), start = [], busy(), time.perf_counter()
    while len(times) < 5 or (len(times) < args.runs and time.perf_counter() - start < args.seconds):
        one = time.perf_counter()
        call()
        times.append((time.perf_counter() - one) * 1e3)
    wall, (all_after, own_after) = time.perf_counter() - start, busy()
    times.sort()
    own, everything = (own_after - own_before) / wall, (all_after - all_before) / wall
    return {
        "runs": len(times), "ms": statistics.median(times), "ms_least": times[0], "ms_most": times[-1],
        "own_cpus": round(own, 2), "other_cpus": round(max(everything - own, 0.0), 2),
        "loadavg": [round(one, 2) for one in os.getloadavg()],
    }


def run_case(args, case, peer, queries, truth):
    """Checks what a peer finds, then times all queries in one call, and one query a call."""
    single = queries[: args.single]

    def one_a_call():
        return numpy.concatenate([peer.search(single[number : number + 1], args.k) for number in range(len(single))])

    # Mode, call, queries of a call, calls that the clock sees as one.
    modes = [("batch", lambda: peer.search(queries, args.k), len(queries), 1), ("single", one_a_call, 1, len(single))]
    for mode, call, size, calls in modes:
        found = call()
        checked = {"recall": truth.recall(found, args.k), "verified": len(found)}
        times = measure(args, call)
        for name in ("ms", "ms_least", "ms_most"):
            times[name] /= calls
        rates = {"queries_per_s": size / times["ms"] * 1e3, "queries_per_s_best": size / times["ms_least"] * 1e3}
        say({**case, "mode": mode, "queries": size, **times, **rates, **checked})


def processor():
    """The processor's name, and those of its instruction sets that matter here."""
    with open("/proc/cpuinfo") as file:
        lines = [line.partition(":") for line in file]
    of = {name.strip(): value.strip() for name, _, value in reversed(lines)}
    flags = set(of.get("flags", of.get("Features", "")).split())
    name = " ".join([of.get("model name", platform.machine())]
                    + [f"{key} {of[key]}" for key in ("cpu family", "model") if key in of])
    return name, [one for one in ISA if one in flags]


def version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def say(line):
    print(json.dumps(line), flush=True)


def main():
    rows, queries = read("--rows", args.rows), read("--queries", args.queries)
    if rows.shape[1] != queries.shape[1]:
        sys.exit(f"error: --queries: needed dim {rows.shape[1]}, as --rows has, given dim {queries.shape[1]}")
    for name, value, needed in (("-k", args.k, len(rows)), ("--lists", args.lists, len(rows))):
        if value > needed:
            sys.exit(f"error: {name}: needed at most {needed}, the number of rows, given {value}")
    modules, missing = {"numpy": numpy}, {}
    for name, module in (("faiss", "faiss"), ("usearch", "usearch.index")):
        try:
            modules[name] = importlib.import_module(module)
        except ImportError as error:
            missing[name] = f"needs {name}, {error}"
    faiss = modules.get("faiss")
    if faiss:
        faiss.omp_set_num_threads(args.threads)
    name, isa = processor()
    say({
        "record": "device", "adapter": "cpu", "cpu": name, "cpus": os.cpu_count(), "isa": isa, "threads": args.threads,
        "kernel": platform.release(), "python": platform.python_version(),
        "versions": {package: version(package) for package in ("numpy", "faiss-cpu", "usearch")},
        "faiss_options": faiss.get_compile_options().strip() if faiss else None,
        "loadavg": [round(one, 2) for one in os.getloadavg()], "date": datetime.date.today().isoformat(),
    })
    truth = Truth(rows, queries, args.metric, args.k)

    def ivf():
        # Its constructor in Python keeps the quantizer alive.
        kind = faiss.METRIC_L2 if args.metric == "l2sq" else faiss.METRIC_INNER_PRODUCT
        return Faiss(faiss.IndexIVFFlat(plain(), rows.shape[1], args.lists, kind), rows, args.metric)

    def plain():
        return (faiss.IndexFlatL2 if args.metric == "l2sq" else faiss.IndexFlatIP)(rows.shape[1])

    makers = [
        ("numpy", "numpy", lambda: Numpy(rows, args.metric, args.block)),
        ("faiss", "faiss-flat", lambda: Faiss(plain(), rows, args.metric)),
        ("faiss", "faiss-ivf", ivf),
        ("usearch", "usearch-exact", lambda: Usearch(modules["usearch"], rows, args.metric, args.threads)),
    ]
    for package, peer_name, make in makers:
        if package not in args.peers:
            continue
        about = {"record": "peer", "suite": "cpu", "peer": peer_name, "metric": args.metric}
        if package in missing:
            say({**about, "not_run": missing[package]})
            continue
        start = time.perf_counter()
        peer = make()
        built = (time.perf_counter() - start) * 1e3
        case = {
            **about, "rows": len(rows), "dim": rows.shape[1], "k": args.k, "threads": args.threads, "build_ms": built,
        }
        if peer_name != "faiss-ivf":
            run_case(args, case, peer, queries, truth)
            continue
        for probes in args.probes:
            peer.index.nprobe = probes
            run_case(args, {**case, "lists": args.lists, "probes": probes}, peer, queries, truth)


if __name__ == "__main__":
    args = parse()
    # The threads of numpy's BLAS are chosen when it is loaded.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(args.threads)
    try:
        import importlib

        import numpy
    except ImportError as error:
        sys.exit(f"error: needed numpy (pip install -r benches/peers/cpu-requirements.txt): {error}")
    main()
