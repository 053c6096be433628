// The package in Node, where the host engine answers: against sums in f64, by the rules of its calls.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';

import { Device, Flat, Ivf, NearfieldError } from '../dist/index.js';
import { DATA } from './folders.mjs';
import { missing, nearest, random, rows, shipped, whole } from './fixtures.mjs';

const device = await Device.open({ prefer: 'host' });

/** An error of the package with this code, whose message matches. */
const fails = (code, message) => (error) => {
  assert.ok(error instanceof NearfieldError, String(error.stack));
  assert.equal(error.code, code);
  assert.match(error.message, message);
  return true;
};

test('without WebGPU the host engine is taken, and says why', async () => {
  const best = await Device.open();
  assert.equal(best.isHost, true);
  assert.match(best.reason, /there is no GPU/);
  const gpu = await Device.open({ prefer: 'gpu' });
  assert.match(gpu.describe(), /^host.*there is no GPU/);
});

test('answers are those of sums in f64, bit for bit where sums are whole, for any dim, k and quantization', async () => {
  for (const [seed, dim] of [1, 3, 16, 17, 100, 384].entries()) {
    const base = whole(seed, 700, dim);
    const query = whole(1000 + seed, 9, dim);
    for (const quantization of ['auto', 'none', 'int8']) {
      const index = await Flat.create(device, { dim, metric: 'l2sq', quantization });
      await index.add(base);
      for (const k of [1, 10, 800]) {
        const found = await index.search(query, { k });
        assert.deepEqual(rows(found), nearest(base, query, dim, k), `dim ${dim}, k ${k}, ${quantization}`);
      }
      await index.free();
    }
  }
});

test('distances of integers are exact and rounded once, and an index refuses rows that it cannot hold', async () => {
  const dim = 1000;
  const next = random(7);
  for (const [dtype, Kind, least] of [['int8', Int8Array, -128], ['uint8', Uint8Array, 0]]) {
    const [base, query] = [300, 5].map((count) => Kind.from({ length: count * dim }, () => least + Math.floor(next() * 256)));
    for (const metric of ['l2sq', 'ip']) {
      const index = await Flat.create(device, { dim, metric, dtype });
      await index.add(base);
      const wanted = nearest(base, query, dim, 9, { metric }).map((row) => row.map(([distance, id]) => [Math.fround(distance), id]));
      assert.deepEqual(rows(await index.search(query, { k: 9 })), wanted, `${dtype}, ${metric}`);
      await index.warmUp();
      await assert.rejects(index.add(new Float32Array(dim)), fails('Argument', /^vectors: needed [iu]8 rows, because/));
      await index.free();
    }
  }
});

test('bits are counted, and an index of bits takes bytes alone', async () => {
  const [dim, next] = [12, random(8)];
  const [base, query] = [200, 4].map((count) => Uint8Array.from({ length: count * dim }, () => Math.floor(next() * 256)));
  const ones = (byte) => byte.toString(2).replaceAll('0', '').length;
  const counted = (q, x, of) => base.subarray(x * dim, (x + 1) * dim).reduce((sum, byte, at) => sum + ones(of(byte, query[q * dim + at])), 0);
  for (const metric of ['hamming', 'jaccard']) {
    const index = await Flat.create(device, { dim, metric });
    await index.add(base);
    const distance = (q, x) => {
      const different = counted(q, x, (a, b) => a ^ b);
      return metric === 'hamming' ? different : Math.fround(different / counted(q, x, (a, b) => a | b));
    };
    const wanted = [0, 1, 2, 3].map((q) => [...Array(200).keys()].map((x) => [distance(q, x), x]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).slice(0, 9));
    assert.deepEqual(rows(await index.search(query, { k: 9 })), wanted, metric);
    assert.deepEqual([...(await index.get([3]))], [...base.subarray(3 * dim, 4 * dim)]);
    await assert.rejects(index.add(new Float32Array(dim)), fails('Argument', /^vectors: needed bits rows, because/));
    await assert.rejects(index.search(new Int8Array(dim)), fails('Argument', /^queries: needed bits, as the index stores/));
    await index.warmUp();
    await index.free();
  }
});

