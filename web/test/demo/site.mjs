// The demo page in headless Chromium, on the host engine or on software WebGPU.

import { after, before } from 'node:test';

import { launch, serve } from '../browser.mjs';
import { DATA, WEB } from '../folders.mjs';

/** A server of the page and a browser for the tests of a file; `open` makes pages of it. */
export function site() {
  let [browser, server, url] = [];
  before(async () => {
    ({ server, url } = await serve({ '/demo/data/': DATA, '/': WEB }));
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    server?.close();
  });
  return {
    /** The page once its map is drawn, with all that its console said and all that it asked of others. `change` works on it before it loads. */
    async open(search, { change, ...options } = {}) {
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
      await change?.(page);
      await page.goto(`${url}/demo/${search}`);
      await page.waitForSelector('#notice.bad, #map text.chosen');
      return { page, context, said };
    },
  };
}
