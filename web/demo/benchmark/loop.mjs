// Plain JavaScript, in a worker: makes vectors, searches them with a loop, and compares answers.

let made;

/** Numbers from 0 to 1, the same for a seed. */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

const CENTRES = 256;

/** Vectors of norm 1 around centres. */
function noise(next, centres, count, dim) {
  const values = new Float32Array(count * dim);
  const bell = () => next() + next() + next() - 1.5;
  for (let row = 0; row < count; row++) {
    const centre = Math.floor(next() * CENTRES) * dim;
    let square = 0;
    for (let i = row * dim; i < (row + 1) * dim; i++) {
      values[i] = centres[centre + i - row * dim] + bell();
      square += values[i] ** 2;
    }
    const scale = 1 / Math.sqrt(square || 1);
    for (let i = row * dim; i < (row + 1) * dim; i++) values[i] *= scale;
  }
  return values;
}

function make({ rows, dim, queries, seed }) {
  const next = random(seed);
  const centres = Float32Array.from({ length: CENTRES * dim }, () => next() + next() + next() - 1.5);
  made = { rows: noise(next, centres, rows, dim), queries: noise(next, centres, queries, dim), count: rows, dim };
  return { rows: made.rows.slice(), queries: made.queries.slice() };
}

/** One over the norms of vectors. */
function inverseNorms(values, dim) {
  const norms = new Float64Array(values.length / dim);
  for (let row = 0; row < norms.length; row++) {
    let square = 0;
    for (let i = row * dim; i < (row + 1) * dim; i++) square += values[i] ** 2;
    norms[row] = 1 / Math.sqrt(square);
  }
  return norms;
}

/** The sums of four queries with a row: products, or squared differences. Four sums a pass use each number of the row four times. */
function products(rows, at, four, dim, sums) {
  let [a, b, c, d] = [0, 0, 0, 0];
  for (let i = 0, j = 0; i < dim; i++, j += 4) {
    const x = rows[at + i];
    a += x * four[j];
    b += x * four[j + 1];
    c += x * four[j + 2];
    d += x * four[j + 3];
  }
  [sums[0], sums[1], sums[2], sums[3]] = [a, b, c, d];
}

function differences(rows, at, four, dim, sums) {
  let [a, b, c, d] = [0, 0, 0, 0];
  for (let i = 0, j = 0; i < dim; i++, j += 4) {
    const x = rows[at + i];
    const [p, q, r, s] = [x - four[j], x - four[j + 1], x - four[j + 2], x - four[j + 3]];
    a += p * p;
    b += q * q;
    c += r * r;
    d += s * s;
  }
  [sums[0], sums[1], sums[2], sums[3]] = [a, b, c, d];
}

/** What `search` prepares before it is timed, as an index does when rows are added. */
function prepare({ metric }) {
  made.norms = metric === 'cosine' ? inverseNorms(made.rows, made.dim) : undefined;
}

/** The k nearest rows of the first queries, nearest first, ties by the smaller id. */
function search({ metric, k: wanted, queries: count }) {
  const { rows, queries, count: size, dim, norms } = made;
  const k = Math.min(wanted, size);
  const ids = new Float64Array(count * k);
  const distances = new Float64Array(count * k).fill(Infinity);
  const own = metric === 'cosine' ? inverseNorms(queries.subarray(0, count * dim), dim) : undefined;
  const sum = metric === 'l2' || metric === 'l2sq' ? differences : products;
  const sums = new Float64Array(4);
  const four = new Float64Array(4 * dim);
  for (let first = 0; first < count; first += 4) {
    const last = Math.min(4, count - first);
    for (let q = 0; q < last; q++) for (let i = 0; i < dim; i++) four[i * 4 + q] = queries[(first + q) * dim + i];
    for (let row = 0; row < size; row++) {
      sum(rows, row * dim, four, dim, sums);
      for (let q = 0; q < last; q++) {
        let distance = sums[q];
        if (metric === 'cosine') distance = 1 - distance * norms[row] * own[first + q];
        else if (metric === 'ip') distance = -distance;
        const begin = (first + q) * k;
        let at = begin + k - 1;
        if (!(distance < distances[at])) continue;
        for (; at > begin && distance < distances[at - 1]; at--) {
          distances[at] = distances[at - 1];
          ids[at] = ids[at - 1];
        }
        distances[at] = distance;
        ids[at] = row;
      }
    }
  }
  if (metric === 'l2') distances.forEach((distance, at) => (distances[at] = Math.sqrt(distance)));
  return { ids, distances, k };
}

/** Vectors have norm 1, so distances rounded to 32 bits differ from 64-bit ones by less. */
const ROUNDING = 1e-6;

/** The exact distance of a query and a row. */
function distanceOf(metric, query, row) {
  const { rows, queries, dim } = made;
  let [product, square, a, b] = [0, 0, 0, 0];
  for (let i = 0; i < dim; i++) {
    const [x, y] = [queries[query * dim + i], rows[row * dim + i]];
    product += x * y;
    square += (x - y) ** 2;
    a += x * x;
    b += y * y;
  }
  return { ip: -product, l2sq: square, l2: Math.sqrt(square), cosine: 1 - product / Math.sqrt(a * b) }[metric];
}

/** Compares answers place by place. Rows may change places only where their distances are equal after rounding. */
function compare({ metric, reference, found }) {
  const { ids, distances, k } = reference;
  let [wrong, swapped] = [0, 0];
  const near = (a, b) => Math.abs(a - b) <= ROUNDING * Math.max(1, Math.abs(a));
  for (let at = 0; at < ids.length; at++) {
    const isSame = found.ids[at] === ids[at];
    const query = Math.floor(at / k);
    if (!near(distances[at], found.distances[at])) wrong++;
    else if (isSame) continue;
    else if (isOnce(found.ids, found.ids[at], query * k, k) && near(distances[at], distanceOf(metric, query, found.ids[at]))) swapped++;
    else wrong++;
  }
  return { wrong, swapped, compared: ids.length };
}

const isOnce = (ids, id, begin, k) => ids.subarray(begin, begin + k).filter((other) => other === id).length === 1;

/** The k nearest rows of the first queries without any haste: all distances, sorted. */
function truth({ metric, k: wanted, queries: count }) {
  const k = Math.min(wanted, made.count);
  const found = { ids: new Float64Array(count * k), distances: new Float64Array(count * k), k };
  for (let query = 0; query < count; query++) {
    const all = Float64Array.from({ length: made.count }, (_, row) => distanceOf(metric, query, row));
    const order = Uint32Array.from(all, (_, row) => row).sort((a, b) => all[a] - all[b] || a - b);
    for (let at = 0; at < k; at++) {
      found.ids[query * k + at] = order[at];
      found.distances[query * k + at] = all[order[at]];
    }
  }
  return found;
}

const calls = { make, prepare, search, compare, truth };

addEventListener('message', ({ data: { number, call, settings } }) => {
  try {
    const before = performance.now();
    const result = calls[call](settings);
    postMessage({ number, result, milliseconds: performance.now() - before });
  } catch (error) {
    postMessage({ number, error: error.message });
  }
});
