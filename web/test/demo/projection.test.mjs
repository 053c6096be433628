// The map's two directions. Needs nothing but Node.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { random } from '../../demo/benchmark/random.mjs';
import { project } from '../../demo/projection.mjs';

test('vectors lie along the two directions in which they vary most', async () => {
  const next = random(7);
  const [rows, dim] = [900, 40];
  const truth = [];
  const vectors = new Float32Array(rows * dim);
  for (let row = 0; row < rows; row++) {
    const [long, short] = [12 * next(), 5 * next()];
    truth.push([long, short]);
    for (let i = 0; i < dim; i++) vectors[row * dim + i] = 3 + 0.01 * next();
    // The long direction is that of the sum of elements 1 and 4, the short one that of element 7.
    vectors[row * dim + 1] += long * Math.SQRT1_2;
    vectors[row * dim + 4] += long * Math.SQRT1_2;
    vectors[row * dim + 7] += short;
  }
  const places = await project({ vectors, rows, dim });
  for (const axis of [0, 1]) {
    const place = (row) => places[row * 2 + axis];
    // A direction may point either way, and places count from the mean.
    const sign = Math.sign((place(0) - place(1)) * (truth[0][axis] - truth[1][axis]));
    const apart = truth.map((value, row) => sign * place(row) - value[axis]);
    const off = Math.max(...apart) - Math.min(...apart);
    assert.ok(off < 0.6, `axis ${axis}: off by ${off}`);
  }
});
