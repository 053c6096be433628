// Documents of several tokens each in Node, where the host engine answers: against MaxSim in f64, by the rules of the calls.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { Device, Flat, MultiVector, NearfieldError } from '../dist/index.js';
import { maxsim, ragged, random, ranked, rankedRows, whole } from './fixtures.mjs';

const device = await Device.open({ prefer: 'host' });

/** The code and the message of a call's error. */
async function fault(call) {
  const error = await call.then(() => assert.fail('no error'), (error) => error);
  assert.ok(error instanceof NearfieldError, String(error.stack));
  return `${error.code}, ${error.message}`;
}

const dim = 12;
const ids = Array.from({ length: 150 }, (_, at) => (at * 7919) % 1000);

async function filled(options = {}) {
  const index = await MultiVector.create(device, { dim, ...options });
  const documents = ragged(1, 150, dim);
  await index.add(documents.list, { ids });
  return { index, documents };
}

test('documents of every length are found for queries of every length, however they are given', async () => {
  const { index, documents } = await filled();
  assert.deepEqual([index.size, index.tokens], [150, documents.offsets.at(-1)]);
  const queries = ragged(2, 9, dim);
  const { tokens, offsets, list } = queries;
  const nested = list.map((one) => Array.from({ length: one.length / dim }, (_, at) => [...one.slice(at * dim, (at + 1) * dim)]));
  for (const k of [1, 10, 1000]) {
    const want = ranked(queries, documents, dim, k, { ids });
    for (const given of [list, { tokens, offsets }, { tokens: nested.flat(), offsets: Uint32Array.from(offsets) }, nested, list.map((one) => [...one])]) {
      assert.deepEqual(rankedRows(await index.search(given, { k })), want, `k ${k}`);
    }
  }
  // An array is one query.
  assert.deepEqual(rankedRows(await index.search(list[4])), [ranked(queries, documents, dim, 10, { ids })[4]]);
  const { statistics } = await index.search(list, { k: 3 });
  assert.deepEqual([statistics.bounded, statistics.stages], [9 * 150, []]);
  assert.ok(statistics.computed >= 9 * 3 && statistics.computed < statistics.bounded, String(statistics.computed));
  for (const none of [[], { tokens: [], offsets: [0] }, new Float32Array(0)]) {
    assert.deepEqual(rankedRows(await index.search(none)), []);
  }
});

test('equal scores are ordered by the smaller id', async () => {
  const index = await MultiVector.create(device, { dim: 2 });
  await index.add([[1, 0], [0, 1, 1, 0], [1, 0], [0, 2]], { ids: [40, 30, 20, 10] });
  assert.deepEqual(rankedRows(await index.search([3, 0])), [[[3, 20], [3, 30], [3, 40], [0, 10]]]);
  assert.deepEqual(rankedRows(await index.search([3, 0], { k: 2 })), [[[3, 20], [3, 30]]]);
});

test('only allowed documents are found, and weights and means are those of the tokens', async () => {
  const { index, documents } = await filled();
  const queries = ragged(3, 5, dim);
  const allow = ids.filter((id) => id % 3 === 0);
  const bits = new Uint8Array(125);
  allow.forEach((id) => (bits[id >> 3] |= 1 << (id & 7)));
  const want = ranked(queries, documents, dim, 7, { ids, allow });
  for (const some of [allow, new Set(allow), { bits }]) assert.deepEqual(rankedRows(await index.search(queries.list, { k: 7, allow: some })), want);
  assert.deepEqual(rankedRows(await index.search(queries.list, { allow: [] })), [[], [], [], [], []]);

  const next = random(4);
  // Sums of weights are powers of two, so that means of whole numbers are exact.
  const lists = queries.list.map((one) => {
    const own = Array.from({ length: one.length / dim }, () => Math.floor(next() * 3));
    const sum = own.reduce((sum, weight) => sum + weight, 0);
    own[0] += 2 ** Math.ceil(Math.log2(Math.max(sum, 1))) - sum;
    return own;
  });
  const weights = lists.flat();
  for (const mean of [false, true]) {
    const want = ranked(queries, documents, dim, 7, { ids, weights, mean });
    for (const given of [weights, Float32Array.from(weights), lists, lists.map((own) => Float32Array.from(own))]) {
      assert.deepEqual(rankedRows(await index.search(queries.list, { k: 7, weights: given, mean })), want, String(mean));
    }
  }
});