test('true neighbours of the shipped vectors are found on all metrics, from f32 and f16', async () => {
  const { base, query, dim } = await shipped((name) => readFile(join(DATA, name)));
  const some = query.vectors.subarray(0, 20 * dim);
  for (const metric of ['l2sq', 'l2', 'cosine', 'ip']) {
    const truth = nearest(base.vectors, some, dim, 20, { metric });
    const index = await Flat.create(device, { dim, metric });
    await index.add(base.vectors);
    assert.equal(missing(await index.search(some, { k: 20 }), truth), 0, metric);
    if (typeof Float16Array === 'function') {
      const half = await Flat.create(device, { dim, metric, dtype: 'float16' });
      await half.add(new Float16Array(base.bits.slice().buffer));
      const found = await half.search(new Float16Array(query.bits.slice(0, 20 * dim).buffer), { k: 20 });
      assert.equal(missing(found, truth), 0, `${metric} of f16`);
    }
  }
});

test('rows are added with ids, updated, read, removed and compacted', async () => {
  const index = await Flat.create(device, { dim: 4, metric: 'l2sq' });
  const base = whole(7, 50, 4);
  const ids = Array.from({ length: 50 }, (_, row) => row * 3 + 5);
  await index.add(base, { ids });
  assert.equal(index.size, 50);
  assert.deepEqual([...(await index.ids())].sort((a, b) => a - b), ids);
  assert.deepEqual(await index.get([8, 5n]), new Float32Array([...base.slice(4, 8), ...base.slice(0, 4)]));
  assert.equal(await index.has(8), true);
  await index.update([8], [9, 9, 9, 9]);
  assert.deepEqual([...(await index.get([8]))], [9, 9, 9, 9]);
  await index.remove([8, 11]);
  assert.equal(await index.has(8), false);
  await index.compact();
  assert.equal(index.size, 48);
  const [kept, left] = [ids.filter((id) => id !== 8 && id !== 11), base.filter((_, at) => at < 4 || at >= 12)];
  const query = whole(8, 3, 4);
  assert.deepEqual(rows(await index.search(query, { k: 5 })), nearest(left, query, 4, 5, { ids: kept }));
});

test('rows that go in pieces are all there, and progress tells of each', async () => {
  const dim = 512;
  const base = whole(3, 10_000, dim);
  const index = await Flat.create(device, { dim, metric: 'l2sq' });
  const heard = [];
  await index.add(base, { onProgress: (done) => heard.push(done) });
  assert.ok(heard.length > 2 && heard.at(-1) === 10_000 && heard.every((done, i) => i === 0 || done > heard[i - 1]), String(heard));
  const query = base.slice(9_999 * dim);
  assert.deepEqual([...(await index.search(query, { k: 1 })).ids], [nearest(base, query, dim, 1)[0][0][1]]);
});

test('an addition that fails in a later piece leaves the index as it was', async () => {
  const dim = 512;
  const spoilt = whole(3, 10_000, dim);
  spoilt[9_000 * dim + 7] = NaN;
  const index = await Flat.create(device, { dim, metric: 'l2sq' });
  await index.add(whole(4, 3, dim));
  await assert.rejects(index.add(spoilt), fails('NotFinite', /^vectors: needed finite values, row 9000 /));
  assert.deepEqual([...(await index.ids())], [0, 1, 2]);
  assert.equal(index.size, 3);
  const ids = Array.from({ length: 10_000 }, (_, row) => row + 10);
  await assert.rejects(index.add(spoilt, { ids }), fails('NotFinite', /^vectors: needed finite values, row 9000 /));
  assert.deepEqual([...(await index.ids())], [0, 1, 2]);
  spoilt[9_000 * dim + 7] = 1e30;
  await assert.rejects(index.add(spoilt), fails('NormOutOfRange', /^vectors: needed norms .*, row 9000 /));
});

test('within finds all rows below a radius that no 32-bit float is', async () => {
  const index = await Flat.create(device, { dim: 1, metric: 'l2sq' });
  await index.add([0, 1, 2]);
  const inner = await Flat.create(device, { dim: 1, metric: 'ip' });
  await inner.add([1, 2]);
  const found = async (index, query, radius) => [...(await index.within([query], radius)).ids];
  assert.deepEqual(await found(index, 0, 1e-50), [0]);
  assert.deepEqual(await found(index, 0, 0), []);
  assert.deepEqual(await found(index, 0, 1), [0]);
  assert.deepEqual(await found(index, 0, 1 + 1e-9), [0, 1]);
  assert.deepEqual(await found(index, 0, 4 - 1e-9), [0, 1]);
  assert.deepEqual(await found(index, 0, 1e39), [0, 1, 2]);
  assert.deepEqual(await found(inner, 1, -1 + 1e-9), [1, 0]);
  assert.deepEqual(await found(inner, 1, -1 - 1e-9), [1]);
});

