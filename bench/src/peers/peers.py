#!/usr/bin/env python3
"""Times other libraries at the work that `nearfield-bench` times, on the same vectors.

`nearfield-bench peers` runs this script, which is part of the program, with its options as one JSON object. It needs Python 3.9, numpy 2 and
the libraries in requirements.txt. Each library runs in a process of its own for each suite; one that is not installed
or fails is named with the reason. docs/benchmark.md says what is timed and lists the fields of the JSON lines.
"""

import contextlib
import functools
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
import types

import numpy as np

THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
WARM_UP, CASE = 0.3, 20.0  # Seconds of warm-up, and of a case.
BATCHES, CHECKED = 4, 100  # Batches of queries that take turns; queries whose answers are checked.
TOLERANCE, LARGEST_ERROR = 1e-3, 1e-4  # Past the k-th true neighbour's distance, as in ann-benchmarks; of a reduction.
CACHE, PIECE = 256 << 20, 1 << 14  # Bytes that no cache holds; rows converted to f64 at a time.
copies = lambda size: max(1, min(64, -(-CACHE // (4 * size))))  # Enough arrays that no cache holds them all.


def say(line):
    print(json.dumps(line, allow_nan=False), flush=True)


def attempt(call, args, line, *more):
    """Calls, or says why the line has no figures."""
    try:
        call(args, line, *more)
    except Exception as error:
        say({**line, "not_run": (str(error).strip() or repr(error)).splitlines()[0][:200]})


def normalized(vectors):
    """Vectors of norm 1; zero vectors stay zero."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-30)


def distances(metric, queries, rows):
    """Distances in f64, [queries, rows], by L2 for l2sq too. The error of products is far below TOLERANCE."""
    queries, rows = queries.astype(np.float64), rows.astype(np.float64)
    if metric == "cosine":
        queries, rows = normalized(queries), normalized(rows)
    if metric in ("cosine", "ip"):
        return -queries @ rows.T
    squares = (queries * queries).sum(1)[:, None] + (rows * rows).sum(1) - 2 * (queries @ rows.T)
    return np.sqrt(np.maximum(squares, 0))


def mask_of(args, part):
    """Whether a filter of this part allows each row."""
    return np.load(args.draws)[:, 0] < np.float64(part)


def prepare(args):
    """Finds the distance of the k-th true neighbour of some queries for each k, for searches. Returns identity fields."""
    rows, queries = np.load(args.rows, mmap_mode="r"), np.load(args.queries, mmap_mode="r")[:CHECKED]
    args.limits = {part: np.empty((len(queries), 0)) for part in args.allowed}
    for start in range(0, len(rows), PIECE) if {"exact", "ivf"} & {*args.suites} else []:
        found = distances(args.metric, queries, rows[start : start + PIECE])
        for part, best in args.limits.items():
            some = found[:, mask_of(args, part)[start : start + PIECE]] if part is not None else found
            args.limits[part] = np.sort(np.hstack([best, some]), axis=1)[:, : max(args.k)]
    return {"rows": len(rows), "dim": rows.shape[1], "metric": args.metric, "data": args.data}


def recall(metric, rows, queries, ids, limits, wanted):
    """The share of the `wanted` results of each query that are no farther than the k-th true neighbour. An id counts once."""
    right = 0
    for query, found, limit in zip(queries, ids, limits):
        found = np.unique(found[found >= 0])
        right += int((distances(metric, query[None], rows[found]) <= limit + TOLERANCE).sum())
    return {"recall": round(right / (wanted * len(ids)), 6), "verified": len(limits)}


def measure(args, case, check, call, torch=None, launch=None, moved=None):
    """Checks a case and times it in a quarter of the time that this process has left. A call starts and ends on the
    host, a launch stays on the GPU; both are told their turn. `moved` is the bytes that a kernel moves."""
    if args.end <= time.monotonic():
        raise TimeoutError("no time was left of --budget")
    case = {**case, "device_ms": None, **check()}
    if not case.get("error", 0.0) <= LARGEST_ERROR:
        raise ValueError("its result is wrong")
    seconds = max(0.0, min(CASE, (args.end - time.monotonic()) / 4))

    def by_wall(turn):
        start = time.perf_counter()
        call(turn)
        return (time.perf_counter() - start) * 1e3

    def by_device(*turns):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for turn in turns:
            launch(turn)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    warm, end = [], time.monotonic() + min(WARM_UP, seconds / 5)
    while not warm or time.monotonic() < end:
        warm.append(by_wall(len(warm)))
    # Half of the time for each clock, but three runs unless one takes all of it.
    runs = max(3 if warm[0] < seconds * 1e3 else 1, min(args.runs, int(seconds / 2 * 1e3 / np.median(warm))))
    for name, clock in [("ms", by_wall), ("device_ms", by_device)][: 2 if torch else 1]:
        times = [clock(turn) for turn in range(runs)]
        for key, figure in ("", np.median), ("_least", min), ("_most", max):
            case[name + key] = round(float(figure(times)), 5)
    if moved and torch:
        case["back_to_back_ms"] = round(by_device(*range(runs)) / runs, 5)
    clock = "device_ms" if moved and torch else "ms"
    rate, work = ("bytes_per_s", moved) if moved else ("queries_per_s", case["queries"])
    say({**case, "runs": runs, rate: round(work / case[clock] * 1e3, 2)})


def numpy_index(_, rows, metric, lists):
    # Half the squares of the rows minus the products; the norms of queries change no order.
    offsets = (rows * rows).sum(1) / 2 if metric in ("l2sq", "l2") else 0
    rows = normalized(rows) if metric == "cosine" else rows
    block = max(1, min(250, CACHE // (4 * len(rows))))

    def search(queries, k, probes):
        if len(queries) > block:
            return np.vstack([search(some, k, probes) for some in np.split(queries, range(block, len(queries), block))])
        scores = queries @ rows.T
        np.subtract(offsets, scores, out=scores)
        best = np.argpartition(scores, k - 1, axis=1)[:, :k]
        order = np.argsort(np.take_along_axis(scores, best, axis=1), axis=1)
        return np.take_along_axis(best, order, axis=1)

    return search


def usearch_index(_, rows, metric, lists):
    module, kind = importlib.import_module("usearch.index"), {"cosine": "cos", "ip": "ip"}.get(metric, "l2sq")
    find = lambda queries, k: module.search(rows, queries, k, metric=kind, exact=True, threads=0)
    return lambda queries, k, probes: np.atleast_2d(find(queries, k).keys).astype(np.int64)


def hnswlib_index(_, rows, metric, lists):
    module, space = importlib.import_module("hnswlib"), metric if metric in ("cosine", "ip") else "l2"
    if not lists:
        exact = module.BFIndex(space, rows.shape[1])
        exact.init_index(len(rows))
        exact.add_items(rows)
        return lambda queries, k, probes, **how: exact.knn_query(queries, k, **how)[0].astype(np.int64)
    index = module.Index(space, rows.shape[1])
    index.init_index(len(rows), M=16, ef_construction=200, random_seed=1)
    index.set_num_threads(THREADS)
    index.add_items(rows)

    def search(queries, k, probes, **how):
        index.set_ef(max(k, probes))
        return index.knn_query(queries, k, **how)[0].astype(np.int64)

    return search


def faiss_index(peer, rows, metric, lists):
    faiss, prepared = importlib.import_module("faiss"), normalized if metric == "cosine" else lambda vectors: vectors
    kind = faiss.METRIC_L2 if metric in ("l2sq", "l2") else faiss.METRIC_INNER_PRODUCT
    index = faiss.index_factory(rows.shape[1], f"IVF{lists},Flat" if lists else "Flat", kind)
    if peer == "faiss-gpu":
        if not (hasattr(faiss, "StandardGpuResources") and faiss.get_num_gpus() > 0):
            raise RuntimeError(f"needs faiss with a GPU: this is {faiss.__version__}, which finds none")
        index = faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index)
    rows = prepared(rows)
    index.train(rows)
    index.add(rows)

    def search(queries, k, probes, sel=None):
        how = {} if sel is None else {"params": faiss.SearchParametersIVF(sel=sel, nprobe=probes) if probes else faiss.SearchParameters(sel=sel)}
        if probes:
            index.nprobe = probes
        return index.search(prepared(queries), k, **how)[1]

    return search


def torch_index(peer, rows, metric, lists):
    torch = importlib.import_module("torch")
    torch.backends.cuda.matmul.allow_tf32 = False
    prepared = torch.nn.functional.normalize if metric == "cosine" else lambda vectors: vectors
    rows, kind = torch.from_numpy(rows).to("cuda"), getattr(torch, peer.replace("torch-", "").replace("f", "float", 1))
    squares = (rows * rows).sum(1).to(kind) if metric in ("l2sq", "l2") else None
    rows = prepared(rows).to(kind)
    # A block of scores takes a quarter of the free memory, because selecting from it takes as much again.
    block = max(1, min(1024, torch.cuda.mem_get_info()[0] // 4 // (len(rows) * rows.element_size())))

    def search(queries, k, probes):
        if len(queries) > block:
            return [torch.cat(parts) for parts in zip(*[search(some, k, probes) for some in queries.split(block)])]
        queries = prepared(queries)
        if squares is None:
            best, ids = (queries.to(kind) @ rows.T).topk(k, dim=1)
            return ids, 1 - best.float() if metric == "cosine" else -best.float()
        best, ids = torch.addmm(squares, queries.to(kind), rows.T, beta=-1, alpha=2).topk(k, dim=1)
        return ids, (queries * queries).sum(1, keepdim=True) - best.float()

    return search


def flashlib_index(peer, rows, metric, lists):
    torch, knn = importlib.import_module("torch"), importlib.import_module("flashlib.primitives.knn")
    if metric == "ip":
        raise ValueError("it has no inner product")
    # On vectors of norm 1 the order by L2 is the order by cosine.
    prepared = torch.nn.functional.normalize if metric == "cosine" else lambda vectors: vectors
    kind = {"flashlib-f32": torch.float32, "flashlib-bf16": torch.bfloat16}[peer]
    rows = prepared(torch.from_numpy(rows).to("cuda")).to(kind)

    def search(queries, k, probes):
        distances, ids = knn.flash_knn(prepared(queries).to(kind), rows, k)
        return ids, distances

    return search


def cuvs_index(peer, rows, metric, lists):
    form = peer.partition("-")[2] or ("ivf_flat" if lists else "brute_force")
    cuvs = importlib.import_module("cuvs.neighbors." + form)
    torch = importlib.import_module("torch")
    # On vectors of norm 1 the order by L2 is the order by cosine.
    prepared = torch.nn.functional.normalize if lists and metric == "cosine" else lambda vectors: vectors
    kind = {"ip": "inner_product", "cosine": "sqeuclidean" if lists else "cosine"}.get(metric, "sqeuclidean")
    rows = prepared(torch.from_numpy(rows).to("cuda"))
    how = {"cagra": {}, "ivf_flat": {"n_lists": lists}}.get(form)
    index = cuvs.build(rows, metric=kind) if how is None else cuvs.build(cuvs.IndexParams(metric=kind, **how), rows)
    torch.cuda.synchronize()
    width = "itopk_size" if form == "cagra" else "n_probes"
    parameters = functools.cache(lambda probes: [cuvs.SearchParams(**{width: probes})] if probes else [])

    def search(queries, k, probes):
        distances, ids = cuvs.search(*parameters(probes), index, prepared(queries), k)
        return torch.as_tensor(ids, device="cuda"), torch.as_tensor(distances, device="cuda")

    search.rows = rows  # The index may refer to them.
    return search


def nearfield_index(_, rows, metric, lists):
    nearfield = importlib.import_module("nearfield")
    index = nearfield.Ivf(rows, lists=lists, metric=metric) if lists else nearfield.Flat(rows, metric=metric)
    index.warm_up()
    return lambda queries, k, probes, **how: index.search(queries, k, **how, **({"probes": probes} if probes else {})).ids


# The arguments with which a library finds allowed rows alone. hnswlib calls a Python function, so one thread searches.
FILTERS = {
    "faiss-cpu": lambda mask: {"sel": importlib.import_module("faiss").IDSelectorArray(np.flatnonzero(mask))},
    "hnswlib": lambda mask: {"filter": mask.tolist().__getitem__, "num_threads": 1},
    "nearfield-python": lambda mask: {"filter": mask},
}


# Each builds an index and returns its search: queries to ids, or on a GPU, where all are tensors, to ids and distances.
BUILD = {
    "numpy": numpy_index, "faiss": faiss_index, "usearch": usearch_index, "hnswlib": hnswlib_index, "torch": torch_index,
    "flashlib": flashlib_index, "cuvs": cuvs_index, "nearfield": nearfield_index,
}
GRAPHS = {"hnswlib", "cuvs-cagra"}  # They have no lists: the number of probes is the width of a search.


def search(args, line):
    """Builds the index of a library, and measures its searches."""
    peer, lists = line["peer"], args.lists if line["suite"] == "ivf" else None
    rows = np.ascontiguousarray(np.load(args.rows), np.float32)
    queries = np.ascontiguousarray(np.load(args.queries)[: max(*args.batch, 2 * CHECKED)], np.float32)
    start = time.perf_counter()
    find = BUILD[peer.split("-")[0]](peer, rows, args.metric, lists)
    line["build_ms"] = round((time.perf_counter() - start) * 1e3, 3)
    torch = importlib.import_module("torch") if peer.startswith(("torch", "cuvs", "flashlib")) else None
    line["on"], line["threads"] = ("cuda", None) if torch or peer == "faiss-gpu" else ("cpu", THREADS)
    if peer.startswith("nearfield"):
        line["on"], line["threads"] = os.environ.get("NEARFIELD_ADAPTER") or "best", None
    upload = lambda array: torch.from_numpy(array).to("cuda")
    from_host = (lambda array, *how: [part.cpu() for part in find(upload(array), *how)][0].numpy()) if torch else find
    ks = args.k[: 1 if lists else None]
    for probes, part, count, k in itertools.product(args.probes if lists else [None], args.allowed, args.batch, ks):
        limit, how, mask = args.limits[part][:, :k][:, -1], {}, None
        if part is not None:
            if peer not in FILTERS:
                raise ValueError("this script has no filter of it")
            mask = mask_of(args, part)
            how = FILTERS[peer](mask)
        turns = max(1, min(BATCHES, len(queries) // count))
        batches, there = [queries[turn * count : (turn + 1) * count] for turn in range(turns)], []

        def check():
            if torch:
                there.extend(map(upload, batches))
            found, findable = from_host(queries[: len(limit)], k, probes, **how), len(rows)
            if part is not None:
                found, findable = np.where(mask[found], found, -1), int(mask.sum())
            return recall(args.metric, rows, queries, found, limit, min(k, findable))

        call = lambda turn: from_host(batches[turn % turns], k, probes, **how)
        launch = lambda turn: find(there[turn % turns], k, probes)
        case = {**line, **({"lists": None if peer in GRAPHS else lists, "probes": probes} if lists else {})}
        case |= {"queries": len(batches[0]), "k": k, **({} if part is None else {"allowed": part, "contiguous": args.contiguous})}
        attempt(measure, args, {**case, "rotated": turns}, check, call, torch, launch)


def scipy_pairs(torch, form, metric):
    cdist = importlib.import_module("scipy.spatial.distance").cdist
    return lambda queries, rows: cdist(queries, rows, {"l2sq": "sqeuclidean", "l2": "euclidean"}.get(metric, metric))


def faiss_pairs(torch, form, metric):
    faiss = importlib.import_module("faiss")
    kind = faiss.METRIC_L2 if metric in ("l2sq", "l2") else faiss.METRIC_INNER_PRODUCT
    squares = lambda queries, rows: faiss.pairwise_distances(queries, rows, metric=kind)
    return squares if metric != "l2" else lambda *operands: np.sqrt(found := squares(*operands), out=found)


def numpy_pairs(torch, form, metric):
    return lambda queries, rows: queries @ rows.T


def torch_pairs(torch, form, metric):
    torch.backends.cuda.matmul.allow_tf32 = False
    if form == "matmul":
        return lambda queries, rows: queries @ rows.T
    mode = "use_mm_for_euclid_dist" if form == "cdist" else "donot_use_mm_for_euclid_dist"
    roots = lambda queries, rows: torch.cdist(queries, rows, compute_mode=mode)
    return roots if metric == "l2" else lambda *operands: roots(*operands).square_()


# Each returns a function from queries and rows to their distances, or to their products for cosine and ip.
PAIRS = {"numpy": numpy_pairs, "scipy": scipy_pairs, "faiss": faiss_pairs, "torch": torch_pairs}


def all_pairs(args, line):
    """Measures the distances of all queries to all rows. For cosine the vectors of products are normalized before."""
    (library, _, form), metric = line["peer"].partition("-"), args.metric
    multiplies = {"scipy": False, "faiss": metric in ("cosine", "ip"), "torch": form == "matmul"}.get(library, True)
    if (library == "scipy" and metric == "ip") or (library != "scipy" and multiplies != (metric in ("cosine", "ip"))):
        raise ValueError(f"has no such function for the metric {metric}")
    torch = importlib.import_module("torch") if library == "torch" else None
    compute = PAIRS[library](torch, form, metric)
    line["on"], line["threads"] = ("cuda", None) if torch else ("cpu", 1 if library == "scipy" else THREADS)
    rows = np.ascontiguousarray(np.load(args.rows), np.float32)
    queries = np.ascontiguousarray(np.load(args.queries)[: max(*args.batch, 2 * CHECKED)], np.float32)
    prepared = normalized if multiplies and metric == "cosine" else lambda vectors: vectors
    place = (lambda vectors: torch.from_numpy(prepared(vectors)).to("cuda")) if torch else prepared
    there = [place(rows) for _ in range(copies(rows.size) if torch else 1)]
    for count in args.batch:
        turns = max(1, min(BATCHES, len(queries) // count))
        batches = [place(queries[turn * count : (turn + 1) * count]) for turn in range(turns)]
        launch = lambda turn: compute(batches[turn % turns], there[turn % len(there)])
        call = (lambda turn: (launch(turn), torch.cuda.synchronize())) if torch else launch

        def check():
            found, some = launch(0)[:CHECKED, :PIECE], queries[:count][:CHECKED]
            found = (found.cpu().numpy() if torch else found).astype(np.float64)
            true = distances(metric, some, rows[:PIECE])
            if metric == "l2sq":
                true = true * true
            found = -found if multiplies else found - (metric == "cosine")
            return {"error": float(abs(found - true).max() / abs(true).max()), "verified": found.size}

        case = {**line, "queries": len(batches[0]), "elements": "f32", "rotated": max(turns, len(there))}
        moved = 4 * (rows.size + batches[0].shape[0] * rows.shape[1] + batches[0].shape[0] * len(rows))
        attempt(measure, args, case, check, call, torch, launch, moved)


def select(args, line):
    torch = importlib.import_module("torch")
    for shape in args.shapes:
        rows, length = map(int, shape.split("x"))
        values = [torch.randn(rows, length, device="cuda") * 100 + 10 for _ in range(copies(rows * length))]
        for k in args.select_k:
            launch = lambda turn: values[turn % len(values)].topk(k, dim=1, largest=False, sorted=True)
            call = lambda turn: (launch(turn), torch.cuda.synchronize())

            def check():
                (found, places), wanted = launch(0), values[0].sort(dim=1).values[:, :k]
                is_right = torch.equal(found, wanted) and torch.equal(values[0].gather(1, places), wanted)
                return {"error": 1.0 - is_right, "verified": True}

            fields = {"on": "cuda", "rows": rows, "length": length, "values": "normal", "k": k, "rotated": len(values)}
            attempt(measure, args, {**line, **fields}, check, call, torch, launch, 4 * rows * length)


# The same calls reduce in torch, and in numpy to check them.
NORMS, METHODS = {"norm-l1": 1, "norm-l2": 2, "norm-max": float("inf")}, ["sum", "mean", "min", "max", "argmin", "argmax"]
OPERATIONS = {
    "dot": lambda library, a, b: library.dot(a, b),
    **{name: lambda library, a, b, ord=ord: library.linalg.vector_norm(a, ord=ord) for name, ord in NORMS.items()},
    **{name: lambda library, a, b, name=name: getattr(a, name)() for name in METHODS},
    # Divided by the count, as ours is.
    "std": lambda library, a, b: library.std(a, correction=0),
}


def reduce(args, line):
    torch = importlib.import_module("torch")
    for length, (operation, function) in itertools.product(args.length, OPERATIONS.items()):
        # Around 1, as in nearfield's suite: the sum is about as large as the magnitudes that go into it.
        values = [torch.randn(length, device="cuda") * 0.5 + 1 for _ in range(max(2, copies(length)))]
        # Half of the arrays apart, so that no array is read again before the others.
        operands = lambda turn: (values[turn % len(values)], values[(turn + len(values) // 2) % len(values)])
        launch = lambda turn: function(torch, *operands(turn))

        def check():
            arrays, value = [one.cpu().numpy().astype(np.float64) for one in operands(0)], launch(0).item()
            true, scale = function(np, *arrays), function(np, *map(abs, arrays))
            if operation.startswith("arg"):
                # torch does not promise which of equal values it returns, so the value there is checked.
                value, true = arrays[0][value], arrays[0][true]
            is_rounded = operation in ("dot", "norm-l1", "norm-l2", "sum", "mean", "std")
            return {"error": float(abs(value - true) / scale if is_rounded else value != true), "verified": True}

        fields = {"on": "cuda", "length": length, "operation": operation, "elements": "f32", "summation": "plain"}
        case, moved = {**line, **fields, "rotated": len(values)}, 4 * length * (2 if operation == "dot" else 1)
        attempt(measure, args, case, check, lambda turn: launch(turn).item(), torch, launch, moved)


def documents(args):
    """The tokens of documents, [tokens, dim], where each begins and the last ends, and queries, [queries, tokens, dim]."""
    load = lambda name: np.load(os.path.join(args.scratch, name + ".npy"), mmap_mode="r")
    return load("tokens"), load("offsets")[:, 0], load("token_queries").reshape(-1, args.query_tokens, args.dim)


def scores_of(query, tokens, offsets):
    """The MaxSim of a query and every document, in the type of both."""
    scores, most = np.empty(len(offsets) - 1, query.dtype), max(1, (1 << 24) // len(query))
    first = 0
    while first < len(scores):
        end = max(first + 1, int(np.searchsorted(offsets, offsets[first] + most, "right")) - 1)
        products = query @ np.asarray(tokens[offsets[first] : offsets[end]], query.dtype).T
        scores[first:end] = np.maximum.reduceat(products, offsets[first:end] - offsets[first], axis=1).sum(0)
        first = end
    return scores


def nearest_documents(args):
    """The scores of the best documents of some queries, in f64."""
    tokens, offsets, queries = documents(args)
    scores = lambda query: np.sort(scores_of(query.astype(np.float64), tokens, offsets))[::-1]
    return [scores(query)[: max(args.k)] for query in queries[:4]]


def numpy_maxsim(args, tokens, offsets, kind):
    tokens = np.ascontiguousarray(tokens, np.float32)

    def search(queries, k):
        scores = np.stack([scores_of(query, tokens, offsets) for query in queries])
        best = np.argpartition(-scores, k - 1, axis=1)[:, :k]
        return np.take_along_axis(best, np.argsort(-np.take_along_axis(scores, best, 1), axis=1), 1)

    return search


def torch_maxsim(args, tokens, offsets, kind):
    """Documents that are padded to the longest, in pieces that fit: einsum, maximum, sum."""
    torch = importlib.import_module("torch")
    on = "cuda" if kind == "f16" else "cpu"
    lengths = np.diff(offsets)
    padded = torch.zeros((len(lengths), int(lengths.max()), args.dim), dtype=torch.float16 if on == "cuda" else torch.float32, device=on)
    for first in range(0, len(lengths), PIECE):
        some = torch.from_numpy(np.array(tokens[offsets[first] : offsets[min(len(lengths), first + PIECE)]])).to(padded)
        inside = torch.arange(padded.shape[1])[None] < torch.from_numpy(lengths[first : first + PIECE].astype(np.int64))[:, None]
        padded[first : first + PIECE][inside.to(on)] = some
    outside = torch.arange(padded.shape[1])[None] >= torch.from_numpy(lengths.astype(np.int64))[:, None]
    below = torch.where(outside, -1e4, 0.0).to(padded)

    def search(queries, k):
        queries = queries.to(padded.dtype)
        piece = max(1, (1 << (29 if on == "cuda" else 25)) // (queries.shape[0] * queries.shape[1] * padded.shape[1]))
        parts = []
        for first in range(0, len(padded), piece):
            products = torch.einsum("qtd,nsd->qtns", queries, padded[first : first + piece]) + below[first : first + piece]
            parts.append(products.amax(3).sum(1, dtype=torch.float32))
        return torch.cat(parts, 1).topk(k, dim=1).indices

    return search


def flash_maxsim(args, tokens, offsets, kind):
    torch, flash = importlib.import_module("torch"), importlib.import_module("flash_maxsim")
    there = torch.from_numpy(np.array(tokens)).to("cuda").half()
    ends, most = torch.from_numpy(offsets.astype(np.int32)).to("cuda"), int(np.diff(offsets).max())
    one = lambda query: flash.flash_maxsim_packed(query, there, ends, most)
    return lambda queries, k: torch.stack([one(query) for query in queries]).topk(k, dim=1).indices


def late_maxsim(args, tokens, offsets, kind):
    torch, late = importlib.import_module("torch"), importlib.import_module("late_interaction_kernels")
    there = torch.from_numpy(np.array(tokens)).to("cuda").half()
    ends, most = torch.from_numpy(offsets.astype(np.int32)).to("cuda"), int(np.diff(offsets).max())

    def search(queries, k):
        own = torch.arange(len(queries) + 1, dtype=torch.int32, device="cuda") * args.query_tokens
        packed = queries.half().reshape(-1, args.dim)
        return late.maxsim_varlen(packed, there, own, ends, args.query_tokens, most).topk(k, dim=1).indices

    return search


def fast_maxsim(args, tokens, offsets, kind):
    """Approximate: PLAID. Its index has codes of four bits, and lists of tokens."""
    torch, search = importlib.import_module("torch"), importlib.import_module("fast_plaid.search")
    index = search.FastPlaid(index=os.path.join(args.scratch, "plaid"), device="cuda")
    index.create([torch.from_numpy(np.array(tokens[a:b])) for a, b in zip(offsets, offsets[1:])])
    ids = lambda found: torch.tensor([[id for id, _ in own] for own in found])
    return lambda queries, k: ids(index.search(queries.float(), top_k=k, show_progress=False))


MAXSIM = {"numpy": numpy_maxsim, "torch": torch_maxsim, "flash": flash_maxsim, "late": late_maxsim, "fast": fast_maxsim}


def maxsim(args, line):
    """Measures searches for the documents of largest MaxSim."""
    peer = line["peer"]
    tokens, offsets, queries = documents(args)
    line |= {"documents": len(offsets) - 1, "tokens": args.tokens, "dim": args.dim, "query_tokens": args.query_tokens}
    line |= {"elements": "f32" if peer in ("numpy", "torch-f32") else "f16", "data": args.token_data}
    start = time.perf_counter()
    find = MAXSIM[peer.partition("-")[0]](args, tokens, offsets, peer.partition("-")[2])
    line["build_ms"] = round((time.perf_counter() - start) * 1e3, 3)
    torch = importlib.import_module("torch") if peer != "numpy" else None
    is_cuda = peer not in ("numpy", "torch-f32")
    line["on"], line["threads"] = ("cuda", None) if is_cuda else ("cpu", THREADS)
    place = lambda array: torch.from_numpy(np.array(array)).to("cuda" if is_cuda else "cpu") if torch else np.array(array)
    from_host = lambda some, k: (lambda found: found.cpu().numpy() if torch else found)(find(place(some), k))
    for count, k in itertools.product(args.batch, args.k[:1]):
        some = queries[:count]

        def check():
            right, checked = 0, min(len(args.best), count)
            for query, ids, best in zip(some, from_host(some, k), args.best[:checked]):
                own = [(query.astype(np.float64) @ tokens[offsets[id] : offsets[id + 1]].T.astype(np.float64)).max(1).sum() for id in ids]
                right += int((np.array(own) >= best[k - 1] - TOLERANCE * abs(best[k - 1])).sum())
            return {"recall": round(right / (k * checked), 6), "verified": checked}

        there = place(some)
        launch = lambda turn: find(there, k)
        case = {**line, "queries": len(some), "k": k, "allowed": None, "rotated": 1}
        attempt(measure, args, case, check, lambda turn: from_host(some, k), torch if is_cuda else None, launch)


SUITES = {  # The function that runs each suite, and the libraries.
    "exact": (search, ["numpy", "faiss-cpu", "usearch", "hnswlib", "torch-f32", "torch-f16", "torch-bf16", "flashlib-f32", "flashlib-bf16",
                       "cuvs", "faiss-gpu", "nearfield-python"]),
    "ivf": (search, ["faiss-cpu", "hnswlib", "cuvs", "cuvs-cagra", "faiss-gpu", "nearfield-python"]),
    "distance": (all_pairs, ["numpy", "scipy", "faiss-cpu", "torch-matmul", "torch-cdist", "torch-direct"]),
    "select": (select, ["torch"]),
    "reduce": (reduce, ["torch"]),
    "maxsim": (maxsim, ["numpy", "torch-f32", "torch-f16", "flash-maxsim", "late-interaction-kernels", "fast-plaid"]),
}


VECTORS = {"exact", "ivf", "distance"}  # The suites of rows and queries.


def describe():
    """Says what the libraries run on."""
    cpu, card = platform.machine(), ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        cpu = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), cpu)
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
        card = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.partition("\n")[0]
    adapter, _, driver = card.partition(", ")
    packages = {str(one.metadata["Name"]): one.version for one in importlib.metadata.distributions()}
    say({
        "record": "peers", "adapter": adapter or cpu, "driver": driver or None, "cpu": cpu, "threads": THREADS,
        "python": platform.python_version(), "date": time.strftime("%Y-%m-%d"),
        "versions": {name: version for name, version in packages.items() if name.split("-")[0] in {*BUILD, *PAIRS, *MAXSIM}},
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
    })


def follow(scratch):
    """Waits for a byte from the program that started this script, or ends with it, when the standard input closes."""
    if os.read(0, 1):  # Not through sys.stdin, whose lock would be held at exit.
        return
    for process in multiprocessing.active_children():
        process.kill()
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(1)


def main():
    args = types.SimpleNamespace(**json.loads(sys.argv[1]))
    end = time.monotonic() + args.budget
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # An interrupt ends the program, and so this script.
    follow(args.scratch)
    threading.Thread(target=follow, args=(args.scratch,), daemon=True).start()
    vectors = prepare(args) if VECTORS & {*args.suites} else {}
    args.best = nearest_documents(args) if "maxsim" in args.suites else []
    describe()
    jobs = [(suite, peer) for suite in args.suites for peer in SUITES[suite][1] if peer.startswith(tuple(args.peers))]
    for number, (suite, peer) in enumerate(jobs):
        share = max(end - time.monotonic(), 0.0) / (len(jobs) - number)  # An equal part of the time that is left.
        args.end = time.monotonic() + share
        line = {"record": "peer", "suite": suite, "peer": peer, **(vectors if suite in VECTORS else {})}
        process = multiprocessing.get_context("spawn").Process(target=attempt, args=(SUITES[suite][0], args, line))
        process.start()
        # One call of a slow library may take longer; a library that hangs is not waited for.
        process.join(min(1e6, 60 + 4 * share))
        status = process.exitcode
        if status is None:
            process.kill()
            process.join()
            say({**line, "not_run": "it took longer than its share of --budget"})
        elif status != 0:
            say({**line, "not_run": f"it ended with exit status {status}, perhaps for want of memory"})


if __name__ == "__main__":
    main()
