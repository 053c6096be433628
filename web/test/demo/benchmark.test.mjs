// The demo page's benchmark: small ones in all ways, what they save, and what `nearfield-bench` says of it. Needs the package (web/build)
// and Chromium; the command is $NEARFIELD_BENCH, or that of a debug build.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { start } from './site.mjs';
import { ready } from './steps.mjs';

const bench = process.env.NEARFIELD_BENCH ?? fileURLToPath(new URL('../../../target/debug/nearfield-bench', import.meta.url));
const run = promisify(execFile);

let site;
let folder;
before(async () => {
  site = await start();
  folder = await mkdtemp(join(tmpdir(), 'nearfield-page-'));
});
after(async () => {
  await site.close();
  await rm(folder, { recursive: true });
});

/** Opens the benchmark and fills its form. */
async function opened(search, settings, options) {
  const { page, context, said } = await site.open(search, options);
  await ready(page);
  await page.click('#tab-benchmark');
  for (const [name, value] of Object.entries(settings)) {
    const field = page.locator(`#measure [name=${name}]`);
    if (typeof value === 'boolean') await field.setChecked(value);
    else if (name === 'metric') await field.selectOption(value);
    else await field.fill(String(value));
  }
  return { page, context, said };
}

async function measured(page) {
  await page.click('#measure [type=submit]');
  await page.waitForSelector('#outcome table', { timeout: 120_000 });
}

async function saved(page, name) {
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#measure [name=save]')]);
  const path = join(folder, name);
  await download.saveAs(path);
  return path;
}

for (const [prefer, metric, ways] of [['host', 'ip', ['host', 'javascript']], ['gpu', 'cosine', ['gpu', 'host', 'javascript']]]) {
  test(`${prefer}: a small benchmark has a chart, answers that agree, and lines that the command reads`, async () => {
    const { page, context, said } = await opened(`?prefer=${prefer}`, { rows: 700, dim: 40, queries: 9, k: 7, runs: 3, metric });
    assert.equal(await page.locator('#measure [name=gpu]').isChecked(), prefer === 'gpu');
    await measured(page);
    assert.match(await page.textContent('#outcome'), /All answers agree: those of the 9 queries with each other, and those of the first 4/);
    assert.equal(await page.locator('#outcome svg rect').count(), ways.length);
    assert.equal(await page.locator('#outcome tbody tr').count(), ways.length);
    assert.match(await page.locator('#outcome svg').getAttribute('aria-label'), /^Median times: .* ms$/);

    await page.setViewportSize({ width: 360, height: 740 });
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);

    const first = await saved(page, `${prefer}-1.jsonl`);
    const lines = (await readFile(first, 'utf8')).trimEnd().split('\n').map((line) => JSON.parse(line));
    const cases = lines.filter(({ record }) => record === 'case');
    assert.deepEqual(lines.map(({ record }) => record), ways.flatMap(() => ['device', 'case']));
    for (const one of cases) {
      assert.deepEqual([one.suite, one.rows, one.dim, one.queries, one.k, one.metric, one.verified], ['exact', 700, 40, 9, 7, metric, 9]);
      assert.ok(0 <= one.ms_least && one.ms_least <= one.ms && one.ms <= one.ms_most && one.runs === 3, JSON.stringify(one));
    }
    if (existsSync(bench)) {
      let second = first;
      if (prefer === 'host') {
        await measured(page);
        second = await saved(page, `${prefer}-2.jsonl`);
      }
      const { stdout } = await run(bench, ['compare', first, second]);
      for (const { places } of cases) assert.ok(stdout.includes(places), `${places} is not in\n${stdout}`);
      assert.match(stdout, new RegExp(`geometric mean of ${ways.length}`));
      await run(bench, ['report', first, '--markdown']);
    }
    assert.deepEqual(said, []);
    await context.close();
  });
}

test('a wrong answer is told and fails the comparison', async () => {
  // The loop's worker gives two neighbours of the first query in the wrong order.
  const spoil = (page) => page.route('**/loop.mjs', async (route) => {
    const text = await (await route.fetch()).text();
    const body = text.replace('return { ids, distances, k };', '[ids[0], ids[1]] = [ids[1], ids[0]]; return { ids, distances, k };');
    assert.notEqual(body, text);
    await route.fulfill({ body, contentType: 'text/javascript' });
  });
  const { page, context } = await opened('?prefer=host', { rows: 500, dim: 16, queries: 5, runs: 1 }, { before: spoil });
  await measured(page);
  assert.match(await page.textContent('#outcome .bad'), /plain JavaScript: \d+ of \d+ places are wrong/);
  const path = await saved(page, 'wrong.jsonl');
  if (existsSync(bench)) {
    await assert.rejects(run(bench, ['compare', path, path]), /failed/);
  }
  await context.close();
});

test('the page lives while it measures, and a measurement can be cancelled', async () => {
  const settings = { rows: 60000, dim: 384, queries: 400, runs: 9, gpu: false, host: false };
  const { page, context, said } = await opened('?prefer=host', settings);
  await page.click('#measure [type=submit]');
  await page.waitForFunction(() => /run 1 of 9/.test(document.querySelector('#doing').textContent), null, { timeout: 60_000 });
  const frames = await page.evaluate(() => new Promise((resolve) => {
    let count = 0;
    const end = performance.now() + 1000;
    const frame = () => (performance.now() < end ? (count++, requestAnimationFrame(frame)) : resolve(count));
    frame();
  }));
  assert.ok(frames > 5, `${frames} frames in a second`);
  const before = Date.now();
  await page.click('#measure [name=cancel]');
  await page.waitForFunction(() => /Cancelled/.test(document.querySelector('#doing').textContent));
  assert.ok(Date.now() - before < 2000);
  assert.equal(await page.locator('#measure [name=save]').isDisabled(), true);

  // The next one is not hampered by it.
  for (const [name, value] of Object.entries({ rows: 300, queries: 1, runs: 1, dim: 8 })) await page.fill(`#measure [name=${name}]`, String(value));
  await measured(page);
  assert.match(await page.textContent('#outcome'), /All answers agree: those of the first 1 /);
  await page.fill('#measure [name=rows]', '900000');
  await page.fill('#measure [name=dim]', '4000');
  await page.click('#measure [type=submit]');
  await page.waitForFunction(() => /MiB; this page measures/.test(document.querySelector('#doing').textContent));
  assert.deepEqual(said, []);
  await context.close();
});
