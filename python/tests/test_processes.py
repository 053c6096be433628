"""Other processes, signals, too little memory and the end of a process: calls end in time, and the index stays whole."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from reference import assert_soon

START = """
import os, signal, sys, threading, time
import numpy as np
import nearfield as nf

# A job in the background may have been told to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
rng = np.random.default_rng(0)
# A discrete GPU is done with few rows before a signal comes.
COUNT = 200_000 if nf.Device().kind == "discrete" else 6000
rows = rng.standard_normal((COUNT, 256), dtype=np.float32)
index = nf.Flat(rows, metric="l2sq", quantization="none")
few = rows[:5] + np.float32(0.01)
expected = index.search(few, 7)

def many():
    return np.resize(rows, (400_000, 256))

def say(word):
    print(word, flush=True)

def whole():
    # An addition that was done when the signal came stays.
    assert len(index) in (COUNT, 2 * COUNT, COUNT + 200_000), len(index)
    found = index.search(few, 7, filter=range(COUNT))
    assert (found.ids == expected.ids).all() and (found.distances == expected.distances).all()
    assert len(index) == len(index.ids)
    say("whole")
"""

# What the child does after "go", when it gets the signal.
CALLS = {
    "search": "index.search(many(), 10)",
    "asynchronous search": "import asyncio; asyncio.run(index.search_async(many(), 10))",
    "addition": "while True: index.remove(index.add(np.resize(rows, (200_000, 256))))",
    "k-means": "nf.KMeans(200, iterations=100_000, tolerance=-1.0).fit(rows)",
    "filter": "index.search(few, filter=lambda id: time.sleep(0.001) or True)",
    "filter written in C": "thin = np.zeros((10_000_000, 1), np.float32); nf.knn(thin, thin[:1], filter=(-1).__ne__)",
    "waiting for a search": """
queries = many()
threading.Thread(target=lambda: index.search(queries, 10), daemon=True).start()
time.sleep(0.1)
index.add(rows)
""",
}
NIGHTLY = {
    "short searches": "while True: index.search(np.resize(rows, (20_000, 256)), 10)",
    "search within": "index.search_within(many(), 1.0)",
    "lists": "while True: nf.Ivf(rows, lists=200, iterations=10_000)",
    "distances": "while True: nf.distances(rows[:6000], np.resize(rows, (20_000, 256)))",
    "knn": "nf.knn(rows, many())",
    "progress": "index.search(many(), 10, progress=lambda *_: None)",
}


def interrupted(body: str) -> str:
    """Runs a program, sends it SIGINT after it said "go", and returns what it said then, soon."""
    # One stream, read through one buffer.
    child = subprocess.Popen(
        [sys.executable, "-c", START + body], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ)
    )
    hangs = threading.Timer(90, child.kill)
    hangs.start()
    try:
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line == "go\n", line + child.stdout.read()
        time.sleep(0.4)
        child.send_signal(signal.SIGINT)
        start = time.perf_counter()
        line = child.stdout.readline()
        assert_soon(time.perf_counter() - start, 1.5)
        written = line + child.stdout.read()
        assert child.wait() == 0, written
        return written
    finally:
        hangs.cancel()
        child.kill()
        child.wait()
        child.stdout.close()


with_signals = pytest.mark.skipif(sys.platform == "win32", reason="a signal cannot be sent to one process there")


@with_signals
@pytest.mark.parametrize("call", [*CALLS, *(pytest.param(call, marks=pytest.mark.nightly) for call in NIGHTLY)])
def test_ctrl_c_ends_a_call_soon_and_leaves_the_index_whole(call: str) -> None:
    body = "\n".join("    " + line for line in (CALLS | NIGHTLY)[call].strip().split("\n"))
    program = f"say('go')\ntry:\n{body}\nexcept KeyboardInterrupt:\n    say('ended')\nelse:\n    say('too short')\nwhole()\n"
    assert interrupted(program) == "ended\nwhole\n"


HANDLER = """
signal.signal(signal.SIGINT, lambda *_: say('handled'))
queries = np.resize(rows, (500, 256))
say('go')
start = time.perf_counter()
while time.perf_counter() - start < 1.5:
    index.search(queries, 10)
whole()
"""

HANDLER_THAT_SEARCHES = """
def handler(*_):
    len(index), index.dim, index.search(few)
signal.signal(signal.SIGINT, handler)
queries = many()
say('go')
try:
    while True:
        index.search(queries, 10)
except nf.Error as error:
    say(error)
