// Headless Chromium with its software WebGPU, and a server of the package's folder.

import assert from 'node:assert/strict';
import { after, before } from 'node:test';

import { chromium } from 'playwright-core';

import { serve as served } from '../server.mjs';
import { DATA, WEB } from './folders.mjs';

const SOFTWARE_WEBGPU = [
  '--enable-unsafe-webgpu',
  '--use-webgpu-adapter=swiftshader',
  '--enable-features=Vulkan',
  // A long compilation would end the GPU process.
  '--disable-gpu-watchdog',
];
const QUIET = ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

/** Serves folders: each path prefix has one. Another origin may import the package, as from a CDN. */
export const serve = (folders = { '/data/': DATA, '/': WEB }) => served(folders, { headers: { 'access-control-allow-origin': '*' } });

/** Chromium, with or without WebGPU. */
export function launch({ webgpu = true } = {}) {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  const off = ['--disable-features=WebGPU', '--disable-gpu'];
  return chromium.launch({ executablePath, headless: true, args: [...QUIET, ...(webgpu ? SOFTWARE_WEBGPU : off)] });
}

/** A page that has imported the package as `nearfield`, with what its console said; `before` runs in it first, and a `context` makes it a tab. */
export async function open(browser, url, { before, context: shared } = {}) {
  const context = shared ?? (await browser.newContext());
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

/** Runs a function in a page of its own, whose console must stay clean but for what `says` matches, and returns what it returns. */
export async function inPage(browser, url, work, argument, { says, ...options } = {}) {
  const { page, context, said } = await open(browser, url, options);
  try {
    const result = await page.evaluate(work, argument);
    assert.deepEqual(said.filter((line) => !says?.test(line)), []);
    return result;
  } finally {
    await context.close();
  }
}

/** A server and a browser for the tests of a file, from the first to the last, and `inPage` there. */
export function site(options) {
  const own = { inPage: (...given) => inPage(own.browser, own.url, ...given) };
  before(async () => {
    Object.assign(own, await serve());
    own.browser = await launch(options);
  });
  after(async () => {
    await own.browser?.close();
    own.server?.close();
  });
  return own;
}
