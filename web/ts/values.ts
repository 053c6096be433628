// Arguments as JavaScript has them, made ready for the module.

import { argument } from './errors.js';
import type { Instance } from './types.js';

/** Vectors, one after the other: 32-bit or 16-bit floats, integers of 8 bits, numbers, or a buffer on the GPU. */
export type VectorData =
  | Float32Array
  | Instance<'Float16Array', never>
  | Int8Array
  | Uint8Array
  | readonly number[]
  | readonly (readonly number[] | Float32Array)[]
  | BufferData;

/** Vectors on the GPU, f32: in a buffer of {@link Device.gpuDevice} with the usage `COPY_SRC`. They do not leave it. */
export interface BufferData {
  buffer: Instance<'GPUBuffer', object>;
  /** The byte where they start, a multiple of four. Default: 0. */
  offset?: number;
  /** How many there are. */
  rows: number;
}

/** Ids: whole numbers from 0 to 2^53 - 1. */
export type Ids = Iterable<number | bigint> | Float64Array | Uint32Array | BigUint64Array;

/** The rows that may be found: their ids, or bits, of which bit `id % 8` of byte `id / 8` stands for a row. */
export type Allowed = Ids | { bits: Uint8Array };

/** Ids or bits as the module takes them. */
export type Allow = Float64Array | BigUint64Array | undefined;

/** Vectors as the module takes them. The buffer is one of the device's. */
export type Vectors = Numbers | { buffer: GPUBuffer; offset: number; rows: number };

export const isArray = (values: Vectors): values is Numbers => ArrayBuffer.isView(values);

/** `GPUBufferUsage.COPY_SRC`, which contexts without WebGPU lack. */
const COPY_SRC = 4;

/** The name of a typed array's class, of any realm: an iframe and a test runner have classes of their own. */
function kindOf(values: unknown): string | undefined {
  return ArrayBuffer.isView(values) ? (values as { [Symbol.toStringTag]?: string })[Symbol.toStringTag] : undefined;
}

/** An array that is there. The module would read one whose buffer was moved away, or is too short by now, and never answer. */
function there<T>(name: string, array: T, needed = 'an array that is there'): T {
  try {
    (array as Uint8Array).at(0);
  } catch {
    throw argument(name, needed, 'one whose buffer was moved away');
  }
  return array;
}

/** What a call has waited with: an array has to be there still. */
export function stays<T>(name: string, values: T): T {
  return kindOf(values) ? there(name, values, 'an array that stays until the call has ended') : values;
}

/** Vectors as the module takes them: 32-bit floats, the bits of 16-bit floats, or integers. */
export type Numbers<B extends ArrayBufferLike = ArrayBufferLike> = Float32Array<B> | Uint16Array<B> | Int8Array<B> | Uint8Array<B>;

/** The class that the module takes for each class of vectors. */
const TAKEN = new Map<string, new (buffer: ArrayBufferLike, offset: number, length: number) => Numbers>([
  ['Float32Array', Float32Array],
  ['Float16Array', Uint16Array],
  ['Int8Array', Int8Array],
  ['Uint8Array', Uint8Array],
]);

function numbersOf(name: string, values: ArrayBufferView): Numbers | undefined {
  const Taken = TAKEN.get(kindOf(values) ?? '');
  if (!Taken) return undefined;
  const { buffer, byteOffset, length } = there(name, values as Float32Array);
  return new Taken(buffer, byteOffset, length);
}

/** Vectors of `dim` elements as the module takes them. */
export function vectorsOf(name: string, vectors: Exclude<VectorData, BufferData>, dim: number): Numbers {
  const values: unknown = vectors;
  const numbers = ArrayBuffer.isView(values) ? numbersOf(name, values) : Array.isArray(values) ? flat(name, values, dim) : undefined;
  if (!numbers) throw argument(name, 'a Float32Array, a Float16Array, an Int8Array, a Uint8Array or an array of numbers', values);
  if (numbers.length % dim !== 0) throw argument(name, `a multiple of dim, ${dim}, as its length`, numbers.length);
  return numbers;
}

