// The demo page, clicked through in headless Chromium on the host engine and on software WebGPU. Needs the package (web/build) and
// Chromium ($CHROMIUM, or /usr/bin/chromium).

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { bytesOf, npy, vectorsOf } from '../../demo/npy.mjs';
import { DATA } from '../folders.mjs';
import { start } from './site.mjs';
import { array, drop, drawn, ready, shown } from './steps.mjs';

let site;
before(async () => (site = await start()));
after(() => site.close());

const read = async (name) => new Uint8Array(await readFile(join(DATA, name)));
const lines = async (name) => (await readFile(join(DATA, name), 'utf8')).trimEnd().split('\n');

/** The rows nearest to a row by cosine, apart from itself, in f64. */
async function nearest(row, k) {
  const { vectors, rows, dim } = await vectorsOf(await read('base.f16.npy'), 'base');
  const dot = (a, b) => {
    let sum = 0;
    for (let i = 0; i < dim; i++) sum += vectors[a * dim + i] * vectors[b * dim + i];
    return sum;
  };
  const own = dot(row, row);
  const all = Array.from({ length: rows }, (_, other) => ({ row: other, distance: 1 - dot(row, other) / Math.sqrt(own * dot(other, other)) }));
  return all.filter((one) => one.row !== row).sort((a, b) => a.distance - b.distance || a.row - b.row).slice(0, k);
}

for (const prefer of ['host', 'gpu']) {
  test(`${prefer}: a package has its true neighbours, the map shows points, and the truth is verified`, async () => {
    const { page, context, said } = await site.open(`?prefer=${prefer}#cantata`);
    await ready(page);
    const names = await lines('names.txt');
    const truth = await nearest(names.indexOf('cantata'), 10);
    const found = await shown(page);
    assert.deepEqual(found.map(({ name }) => name), truth.map(({ row }) => names[row]));
    found.forEach(({ distance }, at) => assert.ok(Math.abs(distance - truth[at].distance) < 1e-6, `${distance} for ${truth[at].distance}`));
    assert.match(await page.textContent('#took'), /^The 10 nearest of 4,000 in [\d.,]+ ms on the (host engine|GPU)/);

    const verified = await page.textContent('#verified');
    assert.match(verified, prefer === 'gpu' ? /queries by cosine on the GPU: all right/ : /200 queries by cosine on the host engine: all right/);
    assert.doesNotMatch(verified, /wrong/);
    assert.match(await page.textContent('#map-words'), prefer === 'gpu' ? /ms on the GPU;/ : /ms on the host engine;/);
    const { colors, share } = await drawn(page);
    assert.ok(share > 0.01 && share < 0.6, `${share} of the map is drawn`);
    assert.ok(colors > 20, `${colors} colours`);

    await page.click('#tab-device');
    const about = await page.textContent('#about');
    assert.match(about, prefer === 'gpu' ? /Architectureswiftshader.*Limitsbuffers of/s : /host engine.*Takenbecause the caller asks for "host"/s);
    assert.deepEqual(said, []);
    await context.close();
  });
}

test('names complete, and keys choose among them', async () => {
  const { page, context, said } = await site.open('?prefer=host');
  await ready(page);
  const query = page.locator('#query');
  await query.fill('chess engine');
  const options = page.locator('#options [role=option]');
  assert.deepEqual(await options.locator('b').allTextContents(), ['fairymax', 'stockfish']);
  assert.equal(await query.getAttribute('aria-expanded'), 'true');
  assert.equal(await query.getAttribute('aria-activedescendant'), 'option-0');
  await query.press('ArrowDown');
  assert.equal(await options.nth(1).getAttribute('aria-selected'), 'true');
  await query.press('Enter');
  await page.waitForFunction(() => document.querySelector('#chosen b').textContent === 'stockfish');
  assert.equal(await page.locator('#options').isVisible(), false);
  assert.equal(new URL(page.url()).hash, '#stockfish');
  assert.equal((await shown(page))[0].name, 'fairymax');

  await query.fill('no such package');
  assert.match(await page.textContent('#options'), /no package/);
  await query.press('Enter');
  await query.press('Escape');
  assert.equal(await page.textContent('#chosen b'), 'stockfish');

  await page.locator('#results button').first().press('Enter');
  await page.waitForFunction(() => document.querySelector('#chosen b').textContent === 'fairymax');
  await page.selectOption('#k', '5');
  await page.waitForFunction(() => document.querySelectorAll('#results li').length === 5);
  await page.selectOption('#metric', 'ip');
  await page.waitForFunction(() => document.querySelector('#results data').textContent.startsWith('-'));
  assert.equal((await shown(page))[0].name, 'stockfish');
  await page.evaluate(() => (location.hash = '#darktable'));
  await page.waitForFunction(() => document.querySelector('#chosen b').textContent === 'darktable');
  assert.deepEqual(said, []);
  await context.close();
});