test('tokens of integers and of half the bits are stored as they are', async () => {
  const kinds = [['int8', Int8Array], ['uint8', Uint8Array]];
  if (typeof Float16Array === 'function') kinds.push(['float16', Float16Array]);
  for (const [dtype, Kind] of kinds) {
    const of = (given) => {
      const list = given.list.map((one) => Kind.from(one, Math.abs));
      return { ...given, list, tokens: Float32Array.from(list.flatMap((one) => [...one])) };
    };
    const [documents, queries] = [of(ragged(5, 60, dim)), of(ragged(6, 4, dim))];
    const index = await MultiVector.create(device, { dim, dtype });
    await index.add(documents.list);
    assert.deepEqual(rankedRows(await index.search(queries.list, { k: 5 })), ranked(queries, documents, dim, 5), dtype);
    assert.deepEqual([...(await index.get(3))], [...documents.list[3]]);
    assert.match(await fault(index.add(new Float32Array(dim).fill(0.5))), /^Argument, documents: needed \w+ rows, because/);
  }
});

test('documents are updated, read, removed and compacted', async () => {
  const { index, documents } = await filled();
  const queries = ragged(7, 4, dim);
  const other = ragged(8, 2, dim);
  await index.update([ids[5], ids[9]], other.list);
  assert.deepEqual([...(await index.get(ids[9]))], [...other.list[1]]);
  assert.deepEqual([...(await index.get(BigInt(ids[0])))], [...documents.list[0]]);
  await index.remove([ids[0], ids[1], ids[1]]);
  assert.deepEqual([await index.has(ids[0]), await index.has(ids[2]), index.size], [false, true, 148]);
  await index.compact();
  const list = [...documents.list];
  [list[5], list[9]] = other.list;
  const [kept, left] = [ids.slice(2), { list: list.slice(2) }];
  assert.deepEqual([...(await index.ids())], [...kept].sort((a, b) => a - b));
  assert.equal(index.tokens, left.list.reduce((sum, one) => sum + one.length / dim, 0));
  assert.deepEqual(rankedRows(await index.search(queries.list)), ranked(queries, left, dim, 10, { ids: kept }));
  // Insertion numbers go on.
  await index.add([whole(9, 2, dim)]);
  assert.equal(await index.has(150), true);
  await index.free();
  assert.match(await fault(index.search(queries.list)), /given one that was freed/);
});

test('documents that go in pieces are all there or, after an error, none', async () => {
  const wide = 4096;
  const documents = ragged(10, 60, wide);
  const index = await MultiVector.create(device, { dim: wide });
  const heard = [];
  await index.add({ tokens: documents.tokens, offsets: documents.offsets }, { onProgress: (done) => heard.push(done) });
  assert.ok(heard.length > 1 && heard.at(-1) === 60 && heard.every((done, at) => at === 0 || done > heard[at - 1]), String(heard));
  const query = { list: [whole(11, 3, wide)] };
  assert.deepEqual(rankedRows(await index.search(query.list, { k: 5 })), ranked(query, documents, wide, 5));
  const last = documents.offsets.at(-1) - 1;
  documents.tokens[last * wide + 7] = NaN;
  const spoilt = { tokens: documents.tokens, offsets: documents.offsets };
  const message = new RegExp(`^NotFinite, documents: needed finite values, row ${last} `);
  for (const options of [{}, { ids: documents.list.map((_, at) => 100 + at) }]) assert.match(await fault(index.add(spoilt, options)), message);
  assert.deepEqual([...(await index.ids())], [...Array(60).keys()]);
  assert.equal(index.tokens, last + 1);
});

test('all scores of queries and documents are computed without an index', async () => {
  const [queries, documents] = [ragged(12, 4, dim), ragged(13, 30, dim)];
  const { tokens, offsets } = documents;
  for (const given of [documents.list, { tokens, offsets }]) {
    const want = queries.list.flatMap((query) => documents.list.map((one) => maxsim(query, one, dim)));
    assert.deepEqual([...(await device.maxsim(queries.list, given, { dim }))], want);
  }
  assert.deepEqual([...(await device.maxsim([], documents.list, { dim }))], []);
  // More scores than numbers of 32 bits count.
  const many = new Float32Array(65_536);
  const each = { tokens: many, offsets: Uint32Array.from({ length: 65_537 }, (_, at) => at) };
  assert.match(await fault(device.maxsim(each, each, { dim: 1 })), /^OutOfMemory, /);
});

