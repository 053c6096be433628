// Plain JavaScript, in a worker: makes vectors, finds the nearest by cosine in a loop of 64-bit floats, and judges answers.

import { random } from './random.mjs';

const CENTRES = 256;
/** Distances in 32-bit floats of vectors whose norm is 1 up to rounding differ by less from those in 64-bit floats. */
const ROUNDING = 1e-6;

let dim;
let rows;
let queries;

/** Makes vectors of norm 1 around centres. */
function make(settings) {
  dim = settings.dim;
  const next = random(settings.seed);
  const bell = () => next() + next() + next() - 1.5;
  const centres = Float32Array.from({ length: CENTRES * dim }, bell);
  const noise = (count) => {
    const values = new Float32Array(count * dim);
    for (let at = 0; at < values.length; at += dim) {
      const centre = Math.floor(next() * CENTRES) * dim;
      const row = values.subarray(at, at + dim).map((_, i) => centres[centre + i] + bell());
      const norm = Math.sqrt(row.reduce((sum, x) => sum + x * x, 0)) || 1;
      values.set(row.map((x) => x / norm), at);
    }
    return values;
  };
  [rows, queries] = [noise(settings.rows), noise(settings.queries)];
  return { rows, queries };
}

function distanceOf(query, row) {
  let product = 0;
  for (let i = 0, a = query * dim, b = row * dim; i < dim; i++) product += queries[a + i] * rows[b + i];
  return 1 - product;
}

/** The k nearest rows of the first queries, nearest first, ties by the smaller id. */
function search({ queries: count, k: wanted }) {
  const size = rows.length / dim;
  const k = Math.min(wanted, size);
  const ids = new Float64Array(count * k);
  const distances = new Float64Array(count * k).fill(Infinity);
  for (let query = 0; query < count; query++) {
    for (let row = 0; row < size; row++) {
      const distance = distanceOf(query, row);
      let at = (query + 1) * k - 1;
      if (!(distance < distances[at])) continue;
      for (; at > query * k && distance < distances[at - 1]; at--) {
        distances[at] = distances[at - 1];
        ids[at] = ids[at - 1];
      }
      distances[at] = distance;
      ids[at] = row;
    }
  }
  return { ids, distances, k };
}

/** How many places of an answer are wrong: with another distance than the true one, or a row that is not as far away or is there twice. */
function judge({ found, truth: { distances, k } }) {
  const near = (a, b) => Math.abs(a - b) <= ROUNDING;
  return distances.reduce((wrong, distance, at) => {
    const query = Math.floor(at / k);
    const id = found.ids[at];
    const isRight = found.ids.indexOf(id, query * k) === at && near(found.distances[at], distance) && near(distanceOf(query, id), distance);
    return wrong + (isRight ? 0 : 1);
  }, 0);
}

const calls = { make, search, judge };

addEventListener('message', ({ data: { call, settings } }) => {
  const before = performance.now();
  const result = calls[call](settings);
  postMessage({ result, milliseconds: performance.now() - before });
});
