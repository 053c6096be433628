// The package's worker and a worker of the page's own, files of the page (OPFS), and a module that ends, in Chromium without WebGPU.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { open, site } from './browser.mjs';

const own = site({ webgpu: false });
const { inPage } = own;

test('two devices share a worker of the page\'s own, which has messages and errors of its own', async () => {
  const shared = async () => {
    const { Device, Flat } = nearfield;
    const script = `
      import '${location.origin}/dist/worker.js';
      addEventListener('message', ({ data }) => {
        if (data !== 'question') return;
        postMessage(null);
        throw new Error('its own');
      });
      postMessage({ kind: 'ready', number: 1 });`;
    const worker = new Worker(URL.createObjectURL(new Blob([script], { type: 'text/javascript' })), { type: 'module' });
    await new Promise((resolve) => worker.addEventListener('message', resolve, { once: true }));
    const devices = await Promise.all([Device.open({ prefer: 'host', worker }), Device.open({ prefer: 'host', worker })]);
    for (const message of ['question', null, { number: 3 }, { kind: 'result', number: 3 }]) worker.postMessage(message);
    const indexes = await Promise.all(devices.map((device, at) => Flat.create(device, { dim: 2 + at, metric: 'l2sq' })));
    await Promise.all(indexes.map((index) => index.add(fixtures.whole(1, 2, index.dim))));
    const found = await Promise.all(indexes.map((index) => index.search(new Float32Array(index.dim), { k: 2 })));
    const dims = indexes.map((index) => index.dim);
    const want = dims.map((dim) => fixtures.nearest(fixtures.whole(1, 2, dim), new Float32Array(dim), dim, 2));
    devices[0].close();
    const late = new Promise((resolve) => setTimeout(() => resolve('no answer'), 5000));
    const closed = await Promise.race([indexes[1].search([0, 0, 0]).catch((error) => error.message), late]);
    return { dims, same: JSON.stringify(found.map(fixtures.rows)) === JSON.stringify(want), closed };
  };
  const result = await inPage(shared, undefined, { says: /its own/ });
  assert.deepEqual(result, { dims: [2, 3], same: true, closed: 'device: needed one that is open, given one that was closed' });
});

test('documents live in a worker, and among the page\'s own files', async () => {
  const result = await inPage(async () => {
    const { Device, MultiVector } = nearfield;
    const { maxsim, ragged, ranked, rankedRows } = fixtures;
    const device = await Device.open({ prefer: 'host' });
    const dim = 8;
    const [documents, queries] = [ragged(1, 60, dim), ragged(2, 3, dim)];
    const index = await MultiVector.create(device, { dim });
    await index.add(documents);
    await index.update([3], [documents.list[3]]);
    await index.save('tests/documents.nf');
    const again = await MultiVector.load(device, 'tests/documents.nf');
    await device.removeFile('tests/documents.nf');
    const scores = await device.maxsim(queries, documents.list, { dim });
    const want = queries.list.flatMap((query) => documents.list.map((one) => maxsim(query, one, dim)));
    const found = rankedRows(await again.search(queries.list, { k: 5, weights: queries.list.map((one) => one.slice(0, one.length / dim).fill(2)) }));
    const weights = Array(queries.offsets.at(-1)).fill(2);
    return {
      isInWorker: device.isInWorker,
      kept: documents.tokens.length === documents.offsets.at(-1) * dim,
      found: JSON.stringify(found) === JSON.stringify(ranked(queries, documents, dim, 5, { weights })),
      scores: JSON.stringify([...scores]) === JSON.stringify(want),
    };
  });
  assert.deepEqual(result, { isInWorker: true, kept: true, found: true, scores: true });
});

