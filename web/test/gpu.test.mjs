// The package in headless Chromium on its software WebGPU: in the package's worker, in the page, and in a worker of the page's own.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { launch, open, serve, site } from './browser.mjs';

const own = site();
const { inPage } = own;

/** 16 KiB of workgroup memory, 8 storage buffers and bindings of 128 MiB; by itself the adapter has 32 KiB, 10 and 1 GiB. */
const least = () => {
  const { get } = Object.getOwnPropertyDescriptor(GPUAdapter.prototype, 'limits');
  Object.defineProperty(GPUAdapter.prototype, 'limits', {
    get() {
      const limits = {};
      for (const name in GPUSupportedLimits.prototype) if (name !== 'constructor') limits[name] = get.call(this)[name];
      return {
        ...limits,
        maxComputeWorkgroupStorageSize: 16384,
        maxStorageBuffersPerShaderStage: 8,
        maxStorageBufferBindingSize: 134217728,
        maxBufferSize: 268435456,
      };
    },
  });
};

// Software WebGPU compiles kernels anew for each metric. With the adapter's own limits the other tests search among fewer and shorter rows.
const isNight = process.env.NEARFIELD_NIGHTLY === '1';
const metrics = isNight ? ['l2sq', 'l2', 'cosine', 'ip'] : ['cosine'];
for (const before of isNight ? [least, undefined] : [least]) {
  test(`with ${before ? 'the least' : 'its own'} limits true neighbours are found by ${metrics.join(', ')}, and rows come and go`, async () => {
    const result = await inPage(
      async (metrics) => {
        const { Device, Flat } = nearfield;
        const { fetched, missing, nearest, rows, shipped, whole } = fixtures;
        const data = await shipped(fetched);
        const device = await Device.open({ prefer: 'gpu', worker: false });
        const out = { about: device.describe(), isHost: device.isHost, limits: device.limits, missing: [] };
        const some = data.query.vectors.subarray(0, 30 * data.dim);
        const truth = (metric) => nearest(data.base.vectors, some.subarray(0, 10 * data.dim), data.dim, 20, { metric });
        for (const metric of metrics) {
          const index = await Flat.create(device, { dim: data.dim, metric, hostCopy: false });
          await index.add(data.base.vectors);
          const found = await index.search(some, { k: 20 });
          out.missing.push([missing(found, truth(metric)), found.statistics.onHost]);
          await index.free();
        }
        const half = await Flat.create(device, { dim: data.dim, metric: 'ip', dtype: 'float16', hostCopy: false });
        await half.add(new Float16Array(data.base.bits.slice().buffer));
        out.half = missing(await half.search(some, { k: 20 }), truth('ip'));
        await half.free();

        const dim = 24;
        const [base, query] = [whole(1, 6000, dim), whole(2, 3, dim)];
        const index = await Flat.create(device, { dim, metric: 'l2sq', hostCopy: false });
        await index.add(base);
        const gone = Array.from({ length: 500 }, (_, row) => row * 5);
        await index.remove(gone);
        const isGone = new Set(gone);
        const ids = Array.from({ length: 6000 }, (_, row) => row).filter((row) => !isGone.has(row));
        const left = base.filter((_, at) => !isGone.has(Math.floor(at / dim)));
        const want = nearest(left, query, dim, 12, { ids });
        const same = (found, want) => JSON.stringify(rows(found)) === JSON.stringify(want);
        out.afterRemoval = same(await index.search(query, { k: 12 }), want);
        const allow = ids.filter((id) => id % 3 === 0);
        const few = base.filter((_, at) => allow.includes(Math.floor(at / dim)));
        out.filtered = same(await index.search(query, { k: 12, allow }), nearest(few, query, dim, 12, { ids: allow }));
        const radius = want[0][5][0];
        const [first, close] = [allow.slice(0, 300), few.subarray(0, 300 * dim)];
        const all = nearest(close, close, dim, 300, { ids: first }).map((row, at) => row.filter(([, id]) => id !== first[at]));
        out.graph = same(await index.knnGraph(4, { allow: first }), all.map((row) => row.slice(0, 4)));
        const pairs = await index.pairsWithin(200, { allow: first });
        const behind = ([distance, id], a) => distance < 200 && id > a;
        const near = all.flatMap((row, at) => row.filter((hit) => behind(hit, first[at])).map(([distance, id]) => [first[at], id, distance]));
        near.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
        const found = Array.from(pairs.a, (a, at) => [a, pairs.b[at], pairs.distances[at]]);
        out.pairs = near.length > 0 && JSON.stringify(found) === JSON.stringify(near);
        out.within = same(await index.within(query.subarray(0, dim), radius), [want[0].filter(([distance]) => distance < radius)]);
        device.close();
        return out;
      },
      metrics,
      { before },
    );
    assert.match(result.about, /^google swiftshader \(software, webgpu\)/);
    assert.equal(result.isHost, false);
    const { bindingBytes, bufferBytes, storageBuffers, workgroupBytes } = result.limits;
    if (before) assert.deepEqual([bindingBytes, bufferBytes, storageBuffers, workgroupBytes], [134217728, 268435456, 8, 16384]);
    assert.deepEqual(result.missing, metrics.map(() => [0, false]));
    assert.deepEqual([result.half, result.afterRemoval, result.filtered, result.graph, result.pairs, result.within], [0, true, true, true, true, true]);
  });
}

