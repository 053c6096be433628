// The demo page, clicked through in headless Chromium on the host engine and on software WebGPU. Needs the package (web/build) and
// Chromium ($CHROMIUM, or /usr/bin/chromium).

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';

import { vectorsOf } from '../../demo/npy.mjs';
import { DATA } from '../folders.mjs';
import { nearest } from '../fixtures.mjs';
import { site } from './site.mjs';

const { open } = site();
const lines = async (name) => (await readFile(join(DATA, name), 'utf8')).trimEnd().split('\n');

/** The neighbours that the page lists. */
const shown = (page) => page.locator('#results button').evaluateAll((buttons) =>
  buttons.map((button) => ({ name: button.querySelector('b').textContent, distance: Number(button.querySelector('data').value) })));

/** Waits until the page shows the neighbours of a package. */
const chosen = (page, name) => page.waitForFunction((name) => document.querySelector('#chosen b').textContent === name, name);

/** Package, distances and map of a page are those of sums in f64. */
async function isRight(page, name) {
  const names = await lines('names.txt');
  const { vectors, dim } = vectorsOf(new Uint8Array(await readFile(join(DATA, 'base.f16.npy'))));
  const row = names.indexOf(name);
  const [truth] = nearest(vectors, vectors.subarray(row * dim, (row + 1) * dim), dim, 11, { metric: 'cosine' });
  const found = await shown(page);
  const others = truth.filter(([, id]) => id !== row);
  assert.deepEqual(found.map(({ name }) => name), others.map(([, id]) => names[id]));
  found.forEach(({ distance }, at) => assert.ok(Math.abs(distance - others[at][0]) < 1e-6, `${distance} for ${others[at][0]}`));
  const lit = page.locator('#map path.near');
  assert.deepEqual(await lit.evaluateAll((points) => points.map((point) => Number(point.dataset.row))), others.map(([, id]) => id));
}

test('a package has its true neighbours, other choices have theirs, and each point of the map has a package', async () => {
  const { page, context, said } = await open('?prefer=host#cantata');
  await isRight(page, 'cantata');
  assert.match(await page.textContent('#took'), /^The 10 nearest of 4,000 in [\d.,]+ ms on the host engine$/);
  assert.match(await page.textContent('#about'), /Devicehost.*because the caller asks for "host".*Memoryrows/s);
  assert.equal(await page.locator('#map g:first-child title').count(), 4000);

  await page.fill('#query', 'chess engine');
  await page.press('#query', 'Enter');
  await chosen(page, 'stockfish');
  assert.equal(new URL(page.url()).hash, '#stockfish');
  await page.fill('#query', 'no such package');
  await page.press('#query', 'Enter');
  assert.match(await page.textContent('#notice.bad'), /no such package/);
  await page.click('#results button >> text=fairymax');
  await chosen(page, 'fairymax');
  await isRight(page, 'fairymax');
  await page.selectOption('#k', '5');
  await page.waitForFunction(() => document.querySelectorAll('#results li').length === 5);
  await page.selectOption('#metric', 'ip');
  await page.waitForFunction(() => document.querySelector('#results data').textContent.startsWith('-'));
  await page.evaluate(() => (location.hash = '#darktable'));
  await chosen(page, 'darktable');
  assert.deepEqual(said, []);
  await context.close();
});

test('the map moves, and its points can be chosen', async () => {
  const { page, context, said } = await open('?prefer=host');
  const map = page.locator('#map');
  const box = await map.boundingBox();
  const middle = [box.x + box.width / 2, box.y + box.height / 2];
  const changes = async (act) => {
    const old = await map.getAttribute('viewBox');
    await act();
    await page.waitForFunction((old) => document.querySelector('#map').getAttribute('viewBox') !== old, old);
  };
  await changes(async () => {
    await page.mouse.move(...middle);
    await page.mouse.wheel(0, -400);
  });
  await changes(async () => {
    await page.mouse.down();
    await page.mouse.move(middle[0] + 90, middle[1] + 40, { steps: 4 });
    await page.mouse.up();
  });
  assert.equal(await page.textContent('#chosen b'), 'cantata', 'a drag is no click');
  for (const part of ['in', 'out', 'near', 'all', 'near']) await changes(() => page.click(`#zoom-${part}`));
  const near = await page.locator('#map path.near').last().evaluate((point) => point.getBoundingClientRect().toJSON());
  assert.ok(near.x > box.x && near.y > box.y && near.x < box.x + box.width && near.y < box.y + box.height, 'the farthest neighbour is in sight');
  const name = (await shown(page)).at(-1).name;
  await page.mouse.click(near.x, near.y);
  await chosen(page, name);
  assert.deepEqual(said, []);
  await context.close();
});

test('no part of the page is wider than the screen, and everything that takes the focus has a name', async () => {
  const { page, context } = await open('?prefer=host', { colorScheme: 'dark' });
  for (const summary of await page.locator('summary').all()) await summary.click();
  for (const width of [360, 821, 1600]) {
    await page.setViewportSize({ width, height: 800 });
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= width, `on ${width}`);
  }
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor), 'rgb(17, 20, 25)');
  assert.doesNotMatch(await page.locator('body').ariaSnapshot(), /- (button|combobox|textbox|spinbutton|checkbox|img)( \[.*\])?:?$/m);
  await context.close();
});

test('an unknown device is told', async () => {
  const { page, context } = await open('?prefer=fridge');
  assert.match(await page.textContent('#notice'), /prefer.*fridge/);
  await context.close();
});