test('only allowed rows are found, by ids or by bits', async () => {
  const dim = 16;
  const base = whole(5, 500, dim);
  const query = whole(6, 4, dim);
  const index = await Flat.create(device, { dim, metric: 'l2sq' });
  await index.add(base);
  const allowed = Array.from({ length: 500 }, (_, id) => id).filter((id) => id % 7 === 3);
  const bits = new Uint8Array(63);
  allowed.forEach((id) => (bits[id >> 3] |= 1 << (id & 7)));
  const few = Float32Array.from(allowed.flatMap((id) => [...base.slice(id * dim, (id + 1) * dim)]));
  const want = nearest(few, query, dim, 6, { ids: allowed });
  for (const allow of [allowed, new Set(allowed), BigUint64Array.from(allowed, BigInt), { bits }]) {
    assert.deepEqual(rows(await index.search(query, { k: 6, allow })), want);
  }
  const within = await index.within(query, want[0][3][0], { allow: { bits } });
  assert.deepEqual(rows(within)[0], want[0].filter(([distance]) => distance < want[0][3][0]));
  assert.equal((await index.search(query, { allow: [] })).ids.length, 0);
});

/** The neighbours of each row of a graph, and pairs, as tests write them. */
const edges = (graph) => Array.from(graph.rows, (row, at) => [row, rows(graph)[at]]);
const pairs = ({ a, b, distances }) => Array.from(a, (first, at) => [first, b[at], distances[at]]);

test('a graph has the nearest others of every row, duplicates among them, and pairs are each there once', async () => {
  const dim = 8;
  const base = whole(14, 300, dim);
  base.copyWithin(70 * dim, 9 * dim, 10 * dim);
  const ids = Array.from({ length: 300 }, (_, row) => row * 3 + 5);
  const all = nearest(base, base, dim, 300, { ids }).map((row, at) => row.filter(([, id]) => id !== ids[at]));
  const flat = await Flat.create(device, { dim, metric: 'l2sq' });
  const ivf = await Ivf.train(device, { dim, metric: 'l2sq', lists: 8, iterations: 2, seed: 1 }, base);
  for (const index of [flat, ivf]) await index.add(base, { ids });
  const want = all.map((row, at) => [ids[at], row.slice(0, 6)]);
  assert.deepEqual(edges(await flat.knnGraph(6)), want);
  assert.deepEqual(edges(await ivf.knnGraph(6, { probes: 8 })), want);
  assert.equal((await flat.knnGraph()).ids.length, 3000);
  assert.deepEqual(want[9][1][0], [0, ids[70]]);

  const close = (radius, some = ids) =>
    all.flatMap((row, at) => row.filter(([distance, id]) => distance < radius && ids[at] < id).map(([distance, id]) => [ids[at], id, distance])
      .filter(([a, b]) => some.includes(a) && some.includes(b)).sort((x, y) => x[1] - y[1]));
  for (const index of [flat, ivf]) {
    for (const radius of [0, 1e-9, 40, 1e39]) assert.deepEqual(pairs(await index.pairsWithin(radius)), close(radius), String(radius));
  }
  const allow = ids.filter((id) => id % 2 === 0);
  assert.deepEqual(pairs(await flat.pairsWithin(60, { allow })), close(60, allow));
  const some = all.map((row, at) => [ids[at], row.filter(([, id]) => allow.includes(id)).slice(0, 4)]);
  assert.deepEqual(edges(await flat.knnGraph(4, { allow })), some.filter(([id]) => allow.includes(id)));

  const empty = await Flat.create(device, { dim, metric: 'l2sq' });
  assert.deepEqual([edges(await empty.knnGraph(3)), pairs(await empty.pairsWithin(1))], [[], []]);
});

