// The map's two directions, on the host engine in Node. Needs the package (web/build).

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { project } from '../../demo/projection.mjs';
import { Device } from '../../dist/index.js';

/** Numbers from -0.5 to 0.5, the same every time. */
function random() {
  let state = 7;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  };
}

for (const [rows, dim, kind] of [[900, 40, 'columns'], [5000, 12, 'columns'], [700, 600, 'rows']]) {
  test(`${rows} vectors of ${dim} elements lie along the two directions in which they vary most (${kind})`, async () => {
    const next = random();
    const [long, short] = [new Float64Array(rows), new Float64Array(rows)];
    const vectors = new Float32Array(rows * dim);
    for (let row = 0; row < rows; row++) {
      [long[row], short[row]] = [12 * next(), 5 * next()];
      for (let i = 0; i < dim; i++) vectors[row * dim + i] = 3 + 0.01 * next();
      // The long direction is that of the sum of elements 1 and 4, the short one that of element 7.
      vectors[row * dim + 1] += long[row] * Math.SQRT1_2;
      vectors[row * dim + 4] += long[row] * Math.SQRT1_2;
      vectors[row * dim + 7] += short[row];
    }
    const device = await Device.open({ prefer: 'host' });
    const { points, share, byColumns, onHost } = await project(device, { vectors, rows, dim });
    device.close();
    assert.equal(byColumns, kind === 'columns');
    assert.equal(onHost, true);
    assert.ok(share > 0.99 && share <= 1.0001, String(share));
    for (const [axis, truth] of [long, short].entries()) {
      const place = (row) => points[row * 2 + axis];
      // A direction may point either way, and places count from the mean.
      const sign = Math.sign((place(0) - place(1)) * (truth[0] - truth[1]));
      const apart = truth.map((value, row) => sign * place(row) - value);
      const off = apart.map((value) => Math.abs(value - apart[0]));
      assert.ok(Math.max(...off) < 0.6, `axis ${axis}: off by ${Math.max(...off)}`);
    }
  });
}

test('equal vectors, and a single one, lie on one point', async () => {
  const device = await Device.open({ prefer: 'host' });
  for (const rows of [1, 9]) {
    const { points, share } = await project(device, { vectors: new Float32Array(rows * 3).fill(2), rows, dim: 3 });
    assert.deepEqual([...points], new Array(rows * 2).fill(0));
    assert.equal(share, 0);
  }
  device.close();
});