test('documents are found on the GPU, from arrays and from a buffer that is there already', async () => {
  const result = await inPage(async () => {
    const { Device, MultiVector } = nearfield;
    const { maxsim, ragged, ranked, rankedRows } = fixtures;
    const device = await Device.open({ prefer: 'gpu', worker: false });
    const dim = 10;
    const [documents, queries] = [ragged(1, 200, dim), ragged(2, 6, dim)];
    const { tokens, offsets } = documents;
    const buffer = device.gpuDevice.createBuffer({ size: tokens.byteLength, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
    device.gpuDevice.queue.writeBuffer(buffer, 0, tokens);
    const own = { tokens: { buffer, rows: offsets.at(-1) }, offsets };
    const same = (found, want) => JSON.stringify(found) === JSON.stringify(want);
    const index = await MultiVector.create(device, { dim, hostCopy: false });
    await index.add(own);
    const allow = offsets.slice(1).map((_, at) => at).filter((id) => id % 3 === 0);
    const weights = Array.from({ length: queries.offsets.at(-1) }, (_, at) => at % 4);
    const found = [await index.search(queries.list, { k: 7 }), await index.search(queries, { k: 7, allow, weights })];
    const again = await MultiVector.fromBytes(device, await index.toBytes());
    const out = [
      same(rankedRows(found[0]), ranked(queries, documents, dim, 7)),
      same(rankedRows(found[1]), ranked(queries, documents, dim, 7, { allow, weights })),
      same(rankedRows(await again.search(queries, { k: 7 })), rankedRows(found[0])),
      found[0].statistics.computed < found[0].statistics.bounded,
      same([...(await index.get(199))], [...documents.list[199]]),
    ];
    const scores = await device.maxsim(queries.list, own, { dim });
    out.push(same([...scores], queries.list.flatMap((query) => documents.list.map((one) => maxsim(query, one, dim)))));
    const short = { tokens: { buffer, rows: 1e6 }, offsets: [0, 1e6] };
    out.push(await index.add(short).catch((error) => error.message));
    device.close();
    return out;
  });
  const refused = /^documents\.tokens: needed a buffer of 40000000 bytes, given one of \d+$/;
  assert.match(result.pop(), refused);
  assert.deepEqual(result, Array(6).fill(true));
});

test('an index survives a reload among the page\'s own files, and a search that is aborted ends', async () => {
  const { page, context, said } = await open(own.browser, own.url);
  const saved = await page.evaluate(async () => {
    const { Device, Flat } = nearfield;
    const device = await Device.open({ prefer: 'gpu' });
    const index = await Flat.create(device, { dim: 8, metric: 'l2sq' });
    await index.add(fixtures.whole(3, 5000, 8));
    await index.save('tests/first.nf');
    const aborted = [];
    for (const why of [new Error('enough'), Object.assign(new Error('enough'), { code: 'ECONNRESET' }), new nearfield.NearfieldError('File', 'enough')]) {
      const controller = new AbortController();
      const long = index.search(fixtures.whole(4, 4000, 8), { k: 100, signal: controller.signal });
      setTimeout(() => controller.abort(why), 50);
      aborted.push(await long.then(() => 'answered', (error) => error === why));
    }
    const after = await index.search(fixtures.whole(5, 2, 8), { k: 3 });
    return { aborted, rows: fixtures.rows(after) };
  });
  assert.deepEqual(saved.aborted, Array(3).fill(true), 'a reason is the very object');
  await page.reload();
  const loaded = await page.evaluate(async () => {
    const { Device, Flat } = await import('/dist/index.js');
    const { rows, whole } = await import('/test/fixtures.mjs');
    const device = await Device.open({ prefer: 'host' });
    const index = await Flat.load(device, 'tests/first.nf');
    const found = rows(await index.search(whole(5, 2, 8), { k: 3 }));
    const removed = [await device.removeFile('tests/first.nf'), await device.removeFile('tests/first.nf')];
    const missing = await Flat.load(device, 'tests/first.nf').catch((error) => error.message);
    return { found, removed, missing };
  });
  assert.deepEqual(loaded.found, saved.rows);
  assert.deepEqual(loaded.removed, [true, false]);
  assert.equal(loaded.missing, 'tests/first.nf: needed a saved index, found no file');
  assert.deepEqual(said, []);
  await context.close();
});

test('a worker of the page\'s own uses the package', async () => {
  const result = await inPage(async () => {
    const script = `
      import { Device, Flat } from '${location.origin}/dist/index.js';
      import { nearest, rows, whole } from '${location.origin}/test/fixtures.mjs';
      const device = await Device.open({ prefer: 'gpu' });
      const index = await Flat.create(device, { dim: 12, metric: 'l2sq', hostCopy: false });
      const [base, query] = [whole(1, 1500, 12), whole(2, 4, 12)];
      await index.add(base);
      const found = rows(await index.search(query, { k: 6 }));
      postMessage([device.isInWorker, JSON.stringify(found) === JSON.stringify(nearest(base, query, 12, 6))]);`;
    const own = new Worker(URL.createObjectURL(new Blob([script], { type: 'text/javascript' })), { type: 'module' });
    const inOwn = await new Promise((resolve, reject) => {
      own.onmessage = ({ data }) => resolve(data);
      own.onerror = reject;
    });
    own.terminate();
    return inOwn;
  });
  assert.deepEqual(result, [false, true]);
});

test('the page goes on while rows are added', { skip: !process.env.NEARFIELD_CLOCK }, async () => {
  const longest = await inPage(async () => {
    const { Device, Flat } = nearfield;
    const index = await Flat.create(await Device.open({ prefer: 'gpu' }), { dim: 384, metric: 'cosine' });
    const base = fixtures.whole(3, 20_000, 384);
    const tasks = [];
    // The task that made the rows ends first.
    await new Promise((resolve) => setTimeout(resolve, 50));
    const observer = new PerformanceObserver((list) => tasks.push(...list.getEntries().map((entry) => entry.duration)));
    observer.observe({ type: 'longtask', buffered: false });
    await index.add(base);
    await new Promise((resolve) => setTimeout(resolve, 100));
    observer.disconnect();
    return Math.max(0, ...tasks);
  });
  // Chromium reports tasks of more than 50 ms. A busy machine stretches them.
  assert.ok(longest < 150, `a task of ${longest} ms`);
});

test('a kernel that the browser refuses is an error with its name', async () => {
  const spoil = () => {
    const make = GPUDevice.prototype.createShaderModule;
    GPUDevice.prototype.createShaderModule = function (descriptor) {
      const code = descriptor.label === 'select_k' ? `${descriptor.code}\nfn broken() -> u32 { return 1u | 2u << 3u; }` : descriptor.code;
      return make.call(this, { ...descriptor, code });
    };
  };
  const message = await inPage(
    async () => {
      const { Device, Flat } = nearfield;
      const device = await Device.open({ prefer: 'gpu', worker: false });
      const index = await Flat.create(device, { dim: 8, metric: 'l2sq', hostCopy: false });
      await index.add(fixtures.whole(1, 3000, 8));
      return index.search(fixtures.whole(2, 2, 8)).then(() => 'answered', (error) => `${error.code}: ${error.message}`);
    },
    undefined,
    { before: spoil, says: /mixing|Tint|parsing|Invalid|WebGPU|ShaderModule/i },
  );
  assert.match(message, /^Device: .*kernel select_k/s);
});

test('without WebGPU the host engine answers in the worker', async () => {
  const plain = await launch({ webgpu: false });
  try {
    const { page, said } = await open(plain, own.url);
    const result = await page.evaluate(async () => {
      const { Device, Flat } = nearfield;
      const data = await fixtures.shipped(fixtures.fetched);
      const device = await Device.open();
      const index = await Flat.create(device, { dim: data.dim, metric: 'cosine' });
      await index.add(data.base.vectors);
      const some = data.query.vectors.subarray(0, 20 * data.dim);
      const truth = fixtures.nearest(data.base.vectors, some, data.dim, 20, { metric: 'cosine' });
      return {
        about: device.describe(),
        isInWorker: device.isInWorker,
        missing: fixtures.missing(await index.search(some, { k: 20 }), truth),
      };
    });
    assert.match(result.about, /^host.*because there is no GPU/);
    assert.equal(result.isInWorker, true);
    assert.equal(result.missing, 0);
    assert.deepEqual(said, []);

    // A package that comes from another origin, such as a CDN, has its worker too.
    const other = await serve();
    const far = await page.evaluate(async (origin) => {
      const { Device, Flat } = await import(`${origin}/dist/index.js`);
      const device = await Device.open();
      const index = await Flat.create(device, { dim: 2 });
      await index.add([1, 0, 0, 1]);
      return [device.isInWorker, ...(await index.search([0, 1], { k: 1 })).ids];
    }, other.url);
    other.server.close();
    assert.deepEqual(far, [true, 1]);
  } finally {
    await plain.close();
  }
});
