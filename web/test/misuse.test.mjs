// The package in Node with arguments that are wrong, arrays that go away, and too little memory: errors that name the cause, and no change.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';

import { Device, Flat, Ivf, MultiVector, NearfieldError, version } from '../dist/index.js';
import { WorkerEngine } from '../dist/remote.js';
import { whole } from './fixtures.mjs';

const device = await Device.open({ prefer: 'host' });

async function filled(dim = 4, rows = 20) {
  const index = await Flat.create(device, { dim, metric: 'l2sq' });
  await index.add(whole(1, rows, dim));
  return index;
}

/** The code and the message of a call's error; a call that never ends fails the test. */
async function fault(call) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error('the call does not end')), 10_000)));
  const error = await Promise.race([call, late]).then(() => assert.fail('no error'), (error) => error).finally(() => clearTimeout(timer));
  assert.ok(error instanceof NearfieldError, String(error.stack));
  return `${error.code}, ${error.message}`;
}

test('the version is that of the package and of the library', async () => {
  const read = (path) => readFile(new URL(path, import.meta.url), 'utf8');
  assert.equal(version, JSON.parse(await read('../package.json')).version);
  assert.equal(version, /^version = "(.*)"/m.exec(await read('../../Cargo.toml'))[1]);
});

test('what a listener of progress throws is uncaught, and no row goes', async () => {
  const uncaught = new Set();
  const { queueMicrotask } = globalThis;
  globalThis.queueMicrotask = (work) =>
    queueMicrotask(() => {
      try {
        work();
      } catch (error) {
        uncaught.add(error.message);
      }
    });
  try {
    const index = await filled();
    const onProgress = () => {
      throw new Error('mine');
    };
    await index.add([1, 1, 1, 1], { onProgress });
    assert.equal(index.size, 21);
    await index.search(whole(2, 600, 4), { onProgress });
    assert.deepEqual([...uncaught], ['mine']);
    assert.equal((await index.ids()).length, 21);
  } finally {
    globalThis.queueMicrotask = queueMicrotask;
  }
});

test('an array whose buffer was moved away is an error, before the call and during it', async () => {
  const index = await filled();
  const bytes = await index.toBytes();
  const moved = (array) => {
    structuredClone(array.buffer, { transfer: [array.buffer] });
    return array;
  };
  const there = /^Argument, (\w|\.)+: needed an array that is there, given one whose buffer was moved away$/;
  const gone = moved(new Float32Array(4));
  const early = [index.search(gone), index.add(gone), index.within(gone, 1), index.update([1], gone), Ivf.train(device, { dim: 4 }, gone)];
  for (const ids of [moved(new Float64Array(1)), moved(new BigUint64Array(1))]) {
    early.push(index.get(ids), index.remove(ids), index.add([1, 2, 3, 4], { ids }), index.search([1, 2, 3, 4], { allow: ids }));
  }
  early.push(index.search([1, 2, 3, 4], { allow: { bits: moved(new Uint8Array(4)) } }));
  const lost = moved(bytes.slice());
  early.push(Flat.fromBytes(device, lost), index.recover(lost));
  for (const call of early) assert.match(await fault(call), there);
  const [later, sample, saved] = [new Float32Array(4), whole(1, 20, 4), bytes.slice()];
  const calls = [index.search(later), index.add(later), Ivf.train(device, { dim: 4, lists: 2 }, sample), Flat.fromBytes(device, saved), index.recover(saved)];
  [later, sample, saved].forEach(moved);
  for (const call of calls) assert.match(await fault(call), /^Argument, \w+: needed an array that stays until the call has ended/);
  // At every moment until the module has its copy.
  for (let ticks = 0; ticks < 5; ticks++) {
    const [query, sample, saved] = [new Float32Array(4), whole(1, 20, 4), bytes.slice()];
    const calls = [index.search(query), Ivf.train(device, { dim: 4, lists: 2 }, sample), Flat.fromBytes(device, saved)];
    for (let tick = 0; tick < ticks; tick++) await null;
    [query, sample, saved].forEach(moved);
    for (const end of await Promise.allSettled(calls)) {
      if (end.status === 'rejected') assert.match(String(end.reason), /needed an array that stays until the call has ended/);
    }
  }
  assert.equal(index.size, 20);
  assert.equal((await index.search(new Float32Array(4), { k: 3 })).ids.length, 3);
});