"""


@with_signals
def test_handlers_of_signals_run_during_a_search_and_may_not_search() -> None:
    assert interrupted(HANDLER) == "handled\nwhole\n"
    needed = "signal: needed a handler that does not call nearfield while a call runs, given one that does\n"
    assert interrupted(HANDLER_THAT_SEARCHES) == needed


# Each program by its name, with the output that it must print. All end without an error.
PROGRAMS = {
    "forked, which is refused in one line": (
        "refused\nwhole\n0\n",
        START
        + """
pid = os.fork()
if pid == 0:
    for call in (
        lambda: index.search(few), lambda: index.add(rows), lambda: index.get([1]), lambda: index.to_bytes(),
        lambda: nf.Flat(dim=3), lambda: nf.knn(rows, few), lambda: nf.devices(), lambda: nf.reduce.sum(rows),
        lambda: nf.KMeans(3).fit(rows), lambda: nf.Device("host"),
    ):
        try:
            call()
        except nf.Error as error:
            assert "forked" in str(error) and "spawn" in str(error) and "\\n" not in str(error), error
        else:
            say("not refused")
    assert len(index) == COUNT
    say("refused")
    # A GPU's driver may crash at the end of a forked process, which multiprocessing ends like this.
    os._exit(0) if index.device.kind == "discrete" else sys.exit(0)
_, status = os.waitpid(pid, 0)
whole()
say(status)
""",
    ),
    "forked during a search, which ends at once": (
        "0 True\n",
        START
        + """
queries = many()
threading.Thread(target=lambda: index.search(queries), daemon=True).start()
time.sleep(0.1)
pid = os.fork()
if pid == 0:
    sys.exit(0)
start = time.perf_counter()
_, status = os.waitpid(pid, 0)
say(f"{status} {time.perf_counter() - start < 5}")
""",
    ),
    "forked before any call, where both work": (
        "0\n",
        """
import os
import numpy as np, nearfield as nf
pid = os.fork()
found = nf.Flat(np.eye(4, dtype=np.float32)).search(np.eye(4, dtype=np.float32), 1).ids.ravel().tolist()
assert found == [0, 1, 2, 3]
if pid:
    print(os.waitpid(pid, 0)[1])
""",
    ),
    "ends while threads search": (
        "end\n",
        START
        + """
def search():
    while True:
        index.search(rows[:6000], 10, progress=lambda *_: None)

def call_back():
    while True:
        index.search(few, 10, filter=lambda id: id % 3 == 0)

for work in (search, search, call_back):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.5)
say("end")
""",
    ),
    "ends while kernels are compiled": (
        "end\n",
        """
import os
os.environ["NEARFIELD_CACHE"] = ""
import numpy as np, nearfield as nf
import threading, time
index = nf.Flat(np.eye(8, dtype=np.float32))
threading.Thread(target=index.warm_up, daemon=True).start()
time.sleep(0.05)
print("end", flush=True)
""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_process_ends_well(child: Any, on_host: bool, name: str) -> None:
    if "forked" in name and not hasattr(os, "fork"):
        pytest.skip("needs fork")
    if "during" in name and not on_host:
        pytest.skip("a driver may crash at the end of a forked process; runs with the host engine")
    words, program = PROGRAMS[name]
    for _ in range(2 if "ends while" in name else 1):
        done = child(program)
        assert (done.returncode, done.stdout) == (0, words), done.stdout + done.stderr
        # Python warns of a fork beside threads.
        assert "forked" in name or done.stderr == ""


def test_spawned_processes_take_indexes(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("""
import multiprocessing
import numpy as np, nearfield as nf

def found(index):
    return index.search(np.eye(4, dtype=np.float32), 1).ids.ravel().tolist()

if __name__ == "__main__":
    index = nf.Flat(np.eye(4, dtype=np.float32))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        print(pool.map(found, [index, index]))
""")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=100)
    assert done.stdout == "[[0, 1, 2, 3], [0, 1, 2, 3]]\n", done.stdout + done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_pool_takes_indexes_and_estimators_and_refuses_to_use_them(child: Any) -> None:
    done = child(
        START
        + """
import multiprocessing, warnings
from nearfield.sklearn import NearestNeighbors
import nearfield.faiss as faiss

warnings.simplefilter("ignore")

def use(one):
    try:
        if isinstance(one, NearestNeighbors):
            one.kneighbors(few, 1)
        else:
            one.search(few, 1)
    except nf.Error as error:
        return "forked" in str(error)

flat = faiss.IndexFlatL2(rows.shape[1])
flat.add(rows)
documents = nf.MultiVector(rows.shape[1])
documents.add(few)
with multiprocessing.get_context("fork").Pool(2) as pool:
    say(pool.map(use, [index, NearestNeighbors(device="host").fit(rows), flat, documents]))
    say(pool.map(len, []))
"""
    )
    assert (done.returncode, done.stdout) == (0, "[True, True, True, True]\n[]\n"), done.stdout + done.stderr


