// GPUs that are lost, a GPUDevice of the page's own, and its buffers, in headless Chromium on its software WebGPU.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { site } from './browser.mjs';

const { inPage } = site();

test('a lost GPU is a typed error, and the index comes back from its host copy or its bytes', async () => {
  const result = await inPage(async () => {
    const { Device, DeviceLostError, Flat } = nearfield;
    const device = await Device.open({ prefer: 'gpu', worker: false });
    const [base, query] = [fixtures.whole(6, 300, 16), fixtures.whole(7, 4, 16)];
    const indexes = [];
    for (const hostCopy of [true, false]) {
      const index = await Flat.create(device, { dim: 16, metric: 'l2sq', hostCopy });
      await index.add(base);
      indexes.push(index);
    }
    const [copied, bare] = indexes;
    const bytes = await bare.toBytes();
    const end = (call) => call.then(() => 'answered', (error) => [error instanceof DeviceLostError, error.code, error.message]);
    // Kernels are compiled, and the GPU is lost amid one of many searches.
    await bare.search(query, { k: 6 });
    const ends = Array.from({ length: 50 }, () => end(bare.search(query, { k: 6 })));
    await Promise.race(ends);
    device.gpuDevice.destroy();
    const lost = [(await Promise.all(ends)).at(-1), await end(bare.add(base)), await end(bare.toBytes())];
    const without = await bare.recover().catch((error) => error.message);
    await copied.recover();
    await bare.recover(bytes);
    const want = JSON.stringify(fixtures.nearest(base, query, 16, 6));
    const found = [];
    for (const index of indexes) {
      const answer = await index.search(query, { k: 6 });
      found.push([JSON.stringify(fixtures.rows(answer)) === want, answer.statistics.onHost, index.size]);
    }
    return { lost, without, found };
  });
  for (const [isTyped, code, message] of result.lost) {
    assert.deepEqual([isTyped, code], [true, 'DeviceLost'], message);
  }
  assert.match(result.without, /^bytes: needed those of the saved index/);
  assert.deepEqual(result.found, [[true, true, 300], [true, false, 300]]);
});

test('a GPUDevice of the page\'s own is not opened again, and its index is loaded elsewhere', async () => {
  const result = await inPage(async () => {
    const { Device, DeviceLostError, Flat } = nearfield;
    const gpuDevice = await (await navigator.gpu.requestAdapter()).requestDevice();
    const index = await Flat.create(await Device.open({ gpuDevice }), { dim: 8, metric: 'l2sq' });
    const [base, query] = [fixtures.whole(6, 100, 8), fixtures.whole(7, 1, 8)];
    await index.add(base);
    gpuDevice.destroy();
    await gpuDevice.lost;
    const fault = (call) => call.then(() => 'done', (error) => [error instanceof DeviceLostError, error.message]);
    const lost = [await fault(index.search(fixtures.whole(1, 2000, 8))), await fault(index.recover())];
    const loaded = await Flat.fromBytes(await Device.open({ prefer: 'gpu', worker: false }), await index.toBytes());
    const found = fixtures.rows(await loaded.search(query, { k: 3 }));
    return { lost, same: JSON.stringify(found) === JSON.stringify(fixtures.nearest(base, query, 8, 3)) };
  });
  assert.deepEqual(result.lost.map(([isTyped]) => isTyped), [true, true], String(result.lost));
  assert.match(result.lost[1][1], /open a device around another/);
  assert.ok(result.same);
});

// A search of few queries runs on the host's copy, and a change on the GPU too: no kernel needs to be compiled.

test('an index comes back while other calls use the GPU', async () => {
  const result = await inPage(async () => {
    const { Device, Flat } = nearfield;
    const device = await Device.open({ prefer: 'gpu', worker: false });
    const [base, query] = [fixtures.whole(6, 300, 8), fixtures.whole(7, 2, 8)];
    const index = await Flat.create(device, { dim: 8, metric: 'l2sq' });
    await index.add(base);
    const bytes = await index.toBytes();
    const want = JSON.stringify(fixtures.nearest(base, query, 8, 5));
    const out = [];
    for (const isLost of [false, true]) {
      const others = [Flat.fromBytes(device, bytes), Flat.create(device, { dim: 4 })];
      const ends = others.map((call) => call.then(() => 'done', (error) => error.code ?? String(error)));
      if (isLost) device.gpuDevice.destroy();
      const recovered = await index.recover().then(() => 'done', String);
      await index.update([0], base.subarray(0, 8));
      const found = fixtures.rows(await index.search(query, { k: 5 }));
      out.push([recovered, JSON.stringify(found) === want, await Promise.all(ends)]);
    }
    return out;
  });
  assert.deepEqual(result[0], ['done', true, ['done', 'done']]);
  assert.deepEqual(result[1].slice(0, 2), ['done', true]);
  for (const end of result[1][2]) assert.match(end, /^(done|DeviceLost)$/);
});

