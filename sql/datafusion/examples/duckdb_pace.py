#!/usr/bin/env python3
"""Times DuckDB's array_distance on the Parquet files of examples/pace.rs: one query after the other, and all in one join.

    pip install duckdb==2.0.1
    python3 sql/datafusion/examples/duckdb_pace.py
"""

import pathlib
import statistics
import tempfile
import time

import duckdb

K = 10
# Queries that are timed one by one, and those of the join.
SINGLE, JOINED = 20, 100

folder = pathlib.Path(tempfile.gettempdir())
base, queries = (folder / f"nearfield-pace-{name}.parquet" for name in ("base", "queries"))
db = duckdb.connect()
dim = db.sql(f"SELECT len(vec) FROM '{base}' LIMIT 1").fetchall()[0][0]
rows = db.sql(f"SELECT count(*) FROM '{base}'").fetchall()[0][0]
vectors = [row[0] for row in db.sql(f"SELECT vec FROM '{queries}' ORDER BY id LIMIT {SINGLE}").fetchall()]


def timed(statement, values=None):
    start = time.perf_counter()
    answer = db.execute(statement, values).fetchall()
    return time.perf_counter() - start, answer


def single(source):
    statement = f"SELECT id FROM {source} ORDER BY array_distance(vec::FLOAT[{dim}], ?::FLOAT[{dim}]), id LIMIT {K}"
    times, found = zip(*(timed(statement, [vector]) for vector in vectors))
    return statistics.median(times) * 1e3, [[row[0] for row in answer] for answer in found]


read, found = single(f"'{base}'")
db.execute(f"CREATE TABLE base AS SELECT id, vec::FLOAT[{dim}] AS vec FROM '{base}'")
kept, again = single("base")
assert found == again
join, answer = timed(
    f"""SELECT q.id, min_by(base.id, array_distance(base.vec, q.vec), {K})
        FROM (SELECT id, vec::FLOAT[{dim}] AS vec FROM '{queries}' ORDER BY id LIMIT {JOINED}) q CROSS JOIN base
        GROUP BY q.id ORDER BY q.id"""
)
assert [ids for _, ids in answer[:SINGLE]] == found
print(f"DuckDB {duckdb.__version__}, {rows} x {dim}, k {K}, {SINGLE} queries")
print(f"array_distance over Parquet, a query       {read:9.1f} ms")
print(f"array_distance over its own table, a query {kept:9.1f} ms")
print(f"{JOINED} queries in one join, a query           {join / JOINED * 1e3:9.1f} ms")
