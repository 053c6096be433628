// A GPU that is lost under the demo page.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { start } from './site.mjs';
import { drawn, ready, shown } from './steps.mjs';

let site;
before(async () => (site = await start()));
after(() => site.close());

/** The package's worker keeps its devices where a test can destroy them. */
const KEEP = `
globalThis.devices = [];
const request = GPUAdapter.prototype.requestDevice;
GPUAdapter.prototype.requestDevice = async function (...settings) {
  const device = await request.apply(this, settings);
  globalThis.devices.push(device);
  return device;
};
`;

test('a lost GPU is opened again, and the page says so', async () => {
  const keep = (page) => page.route('**/dist/worker.js', async (route) => {
    const text = await (await route.fetch()).text();
    await route.fulfill({ body: KEEP + text, contentType: 'text/javascript' });
  });
  const { page, context, said } = await site.open('?prefer=gpu#cantata', { before: keep });
  await ready(page);
  const worker = page.workers().find((worker) => worker.url().endsWith('/dist/worker.js'));
  const before = await shown(page);

  await worker.evaluate(() => globalThis.devices.at(-1).destroy());
  // A new index is made on the GPU, which is gone.
  await page.selectOption('#metric', 'l2sq');
  await page.waitForFunction(() => Number(document.querySelector('#results data').value) > 0.7, null, { timeout: 60_000 });
  assert.match(await page.textContent('#notice'), /^The GPU was lost \(.*\)\. It was opened again and the index came back/);
  assert.equal(await worker.evaluate(() => globalThis.devices.length), 2);

  await page.selectOption('#metric', 'cosine');
  await page.waitForFunction(() => Number(document.querySelector('#results data').value) < 0.4);
  const again = await shown(page);
  assert.deepEqual(again.map(({ name }) => name), before.map(({ name }) => name));
  // The GPU may answer one of the two searches and the host copy the other: their distances differ in the last bits.
  again.forEach(({ distance }, at) => assert.ok(Math.abs(distance - before[at].distance) < 1e-6, `${distance} for ${before[at].distance}`));
  assert.ok((await drawn(page)).share > 0.01);
  assert.deepEqual(said.filter((text) => text.startsWith('uncaught')), []);
  await context.close();
});