test('mouse and keys move the map, name points and choose them', async () => {
  const { page, context, said } = await site.open('?prefer=host');
  await ready(page);
  const box = await page.locator('#map').boundingBox();
  const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
  const picture = () => page.locator('#map').evaluate((canvas) => canvas.toDataURL());
  const changes = async (act) => {
    const old = await picture();
    await act();
    await page.waitForFunction((old) => document.querySelector('#map').toDataURL() !== old, old);
  };
  await changes(async () => {
    await page.mouse.move(x, y);
    await page.mouse.wheel(0, -400);
  });
  await changes(async () => {
    await page.mouse.down();
    await page.mouse.move(x + 90, y + 40, { steps: 4 });
    await page.mouse.up();
  });
  assert.equal(await page.textContent('#chosen b'), 'cantata', 'a drag is no click');
  await page.focus('#map');
  for (const key of ['ArrowLeft', '+', '0']) await changes(() => page.keyboard.press(key));
  await changes(() => page.click('#zoom-lit'));
  await page.click('#zoom-all');

  // Somewhere on a line through the middle there is a point.
  for (let at = box.x + 40; at < box.x + box.width - 40 && !(await page.locator('#tip').isVisible()); at += 5) await page.mouse.move(at, y);
  const name = await page.textContent('#tip b');
  assert.ok((await lines('names.txt')).includes(name), name);
  await page.mouse.down();
  await page.mouse.up();
  await page.waitForFunction((name) => document.querySelector('#chosen b').textContent === name, name);
  assert.deepEqual(said, []);
  await context.close();
});

test('two fingers zoom the map', async () => {
  const { page, context } = await site.open('?prefer=host', { hasTouch: true, viewport: { width: 400, height: 800 } });
  await ready(page);
  await page.locator('#map').scrollIntoViewIfNeeded();
  const box = await page.locator('#map').boundingBox();
  const old = await page.locator('#map').evaluate((canvas) => canvas.toDataURL());
  const client = await context.newCDPSession(page);
  const at = (apart) => [-apart, apart].map((dx, id) => ({ id, x: box.x + box.width / 2 + dx, y: box.y + box.height / 2 }));
  await client.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints: at(20) });
  for (const apart of [30, 45, 70]) await client.send('Input.dispatchTouchEvent', { type: 'touchMove', touchPoints: at(apart) });
  await client.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] });
  await page.waitForFunction((old) => document.querySelector('#map').toDataURL() !== old, old);
  assert.equal(await page.textContent('#chosen b'), 'cantata', 'two fingers are no click');
  await context.close();
});

test('vectors of one\'s own: dropped, searched by row number, and refused in clear words', async () => {
  const { page, context, said } = await site.open('?prefer=host');
  await ready(page);
  const values = Float32Array.from({ length: 300 * 8 }, (_, i) => Math.sin(i * i));
  await drop(page, 'mine.npy', array('<f4', [300, 8], new Uint8Array(values.buffer)));
  await page.waitForFunction(() => /300 f32 vectors of 8 elements/.test(document.querySelector('#notice').textContent));
  await page.fill('#query', '42');
  await page.press('#query', 'Enter');
  await page.waitForFunction(() => document.querySelector('#chosen b').textContent === 'row 42');
  const cosine = (a, b) => {
    let [ab, aa, bb] = [0, 0, 0];
    for (let i = 0; i < 8; i++) [ab, aa, bb] = [ab + values[a * 8 + i] * values[b * 8 + i], aa + values[a * 8 + i] ** 2, bb + values[b * 8 + i] ** 2];
    return 1 - ab / Math.sqrt(aa * bb);
  };
  const truth = Array.from({ length: 300 }, (_, row) => row).filter((row) => row !== 42).sort((a, b) => cosine(42, a) - cosine(42, b));
  assert.deepEqual((await shown(page)).map(({ name }) => name), truth.slice(0, 10).map((row) => `row ${row}`));
  assert.ok((await drawn(page)).share > 0.002);

  const half = await read('query.f16.npy');
  await drop(page, 'half.npy', half);
  await page.waitForFunction(() => /200 f16 vectors of 384 elements/.test(document.querySelector('#notice').textContent));
  const wide = Float32Array.from({ length: 20 * 700 }, (_, i) => Math.cos(i * i));
  await drop(page, 'wide.npy', array('<f4', [20, 700], new Uint8Array(wide.buffer)));
  await page.waitForFunction(() => /20 × 20 inner products of rows/.test(document.querySelector('#map-words').textContent));
  await page.waitForFunction(() => /20 f32 vectors of 700/.test(document.querySelector('#notice').textContent));

  const floats = new Uint8Array(Float32Array.of(1, 2, 3, 4).buffer);
  const wrong = {
    'text.npy': [new TextEncoder().encode('not an array at all'), /no \.npy file/],
    'double.npy': [array('<f8', [1, 2], new Uint8Array(16)), /<f8.*astype/],
    'big.npy': [array('>f4', [2, 2], floats), /big-endian/],
    'columns.npy': [array('<f4', [2, 2], floats, true), /Fortran/],
    'flat.npy': [array('<f4', [4], floats), /needed two/],
    'short.npy': [array('<f4', [3, 2], floats), /24 bytes, and the file has 16/],
    'minus.npy': [array('<f4', [-2, -2], floats), /header is damaged/],
    'part.npy': [array('<f4', [2.5, 1.6], floats), /header is damaged/],
    'word.npy': [array('constructor', [2, 2], floats), /type constructor/],
    'none.npy': [array('<f4', [0, 2], new Uint8Array(0)), /no vectors/],
    'nan.npy': [array('<f4', [2, 2], new Uint8Array(Float32Array.of(1, 2, NaN, 4).buffer)), /1/],
  };
  for (const [name, [bytes, message]] of Object.entries(wrong)) {
    await drop(page, name, bytes);
    await page.waitForSelector('#notice.bad');
    assert.match(await page.textContent('#notice'), message, name);
    await page.evaluate(() => (document.querySelector('#notice').className = ''));
    assert.match(await page.textContent('#query-label'), /wide\.npy/, 'the last good collection stays');
  }
  await page.click('#shipped');
  await page.waitForFunction(() => document.querySelector('#chosen b').textContent === 'cantata');
  await page.setInputFiles('#file', { name: 'chosen.npy', mimeType: '', buffer: Buffer.from(half) });
  await page.waitForFunction(() => /^chosen\.npy: 200/.test(document.querySelector('#notice').textContent));
  assert.deepEqual(said, []);
  await context.close();
});

