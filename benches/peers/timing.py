"""What the scripts beside this one share: the driver's version, and times by CUDA events."""

import statistics
import subprocess
import sys

try:
    import torch
except ImportError:
    sys.exit("error: needed PyTorch, this Python has none (pip install torch)")


def driver():
    """The version of the NVIDIA driver, if nvidia-smi tells it."""
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        printed = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return printed.splitlines()[0].strip() if printed.strip() else None


def elapsed(call, times):
    """Milliseconds on the device that some calls take together."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    for _ in range(times):
        call()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def measure(call, moved, runs):
    """Times of a call that moves so many bytes."""
    # Long enough for a card to raise its clocks.
    warm = 0.0
    while warm < 300.0:
        warm += elapsed(call, 10)
    single = sorted(elapsed(call, 1) for _ in range(runs))
    together = elapsed(call, runs) / runs
    median = statistics.median(single)
    return {
        "runs": runs,
        "ms": median,
        "ms_least": single[0],
        "ms_most": single[-1],
        "back_to_back_ms": together,
        "bytes_per_s": moved / median * 1e3,
        "back_to_back_bytes_per_s": moved / together * 1e3,
    }
