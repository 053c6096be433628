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

/** Documents, or queries, of different numbers of tokens, of small whole numbers: all tokens, where those of each begin, and a list of them. */
export function ragged(seed, count, dim) {
  const next = random(seed);
  const offsets = [0];
  for (let number = 0; number < count; number++) offsets.push(offsets[number] + (number % 50 === 7 ? 150 : 1 + Math.floor(next() * 20)));
  const tokens = whole(seed, offsets[count], dim);
  return { tokens, offsets, list: offsets.slice(1).map((end, at) => tokens.subarray(offsets[at] * dim, end * dim)) };
}

/** The score of a document for a query. */
export function maxsim(query, document, dim, weights) {
  let sum = 0;
  for (let q = 0; q < query.length; q += dim) {
    let most = -Infinity;
    for (let d = 0; d < document.length; d += dim) {
      let product = 0;
      for (let i = 0; i < dim; i++) product += query[q + i] * document[d + i];
      most = Math.max(most, product);
    }
    sum += (weights?.[q / dim] ?? 1) * most;
  }
  return sum;
}

/** The k documents of largest score of each query, as score and id, ties by the smaller id. */
export function ranked(queries, documents, dim, k, { ids, allow, weights, mean } = {}) {
  let first = 0;
  return queries.list.map((query) => {
    const own = weights?.slice(first, (first += query.length / dim));
    const all = mean ? own.reduce((sum, weight) => sum + weight, 0) : 1;
    const scored = documents.list.map((document, at) => [maxsim(query, document, dim, own) / all, ids ? ids[at] : at]);
    const found = allow ? scored.filter(([, id]) => allow.includes(id)) : scored;
    return found.sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, k);
  });
}

/** The documents of a search as `ranked` has them. */
export const rankedRows = ({ ids, scores, offsets }) => rows({ ids, distances: scores, offsets });