test('indexes share a GPU that is opened again, also after a second loss, whatever the first recovery came to', async () => {
  const result = await inPage(async () => {
    const { Device, Flat } = nearfield;
    const { requestDevice } = GPUAdapter.prototype;
    let made = 0;
    GPUAdapter.prototype.requestDevice = function (...given) {
      made++;
      return requestDevice.apply(this, given);
    };
    const device = await Device.open({ prefer: 'gpu', worker: false });
    const [base, query] = [fixtures.whole(6, 300, 8), fixtures.whole(7, 2, 8)];
    const indexes = [];
    for (let at = 0; at < 3; at++) {
      const index = await Flat.create(device, { dim: 8, metric: 'l2sq' });
      await index.add(base);
      indexes.push(index);
    }
    const end = (call) => call.then(() => 'done', (error) => error.code ?? String(error));
    device.gpuDevice.destroy();
    const out = [await end(indexes[0].recover()), await end(indexes[1].recover(new Uint8Array(50)))];
    device.gpuDevice.destroy();
    // The second has failed to, the third has not tried to, and the first is on the GPU that was lost last.
    out.push(...(await Promise.all(indexes.map((index) => end(index.recover())))), made);
    const want = JSON.stringify(fixtures.nearest(base, query, 8, 5));
    for (const index of indexes) {
      out.push(await end(index.update([0], base.subarray(0, 8))));
      out.push(JSON.stringify(fixtures.rows(await index.search(query, { k: 5 }))) === want);
    }
    return out;
  });
  assert.deepEqual(result, ['done', 'File', 'done', 'done', 'done', 3, 'done', true, 'done', true, 'done', true]);
});

test('a buffer that cannot be copied is an error, on our device and on the page\'s own', async () => {
  const result = await inPage(
    async () => {
      const { Device, Flat } = nearfield;
      const adapter = await navigator.gpu.requestAdapter();
      const [gpuDevice, other] = [await adapter.requestDevice(), await (await navigator.gpu.requestAdapter()).requestDevice()];
      const out = [];
      for (const device of [await Device.open({ prefer: 'gpu', worker: false }), await Device.open({ gpuDevice })]) {
        const index = await Flat.create(device, { dim: 8, metric: 'l2sq', hostCopy: false });
        const description = { size: 320, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST };
        const gone = device.gpuDevice.createBuffer(description);
        gone.destroy();
        const mapped = device.gpuDevice.createBuffer({ ...description, mappedAtCreation: true });
        for (const buffer of [other.createBuffer(description), gone, mapped]) {
          out.push(await index.add({ buffer, rows: 10 }).then(() => 'added', (error) => error.code));
        }
        out.push(index.size);
      }
      return out;
    },
    undefined,
    { says: /^warning: .*(associated|Invalid CommandBuffer|while (destroyed|mapped))/s },
  );
  const refused = ['Argument', 'Argument', 'Argument', 0];
  assert.deepEqual(result, [...refused, ...refused]);
});

test('vectors in GPU buffers go in without leaving the GPU, on our device and on the page\'s own', async () => {
  const result = await inPage(async () => {
    const { Device, Flat } = nearfield;
    const adapter = await navigator.gpu.requestAdapter();
    const gpu = navigator.gpu;
    const gpuDevice = await adapter.requestDevice();
    const out = [];
    // wgpu pads rows of ten elements.
    for (const [device, dim] of [[await Device.open({ prefer: 'gpu', worker: false }), 16], [await Device.open({ gpuDevice }), 10]]) {
      const [base, query] = [fixtures.whole(8, 300, dim), fixtures.whole(9, 5, dim)];
      const bufferOf = (values, at) => {
        const buffer = device.gpuDevice.createBuffer({ size: at + values.byteLength, usage: GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST });
        device.gpuDevice.queue.writeBuffer(buffer, at, values);
        return buffer;
      };
      const [buffer, queries] = [bufferOf(base, 256), bufferOf(query, 0)];
      const index = await Flat.create(device, { dim, metric: 'l2sq' });
      await index.add({ buffer, offset: 256, rows: 300 });
      const found = fixtures.rows(await index.search({ buffer: queries, rows: 5 }, { k: 7 }));
      const beyond = await index.add({ buffer, offset: 512, rows: 300 }).catch((error) => error.message);
      out.push([device.gpuDevice === gpuDevice, JSON.stringify(found) === JSON.stringify(fixtures.nearest(base, query, dim, 7)), index.size, beyond]);
    }
    const host = await Device.open({ prefer: 'host', worker: false });
    const refused = await (await Flat.create(host, { dim: 4 })).add({ buffer: {}, rows: 1 }).catch((error) => error.message);
    const inWorker = await Device.open({ gpuDevice, worker: true }).catch((error) => error.message);
    const fake = await Device.open({ gpuDevice: {} }).catch((error) => error.message);
    return { out, refused, inWorker, fake, isOurs: navigator.gpu === gpu };
  });
  assert.deepEqual(result.out.map((one) => one.slice(0, 3)), [[false, true, 300], [true, true, 300]]);
  for (const [, , , beyond] of result.out) assert.match(beyond, /^vectors: needed a buffer of \d+ bytes, given one of \d+$/);
  assert.match(result.refused, /given a GPUBuffer/);
  assert.match(result.inWorker, /^worker: needed false/);
  assert.match(result.fake, /^gpuDevice: needed a GPUDevice/);
  assert.ok(result.isOurs, 'navigator.gpu is the browser\'s again');
});