/** Numbers, or vectors one after the other. */
function flat(name: string, values: unknown[], dim: number): Float32Array | undefined {
  const isNested = typeof values[0] === 'object';
  const rows = (isNested ? values : [values]) as ArrayLike<unknown>[];
  const numbers = new Float32Array(isNested ? rows.length * dim : values.length);
  for (const [at, row] of rows.entries()) {
    if (typeof row !== 'object' || row === null) return undefined;
    if (isNested && row.length !== dim) throw argument(name, `vectors of ${dim} elements`, `one of ${row.length}`);
    for (let i = 0; i < row.length; i++) {
      const number = row[i];
      if (typeof number !== 'number') return undefined;
      numbers[at * dim + i] = number;
    }
  }
  return numbers;
}

/** Whether vectors are in a buffer on the GPU; an error if their description is wrong. */
export function isBuffer(name: string, vectors: VectorData): vectors is BufferData {
  if (typeof vectors !== 'object' || vectors === null || !('buffer' in vectors) || ArrayBuffer.isView(vectors)) return false;
  const { buffer, offset = 0, rows } = vectors as BufferData;
  if (typeof buffer !== 'object' || buffer === null) throw argument(`${name}.buffer`, 'a GPUBuffer', buffer);
  if (!Number.isSafeInteger(rows) || rows < 0) throw argument(`${name}.rows`, 'the number of vectors', rows);
  if (!Number.isSafeInteger(offset) || offset < 0 || offset % 4 !== 0) throw argument(`${name}.offset`, 'a multiple of four', offset);
  return true;
}

/** Vectors for the module, and how many. Some devices take buffers on the GPU. */
export function takenOf(name: string, vectors: VectorData, dim: number, takesBuffers: boolean): [Vectors, number] {
  if (!isBuffer(name, vectors)) {
    const values = vectorsOf(name, vectors, dim);
    return [values, values.length / dim];
  }
  if (!takesBuffers) throw argument(name, 'arrays, or a device on a GPU that was opened with `worker: false`', 'a GPUBuffer');
  const { buffer, offset = 0, rows } = vectors;
  const bytes = offset + rows * dim * Float32Array.BYTES_PER_ELEMENT;
  if (!(buffer.size >= bytes)) throw argument(name, `a buffer of ${bytes} bytes`, `one of ${buffer.size}`);
  if (!(buffer.usage & COPY_SRC)) throw argument(name, 'a buffer with the usage COPY_SRC', 'one without');
  return [{ buffer, offset, rows }, rows];
}

/** The bytes of a file or of a bitset. */
export function bytesOf(name: string, bytes: unknown): Uint8Array {
  if (kindOf(bytes) !== 'Uint8Array') throw argument(name, 'a Uint8Array', bytes);
  const { buffer, byteOffset, length } = there(name, bytes as Uint8Array);
  return new Uint8Array(buffer, byteOffset, length);
}

/**
 * The smallest 32-bit float that is not below a number: the same 32-bit floats are below either. Distances are compared with it, and one that
 * is below the number may not be lost to rounding.
 */
function above(value: number): number {
  const float = Math.fround(value);
  if (!(float < value)) return float;
  const bits = new Int32Array(Float32Array.of(float).buffer);
  bits[0]! += float < 0 ? -1 : 1;
  return new Float32Array(bits.buffer)[0]!;
}

/** A radius as the module takes it. */
export function radiusOf(radius: number): number {
  if (typeof radius !== 'number') throw argument('radius', 'a number', radius);
  return above(radius);
}

/** Ids as numbers: the one place that looks whether they are ids, or other whole numbers. */
export function idsOf(name: string, ids: Ids, needed = 'ids'): Float64Array<ArrayBuffer> {
  if (typeof ids !== 'object' || typeof ids?.[Symbol.iterator] !== 'function') throw argument(name, needed, ids);
  if (kindOf(ids)) there(name, ids);
  return Float64Array.from(ids as Iterable<number | bigint>, (id) => {
    const number = typeof id === 'bigint' ? Number(id) : id;
    if (!Number.isSafeInteger(number) || number < 0) throw argument(name, 'whole numbers from 0 to 2^53 - 1', id);
    return number;
  });
}

export function allowOf(allow: Allowed | undefined): Allow {
  if (allow === undefined) return undefined;
  if (typeof allow !== 'object' || allow === null || !('bits' in allow)) return idsOf('allow', allow as Ids);
  const bits = bytesOf('allow.bits', allow.bits);
  const bytes = new Uint8Array(Math.ceil(bits.length / 8) * 8);
  bytes.set(bits);
  return new BigUint64Array(bytes.buffer);
}
