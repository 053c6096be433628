#!/usr/bin/env python3
"""What PyTorch's `topk` takes on an NVIDIA GPU, to hold `nearfield bench select` against.

Needs Python 3.8 or later, a GPU of NVIDIA, and PyTorch with CUDA:

    pip install torch
    python3 benches/peers/selection.py                      # the shapes and k of `nearfield bench select`
    python3 benches/peers/selection.py --shapes 100x1000000,1x1000000 --k 10,1000 --values normal,infinite-90 > peers.jsonl

Times are of the device, by CUDA events. `ms` is the median of single calls, each on an idle device, so that it includes the
few microseconds until the first kernel starts. `back_to_back_ms` is the mean of as many calls without a wait between them,
which hides that. `topk` returns the smallest k in order, values and indices, which stay on the device. Every result is checked
before it is timed: its values against those of a sort, and that its indices lead to them, each once.

JSON lines, one object each; times in milliseconds, rates per second:
  {"record":"device", adapter, driver, torch, cuda, python, date, copy_bytes_per_s}
  {"record":"peer", suite, rows, length, k, values, runs, ms, ms_least, ms_most, back_to_back_ms, bytes_per_s,
   back_to_back_bytes_per_s, share_of_copy}
`bytes_per_s` counts every element as read once; the copy counts bytes read and bytes written. `share_of_copy` is of the
`copy_bytes_per_s` of this run.
"""

import argparse
import datetime
import json
import platform
import sys

try:
    import torch
except ImportError:
    sys.exit("error: needed PyTorch, this Python has none (pip install torch)")

from timing import driver, measure


def made(rows, length, kind):
    """The same kinds of elements as those of `nearfield bench select`."""
    normal = torch.randn(rows, length, device="cuda") * 100 + 10
    if kind == "normal":
        return normal
    if kind == "equal":
        return torch.full_like(normal, -0.25)
    if kind in ("sorted", "reversed"):
        row = torch.arange(length, device="cuda", dtype=torch.float32) - length / 2
        return (row if kind == "sorted" else -row).expand(rows, length).contiguous()
    share = float(kind.partition("-")[2]) / 100
    normal[torch.rand_like(normal) < share] = float("inf")
    return normal


def is_right(values, k, smallest, places):
    """Whether these are the k smallest of each row, in order, each from a place of its own. Some rows at a time: a sort takes
    memory."""
    rows = max(1, (1 << 26) // values.shape[1])
    for start in range(0, len(values), rows):
        some, found = values[start : start + rows], smallest[start : start + rows]
        at = places[start : start + rows]
        if not torch.equal(found, torch.sort(some, dim=1).values[:, :k]):
            return False
        if not torch.equal(torch.gather(some, 1, at), found):
            return False
        ordered = torch.sort(at, dim=1).values
        if bool((ordered[:, 1:] == ordered[:, :-1]).any()):
            return False
    return True


def shape(text):
    rows, _, length = text.partition("x")
    if not (rows.isdigit() and length.isdigit() and int(rows) and int(length)):
        raise argparse.ArgumentTypeError("needed rows and elements of each, like 100x1000000")
    return int(rows), int(length)


def main():
    kinds = ["normal", "equal", "sorted", "reversed", "infinite-10", "infinite-90", "infinite-99.9", "infinite-100"]
    parser = argparse.ArgumentParser(description="PyTorch's topk on an NVIDIA GPU.")
    usual = "20000x500,1000x10000,100x100000,10x1000000"
    parser.add_argument("--shapes", default=usual, help="rows and elements of each, a case each (default: %(default)s)")
    parser.add_argument("--k", default="1,2,4,8,16,32,64,128,256", help="elements wanted (default: %(default)s)")
    parser.add_argument("--values", default="normal", help="kinds of elements: " + ", ".join(kinds))
    parser.add_argument("--runs", type=int, default=20, help="timed calls of a case (default: %(default)s)")
    args = parser.parse_args()
    try:
        shapes = [shape(text) for text in args.shapes.split(",")]
        wanted = [int(text) for text in args.k.split(",")]
    except (ValueError, argparse.ArgumentTypeError) as fault:
        parser.error(f"--shapes, --k: {fault}")
    unknown = [kind for kind in args.values.split(",") if kind not in kinds]
    if min(wanted) < 1 or args.runs < 1 or unknown:
        parser.error("--k, --runs: needed at least 1; --values: needed " + ", ".join(kinds))
    if not torch.cuda.is_available():
        sys.exit("error: needed a CUDA device, found none")

    torch.manual_seed(1)
    a = torch.empty(1 << 28, device="cuda")
    b = torch.empty_like(a)
    copy_rate = measure(lambda: b.copy_(a), 8 * len(a), args.runs)["bytes_per_s"]
    del a, b
    line = {
        "record": "device",
        "adapter": torch.cuda.get_device_name(),
        "driver": driver(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
        "copy_bytes_per_s": copy_rate,
    }
    print(json.dumps(line), flush=True)

    for rows, length in shapes:
        for kind in args.values.split(","):
            values = made(rows, length, kind)
            for k in (k for k in wanted if k <= length):
                def call():
                    return torch.topk(values, k, dim=1, largest=False, sorted=True)

                if not is_right(values, k, *call()):
                    sys.exit(f"error: {rows}x{length}, k {k}, {kind}: a wrong result")
                times = measure(call, 4 * rows * length, args.runs)
                line = {"record": "peer", "suite": "select", "rows": rows, "length": length, "k": k, "values": kind}
                line.update(times)
                line["share_of_copy"] = times["bytes_per_s"] / copy_rate
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
