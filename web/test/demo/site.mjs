// The demo page in headless Chromium, on the host engine or on software WebGPU.

import { launch, serve } from '../browser.mjs';
import { DATA, WEB } from '../folders.mjs';

/** A browser and a server of the page; `open` makes pages of it and `close` ends both. */
export async function start({ webgpu = true } = {}) {
  const { server, url } = await serve({ '/demo/data/': DATA, '/': WEB });
  const browser = await launch({ webgpu });
  return {
    /** The page, with all that its console said and all that it asked of others. `before` changes it before it loads. */
    async open(search, { before, ...options } = {}) {
      const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
      // Software WebGPU compiles for seconds, longer on a busy machine.
      context.setDefaultTimeout(90_000);
      const page = await context.newPage();
      const said = [];
      page.on('console', (message) => said.push(`${message.type()}: ${message.text()}`));
      page.on('pageerror', (error) => said.push(`uncaught: ${error.stack ?? error}`));
      page.on('requestfailed', (request) => said.push(`not loaded: ${request.url()}`));
      page.on('request', (request) => {
        const isOwn = request.url().startsWith(url) || /^(blob|data):/.test(request.url());
        if (!isOwn) said.push(`from elsewhere: ${request.url()}`);
      });
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