test('a saved index is the same file, is recovered from it, and is refused by other kinds', async () => {
  const { index } = await filled();
  const query = ragged(14, 3, dim).list;
  const bytes = await index.toBytes();
  const again = await MultiVector.fromBytes(device, bytes);
  assert.deepEqual(await again.search(query), await index.search(query));
  assert.deepEqual(await again.toBytes(), bytes);
  assert.match(await fault(Flat.fromBytes(device, bytes)), /^File, .*needed an index of kind flat or ivf, found one of kind multivector/);
  const flat = await Flat.create(device, { dim });
  assert.match(await fault(MultiVector.fromBytes(device, await flat.toBytes())), /^File, .*needed an index of kind multivector, found one of kind flat/);
  assert.match(await fault(MultiVector.fromBytes(device, bytes.slice(0, -1))), /^File, /);
  assert.match(await fault(index.save('documents.nf')), /^Unsupported, .*OPFS/);

  await index.add([whole(15, 1, dim)], { ids: [5000] });
  await index.recover(bytes);
  assert.deepEqual([index.size, await index.has(5000)], [150, false]);
  await index.recover();
  assert.deepEqual(await again.search(query), await index.search(query));
  const other = await MultiVector.create(device, { dim: 3, dtype: 'int8' });
  const message = /^Argument, bytes: needed those of a MultiVector of dim 12, float32, given those of a MultiVector of dim 3, int8$/;
  assert.match(await fault(index.recover(await other.toBytes())), message);
});

test('calls run in their order, and a search ends between two pieces when it is aborted', async () => {
  const wide = 32;
  const index = await MultiVector.create(device, { dim: wide });
  const documents = ragged(16, 300, wide);
  const queries = ragged(17, 200, wide);
  const [, found] = await Promise.all([index.add(documents.list), index.search(queries.list[0], { k: 1 })]);
  assert.equal(found.ids.length, 1);
  const heard = [];
  await index.search(queries.list.slice(0, 90), { onProgress: (done) => heard.push(done) });
  assert.ok(heard.length > 1 && heard.at(-1) === 90, String(heard));
  for (const way of ['timer', 'report']) {
    const controller = new AbortController();
    const reason = new Error(way);
    const abort = () => controller.abort(reason);
    let done = 0;
    if (way === 'timer') setTimeout(abort);
    const onProgress = (answered) => {
      done = answered;
      if (way === 'report') abort();
    };
    await assert.rejects(index.search(queries.list, { signal: controller.signal, onProgress }), reason);
    assert.ok(done > 0 && done < 200, `${way}: ${done} queries`);
  }
  await assert.rejects(index.remove([0], { signal: AbortSignal.abort() }), { name: 'AbortError' });
  await assert.rejects(device.maxsim(queries.list, documents.list, { dim: wide, signal: AbortSignal.abort() }), { name: 'AbortError' });
  assert.equal(index.size, 300);
});