test('arguments without memory are errors, and later calls work', async () => {
  const index = await filled();
  const documents = await MultiVector.create(device, { dim: 1000 });
  const own = await Device.open({ prefer: 'host' });
  const most = [];
  await assert.rejects(async () => {
    for (;;) most.push(await Flat.create(own, { dim: 1024, capacity: 100_000, quantization: 'none' }));
  }, { code: 'OutOfMemory' });
  const large = new Float32Array(120e6);
  const bits = new Uint8Array(large.buffer);
  const lack = /^OutOfMemory, memory: an argument needs 4\d{8} bytes/;
  assert.match(await fault(index.search(large, { k: 1 })), lack);
  assert.match(await fault(index.update([1], large)), lack);
  assert.match(await fault(index.search(new Float32Array(4), { allow: { bits } })), lack);
  assert.match(await fault(Flat.fromBytes(device, bits)), lack);
  assert.match(await fault(Ivf.train(device, { dim: 1000 }, large)), lack);
  assert.match(await fault(documents.add(large)), /^OutOfMemory, /);
  assert.match(await fault(documents.search(large)), lack);
  // Memory for the argument may not be enough for all that is made of it.
  let lacking = 0;
  for (const rows of [30_000, 90_000]) {
    const tokens = large.subarray(0, rows * 1000);
    const offsets = Uint32Array.from({ length: rows + 1 }, (_, at) => at);
    const one = new Float32Array(1000);
    for (const call of [device.maxsim(one, { tokens, offsets }, { dim: 1000 }), documents.add({ tokens, offsets }), documents.search(one)]) {
      await call.catch((error) => assert.equal(error.code, 'OutOfMemory', String(error)) ?? lacking++);
    }
  }
  assert.ok(lacking > 0);
  own.close();
  assert.equal((await index.search(new Float32Array(4), { k: 3 })).ids.length, 3);
});

test('a closed device frees its indexes and refuses calls', async () => {
  const rows = whole(1, 5000, 1000);
  for (let turn = 0; turn < 250; turn++) {
    // Together 5 GB, more than WebAssembly can have.
    const own = await Device.open({ prefer: 'host' });
    const index = await Flat.create(own, { dim: 1000, metric: 'l2sq', capacity: 5000, quantization: 'none' });
    if (turn === 0) await index.add(rows);
    own.close();
    if (turn > 0) continue;
    assert.match(await fault(index.search(rows.subarray(0, 1000))), /^Argument, device: needed one that is open/);
    assert.match(await fault(Flat.create(own, { dim: 4 })), /^Argument, device: needed one that is open/);
    await index.free();
    own.close();
  }
});

test('an index may be freed twice at once, after the calls before', async () => {
  const index = await filled();
  const found = index.search(new Float32Array(4), { k: 2 });
  await Promise.all([index.free(), index.free()]);
  assert.equal((await found).ids.length, 2);
  assert.match(await fault(index.search(new Float32Array(4))), /given one that was freed/);
});

test('a warm-up takes every kind of index', async () => {
  const half = await Flat.create(device, { dim: 4, dtype: 'float16' });
  await half.warmUp({ queries: 2 });
  const empty = await Flat.create(device, { dim: 4, metric: 'l2' });
  const loaded = await Flat.fromBytes(device, await empty.toBytes());
  await loaded.warmUp({ queries: 2, rows: 3 });
  assert.equal(loaded.size, 0);
  assert.match(await fault(loaded.warmUp({ queries: 1e12 })), /^OutOfMemory/);
  assert.match(await fault(loaded.warmUp({ queries: -1 })), /^Argument, queries: /);
});

test('ids are numbers, and nothing that JavaScript would turn into one', async () => {
  const index = await filled();
  for (const id of [null, '', '5', true, [], undefined, new Date(0), 1.5, 2n ** 53n]) {
    for (const call of [index.remove([id]), index.get([id]), index.has(id), index.search(new Float32Array(4), { allow: [id] })]) {
      assert.match(await fault(call), /needed whole numbers from 0 to 2\^53 - 1/, String(id));
    }
  }
  assert.equal(await index.has(5n), true);
  assert.equal(index.size, 20);
});