def test_a_subinterpreter_is_refused() -> None:
    if not (3, 10) <= sys.version_info[:2] <= (3, 12):
        pytest.skip("later versions of Python refuse by themselves")
    program = """
import _xxsubinterpreters as interpreters
import nearfield
other = interpreters.create()
try:
    interpreters.run_string(other, "import nearfield")
except interpreters.RunFailedError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert "needed the main interpreter" in done.stdout, done.stdout + done.stderr


LITTLE = (
    START
    + """
import resource
import pyarrow as pa
def grown():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * 4096
some = np.ones((300, 256), np.float32)
large = nf.Flat(dim=256, metric="l2sq", device="host")
large.add(np.resize(rows, (20_000, 256)))
data = large.to_bytes()
thin, one, is_any = np.zeros((2_000_000, 1), np.float32), np.zeros((1, 1), np.float32), {0}.__contains__
far_ids = np.arange(2**40, 2**40 + len(thin))
far, near = nf.Flat(thin, ids=far_ids, device="host"), nf.Flat(thin[:1_000_000], device="host")
mask = np.ones(1_000_000, bool)
chunk = pa.FixedSizeListArray.from_arrays(pa.array(thin.ravel()), 1)
chunks = pa.chunked_array([chunk, chunk])
resource.setrlimit(resource.RLIMIT_AS, (grown() + (4 << 20),) * 2)
calls = {
    "search": lambda: large.search(some, 10_000),
    "within": lambda: large.search_within(some, 1e9),
    "distances": lambda: nf.distances(np.resize(rows, (12_000, 256)), some, device="host"),
    "bytes": lambda: large.to_bytes(),
    "get": lambda: large.get(range(20_000)),
    "add": lambda: large.add(np.broadcast_to(np.float32(1), (100_000, 256))),
    "copy": lambda: large.to("host"),
    "load": lambda: nf.from_bytes(data, "host"),
    "arrow": lambda: nf.Flat(chunks, device="host"),
    "ids": lambda: far.ids,
    "filter of ids": lambda: far.search(one, filter=far_ids),
    "filter by a function": lambda: far.search(one, filter=is_any),
    "filter of knn by a function": lambda: nf.knn(thin, one, filter=is_any),
    "deviations": lambda: nf.reduce.std(thin, axis=1),
    "places": lambda: nf.reduce.argmin(thin, axis=1),
    "products": lambda: nf.reduce.dot(thin, thin, axis=1),
}
for name, call in calls.items():
    try:
        call()
        say(name + " had enough")
    except MemoryError as error:
        assert "\\n" not in str(error)
assert len(large) == 20_000 and large.search(few, 1).ids.shape == (5, 1)
assert near.search(one, 1, filter=mask).ids.shape == (1, 1), "a mask needs no copy of all ids"
"""
)


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by Linux")
def test_too_little_memory_is_an_error_and_no_abort(child: Any, on_host: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not on_host:
        pytest.skip("a software driver aborts by itself; runs with the host engine")
    pytest.importorskip("pyarrow")
    # Otherwise the C library keeps memory that was freed, up to a limit that grows.
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    done = child(LITTLE, timeout=100)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


LEAKS = (
    START
    + """
import gc

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

index = nf.Flat(rows[:1000, :32].copy(), metric="l2sq")
queries, few = rows[:4, :32].copy(), rows[:1, :32].copy()
mask = np.arange(1000) % 2 == 0
def searches(count):
    for number in range(count):
        index.search(few, 5, filter=mask if number % 10 == 0 else None)
        if number % 50 == 0:
            index.search_within(queries, 1.0), index.search(np.asfortranarray(queries), 5), nf.reduce.sum(queries)

def failures(count):
    for call in count * (
        lambda: index.search(queries, 0), lambda: index.add(queries * np.nan), lambda: index.add(queries, [1, 1, 2, 3]),
        lambda: nf.from_bytes(b"x" * 1000), lambda: index.search(few, filter=lambda id: 1 // 0),
    ):
        try:
            call()
        except (ValueError, nf.Error, ZeroDivisionError):
            continue
        raise AssertionError("not refused")

many = 10_000 if index.device.kind == "host" else 1000
searches(many // 5), failures(40)
before = resident()
searches(many)
after = resident()
failures(40)
print(after - before, resident() - after)
"""
)


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is measured by Linux")
def test_many_searches_and_failures_leave_no_memory_behind(child: Any) -> None:
    done = child(LEAKS, timeout=200)
    assert done.returncode == 0, done.stderr
    searches, failures = map(float, done.stdout.split())
    assert searches < 5 and failures < 5, "mebibytes"