test('arguments that are wrong are named and change nothing', async () => {
  const { index } = await filled();
  const one = new Float32Array(dim);
  const moved = new Float32Array(dim);
  structuredClone(moved.buffer, { transfer: [moved.buffer] });
  const spoilt = new Float32Array(3 * dim);
  spoilt[2 * dim] = NaN;
  const cases = [
    [() => index.search(one.slice(1)), /^Argument, queries: needed a multiple of dim, 12, as its length, given 11/],
    [() => index.search([one, one.slice(1)]), /^Argument, queries\[1\]: needed a multiple of dim, 12/],
    [() => index.search([one, new Float32Array(0)]), /^Argument, queries\[1\]: needed at least one token, given none/],
    [() => index.search([one, new Int8Array(dim)]), /^Argument, queries\[1\]: needed an array of the type of the first, given an Int8Array/],
    [() => index.search([one, 5]), /^Argument, queries\[1\]: needed a Float32Array, .* given 5/],
    [() => index.search([one, , one]), /^Argument, queries\[1\]: needed a Float32Array/],
    [() => index.search([null]), /^Argument, queries\[0\]: needed a Float32Array/],
    [() => index.search([moved]), /^Argument, queries\[0\]: needed an array that is there/],
    [() => index.search(null), /^Argument, queries: needed a Float32Array/],
    [() => index.search('tokens'), /^Argument, queries: needed a Float32Array/],
    [() => index.search({ tokens: null, offsets: [0] }), /^Argument, queries\.tokens: needed a Float32Array/],
    [() => index.search({ tokens: one }), /^Argument, queries\.offsets: needed whole numbers, given undefined/],
    [() => index.search({ tokens: one, offsets: [0, 0.5, 1] }), /^Argument, queries\.offsets: needed whole numbers/],
    [() => index.search({ tokens: one, offsets: [] }), /^Argument, queries\.offsets: needed numbers that ascend from 0 to 1, .* given none/],
    [() => index.search({ tokens: one, offsets: [0, 2] }), /^Argument, queries\.offsets: .* given 0 to 2/],
    [() => index.search({ tokens: one, offsets: [0, 1, 1] }), /^Argument, queries\.offsets: .*at least one token each, given 1 behind 1/],
    [() => index.search({ tokens: spoilt, offsets: [0, 2, 1, 3] }), /^Argument, queries\.offsets: .* given 1 behind 2/],
    [() => index.search({ buffer: {}, rows: 1 }), /^Argument, queries: .*a GPUBuffer/],
    [() => index.search(spoilt), /^NotFinite, queries: .* row 2 /],
    [() => index.search(one, { k: 0 }), /^Argument, k: /],
    [() => index.search(one, { k: 1.5 }), /^Argument, k: needed a whole number/],
    [() => index.search(one, { mean: 1 }), /^Argument, mean: needed a boolean/],
    [() => index.search(one, { filter: [1] }), /^Argument, options: needed .*, given filter/],
    [() => index.search(one, { allow: [-1] }), /^Argument, allow: needed whole numbers/],
    [() => index.search(one, { weights: [1, 2] }), /^Argument, weights: needed 1 numbers, one for each token of the queries, given 2/],
    [() => index.search([spoilt, one], { weights: [[1], [1, 1, 1]] }), /^Argument, weights\[0\]: needed 3 numbers, one for each token of the query, given 1/],
    [() => index.search(one, { weights: [-1] }), /^Argument, weights: needed numbers from 0 to 1,000,000, given -1/],
    [() => index.search(one, { weights: [NaN] }), /^Argument, weights: needed numbers from 0/],
    [() => index.search(one, { weights: new Int8Array(1) }), /^Argument, weights: needed a Float32Array, numbers/],
    [() => index.search(one, { weights: null }), /^Argument, weights: needed a Float32Array/],
    [() => index.add(one, { ids: [5000, 5001] }), /^Argument, ids: needed 1 ids, one a document/],
    [() => index.add(one, { ids: [ids[3]] }), /^DuplicateId, /],
    [() => index.add(spoilt), /^NotFinite, documents: .* row 2 /],
    [() => index.add([new Float32Array(dim).fill(1e30)]), /^NormOutOfRange, documents: /],
    [() => index.update([ids[3]], [one, one]), /^Argument, documents: needed 1 documents, one per id/],
    [() => index.update([ids[3], ids[3]], [one, one]), /^Argument, ids: needed each id once/],
    [() => index.update([5000], [one]), /^UnknownId, /],
    [() => index.remove([5000]), /^UnknownId, /],
    [() => index.get(5000), /^UnknownId, /],
    [() => index.get('5'), /^Argument, id: needed whole numbers/],
    [() => MultiVector.create(device, { dim: 0 }), /^Argument, dim: /],
    [() => MultiVector.create(device, {}), /^Argument, dim: /],
    [() => MultiVector.create(device, { dim, metric: 'ip' }), /^Argument, options: .* given metric/],
    [() => MultiVector.create(device, { dim, dtype: 'ubinary' }), /^Argument, dtype: needed float32, float16, int8, uint8, given ubinary/],
    [() => MultiVector.create({}, { dim }), /^Argument, device: needed a Device/],
    [() => device.maxsim(one, one), /^Argument, options: needed an object/],
    [() => device.maxsim(one, one, {}), /^Argument, dim: needed a whole number/],
    [() => device.maxsim(one, one, { dim: 0 }), /^Argument, dim: needed 1 to 1048576/],
    [() => device.maxsim(one, one, { dim: 2 ** 40 }), /^Argument, dim: needed 1 to 1048576/],
    [() => device.maxsim(one, spoilt, { dim }), /^NotFinite, documents: .* row 2 /],
    [() => device.maxsim(spoilt, one, { dim }), /^NotFinite, queries: .* row 2 /],
    [() => device.maxsim(one, [one, one.slice(1)], { dim }), /^Argument, documents\[1\]: /],
  ];
  for (const [call, message] of cases) assert.match(await fault(call()), message, String(call));
  assert.deepEqual([index.size, index.tokens], [150, ragged(1, 150, dim).offsets.at(-1)]);

  const [later, part] = [new Float32Array(dim), new Float32Array(dim)];
  const calls = [index.search(later), index.add(part)];
  for (const array of [later, part]) structuredClone(array.buffer, { transfer: [array.buffer] });
  for (const call of calls) assert.match(await fault(call), /^Argument, \w+: needed an array that stays until the call has ended/);
});

test('the example of the README for documents runs', async () => {
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8');
  const [, example] = /```ts\n(import \{ Device, MultiVector \}.*?)```/s.exec(readme);
  const entry = new URL('../dist/index.js', import.meta.url).href;
  const lines = [];
  const { log } = console;
  console.log = (...said) => lines.push(said);
  try {
    await import(`data:text/javascript,${encodeURIComponent(example.replace("'@nearfield/web'", `'${entry}'`))}`);
  } finally {
    console.log = log;
  }
  assert.deepEqual(lines, [[Float64Array.of(7, 9), Float32Array.of(2, 1)]]);
});
