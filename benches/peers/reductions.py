#!/usr/bin/env python3
"""What PyTorch's reductions take on an NVIDIA GPU, to hold `nearfield bench reduce` against.

Needs Python 3.8 or later, a GPU of NVIDIA, and PyTorch with CUDA:

    pip install torch
    python3 benches/peers/reductions.py                     # 2^28 f32
    python3 benches/peers/reductions.py --length 16777216 --runs 50 > peers.jsonl

Times are of the device, by CUDA events. `ms` is the median of single calls, each on an idle device, so that it includes the
few microseconds until the first kernel starts. `back_to_back_ms` is the mean of as many calls without a wait between them,
which hides that. Results stay on the device. Every result is checked before it is timed.

JSON lines, one object each; times in milliseconds, rates per second:
  {"record":"device", adapter, driver, torch, cuda, python, date}
  {"record":"peer", suite, operation, length, runs, ms, ms_least, ms_most, back_to_back_ms, bytes_per_s,
   back_to_back_bytes_per_s, share_of_copy, error}
`bytes_per_s` counts every operand as read once; the copy counts bytes read and bytes written. `share_of_copy` is of the
copy's `bytes_per_s`. `error` is relative to the sum of magnitudes of the terms, against f64 on the device.
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


def in_f64(values, term):
    """The sum of a term in f64, piece by piece: f64 of everything may not fit the memory."""
    pieces = range(0, len(values[0]), 1 << 24)
    sums = (term(*(one[first : first + (1 << 24)].double() for one in values)).sum() for first in pieces)
    return sum(one.item() for one in sums)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=1 << 28, help="numbers a vector (default 2^28)")
    parser.add_argument("--runs", type=int, default=20, help="timed runs, at least 20 (default 20)")
    args = parser.parse_args()
    if args.length < 1:
        parser.error(f"--length: needed at least 1, given {args.length}")
    if args.runs < 20:
        parser.error(f"--runs: needed at least 20, given {args.runs}")
    if not torch.cuda.is_available():
        sys.exit("error: needed CUDA, this PyTorch finds none")

    line = {
        "record": "device",
        "adapter": torch.cuda.get_device_name(),
        "driver": driver(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "date": datetime.date.today().isoformat(),
    }
    print(json.dumps(line), flush=True)

    torch.manual_seed(1)
    a, b = (torch.rand(args.length, device="cuda") * 2 - 1 for _ in range(2))
    target = torch.empty_like(a)
    products = in_f64([a, b], lambda a, b: a * b)
    norm = in_f64([a], lambda a: a * a) ** 0.5
    least = a.min().item()

    # Operation, call, bytes moved, the true result, what its error is relative to.
    cases = [
        ("copy", lambda: target.copy_(a), 8, None, None),
        ("dot", lambda: torch.dot(a, b), 8, products, in_f64([a, b], lambda a, b: (a * b).abs())),
        ("sum", lambda: torch.sum(a), 4, in_f64([a], lambda a: a), in_f64([a], torch.abs)),
        ("min", lambda: torch.min(a), 4, least, abs(least)),
        ("argmin", lambda: torch.argmin(a), 4, None, None),
        ("vector_norm", lambda: torch.linalg.vector_norm(a), 4, norm, norm),
    ]
    copy_rate = None
    for operation, call, bytes_each, true, scale in cases:
        result = call()
        error = None
        if operation == "copy":
            right = torch.equal(target, a)
        elif operation == "argmin":
            # The least number is known; torch does not promise which of equal ones.
            right = a[result].item() == least and not bool((a < least).any())
        else:
            error = abs(result.item() - true) / scale if scale else 0.0
            right = error < 1e-4
        if not right:
            sys.exit(f"error: {operation}: a wrong result")
        times = measure(call, bytes_each * args.length, args.runs)
        if operation == "copy":
            copy_rate = times["bytes_per_s"]
        line = {"record": "peer", "suite": "reduce", "operation": operation, "length": args.length, **times}
        line["share_of_copy"] = times["bytes_per_s"] / copy_rate
        line["error"] = error
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
