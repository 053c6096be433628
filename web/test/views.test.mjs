// Needs the package alone (web/build), no browser.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { WorkerEngine } from '../dist/remote.js';

test('a part of an array goes to the worker alone', () => {
  const posted = [];
  const worker = Object.assign(new EventTarget(), { postMessage: (message) => posted.push(message), terminate() {} });
  const engine = new WorkerEngine(worker, true);
  const rows = Float32Array.from({ length: 4000 }, (_, at) => at);
  engine.call('search', [1, rows.subarray(10, 14), '{}', undefined]).catch(() => undefined);
  engine.call('search', [1, rows, '{}', undefined]).catch(() => undefined);
  const [part, whole] = posted.map(({ args }) => args[1]);
  assert.deepEqual([...part], [10, 11, 12, 13]);
  assert.equal(part.buffer.byteLength, 16, 'a message carries the whole buffer of what is in it');
  assert.equal(whole, rows, 'an array that is no part needs no copy');
  engine.close();
});