test('a device that does not open leaves a worker of the page\'s own as it is', async () => {
  const result = await inPage(async () => {
    const { Device, Flat } = nearfield;
    const worker = new Worker('/dist/worker.js', { type: 'module' });
    const index = await Flat.create(await Device.open({ prefer: 'host', worker }), { dim: 2, metric: 'l2' });
    await index.add([0, 0, 3, 4]);
    const refused = await Device.open({ prefer: 'software', worker }).catch((error) => error.code);
    const late = new Promise((resolve) => setTimeout(() => resolve('no answer'), 5000));
    const found = index.search([3, 3], { k: 1 }).then(({ ids }) => [...ids], (error) => error.message);
    return [refused, await Promise.race([found, late])];
  });
  assert.deepEqual(result, ['NoAdapter', [1]]);
});

test('a call in a worker that is aborted rejects with the very reason, whatever that is', async () => {
  const result = await inPage(async () => {
    const { Device, Flat, NearfieldError } = nearfield;
    const index = await Flat.create(await Device.open({ prefer: 'host' }), { dim: 64, metric: 'l2' });
    const rows = fixtures.whole(1, 60_000, 64);
    const out = [];
    for (const why of [new Error('x'), Object.assign(new Error('x'), { code: 'X' }), new NearfieldError('File', 'x'), 'x', null, () => 1, Symbol('x')]) {
      const controller = new AbortController();
      const call = index.add(rows, { signal: controller.signal, onProgress: () => controller.abort(why) });
      out.push(await call.then(() => 'added', (error) => error === why || String(error)));
    }
    return { out, size: index.size };
  });
  assert.deepEqual(result, { out: Array(7).fill(true), size: 0 });
});

test('names of files that the browser refuses are errors of the package, and a save that fails leaves what was there', async () => {
  const result = await inPage(async () => {
    const { Device, Flat } = nearfield;
    const device = await Device.open({ prefer: 'host', worker: false });
    const index = await Flat.create(device, { dim: 2, metric: 'l2' });
    await index.add([1, 2]);
    const fault = (call) => call.then(() => 'done', (error) => (error instanceof nearfield.NearfieldError ? error.code : String(error)));
    const out = { names: {} };
    for (const name of ['', '/', '..', '../x', 'a/../b', 'a/./b', 'a\\b']) {
      out.names[name] = [await fault(index.save(name)), await fault(Flat.load(device, name)), await fault(device.removeFile(name))].join();
    }
    await index.save('folder/ünï 😀.nf');
    out.folder = [await fault(index.save('folder')), await fault(Flat.load(device, 'folder')), await fault(index.save('folder/ünï 😀.nf/x'))];
    const other = await Flat.create(device, { dim: 2, metric: 'l2' });
    await Promise.all([index.save('same'), other.save('same'), index.save('same'), other.save('same')]);
    out.same = (await Flat.load(device, 'same')).size < 2;
    FileSystemWritableFileStream.prototype.write = async () => {
      throw new DOMException('the disk is full', 'QuotaExceededError');
    };
    out.full = [await fault(index.save('new')), await fault(index.save('same'))];
    out.left = [await device.removeFile('new'), (await Flat.load(device, 'same')).dim];
    return out;
  });
  for (const [name, codes] of Object.entries(result.names)) assert.equal(codes, 'Argument,Argument,Argument', name);
  assert.deepEqual(result.folder, ['File', 'File', 'File']);
  assert.deepEqual([result.same, result.full, result.left], [true, ['File', 'File'], [false, 2]]);
});

test('calls in a page reject when the module ends in a task of its own', async () => {
  const result = await inPage(
    async () => {
      const { Device, Flat } = nearfield;
      const device = await Device.open({ prefer: 'host', worker: false });
      const index = await Flat.create(device, { dim: 8, metric: 'l2' });
      await index.add(fixtures.whole(1, 3000, 8));
      // In the midst of the module, which writes an answer.
      globalThis.Float64Array = class {
        constructor() {
          throw new WebAssembly.RuntimeError('spoilt');
        }
      };
      const late = new Promise((resolve) => setTimeout(() => resolve('no answer'), 5000));
      const out = [];
      for (const call of [() => index.search(fixtures.whole(2, 2, 8)), () => Flat.create(device, { dim: 3 })]) {
        out.push(await Promise.race([call().then(() => 'answered', (error) => `${error.code}, ${error.message}`), late]));
      }
      return out;
    },
    undefined,
    { says: /spoilt/ },
  );
  assert.deepEqual(result, Array(2).fill('Internal, the module has ended, please report it: spoilt'));
});

