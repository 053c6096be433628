// Headless Chromium with its software WebGPU, and a server of the package's folder.

import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';

import { chromium } from 'playwright-core';

import { DATA, WEB } from './folders.mjs';

const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.json': 'application/json',
  '.mjs': 'text/javascript',
  '.wasm': 'application/wasm',
};

const SOFTWARE_WEBGPU = [
  '--enable-unsafe-webgpu',
  '--use-webgpu-adapter=swiftshader',
  '--enable-features=Vulkan',
  // A long compilation would end the GPU process.
  '--disable-gpu-watchdog',
];
const QUIET = ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** Serves folders: each path prefix has one. */
export function serve(folders = { '/data/': DATA, '/': WEB }) {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    const prefix = Object.keys(folders).find((prefix) => path.startsWith(prefix));
    const file = join(folders[prefix], normalize(path.slice(prefix.length)));
    if (!file.startsWith(normalize(folders[prefix])) || !existsSync(file) || !statSync(file).isFile()) {
      response.writeHead(404, { 'content-type': 'text/plain' });
      return response.end('not found');
    }
    const type = TYPES[extname(file)] ?? 'application/octet-stream';
    // Another origin may import the package, as from a CDN.
    response.writeHead(200, { 'content-type': type, 'access-control-allow-origin': '*' });
    createReadStream(file).pipe(response);
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve({ server, url: `http://127.0.0.1:${server.address().port}` }));
  });
}

/** Chromium, with or without WebGPU. */
export function launch({ webgpu = true } = {}) {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  const off = ['--disable-features=WebGPU', '--disable-gpu'];
  return chromium.launch({ executablePath, headless: true, args: [...QUIET, ...(webgpu ? SOFTWARE_WEBGPU : off)] });
}

/** A page that has imported the package as `nearfield`, with what its console said; `before` runs in it first. */
export async function open(browser, url, { before } = {}) {
  const context = await browser.newContext();
  const page = await context.newPage();
  const said = [];
  page.on('console', (message) => said.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => said.push(`uncaught: ${error.stack ?? error}`));
  if (before) await page.addInitScript(before);
  await page.goto(`${url}/test/empty.html`);
  await page.evaluate(async () => {
    globalThis.nearfield = await import('/dist/index.js');
    globalThis.fixtures = await import('/test/fixtures.mjs');
  });
  return { page, context, said };
}
