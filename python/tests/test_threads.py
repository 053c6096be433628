"""Threads search at once, without the interpreter's lock; changes wait for them; nothing waits for itself."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from reference import assert_same, assert_soon, nearest

import nearfield as nf


def together(work: Callable[[int], Any], threads: int = 8) -> list[Any]:
    """Runs work in several threads that start at once."""
    barrier = threading.Barrier(threads)

    def run(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))


@pytest.fixture(scope="module")
def large() -> tuple[nf.Flat, Any]:
    """An index and queries whose search takes some tenths of a second."""
    rng = np.random.default_rng(2)
    rows = 200_000 if nf.Device().kind == "discrete" else 8000
    index = nf.Flat(rng.standard_normal((rows, 128), dtype=np.float32), metric="l2sq", quantization="none")
    queries = rng.standard_normal((100, 128), dtype=np.float32)
    index.search(queries)
    while True:
        start = time.perf_counter()
        index.search(queries)
        seconds = time.perf_counter() - start
        if seconds > 0.3 or len(queries) > 500_000:
            return index, queries
        queries = np.resize(queries, (int(len(queries) * min(max(0.5 / seconds, 1.2), 20)), 128))


def test_searches_of_eight_threads_are_right(index: nf.Flat, integers: Any) -> None:
    rows, queries = integers
    expected = {k: nearest(rows, queries, k, "l2sq") for k in range(1, 9)}

    def work(number: int) -> None:
        for _ in range(5):
            assert_same(index.search(queries, number + 1), expected[number + 1])
            assert_same(index.search(queries[number], 3), nearest(rows, queries[number : number + 1], 3, "l2sq"))

    together(work)


def test_other_threads_run_and_search_during_a_search(large: Any) -> None:
    index, queries = large
    rows = len(index)
    small = nf.Flat(np.eye(4, dtype=np.float32), device="host")
    thread = threading.Thread(target=lambda: index.search(queries, 10))
    thread.start()
    count = 0
    while thread.is_alive():
        small.search(np.ones(4, np.float32), 1)
        assert len(index) == rows and 5 in index
        count += 1
    # With the interpreter's lock held it would be once.
    assert count > 5


def test_changes_and_searches_exclude_each_other(integers: Any) -> None:
    rows, queries = integers
    index = nf.Flat(rows[:100], metric="l2sq")
    expected = nearest(rows[:100], queries, 5, "l2sq")

    def work(number: int) -> None:
        for step in range(10):
            if number < 2:
                ids = index.add(rows[100:120], ids=np.arange(20) + 1000 * (number + 1) + 100_000 * step)
                index.update(ids[:1], rows[:1])
                assert index.remove(ids) == 20
            else:
                assert_same(index.search(queries, 5, filter=range(100)), expected)
                assert index.get([7]).shape == (1, 12)
                assert 100 <= len(index) <= 140

    together(work, 6)
    assert len(index) == 100
    assert_same(index.search(queries, 5), expected)


def test_a_change_gets_its_turn_while_searches_overlap(large: Any) -> None:
    index, queries = large
    queries = queries[: max(len(queries) // 4, 100)]
    start = time.perf_counter()
    index.search(queries, 10)
    one = time.perf_counter() - start
    is_done = threading.Event()

    def search(_: int) -> None:
        while not is_done.is_set():
            index.search(queries, 10)

    with ThreadPoolExecutor(4) as pool:
        pool.map(search, range(4))
        time.sleep(one)
        start = time.perf_counter()
        index.remove(index.add(queries[:1], ids=[10**6]))
        waited = time.perf_counter() - start
        is_done.set()
    # A round of all searches before each of the two changes, and as much again for slow machines.
    assert_soon(waited, 20 * one + 2)


def test_merging_both_ways_at_once_ends(integers: Any) -> None:
    rows = integers[0]
    for _ in range(5):
        one = nf.Flat(rows[:200], metric="l2sq")
        other = nf.Flat(rows[200:], metric="l2sq", ids=range(200, 500))

        def merge(number: int) -> None:
            try:
                (one.merge(other), other.merge(one))[number]
            except ValueError as error:
                assert "ids: needed ids that are not in the index yet" in str(error)

        together(merge, 2)
        assert len(one) in (200, 500) and len(other) in (300, 500)


def test_threads_may_share_queries_but_not_an_out(index: nf.Flat, integers: Any) -> None:
    queries = integers[1]
    out = (np.zeros((20, 5), np.float32), np.zeros((20, 5), np.int64))

    def work(number: int) -> int:
        refused = 0
        for _ in range(10):
            try:
                index.search(queries, 5, out=out)
            except ValueError as error:
                assert str(error).startswith("out: needed arrays that can be written")
                refused += 1
        return refused

    assert sum(together(work, 4)) < 40
    assert_same(out, nearest(*integers, 5, "l2sq"))


def test_progress_may_use_another_thread_to_read_the_index(index: nf.Flat, integers: Any) -> None:
    lengths: list[int] = []

    def read(*_: Any) -> None:
        thread = threading.Thread(target=lambda: lengths.append(len(index)))
        thread.start()
        thread.join()

    index.search(integers[1], 5, progress=read)
    assert lengths and set(lengths) == {500}


def test_asynchronous_searches_run_together_and_are_right(index: nf.Flat, integers: Any) -> None:
    rows, queries = integers

    async def main() -> Any:
        return await asyncio.gather(*(index.search_async(query, 5, filter=range(400)) for query in queries))

    found = asyncio.run(main())
    expected = nearest(rows[:400], queries, 5, "l2sq")
    assert_same((np.vstack([f.distances for f in found]), np.vstack([f.ids for f in found])), expected)


def test_the_event_loop_goes_on_during_a_search(large: Any) -> None:
    index, queries = large

    async def main() -> int:
        ticks = 0
        search = asyncio.ensure_future(index.search_async(queries, k=10))
        while not search.done():
            await asyncio.sleep(0.005)
            ticks += 1
        assert (await search).ids.shape == (len(queries), 10)
        return ticks

    assert asyncio.run(main()) > 5


def test_a_cancelled_search_ends(large: Any) -> None:
    index, queries = large
    queries = np.resize(queries, (20 * len(queries), 128))

    async def main() -> float:
        search = asyncio.ensure_future(index.search_async(queries, 10))
        await asyncio.sleep(0.3)
        assert search.cancel()
        start = time.perf_counter()
        with pytest.raises(asyncio.CancelledError):
            await search
        # The loop waits for its threads when it is closed, so the search itself has to end.
        await asyncio.get_running_loop().shutdown_default_executor()
        return time.perf_counter() - start

    assert_soon(asyncio.run(main()), 2)
    assert index.search(queries[:1], 1).ids.shape == (1, 1)


def test_a_class_with_a_search_of_its_own_searches_asynchronously(integers: Any) -> None:
    class Mine(nf.Flat):
        def search(self, queries: Any, k: int = 10) -> Any:  # type: ignore[override]
            raise AssertionError("not this one")

    mine = Mine(integers[0], metric="l2sq")
    found = asyncio.run(mine.search_async(integers[1], 3))
    assert_same(found, nearest(*integers, 3, "l2sq"))


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [(["x"], {}, "k: needed a whole number"), ([], {"bogus": 1}, "bogus"), ([1, 2], {}, "positional")],
)
def test_an_asynchronous_search_names_what_does_not_fit(index: nf.Flat, integers: Any, arguments: Any, options: Any, words: str) -> None:
    async def main() -> None:
        await index.search_async(integers[1], *arguments, **options)

    with pytest.raises(TypeError, match=words):
        asyncio.run(main())
