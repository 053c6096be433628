// The package as npm gets it: packed, installed into an empty Vite project, checked by TypeScript, built, and opened.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

import { launch, serve } from './browser.mjs';
import { WEB } from './folders.mjs';

const project = mkdtempSync(join(tmpdir(), 'nearfield-vite-'));
after(() => rmSync(project, { recursive: true, force: true }));

const run = (program, ...args) => execFileSync(program, args, { cwd: project, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

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

test('the packed package works in an empty Vite project', { timeout: 300_000 }, async () => {
  const packed = execFileSync('npm', ['pack', '--silent', '--pack-destination', project], { cwd: WEB, encoding: 'utf8' }).trim();
  writeFileSync(join(project, 'package.json'), '{ "name": "empty", "private": true, "type": "module" }');
  run('npm', 'install', '--silent', '--no-audit', '--no-fund', `./${packed}`, 'vite@8', 'typescript@7.0.2');
  const installed = join(project, 'node_modules/@nearfield/web');
  const files = readdirSync(installed).sort();
  assert.deepEqual(files, ['LICENSE-APACHE', 'LICENSE-MIT', 'README.md', 'dist', 'package.json', 'page.png']);

  writeFileSync(join(project, 'index.html'), '<!doctype html><html lang="en"><title></title><link rel="icon" href="data:,"><script type="module" src="/main.ts"></script></html>');
  writeFileSync(join(project, 'main.ts'), MAIN);
  writeFileSync(join(project, 'wrong.ts'), WRONG);
  const options = { target: 'es2022', module: 'esnext', moduleResolution: 'bundler', strict: true, noEmit: true, skipLibCheck: false };
  const lib = ['esnext', 'dom', 'dom.iterable'];
  writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions: { ...options, lib, types: [] }, include: ['*.ts'] }));
  run('npx', 'tsc');
  run('npx', 'vite', 'build', '--logLevel', 'warn');
  const built = readdirSync(join(project, 'dist/assets'));
  assert.equal(built.filter((name) => name.endsWith('.wasm')).length, 1, String(built));

  const { server, url } = await serve({ '/': join(project, 'dist') });
  const browser = await launch({ webgpu: false });
  try {
    const page = await browser.newPage();
    const said = [];
    page.on('console', (message) => said.push(message.text()));
    page.on('pageerror', (error) => said.push(String(error)));
    await page.goto(`${url}/index.html`);
    await page.waitForFunction(() => document.title !== '');
    assert.equal(await page.title(), 'true 20,10 1,4.242640495300293 0,2 true');
    assert.deepEqual(said, []);
  } finally {
    await browser.close();
    server.close();
  }
});
