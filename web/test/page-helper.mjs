// The demo page in headless Chromium, on the host engine or on software WebGPU.

import { fileURLToPath } from 'node:url';

import { chromium } from 'playwright-core';

import { serve } from '../server.mjs';

const WEB = fileURLToPath(new URL('..', import.meta.url));
export const DATA = fileURLToPath(new URL('../../examples/data/', import.meta.url));

const SOFTWARE_WEBGPU = [
  '--enable-unsafe-webgpu',
  '--use-webgpu-adapter=swiftshader',
  '--enable-features=Vulkan',
  // A long compilation would end the GPU process.
  '--disable-gpu-watchdog',
];

/** A browser and a server of the page; `open` makes pages of it and `close` ends both. */
export async function start({ webgpu = true } = {}) {
  const { server, url } = await serve({ '/demo/data/': DATA, '/': WEB });
  const args = ['--no-sandbox', ...(webgpu ? SOFTWARE_WEBGPU : ['--disable-features=WebGPU', '--disable-gpu'])];
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', headless: true, args });
  return {
    /** The page, once its map is drawn, with all that its console said. `before` changes it before it loads. */
    async open(search, { before, ...options } = {}) {
      const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
      const page = await context.newPage();
      const said = [];
      page.on('console', (message) => said.push(`${message.type()}: ${message.text()}`));
      page.on('pageerror', (error) => said.push(`uncaught: ${error.stack ?? error}`));
      page.on('requestfailed', (request) => said.push(`not loaded: ${request.url()}`));
      page.on('request', (request) => request.url().startsWith(url) || /^(blob|data):/.test(request.url()) || said.push(`from elsewhere: ${request.url()}`));
      await before?.(page);
      await page.goto(`${url}/demo/${search}`);
      return { page, context, said };
    },
    async close() {
      await browser.close();
      server.close();
    },
  };
}