test('half floats have their values', async () => {
  const bits = Uint16Array.of(0, 0x8000, 0x3c00, 0xc000, 1, 0x7bff, 0x7c00, 0x0400);
  const file = array('<f2', [2, 4], new Uint8Array(bits.buffer));
  const { vectors } = await vectorsOf(file, 'half');
  assert.deepEqual([...vectors], [0, -0, 1, -2, 2 ** -24, 65504, Infinity, 2 ** -14]);
  // A view that begins at an odd byte.
  const odd = new Uint8Array(file.length + 1);
  odd.set(file, 1);
  assert.deepEqual([...npy(odd.subarray(1), 'odd').values], [...bits]);
  await assert.rejects(bytesOf({ name: 'huge.npy', size: 2 ** 31 }), /2048 MiB/);
});

for (const colorScheme of ['dark', 'light']) {
  test(`${colorScheme}: no part of the page is wider than the screen, and each is drawn`, async () => {
    const { page, context, said } = await site.open('?prefer=host', { colorScheme });
    await ready(page);
    for (const width of [360, 600, 821, 1280, 1600]) {
      await page.setViewportSize({ width, height: 800 });
      for (const tab of ['search', 'benchmark', 'device']) {
        await page.click(`#tab-${tab}`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${tab} is ${wide} wide on ${width}`);
        assert.ok((await page.screenshot()).length > 8_000, `${tab} at ${width}`);
      }
    }
    const ground = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = Number(/\d+/.exec(ground)[0]);
    assert.ok(colorScheme === 'dark' ? light < 60 : light > 200, ground);
    await page.click('#tab-search');
    assert.ok((await drawn(page)).share > 0.01);
    assert.deepEqual(said, []);
    await context.close();
  });
}

test('tabs follow the arrow keys, and everything that takes the focus has a name', async () => {
  const { page, context } = await site.open('?prefer=host');
  await ready(page);
  await page.focus('#tab-search');
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.locator('#benchmark').isVisible(), true);
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('ArrowLeft');
  assert.equal(await page.locator('#device').isVisible(), true);
  await page.keyboard.press('Home');
  const seen = [];
  for (let step = 0; step < 40; step++) {
    await page.keyboard.press('Tab');
    const id = await page.evaluate(() => document.activeElement.id);
    if (seen.includes(id) && id) break;
    seen.push(id);
  }
  for (const id of ['query', 'k', 'metric', 'file', 'map', 'zoom-in', 'zoom-lit']) assert.ok(seen.includes(id), `Tab never comes to ${id}`);
  assert.equal(await page.getByRole('combobox', { name: 'Packages like' }).count(), 1);
  const tree = await page.locator('body').ariaSnapshot();
  assert.doesNotMatch(tree, /- (button|textbox|spinbutton|application|tab)( \[.*\])?:?$/m);
  await context.close();
});

test('without WebGPU the host engine answers, and the page says why', async (context) => {
  const other = await start({ webgpu: false });
  context.after(() => other.close());
  const { page, said } = await other.open('');
  await ready(page);
  assert.match(await page.textContent('#took'), /on the host engine$/);
  assert.match(await page.textContent('#about'), /host engine.*Takenbecause there is no GPU/s);
  await page.click('#tab-benchmark');
  assert.equal(await page.locator('#measure [name=gpu]').isChecked(), false);
  assert.deepEqual(said, []);
});

test('an unknown device is told', async () => {
  const { page, context } = await site.open('?prefer=fridge');
  await page.waitForSelector('#notice.bad');
  assert.match(await page.textContent('#notice'), /prefer.*fridge/);
  await context.close();
});