test('vectors in arrays have dim elements, and arrays of another realm are arrays', async () => {
  const index = await filled();
  for (const vectors of [[[1, 2, 3], [4, 5, 6, 7, 8]], [[1, 2, 3, 4, 5, 6, 7, 8]], [null], [[1, 2, 3, 4], 5], [[1, 2, 3, 4], null], [['1', 2, 3, 4]]]) {
    assert.match(await fault(index.add(vectors)), /^Argument, vectors: needed/, JSON.stringify(vectors));
  }
  const theirs = runInNewContext('new Float32Array([1, 2, 3, 4])');
  await index.add(theirs, { ids: [99] });
  assert.deepEqual([...(await index.get([99]))], [1, 2, 3, 4]);
  const bytesOf = runInNewContext('(bytes) => new Uint8Array(bytes)');
  assert.equal((await Flat.fromBytes(device, bytesOf(await index.toBytes()))).size, 21);
  assert.deepEqual([...(await index.search([1, 2, 3, 4], { allow: { bits: bytesOf([4]) } })).ids], [2]);
});

test('arguments that are wrong, in value, type or name, are named and change nothing', async () => {
  const index = await filled();
  await index.add([[2, 2, 2, 2], new Float32Array(4)]);
  const one = new Float32Array(4);
  const lists = await Ivf.train(device, { dim: 4, lists: 2 }, whole(1, 20, 4));
  const spoilt = new Float32Array(4 * 5000);
  spoilt[4 * 4999] = NaN;
  const cases = [
    [() => index.update([0, 1], [0, 0, 0, 0, NaN, 0, 0, 0]), /^NotFinite, vectors: .* row 1 /],
    [() => index.update([0, 1], one), /^Argument, vectors: needed 2 rows/],
    [() => index.search(spoilt), /^NotFinite, queries: .* row 4999 /],
    [() => index.within(spoilt, 1), /^NotFinite, queries: .* row 4999 /],
    [() => Ivf.train(device, { dim: 4, lists: 2 }, [0, 0, 0, 0, NaN, 0, 0, 0]), /^NotFinite, sample: .* row 1 /],
    [() => index.search([1e30, 0, 0, 0]), /^NormOutOfRange, queries: /],
    [() => index.add(one, { ids: [0] }), /^DuplicateId, .*given 0 again/],
    [() => index.remove([77]), /^UnknownId, .*given 77/],
    [() => index.add([1, 2, 3]), /^Argument, vectors: needed a multiple of dim, 4/],
    [() => index.add('abcd'), /^Argument, vectors: needed a Float32Array/],
    [() => index.add(new Float64Array(4)), /^Argument, vectors: needed .* given a Float64Array/],
    [() => index.add(one, { ids: [1, 2] }), /^Argument, ids: needed 1 ids/],
    [() => index.add(one, { ids: [-1] }), /^Argument, ids: needed whole numbers/],
    [() => index.search({ buffer: {}, rows: 1 }), /^Argument, queries: .*a GPUBuffer/],
    [() => index.search(one, { k: 0 }), /^Argument, k: /],
    [() => index.search(one, { k: -1 }), /^Argument, k: needed a whole number/],
    [() => index.search(one, { k: NaN }), /^Argument, k: needed a whole number/],
    [() => index.search(one, { k: null }), /^Argument, k: needed a whole number/],
    [() => index.search(one, { k: 3n }), /^Argument, k: needed a whole number/],
    [() => index.search(one, { allow: { bits: [1] } }), /^Argument, allow.bits: needed a Uint8Array/],
    [() => index.search(one, { allowed: [1] }), /^Argument, options: needed signal, onProgress, allow, k, profile, given allowed/],
    [() => index.search(one, { signal: {} }), /^Argument, signal: needed an AbortSignal/],
    [() => index.search(one, { onProgress: 5 }), /^Argument, onProgress: needed a function/],
    [() => index.search(one, null), /^Argument, options: needed an object/],
    [() => index.within(one, NaN), /^Argument, radius: /],
    [() => index.within(one, '5'), /^Argument, radius: needed a number/],
    [() => index.knnGraph(0), /^Argument, k: /],
    [() => index.knnGraph(2.5), /^Argument, k: needed a whole number/],
    [() => index.knnGraph(3, { profile: true }), /^Argument, options: needed signal, onProgress, allow, given profile/],
    [() => index.pairsWithin(NaN), /^Argument, radius: /],
    [() => index.pairsWithin('5'), /^Argument, radius: needed a number/],
    [() => index.get({ [Symbol.iterator]: 5 }), /^Argument, ids: needed ids, given an Object/],
    [() => index.plan(-1), /^Argument, queries: needed a whole number/],
    [() => index.plan(1, NaN), /^Argument, k: needed a whole number/],
    [() => index.plan(1, 0), /^Argument, k: needed at least 1, given 0/],
    [() => lists.plan(1, 10, 0), /^Argument, probes: needed 1 to 2, the number of lists, given 0/],
    [() => lists.plan(1, 10, 3), /^Argument, probes: needed 1 to 2, the number of lists, given 3/],
    [() => lists.search(one, { probes: 17 }), /^Argument, .*probes/],
    [() => lists.warmUp(null), /^Argument, options: needed an object, given null/],
    [() => lists.warmUp({ queries: '5' }), /^Argument, queries: needed a whole number/],
    [() => Ivf.train({}, { dim: 4 }, one), /^Argument, device: needed a Device/],
    [() => Ivf.train(device, { lists: 2 }, one), /^Argument, dim: needed a whole number/],
    [() => Flat.create(Device.open(), { dim: 4 }), /^Argument, device: needed a Device, which Device.open\(\) resolves with, given a Promise/],
    [() => Flat.create(device, { dim: 0 }), /^Argument, dim: needed/],
    [() => Flat.create(device, { dim: 1.5 }), /^Argument, dim: needed a whole number/],
    [() => Flat.create(device, { dim: 4, metrik: 'l2' }), /^Argument, options: .* given metrik/],
    [() => Flat.create(device, { dim: 4, metric: 'angle' }), /^Argument, .*angle/],
    [() => Flat.create(device, { dim: 4, metric: 5 }), /^Argument, metric: needed a string/],
    [() => Flat.create(device, { dim: 4, dtype: 'int4' }), /^Argument, dtype: needed float32, float16, int8, uint8 or ubinary, given int4/],
    [() => Flat.create(device, { dim: 4, hostCopy: 'no' }), /^Argument, hostCopy: needed a boolean/],
    [() => Flat.fromBytes(null, new Uint8Array(4)), /^Argument, device: needed a Device/],
    [() => Flat.fromBytes(device, new ArrayBuffer(8)), /^Argument, bytes: needed a Uint8Array, given an ArrayBuffer/],
    [() => Flat.fromBytes(device, Object.create(null)), /^Argument, bytes: needed a Uint8Array, given an object$/],
    [() => Device.open({ perfer: 'gpu' }), /^Argument, options: .* given perfer/],
    [() => Device.open({ prefer: 'fastest' }), /^Argument, prefer: needed/],
    [() => Device.open({ budget: NaN }), /^Argument, budget: needed a whole number/],
    [() => Device.open({ worker: {} }), /^Argument, worker: needed/],
    [() => Device.open({ worker: true }), /^Unsupported, worker: /],
    [() => Device.open({ prefer: 'software' }), /^NoAdapter, .*software/],
    [() => index.save(5), /^Argument, path: needed/],
    [() => index.save('../x'), /^Argument, path: needed/],
    [() => index.save('index.nf'), /^Unsupported, .*OPFS/],
  ];
  for (const [call, message] of cases) assert.match(await fault(call()), message, String(call));
  assert.equal(index.size, 22);
});

test('a part of an array goes to the worker alone', () => {
  const posted = [];
  const worker = Object.assign(new EventTarget(), { postMessage: (message) => posted.push(message), terminate() {} });
  const engine = new WorkerEngine(worker, true);
  const rows = Float32Array.from({ length: 4000 }, (_, at) => at);
  engine.call('search', [1, rows.subarray(10, 14), '{}', undefined]).catch(() => undefined);
  engine.call('search', [1, rows, '{}', undefined]).catch(() => undefined);
  const [part, whole] = posted.filter(({ kind }) => kind === 'nearfield call').map(({ args }) => args[1]);
  assert.deepEqual([...part], [10, 11, 12, 13]);
  assert.equal(part.buffer.byteLength, 16, 'a message carries the whole buffer of what is in it');
  assert.equal(whole, rows, 'an array that is no part needs no copy');
  engine.close();
});
