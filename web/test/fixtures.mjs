// What tests share in a page, a worker and Node: the shipped vectors, made-up ones, and the true neighbours in f64.

import { random } from '../demo/benchmark/random.mjs';
import { vectorsOf } from '../demo/npy.mjs';

export { random };

/** The shipped rows and queries; `read` takes a file's name and gives its bytes. */
export async function shipped(read) {
  // A Buffer of Node is part of a larger one.
  const [base, query] = await Promise.all(['base', 'query'].map(async (name) => vectorsOf(new Uint8Array(await read(`${name}.f16.npy`)))));
  return { base, query, dim: base.dim };
}

/** Reads a shipped file in a page. */
export const fetched = async (name) => new Uint8Array(await (await fetch(`/data/${name}`)).arrayBuffer());

/** Vectors of small whole numbers: sums of their products are exact in f32. */
export function whole(seed, count, dim) {
  const next = random(seed);
  return Float32Array.from({ length: count * dim }, () => Math.floor(next() * 9) - 4);
}

/** The k nearest rows of each query in f64, as distance and id, ties by the smaller id. `ids[row]` is a row's id. */
export function nearest(base, query, dim, k, { ids, metric = 'l2sq' } = {}) {
  const found = [];
  for (let q = 0; q < query.length; q += dim) {
    const all = [];
    for (let r = 0; r < base.length; r += dim) {
      let [product, square, a, b] = [0, 0, 0, 0];
      for (let i = 0; i < dim; i++) {
        const [x, y] = [query[q + i], base[r + i]];
        product += x * y;
        square += (x - y) ** 2;
        a += x * x;
        b += y * y;
      }
      const distances = { l2sq: square, l2: Math.sqrt(square), ip: -product, cosine: 1 - product / Math.sqrt(a * b) };
      all.push([distances[metric], ids ? ids[r / dim] : r / dim]);
    }
    all.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    found.push(all.slice(0, k));
  }
  return found;
}

/** The neighbours of a search as `nearest` has them. */
export function rows({ ids, distances, offsets }) {
  return Array.from(offsets.subarray(1), (end, q) => Array.from(ids.subarray(offsets[q], end), (id, at) => [distances[offsets[q] + at], id]));
}

/** How many of the true ids are missing from the answers: 0 when all are right. */
export function missing(found, truth) {
  const answers = rows(found).map((row) => new Set(row.map(([, id]) => id)));
  return truth.reduce((count, row, q) => count + row.filter(([, id]) => !answers[q].has(id)).length, 0);
}