/** The package's worker holds calls of a method back until a test answers them or lets them run. */
const HOLD = `
[globalThis.held, globalThis.holds] = [[], ''];
addEventListener('message', (event) => {
  if (event.data.method !== globalThis.holds) return;
  event.stopImmediatePropagation();
  globalThis.held.push(event.data);
});
globalThis.release = () => {
  globalThis.holds = '';
  globalThis.held.splice(0).forEach((data) => dispatchEvent(new MessageEvent('message', { data })));
};
`;

/** Puts a script before that of the package's worker. */
const inWorker = (page, script) => page.route('**/dist/worker.js', async (route) => {
  const text = await (await route.fetch()).text();
  await route.fulfill({ body: script + text, contentType: 'text/javascript' });
});

const workerOf = (page) => page.workers().find((worker) => worker.url().endsWith('/dist/worker.js'));

/** Waits until the worker of a page holds a call back. */
async function holding(page) {
  while (!(await workerOf(page)?.evaluate(() => globalThis.held?.length > 0))) await page.waitForTimeout(20);
}

test('an error stays until the visitor asks for something else, whatever an earlier choice ends with', async () => {
  const { page, context } = await open('?prefer=host', { change: (page) => inWorker(page, HOLD) });
  const worker = workerOf(page);
  await worker.evaluate(() => (globalThis.holds = 'search'));
  await page.selectOption('#k', '5');
  await holding(page);
  await page.fill('#query', 'no such package');
  await page.press('#query', 'Enter');
  await worker.evaluate(() => {
    const [{ number }] = globalThis.held.splice(0);
    globalThis.holds = '';
    postMessage({ kind: 'nearfield error', number, error: { name: 'Error', message: 'the earlier error' } });
  });
  await page.waitForFunction(() => /the earlier error.*no such package/.test(document.querySelector('#notice.bad')?.textContent));
  await page.selectOption('#k', '20');
  await page.waitForFunction(() => document.querySelectorAll('#results li').length === 20);
  assert.equal(await page.textContent('#notice'), '');
  await context.close();
});

test('a package that is asked for while the index is built is found after that', async () => {
  let page;
  const opened = open('?prefer=host', { change: (its) => inWorker((page = its), `${HOLD} globalThis.holds = 'add';`) });
  while (!page?.workers().length) await new Promise((resolve) => setTimeout(resolve, 20));
  await holding(page);
  await page.evaluate(() => (location.hash = '#darktable'));
  await workerOf(page).evaluate(() => globalThis.release());
  const { context, said } = await opened;
  await chosen(page, 'darktable');
  assert.equal(await page.textContent('#notice'), '');
  assert.deepEqual(said, []);
  await context.close();
});

/** Timers without a delay, which the map's work goes on by, wait for the test, and are counted. */
const COUNT = () => {
  const set = globalThis.setTimeout;
  const waiting = [];
  globalThis.timers = 0;
  globalThis.setTimeout = (work, delay) => {
    if (delay) return set(work, delay);
    const counted = () => (globalThis.timers++, work());
    return globalThis.go ? set(counted) : waiting.push(counted);
  };
  globalThis.start = () => {
    globalThis.go = true;
    waiting.splice(0).forEach((work) => set(work));
  };
};

test('the map waits while a search is under way, whose time the page shows', async () => {
  let page;
  const change = async (its) => {
    page = its;
    await page.addInitScript(COUNT);
    await inWorker(page, HOLD);
  };
  const opened = open('?prefer=host', { change });
  while (!page?.workers().length) await new Promise((resolve) => setTimeout(resolve, 20));
  await page.waitForSelector('#settings:enabled');
  await workerOf(page).evaluate(() => (globalThis.holds = 'search'));
  await page.selectOption('#k', '5');
  await holding(page);
  await page.evaluate(() => globalThis.start());
  await page.waitForTimeout(300);
  assert.equal(await page.evaluate(() => globalThis.timers), 1, 'rounds of the map');
  await workerOf(page).evaluate(() => globalThis.release());
  const { context, said } = await opened;
  assert.equal(await page.locator('#map path.near').count(), 5);
  assert.deepEqual(said, []);
  await context.close();
});

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

// Software WebGPU takes 13 seconds.
test('on a GPU neighbours are the same, and one that is lost is opened again', { skip: process.env.NEARFIELD_NIGHTLY !== '1' }, async () => {
  const { page, context, said } = await open('?prefer=gpu#cantata', { change: (page) => inWorker(page, KEEP) });
  await isRight(page, 'cantata');
  assert.match(await page.textContent('#took'), / on the (GPU|host engine, which answers small searches before the GPU could)$/);
  assert.match(await page.textContent('#about'), /swiftshader \(software, webgpu\)/);

  const worker = workerOf(page);
  await worker.evaluate(() => globalThis.devices.at(-1).destroy());
  // A new index is made on the GPU, which is gone.
  await page.selectOption('#metric', 'l2sq');
  await page.waitForFunction(() => Number(document.querySelector('#results data').value) > 0.7);
  assert.match(await page.textContent('#notice'), /^The GPU was lost \(.*\)\. It was opened again/);
  assert.equal(await worker.evaluate(() => globalThis.devices.length), 2);
  await page.selectOption('#metric', 'cosine');
  await page.waitForFunction(() => Number(document.querySelector('#results data').value) < 0.4);
  await isRight(page, 'cantata');
  assert.deepEqual(said.filter((text) => text.startsWith('uncaught')), []);
  await context.close();
});
