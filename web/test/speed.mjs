// Prints how long searches take: `node web/test/speed.mjs [rows] [dim]`. In Node the host engine and a plain loop; in Chromium its software
// WebGPU, with and without the host's copy, and the first search after the module was loaded. Answers are compared with those of the loop.

import { cpus } from 'node:os';

import { Device, Flat } from '../dist/index.js';
import { launch, open, serve } from './browser.mjs';

const [rows, dim] = [Number(process.argv[2] ?? 20_000), Number(process.argv[3] ?? 384)];

/** Medians in milliseconds, of a page or of Node. */
async function measure({ package: { Device, Flat }, rows, dim, prefer, hostCopy, fixtures }) {
  const next = fixtures.random(1);
  const base = Float32Array.from({ length: rows * dim }, () => next() - 0.5);
  const query = Float32Array.from({ length: 100 * dim }, () => next() - 0.5);
  const median = (times) => times.sort((a, b) => a - b)[times.length >> 1].toFixed(2);
  const times = async (turns, work) => {
    const taken = [];
    for (let turn = 0; turn < turns; turn++) {
      const start = performance.now();
      await work();
      taken.push(performance.now() - start);
    }
    return median(taken);
  };
  const start = performance.now();
  const device = await Device.open({ prefer });
  const index = await Flat.create(device, { dim, metric: 'l2sq', hostCopy });
  const opened = performance.now();
  await index.add(base);
  const added = performance.now();
  await index.search(query.subarray(0, dim));
  const first = performance.now() - added;
  await index.search(query);
  const one = await times(9, () => index.search(query.subarray(0, dim)));
  const many = await times(3, () => index.search(query));
  const found = await index.search(query.subarray(0, 2 * dim), { k: 10 });
  const want = fixtures.nearest(base, query.subarray(0, 2 * dim), dim, 10).flat().map(([, id]) => id);
  if (String([...found.ids]) !== String(want)) throw new Error('the answer is wrong');
  const about = `${device.name}${prefer === 'gpu' ? `, host copy ${hostCopy}` : ''}`;
  device.close();
  return { about, open: (opened - start).toFixed(1), add: (added - opened).toFixed(1), first: first.toFixed(1), one, many };
}

/** A loop as one writes it in JavaScript: squared distances in f32, the ten best. */
function loop(base, query, dim) {
  for (let q = 0; q < query.length; q += dim) {
    const best = [];
    for (let r = 0; r < base.length; r += dim) {
      let sum = 0;
      for (let i = 0; i < dim; i++) {
        const difference = query[q + i] - base[r + i];
        sum += difference * difference;
      }
      if (best.length < 10 || sum < best[best.length - 1][0]) {
        const at = best.findIndex(([distance]) => sum < distance);
        best.splice(at < 0 ? best.length : at, 0, [sum, r / dim]);
        if (best.length > 10) best.pop();
      }
    }
  }
}

const fixtures = await import('./fixtures.mjs');
console.log(`${rows} x ${dim}, squared L2, k = 10, ms; ${cpus()[0].model}, ${cpus().length} cores, Node ${process.version}, ${new Date().toISOString().slice(0, 10)}`);
{
  const next = fixtures.random(1);
  const base = Float32Array.from({ length: rows * dim }, () => next() - 0.5);
  const query = Float32Array.from({ length: 100 * dim }, () => next() - 0.5);
  for (const count of [1, 1, 100]) {
    const start = performance.now();
    loop(base, query.subarray(0, count * dim), dim);
    console.log(`a loop, ${count} queries: ${(performance.now() - start).toFixed(2)}`);
  }
}
console.log('Node', await measure({ package: { Device, Flat }, rows, dim, prefer: 'host', fixtures }));
const { server, url } = await serve();
const browser = await launch();
for (const [prefer, hostCopy] of [['host', true], ['gpu', true], ['gpu', false]]) {
  const { page, context } = await open(browser, url);
  const given = JSON.stringify({ rows, dim, prefer, hostCopy });
  console.log('Chromium', await page.evaluate(`(${measure})({ package: nearfield, fixtures, ...${given} })`));
  await context.close();
}
await browser.close();
server.close();
