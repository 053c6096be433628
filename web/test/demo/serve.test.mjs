// The server of the demo page.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const SERVE = fileURLToPath(new URL('../../serve', import.meta.url));

/** A path as it is: `fetch` would resolve its dots. */
function status(url, path) {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    request({ hostname, port, path }, (answer) => resolve(answer.resume().statusCode)).on('error', reject).end();
  });
}

test('one command serves the page with the right types, and nothing outside', async (context) => {
  const child = spawn(SERVE, ['--port', '0']);
  context.after(() => child.kill());
  const url = await new Promise((resolve, reject) => {
    child.stdout.on('data', (text) => resolve(String(text).trim()));
    child.on('exit', (code) => reject(new Error(`exit code ${code}`)));
  });
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/demo\/$/);
  const types = {
    '': 'text/html; charset=utf-8', 'page.css': 'text/css; charset=utf-8', 'page.mjs': 'text/javascript; charset=utf-8',
    '../dist/core/core_bg.wasm': 'application/wasm', 'data/names.txt': 'text/plain; charset=utf-8', 'data/base.f16.npy': 'application/octet-stream',
  };
  for (const [path, type] of Object.entries(types)) {
    const answer = await fetch(new URL(path, url));
    assert.deepEqual([answer.status, answer.headers.get('content-type')], [200, type], path);
    assert.ok((await answer.arrayBuffer()).byteLength > 100, path);
  }
  assert.equal((await fetch(new URL('/', url))).url, url);
  assert.equal((await fetch(url, { method: 'HEAD' })).status, 200);
  for (const path of ['/../CHANGELOG.md', '/..%2fCHANGELOG.md', '/demo/data/..%2f..%2f..%2fCHANGELOG.md', '/demo/data/../../..%2fREADME.md', '/demo/no', '/demo/benchmark']) {
    assert.equal(await status(url, path), 404, path);
  }
  assert.equal(await status(url, '/%'), 400);
  assert.equal(await status(url, '/x'.repeat(5000)), 404, 'a name that the system refuses');
});

test('the page can be copied, and wrong options are told', () => {
  const folder = mkdtempSync(join(tmpdir(), 'nearfield-serve-'));
  try {
    assert.equal(spawnSync(SERVE, ['--copy', folder]).status, 0);
    for (const file of ['demo/index.html', 'demo/data/base.f16.npy', 'dist/index.js', 'dist/core/core_bg.wasm']) {
      assert.ok(readFileSync(join(folder, file)).length > 100, file);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  assert.match(String(spawnSync(SERVE, ['--help']).stdout), /--port N/);
  for (const options of [['--port', '70000'], ['--port', 'x'], ['--port', ''], ['--nonsense']]) {
    const { status, stderr } = spawnSync(SERVE, options);
    assert.equal(status, 2);
    assert.match(String(stderr), /^web\/serve: /);
  }
});