test('every row against every other ends between two pieces when it is aborted, and tells how many rows are done', async () => {
  const dim = 32;
  const index = await Flat.create(device, { dim, metric: 'l2sq' });
  await index.add(whole(15, 6000, dim));
  for (const call of [(options) => index.knnGraph(5, options), (options) => index.pairsWithin(60, options)]) {
    const heard = [];
    await call({ onProgress: (done) => heard.push(done) });
    assert.ok(heard.length > 1 && heard.at(-1) === 6000 && heard.every((done, at) => at === 0 || done >= heard[at - 1]), String(heard));
    const controller = new AbortController();
    const reason = new Error('no longer wanted');
    setTimeout(() => controller.abort(reason));
    let done = 0;
    await assert.rejects(call({ signal: controller.signal, onProgress: (rows) => (done = rows) }), reason);
    // Calls come one after the other: if the work went on, this one would wait for it.
    await index.search(whole(16, 1, dim), { k: 1 });
    assert.ok(done < 6000, String(done));
  }
});

test('a saved index is the same file, and is refused when it is damaged or of the other kind', async () => {
  const dim = 32;
  const base = whole(9, 900, dim);
  const query = whole(10, 5, dim);
  const flat = await Flat.create(device, { dim, metric: 'l2' });
  await flat.add(base);
  const bytes = await flat.toBytes();
  const again = await Flat.fromBytes(device, bytes);
  assert.equal(again.metric, 'l2');
  assert.deepEqual(await again.search(query), await flat.search(query));
  assert.deepEqual(await again.toBytes(), bytes);
  await assert.rejects(Ivf.fromBytes(device, bytes), fails('Argument', /needed an Ivf, given the file of a Flat/));
  const damaged = bytes.slice();
  damaged[damaged.length - 9] ^= 1;
  await assert.rejects(Flat.fromBytes(device, damaged), fails('File', /checksum/));
  await assert.rejects(Flat.fromBytes(device, bytes.slice(0, -1)), fails('File', /bytes/));
  await assert.rejects(Flat.fromBytes(device, new Uint8Array(4)), fails('File', /needed an index of nearfield/));
});

test('an Ivf that probes all lists finds what a Flat finds', async () => {
  const dim = 24;
  const next = random(11);
  const base = Float32Array.from({ length: 3000 * dim }, next);
  const query = Float32Array.from({ length: 20 * dim }, next);
  const flat = await Flat.create(device, { dim, metric: 'l2sq' });
  await flat.add(base);
  const heard = [];
  const onProgress = (done) => heard.push(done);
  const index = await Ivf.train(device, { dim, metric: 'l2sq', lists: 16, iterations: 4, seed: 1 }, base, { onProgress });
  assert.ok(heard.length > 0);
  assert.equal(index.lists, 16);
  await index.add(base);
  const want = await flat.search(query);
  const all = await index.search(query, { probes: 16 });
  assert.deepEqual([all.ids, all.distances], [want.ids, want.distances]);
  const some = await index.search(query, { probes: 4 });
  assert.ok(some.statistics.scored < all.statistics.scored);
  assert.equal(await index.plan(1, 10, 3), "3 of 16 lists a query; rows in the host's memory");
  const again = await Ivf.fromBytes(device, await index.toBytes());
  assert.deepEqual((await again.search(query, { probes: 4 })).ids, some.ids);
});

test('calls run in their order, and an aborted one changes nothing', async () => {
  const index = await Flat.create(device, { dim: 2, metric: 'l2' });
  const controller = new AbortController();
  const calls = [
    index.add([0, 0]),
    index.search([0, 0]),
    index.add([1, 1], { signal: controller.signal }),
    index.add([2, 2]),
  ];
  const reason = new Error('no longer wanted');
  controller.abort(reason);
  const [, found, aborted] = await Promise.allSettled(calls);
  assert.deepEqual([...found.value.ids], [0]);
  assert.equal(aborted.reason, reason);
  assert.equal(index.size, 2);
  await assert.rejects(index.search([0, 0], { signal: AbortSignal.abort() }), { name: 'AbortError' });
});

