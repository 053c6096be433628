// Two dimensions of many: the vectors' principal directions.
//
// The heavy part is the matrix of inner products, for which the package has no call of its own. A search gives it: in an index of inner
// products, the k nearest rows of a query, with k as large as the index, are its products with all of them. Power iteration of the small
// matrix and the products with two directions are plain JavaScript, in slices.

import { Flat } from '../dist/index.js';
import { inSlices } from './npy.mjs';

/** Up to so many elements, directions come from products of columns; vectors with more come from products of rows, of which there are as many. */
const MOST_SIDE = 512;
/** Rows that the columns have at most. */
const MOST_ROWS = 4096;
const MOST_ROUNDS = 500;
/** Power iteration ends when a round turns the direction by less. */
const STILL = 1e-5;
const SLICE = 1 << 21;

/** Each vector's place along the two principal directions, `[rows, 2]`, and how it was found. */
export async function project(device, { vectors, rows, dim }, signal) {
  const byColumns = dim <= MOST_SIDE;
  const count = Math.min(rows, byColumns ? MOST_ROWS : MOST_SIDE);
  const mean = new Float32Array(dim);
  const sample = new Float32Array(count * dim);
  const step = Math.max(1, SLICE / dim | 0);
  const place = (at) => Math.floor((at * rows) / count) * dim;
  await inSlices(count, step, (from, to) => {
    for (let at = from; at < to; at++) {
      for (let i = 0; i < dim; i++) mean[i] += vectors[place(at) + i] / count;
    }
  }, signal);
  // Columns lie one after the other, [dim, count], or rows do, [count, dim].
  const [side, width] = byColumns ? [dim, count] : [count, dim];
  await inSlices(count, step, (from, to) => {
    for (let at = from; at < to; at++) {
      for (let i = 0; i < dim; i++) sample[byColumns ? i * count + at : at * dim + i] = vectors[place(at) + i] - mean[i];
    }
  }, signal);

  const before = performance.now();
  const products = await productsOf(device, sample, side, width, signal);
  const searched = performance.now();
  const { directions, values, rounds } = await principal(products.matrix, side, signal);
  if (!byColumns) directions.forEach((direction, at) => (directions[at] = unit(combined(direction, sample, count, dim))));
  const points = new Float32Array(rows * 2);
  await inSlices(rows, step, (from, to) => {
    for (let row = from; row < to; row++) {
      for (let axis = 0; axis < 2; axis++) {
        const direction = directions[axis];
        let sum = 0;
        for (let i = 0; i < dim; i++) sum += (vectors[row * dim + i] - mean[i]) * direction[i];
        points[row * 2 + axis] = sum;
      }
    }
  }, signal);
  let trace = 0;
  for (let i = 0; i < side; i++) trace += products.matrix[i * side + i];
  return {
    points,
    share: trace > 0 ? (values[0] + values[1]) / trace : 0,
    side,
    width,
    byColumns,
    rounds,
    onHost: products.onHost,
    searchMilliseconds: searched - before,
    scriptMilliseconds: performance.now() - searched,
  };
}

/** The inner products of all rows of a matrix `[side, width]` with each other, `[side, side]`: one search. */
async function productsOf(device, values, side, width, signal) {
  const index = await Flat.create(device, { dim: width, metric: 'ip', screen: 'none', capacity: side });
  try {
    await index.add(values, { signal });
    const { ids, distances, offsets, statistics } = await index.search(values, { k: side, signal });
    const matrix = new Float32Array(side * side);
    for (let query = 0; query < side; query++) {
      for (let at = offsets[query]; at < offsets[query + 1]; at++) matrix[query * side + ids[at]] = -distances[at];
    }
    return { matrix, onHost: device.isHost || statistics.onHost };
  } finally {
    await index.free().catch(() => undefined);
  }
}

/** The two eigenvectors with the largest eigenvalues of a symmetric matrix. */
async function principal(matrix, side, signal) {
  const directions = [];
  const values = [];
  let rounds = 0;
  for (let axis = 0; axis < 2; axis++) {
    // Any start serves that is not at a right angle to the direction looked for.
    let direction = unit(Float64Array.from({ length: side }, (_, i) => Math.sin(1 + i * (axis + 1.3))));
    let value = 0;
    for (let round = 0; round < MOST_ROUNDS; round++, rounds++) {
      const next = new Float64Array(side);
      for (let row = 0; row < side; row++) {
        let sum = 0;
        for (let i = 0; i < side; i++) sum += matrix[row * side + i] * direction[i];
        next[row] = sum;
      }
      for (const known of directions) subtract(next, known, dot(next, known));
      value = Math.sqrt(dot(next, next));
      unit(next);
      const turned = 1 - Math.abs(dot(next, direction));
      direction = next;
      if (!(value > 0) || turned < STILL * STILL) break;
      if (round % 8 === 7) await inSlices(2, 1, () => undefined, signal);
    }
    directions.push(direction);
    values.push(value);
  }
  return { directions, values, rounds };
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

function subtract(from, what, factor) {
  for (let i = 0; i < from.length; i++) from[i] -= factor * what[i];
}

/** Makes a direction's length 1; that of a matrix of zeros stays zero. */
function unit(direction) {
  const length = Math.sqrt(dot(direction, direction));
  if (length > 0) direction.forEach((x, i) => (direction[i] = x / length));
  return direction;
}

/** The sum of a matrix's rows, each times its weight. */
function combined(weights, values, count, dim) {
  const sum = new Float64Array(dim);
  for (let row = 0; row < count; row++) {
    for (let i = 0; i < dim; i++) sum[i] += weights[row] * values[row * dim + i];
  }
  return sum;
}
