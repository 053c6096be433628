// The demo page's benchmark: a small one in all ways, what it saves, and what `nearfield-bench` says of it. Needs the package (web/build)
// and Chromium; the command is $NEARFIELD_BENCH, or that of a debug build.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { site } from './site.mjs';

const target = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL('../../../target', import.meta.url));
const bench = process.env.NEARFIELD_BENCH ?? `${target}/debug/nearfield-bench`;
const run = promisify(execFile);
const { open } = site();

/** Opens the benchmark and fills its form. */
async function opened(settings, options) {
  const { page, context, said } = await open('?prefer=host', options);
  await page.click('#benchmark summary');
  await fill(page, settings);
  return { page, context, said };
}

async function fill(page, settings) {
  for (const [name, value] of Object.entries(settings)) {
    const field = page.locator(`#benchmark [name=${name}]`);
    if (typeof value === 'boolean') await field.setChecked(value);
    else await field.fill(String(value));
  }
}

async function measured(page) {
  await page.click('#benchmark [type=submit]');
  await page.waitForSelector('#outcome table');
}

async function saved(page) {
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#outcome a')]);
  return download.path();
}

// Software WebGPU takes nine seconds.
const isNight = process.env.NEARFIELD_NIGHTLY === '1';
const devices = [...(isNight ? ['gpu'] : []), 'host', 'javascript'];

test('a small benchmark has answers that are right, and lines that the command reads', async () => {
  const { page, context, said } = await opened({ rows: 700, dim: 40, queries: 9, k: 7, runs: 3, gpu: isNight });
  await measured(page);
  assert.deepEqual(await page.locator('#outcome tr.good td:last-child').allTextContents(), Array(devices.length).fill('right for 9 queries'));
  if (isNight) assert.match(await page.textContent('#outcome'), /software adapter/);
  const path = await saved(page);
  const lines = (await readFile(path, 'utf8')).trimEnd().split('\n').map((line) => JSON.parse(line));
  assert.deepEqual(lines.map(({ record }) => record), devices.flatMap(() => ['device', 'case']));
  const cases = lines.filter(({ record }) => record === 'case');
  for (const one of cases) {
    assert.deepEqual([one.suite, one.rows, one.dim, one.queries, one.k, one.metric, one.verified], ['exact', 700, 40, 9, 7, 'cosine', 9]);
    assert.ok(0 <= one.ms_least && one.ms_least <= one.ms && one.ms <= one.ms_most && one.runs === 3, JSON.stringify(one));
  }
  if (existsSync(bench)) {
    const { stdout } = await run(bench, ['compare', path, path]);
    for (const { places } of cases) assert.ok(stdout.includes(places), `${places} is not in\n${stdout}`);
    assert.ok(stdout.includes(`geometric mean of ${devices.length}`), stdout);
    await run(bench, ['report', path, '--markdown']);
  }
  assert.deepEqual(said, []);
  await context.close();
});

test('a wrong answer is told and fails the comparison', async () => {
  // The loop's worker gives two neighbours of the first query in the wrong order.
  const spoil = (page) => page.route('**/loop.mjs', async (route) => {
    const text = await (await route.fetch()).text();
    const body = text.replace('return { ids, distances, k };', '[ids[0], ids[1]] = [ids[1], ids[0]]; return { ids, distances, k };');
    assert.notEqual(body, text);
    await route.fulfill({ body, contentType: 'text/javascript' });
  });
  const { page, context } = await opened({ rows: 500, dim: 16, queries: 5, runs: 1, gpu: false }, { change: spoil });
  await measured(page);
  assert.match(await page.textContent('#outcome tr.bad'), /plain JavaScript.*2 places are wrong/);
  const path = await saved(page);
  if (existsSync(bench)) await assert.rejects(run(bench, ['compare', path, path]), /failed/);
  await context.close();
});

test('a measurement that is cancelled while a device opens says no more', async () => {
  // No GPU is found, after a while: the measurement would go on with the host engine.
  const none = 'if (globalThis.GPU) GPU.prototype.requestAdapter = () => new Promise((resolve) => setTimeout(resolve, 200, null));\n';
  const change = (page) => page.route('**/dist/worker.js', async (route) => {
    const text = await (await route.fetch()).text();
    await route.fulfill({ body: none + text, contentType: 'text/javascript' });
  });
  const { page, context, said } = await opened({ rows: 300, dim: 8, queries: 1, runs: 1, gpu: true }, { change });
  await page.click('#benchmark [type=submit]');
  await page.waitForFunction(() => document.querySelector('#doing').textContent.startsWith('GPU'));
  await page.click('#benchmark [name=cancel]');
  await page.waitForTimeout(2000);
  assert.equal(await page.textContent('#doing'), 'Cancelled. Nothing was kept.');
  assert.deepEqual(said, []);
  await context.close();
});

test('the page lives while it measures, and a measurement can be cancelled', async () => {
  const { page, context, said } = await opened({ rows: 20000, dim: 384, queries: 4000, runs: 9, gpu: false, host: false });
  await page.click('#benchmark [type=submit]');
  const tells = (words) => page.waitForFunction((words) => document.querySelector('#doing').textContent.includes(words), words);
  await tells('run 1 of 9');
  const frames = await page.evaluate(() => new Promise((resolve) => {
    let count = 0;
    const end = performance.now() + 1000;
    const frame = () => (performance.now() < end ? (count++, requestAnimationFrame(frame)) : resolve(count));
    frame();
  }));
  assert.ok(frames > 5, `${frames} frames in a second`);
  const before = Date.now();
  await page.click('#benchmark [name=cancel]');
  await tells('Cancelled');
  assert.ok(Date.now() - before < 2000);

  // The next one is not hampered by it.
  await fill(page, { rows: 300, queries: 1, runs: 1, dim: 8 });
  await measured(page);
  assert.match(await page.textContent('#outcome'), /right for 1 queries/);
  await fill(page, { rows: 900000, dim: 4000 });
  await page.click('#benchmark [type=submit]');
  await tells('MiB; this page measures');
  assert.deepEqual(said, []);
  await context.close();
});