test('a search of many queries gives what searches of few give, and ends between two pieces when it is aborted', async () => {
  const [dim, count] = [64, 4000];
  const [base, queries] = [whole(12, 8000, dim), whole(13, count, dim)];
  const flat = await Flat.create(device, { dim, metric: 'l2sq' });
  const ivf = await Ivf.train(device, { dim, metric: 'l2sq', lists: 16, iterations: 2, seed: 1 }, base);
  const allow = Array.from({ length: 2000 }, (_, id) => 4 * id);
  const calls = {
    search: (queries, options) => flat.search(queries, { k: 10, ...options }),
    allowed: (queries, options) => flat.search(queries, { k: 10, allow, ...options }),
    within: (queries, options) => flat.within(queries, 450, options),
    probing: (queries, options) => ivf.search(queries, { k: 10, probes: 3, ...options }),
    filling: (queries, options) => ivf.search(queries, { k: 800, probes: 1, iterativeScan: true, ...options }),
  };
  for (const index of [flat, ivf]) await index.add(base);
  for (const [name, call] of Object.entries(calls)) {
    const heard = [];
    const many = await call(queries.subarray(0, 220 * dim), { onProgress: (done) => heard.push(done) });
    assert.ok(heard.length > 1 && heard.at(-1) === 220 && heard.every((done, at) => at === 0 || done >= heard[at - 1]), `${name}: ${heard}`);
    const found = [];
    let scored = 0;
    for (let query = 0; query < 220; query += 20) {
      const few = await call(queries.subarray(query * dim, (query + 20) * dim));
      found.push(...rows(few));
      scored += few.statistics.scored;
    }
    assert.deepEqual(rows(many), found, name);
    assert.equal(many.statistics.scored, scored, name);

    for (const way of ['report', 'timer']) {
      const controller = new AbortController();
      const reason = new Error(way);
      const abort = () => controller.abort(reason);
      let done = 0;
      if (way === 'timer') setTimeout(abort);
      const onProgress = (answered) => {
        done = answered;
        if (way === 'report') abort();
      };
      await assert.rejects(call(queries, { signal: controller.signal, onProgress }), reason);
      assert.ok(done > 0 && done < count, `${name}, ${way}: ${done} queries`);
    }
    assert.deepEqual(rows(await call(queries.subarray(0, 20 * dim))), found.slice(0, 20), name);
  }
  const spoilt = queries.slice();
  spoilt[3999 * dim] = NaN;
  const heard = [];
  await assert.rejects(flat.search(spoilt, { onProgress: (done) => heard.push(done) }), fails('NotFinite', /^queries: .*row 3999 /));
  assert.deepEqual(heard, []);
});

test('a freed index refuses calls, and one that is recovered goes on', async () => {
  const index = await Flat.create(device, { dim: 2, metric: 'l2' });
  await index.add([0, 0, 3, 4]);
  await index.recover();
  assert.deepEqual([...(await index.search([3, 3], { k: 1 })).ids], [1]);
  const bytes = await index.toBytes();
  await index.add([9, 9]);
  await index.recover(bytes);
  assert.equal(index.size, 2);
  await index.free();
  await index.free();
  await assert.rejects(index.search([0, 0]), fails('Argument', /given one that was freed/));
});

test('an index is not recovered from bytes of another kind, and stays as it was', async () => {
  const index = await Flat.create(device, { dim: 2, metric: 'l2' });
  await index.add([0, 0, 3, 4]);
  const others = [
    [await Flat.create(device, { dim: 3, metric: 'l2' }), /given those of a Flat of dim 3, l2, float32$/],
    [await Flat.create(device, { dim: 2, metric: 'ip' }), /given those of a Flat of dim 2, ip, float32$/],
    [await Flat.create(device, { dim: 2, metric: 'l2', dtype: 'float16' }), /given those of a Flat of dim 2, l2, float16$/],
    [await Ivf.train(device, { dim: 2, metric: 'l2', lists: 2 }, whole(1, 20, 2)), /given those of an Ivf of dim 2, l2, float32$/],
  ];
  for (const [other, message] of others) {
    const call = index.recover(await other.toBytes());
    await assert.rejects(call, fails('Argument', /^bytes: needed those of a Flat of dim 2, l2, float32, /));
    await assert.rejects(call, fails('Argument', message));
  }
  assert.deepEqual([index.dim, index.metric, index.size], [2, 'l2', 2]);
  assert.deepEqual([...(await index.search([3, 3])).ids], [1, 0]);
});
