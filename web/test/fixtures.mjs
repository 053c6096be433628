// What tests share in a page, a worker and Node: the shipped vectors with their true neighbours, and exact sums in f64.

/** A .npy file's numbers: f16 as they are widened, f32 and i32. */
export function npy(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint16(8, true);
  const header = new TextDecoder().decode(bytes.subarray(10, 10 + length));
  const type = /'descr': '<?\|?([a-z]\d)'/.exec(header)[1];
  const shape = /'shape': \(([^)]*)\)/.exec(header)[1].split(',').filter((n) => n.trim()).map(Number);
  const at = bytes.byteOffset + 10 + length;
  const data = bytes.buffer.slice(at, bytes.byteOffset + bytes.byteLength);
  const types = { f2: Uint16Array, f4: Float32Array, i4: Int32Array };
  return { shape, values: new types[type](data) };
}

/** The arrays of a .npz whose members are stored or deflated. */
export async function npz(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let end = bytes.length - 22;
  while (view.getUint32(end, true) !== 0x06054b50) end--;
  const arrays = {};
  let entry = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left--) {
    const [method, size] = [view.getUint16(entry + 10, true), view.getUint32(entry + 20, true)];
    const [nameLength, extra, comment] = [28, 30, 32].map((at) => view.getUint16(entry + at, true));
    const name = new TextDecoder().decode(bytes.subarray(entry + 46, entry + 46 + nameLength));
    const local = view.getUint32(entry + 42, true);
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    const member = bytes.slice(start, start + size);
    const plain = method === 0 ? member : await inflated(member);
    arrays[name.replace(/\.npy$/, '')] = npy(plain);
    entry += 46 + nameLength + extra + comment;
  }
  return arrays;
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The value of 16 bits as a float. */
export function widened(bits) {
  const floats = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) {
    const [sign, exponent, fraction] = [bits[i] >> 15, (bits[i] >> 10) & 31, bits[i] & 1023];
    const size = exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15);
    floats[i] = sign ? -size : size;
  }
  return floats;
}

/** The shipped rows and queries, f32 and f16 bits, and the truth of a metric; `read` takes a file's name and gives its bytes. */
export async function shipped(read) {
  const [base, query] = await Promise.all(['base.f16.npy', 'query.f16.npy'].map(async (name) => npy(await read(name))));
  const truth = async (metric) => {
    const file = { l2sq: 'l2sq', l2: 'l2sq', cosine: 'cosine', ip: 'dot' }[metric];
    const { ids, distances } = await npz(await read(`groundtruth-normalised-${file}.npz`));
    return { ids: ids.values, distances: distances.values, k: ids.shape[1] };
  };
  return {
    dim: base.shape[1],
    rows: base.shape[0],
    queries: query.shape[0],
    base: widened(base.values),
    query: widened(query.values),
    baseBits: base.values,
    queryBits: query.values,
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