test('a search of many queries ends early when it is aborted, in a worker and in the page, whose timers run meanwhile', async () => {
  const result = await inPage(async () => {
    const { Device, Flat } = nearfield;
    const queries = fixtures.whole(2, 20_000, 64);
    const out = [];
    for (const worker of [true, false]) {
      const index = await Flat.create(await Device.open({ prefer: 'host', worker }), { dim: 64, metric: 'l2' });
      await index.add(fixtures.whole(1, 20_000, 64));
      const controller = new AbortController();
      let done = 0;
      const call = index.search(queries, { signal: controller.signal, onProgress: (answered) => (done = answered) });
      setTimeout(() => controller.abort(new Error('enough')));
      out.push(await call.then(() => 'answered', ({ message }) => message), done < 20_000);
      const found = await index.search(queries.subarray(0, 64), { k: 3 });
      const want = fixtures.nearest(fixtures.whole(1, 20_000, 64), queries.subarray(0, 64), 64, 3);
      out.push(String(found.ids) === String(want[0].map(([, id]) => id)));
    }
    return out;
  });
  assert.deepEqual(result, ['enough', true, true, 'enough', true, true]);
});

test('tabs that save and load one file find it whole', async () => {
  const kept = async () => {
    const { Device, Flat } = nearfield;
    const device = await Device.open({ prefer: 'host' });
    const index = await Flat.create(device, { dim: 64, metric: 'l2sq' });
    await index.add(fixtures.whole(1, 3000, 64));
    await index.save('shared/index.nf');
    const wrong = [];
    for (let turn = 0; turn < 12; turn++) {
      await index.save('shared/index.nf');
      await Flat.load(device, 'shared/index.nf').then((again) => again.size === 3000 || wrong.push(again.size), (error) => wrong.push(error.message));
    }
    return wrong;
  };
  const first = await open(own.browser, own.url);
  const other = await open(own.browser, own.url, { context: first.context });
  assert.deepEqual(await Promise.all([first.page.evaluate(kept), other.page.evaluate(kept)]), [[], []]);
  await first.context.close();
});

test('a worker of the page\'s own that is terminated rejects the calls that wait, and later ones', async () => {
  const result = await inPage(async () => {
    const { Device, Flat } = nearfield;
    const worker = new Worker('/dist/worker.js', { type: 'module' });
    const index = await Flat.create(await Device.open({ prefer: 'host', worker }), { dim: 64, metric: 'l2' });
    await index.add(fixtures.whole(1, 60_000, 64));
    const waits = index.search(fixtures.whole(2, 2000, 64), { k: 10 }).catch((error) => error.message);
    setTimeout(() => worker.terminate(), 50);
    return [await waits, await index.search(fixtures.whole(2, 1, 64), { k: 1 }).catch((error) => error.message)];
  });
  assert.deepEqual(result, Array(2).fill('the worker: needed one that runs, given one that was terminated'));
});

test('an index of more than 512 MiB of rows is saved and loaded again', { skip: process.env.NEARFIELD_NIGHTLY !== '1' }, async () => {
  const result = await inPage(async () => {
    const { Device, Flat } = nearfield;
    const device = await Device.open({ prefer: 'host' });
    const index = await Flat.create(device, { dim: 384, metric: 'l2sq', quantization: 'none' });
    for (let piece = 0; piece < 18; piece++) await index.add(fixtures.whole(piece, 20_000, 384));
    const query = fixtures.whole(5, 1, 384);
    const before = fixtures.rows(await index.search(query, { k: 3 }));
    await index.save('large.nf');
    await index.free();
    const again = await Flat.load(device, 'large.nf');
    const after = fixtures.rows(await again.search(query, { k: 3 }));
    await device.removeFile('large.nf');
    return [again.size, JSON.stringify(before) === JSON.stringify(after)];
  });
  assert.deepEqual(result, [360_000, true]);
});
