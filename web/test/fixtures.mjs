// What tests share in a page, a worker and Node: the shipped vectors with their true neighbours, and exact sums in f64.

import { npy, npz, widened } from '../demo/npy.mjs';

/** The shipped rows and queries, f32 and f16 bits, and the truth of a metric; `read` takes a file's name and gives its bytes. */
export async function shipped(read) {
  // A Buffer of Node is part of a larger one.
  const bytes = async (name) => new Uint8Array(await read(name));
  const [base, query] = await Promise.all(['base.f16.npy', 'query.f16.npy'].map(async (name) => npy(await bytes(name), name)));
  const truth = async (metric) => {
    const file = { l2sq: 'l2sq', l2: 'l2sq', cosine: 'cosine', ip: 'dot' }[metric];
    const { ids, distances } = await npz(await bytes(`groundtruth-normalised-${file}.npz`), file);
    return { ids: ids.values, distances: distances.values, k: ids.shape[1] };
  };
  return {
    dim: base.shape[1],
    rows: base.shape[0],
    queries: query.shape[0],
    base: await widened(base.values),
    query: await widened(query.values),
    baseBits: base.values.slice(),
    queryBits: query.values.slice(),
    truth,
  };
}

/** Reads a shipped file in a page. */
export const fetched = async (name) => new Uint8Array(await (await fetch(`/data/${name}`)).arrayBuffer());

/** Numbers from 0 to 1, the same for a seed. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Vectors of small whole numbers: sums of their products are exact in f32. */
export function whole(seed, count, dim) {
  const next = random(seed);
  return Float32Array.from({ length: count * dim }, () => Math.floor(next() * 9) - 4);
}

/** The k nearest rows of each query by squared distance, in f64, ties by the smaller id. `ids[row]` is a row's id. */
export function nearest(base, query, dim, k, ids) {
  const found = [];
  for (let q = 0; q < query.length / dim; q++) {
    const all = [];
    for (let r = 0; r < base.length / dim; r++) {
      let sum = 0;
      for (let i = 0; i < dim; i++) sum += (query[q * dim + i] - base[r * dim + i]) ** 2;
      all.push([sum, ids ? ids[r] : r]);
    }
    all.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    found.push(all.slice(0, k));
  }
  return found;
}

/** The neighbours of a search as `nearest` has them. */
export function rows(found) {
  const list = [];
  for (let q = 0; q + 1 < found.offsets.length; q++) {
    const row = [];
    for (let i = found.offsets[q]; i < found.offsets[q + 1]; i++) row.push([found.distances[i], found.ids[i]]);
    list.push(row);
  }
  return list;
}

/** How many of the true ids are missing from the answers: 0 when all are right. */
export function missing(found, truth, queries, k) {
  let count = 0;
  for (let q = 0; q < queries; q++) {
    const ids = new Set(found.ids.slice(found.offsets[q], found.offsets[q + 1]));
    for (let i = 0; i < k; i++) count += ids.has(truth.ids[q * truth.k + i]) ? 0 : 1;
  }
  return count;
}
