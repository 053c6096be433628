// Files of numpy: arrays (.npy) and archives of them (.npz).

/** Larger files would not fit the memory of a tab three times: as the file, in the index and on the GPU. */
const MOST_BYTES = 2 ** 30;

const TYPES = {
  '<f4': { name: 'f32', array: Float32Array },
  '<f2': { name: 'f16', array: Uint16Array },
  '<i4': { name: 'i32', array: Int32Array },
};

/** What a file lacks, in words for the person who opened it. */
export class FileError extends Error {}

/** The header of a .npy file: where its numbers begin, their type and shape. */
function head(bytes, name) {
  const magic = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];
  if (bytes.length < 12 || magic.some((byte, at) => bytes[at] !== byte)) {
    throw new FileError(`${name}: this is no .npy file. numpy.save writes one.`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isLong = bytes[6] > 1;
  const start = (isLong ? 12 : 10) + (isLong ? view.getUint32(8, true) : view.getUint16(8, true));
  const text = new TextDecoder().decode(bytes.subarray(isLong ? 12 : 10, start));
  const descr = /'descr':\s*'([^']*)'/.exec(text)?.[1];
  const order = /'fortran_order':\s*(True|False)/.exec(text)?.[1];
  const shape = /'shape':\s*\(([^)]*)\)/.exec(text)?.[1];
  const sizes = shape?.split(',').map((part) => part.trim()).filter((part) => part !== '');
  if (start > bytes.length || !descr || !order || !sizes?.every((size) => /^\d+$/.test(size))) {
    throw new FileError(`${name}: its header is damaged or of a kind that this page does not read.`);
  }
  return { start, descr, isFortran: order === 'True', shape: sizes.map(Number) };
}

/** The array of a .npy file: its numbers as they lie there (f16 as bits), their type and shape. */
export function npy(bytes, name) {
  const { start, descr, isFortran, shape } = head(bytes, name);
  const type = Object.hasOwn(TYPES, descr) && TYPES[descr];
  if (!type) {
    const kind = descr.startsWith('>') ? 'big-endian numbers' : 'numbers';
    throw new FileError(`${name}: ${kind} of the type ${descr}; needed f32 or f16, little endian: array.astype("float32").`);
  }
  if (isFortran) throw new FileError(`${name}: the array is in Fortran order; numpy.ascontiguousarray turns it into C order.`);
  const count = shape.reduce((product, size) => product * size, 1);
  const given = bytes.length - start;
  const needed = count * type.array.BYTES_PER_ELEMENT;
  if (given !== needed) {
    throw new FileError(`${name}: an array of [${shape}] ${type.name} has ${needed} bytes, and the file has ${given}.`);
  }
  // Headers end at a multiple of 64, as a rule; an array of JavaScript begins at a multiple of its numbers' size in any case.
  const at = bytes.byteOffset + start;
  const isAligned = at % type.array.BYTES_PER_ELEMENT === 0;
  const values = isAligned ? new type.array(bytes.buffer, at, count) : new type.array(bytes.slice(start).buffer);
  return { values, shape, type: type.name };
}

/** The vectors of a .npy file as 32-bit floats. */
export async function vectorsOf(bytes, name) {
  const { values, shape, type } = npy(bytes, name);
  if (type === 'i32') throw new FileError(`${name}: whole numbers; needed f32 or f16: array.astype("float32").`);
  if (shape.length !== 2) {
    throw new FileError(`${name}: an array with ${shape.length} dimension(s), [${shape}]; needed two: [rows, elements of a vector].`);
  }
  if (values.length === 0) throw new FileError(`${name}: there are no vectors in it, its shape is [${shape}].`);
  const [rows, dim] = shape;
  return { rows, dim, type, vectors: type === 'f16' ? await widened(values) : values };
}

/** The bytes of a file that the visitor chose. */
export async function bytesOf(file) {
  if (file.size > MOST_BYTES) {
    throw new FileError(`${file.name}: ${Math.round(file.size / 2 ** 20)} MiB; this page opens files up to ${MOST_BYTES / 2 ** 20} MiB.`);
  }
  return new Uint8Array(await file.arrayBuffer());
}

/** The value of each of the 65,536 numbers of 16 bits. */
let table;

function valueOf(bits) {
  const [sign, exponent, fraction] = [bits >> 15, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction ? NaN : sign ? -Infinity : Infinity;
  const size = exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15);
  return sign ? -size : size;
}

/** 16-bit floats as 32-bit ones, in slices, between which the page lives. */
export async function widened(bits) {
  table ??= Float32Array.from({ length: 65536 }, (_, bits) => valueOf(bits));
  const floats = new Float32Array(bits.length);
  await inSlices(bits.length, 1 << 20, (from, to) => {
    for (let i = from; i < to; i++) floats[i] = table[bits[i]];
  });
  return floats;
}

/** Runs work on the numbers from 0 to `count` in slices; the page draws and hears its visitor between two of them. */
export async function inSlices(count, slice, work, signal) {
  for (let from = 0; from < count; from += slice) {
    if (from > 0) await new Promise((resolve) => setTimeout(resolve));
    signal?.throwIfAborted();
    work(from, Math.min(count, from + slice));
  }
}

/** The arrays of a .npz archive, by name. */
export async function npz(bytes, name) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let end = bytes.length - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) throw new FileError(`${name}: this is no .npz file.`);
  const arrays = {};
  let entry = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left--) {
    const [method, size] = [view.getUint16(entry + 10, true), view.getUint32(entry + 20, true)];
    const [nameLength, extra, comment] = [28, 30, 32].map((at) => view.getUint16(entry + at, true));
    const member = new TextDecoder().decode(bytes.subarray(entry + 46, entry + 46 + nameLength));
    const local = view.getUint32(entry + 42, true);
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    const packed = bytes.slice(start, start + size);
    arrays[member.replace(/\.npy$/, '')] = npy(method === 0 ? packed : await inflated(packed), `${name}/${member}`);
    entry += 46 + nameLength + extra + comment;
  }
  return arrays;
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
