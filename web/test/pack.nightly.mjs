// The package as npm gets it: packed, installed into an empty Vite project, checked by TypeScript, built, and opened; its README, followed.
// It needs a registry. `scripts/web` runs it with NEARFIELD_NIGHTLY=1.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { launch, serve } from './browser.mjs';
import { WEB } from './folders.mjs';

const project = mkdtempSync(join(tmpdir(), 'nearfield-vite-'));
const installed = join(project, 'node_modules/@nearfield/web');

const run = (program, ...args) => execFileSync(program, args, { cwd: project, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

before(() => {
  const packed = execFileSync('npm', ['pack', '--silent', '--pack-destination', project], { cwd: WEB, encoding: 'utf8' }).trim();
  writeFileSync(join(project, 'package.json'), '{ "name": "empty", "private": true, "type": "module" }');
  run('npm', 'install', '--silent', '--no-audit', '--no-fund', `./${packed}`, 'vite@8', 'typescript@7.0.2', 'oldest@npm:typescript@5.7');
});

after(() => rmSync(project, { recursive: true, force: true }));

const MAIN = `
import { Device, DeviceLostError, Flat, NearfieldError, type SearchResult } from '@nearfield/web';

async function main(): Promise<string> {
  const device: Device = await Device.open({ prefer: 'host' });
  const index = await Flat.create(device, { dim: 2, metric: 'l2' });
  await index.add(new Float32Array([0, 0, 3, 4, 6, 8]), { ids: [10, 20, 30] });
  const { ids, distances, offsets }: SearchResult = await index.search([3, 3], { k: 2, allow: [10, 20] });
  const error: unknown = await index.remove([7]).catch((error: unknown) => error);
  const isTyped: boolean = error instanceof NearfieldError && !(error instanceof DeviceLostError) && error.code === 'UnknownId';
  return [device.isInWorker, [...ids], [...distances], [...offsets], isTyped].join(' ');
}

main().then((answer) => (document.title = answer), (error) => (document.title = String(error)));
`;

// An argument of a wrong type is refused: the types say something.
const WRONG = `
import { Device, Flat } from '@nearfield/web';
const device = await Device.open();
// @ts-expect-error a metric that there is not
await Flat.create(device, { dim: 2, metric: 'angle' });
// @ts-expect-error k is a number
await (await Flat.create(device, { dim: 2 })).search([1, 2], { k: '10' });
`;

// What newer libraries of TypeScript alone have is taken where they have it.
const NEW = `
import { Device, Flat } from '@nearfield/web';
export async function onGpu(own: GPUDevice, buffer: GPUBuffer, halves: Float16Array): Promise<GPUDevice | undefined> {
  const device = await Device.open({ gpuDevice: own });
  const index = await Flat.create(device, { dim: 2, dtype: 'float16' });
  await index.add({ buffer, rows: 2 });
  await index.add(halves);
  return device.gpuDevice;
}
`;

test('the packed package works in an empty Vite project', { timeout: 300_000 }, async () => {
  const files = readdirSync(installed).sort();
  assert.deepEqual(files, ['LICENSE-APACHE', 'LICENSE-MIT', 'README.md', 'dist', 'package.json', 'page.png']);

  writeFileSync(join(project, 'index.html'), '<!doctype html><html lang="en"><title></title><link rel="icon" href="data:,"><script type="module" src="/main.ts"></script></html>');
  writeFileSync(join(project, 'main.ts'), MAIN);
  writeFileSync(join(project, 'wrong.ts'), WRONG);
  writeFileSync(join(project, 'new.ts'), NEW);
  const options = { target: 'es2022', module: 'esnext', moduleResolution: 'bundler', strict: true, noEmit: true, skipLibCheck: false, types: [] };
  const configure = (name, lib, include) => writeFileSync(join(project, name), JSON.stringify({ compilerOptions: { ...options, lib }, include }));
  configure('tsconfig.json', ['esnext', 'dom', 'dom.iterable'], ['*.ts']);
  run('node', 'node_modules/typescript/bin/tsc');
  configure('oldest.json', ['es2022', 'dom'], ['main.ts', 'wrong.ts']);
  run('node', 'node_modules/oldest/bin/tsc', '--project', 'oldest.json');
  run('npx', 'vite', 'build', '--logLevel', 'warn');
  const built = readdirSync(join(project, 'dist/assets'));
  assert.equal(built.filter((name) => name.endsWith('.wasm')).length, 1, String(built));

  const { title, said } = await opened(join(project, 'dist'), 'index.html');
  assert.equal(title, 'true 20,10 1,4.242640495300293 0,2 true');
  assert.deepEqual(said, []);
});

test('the first example of the README runs in Node, and in a page without a bundler', { timeout: 300_000 }, async () => {
  const readme = readFileSync(join(installed, 'README.md'), 'utf8');
  const [, example] = /```ts\n(.*?)```/s.exec(readme);
  const [, map] = /```html\n(.*?)```/s.exec(readme);
  writeFileSync(join(project, 'example.mjs'), example);
  assert.match(run('node', 'example.mjs'), /Float64Array\(10\) \[\s*0,/);
  const end = `document.title = ids.length + ' neighbours, ' + ids[0];`;
  writeFileSync(join(project, 'example.html'), `<!doctype html><link rel="icon" href="data:,">${map}<script type="module">${example}${end}</script>`);
  assert.equal((await opened(project, 'example.html')).title, '10 neighbours, 0');
});

/** The title that a page gives itself, and what its console said. */
async function opened(folder, path) {
  const { server, url } = await serve({ '/': folder });
  const browser = await launch({ webgpu: false });
  try {
    const page = await browser.newPage();
    const said = [];
    page.on('console', (message) => said.push(message.text()));
    page.on('pageerror', (error) => said.push(String(error)));
    await page.goto(`${url}/${path}`);
    await page.waitForFunction(() => document.title !== '').catch((error) => assert.fail(`${error}, ${said}`));
    return { title: await page.title(), said };
  } finally {
    await browser.close();
    server.close();
  }
}
