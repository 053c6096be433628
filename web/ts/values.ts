// Arguments as JavaScript has them, made ready for the module.

import type { Allow } from './engine.js';
import { argument } from './errors.js';

/** Vectors, one after the other: 32-bit or 16-bit floats, numbers, or a buffer on the GPU. */
export type VectorData =
  | Float32Array
  | Float16Array
  | readonly number[]
  | readonly (readonly number[] | Float32Array)[]
  | BufferData;

/** Vectors on the GPU, f32: in a buffer of {@link Device.gpuDevice} with the usage `COPY_SRC`. They do not leave it. */
export interface BufferData {
  buffer: GPUBuffer;
  /** The byte where they start, a multiple of four. Default: 0. */
  offset?: number;
  /** How many there are. */
  rows: number;
}

/** Ids: whole numbers from 0 to 2^53 - 1. */
export type Ids = Iterable<number | bigint> | Float64Array | Uint32Array | BigUint64Array;

/** The rows that may be found: their ids, or bits, of which bit `id % 8` of byte `id / 8` stands for a row. */
export type Allowed = Ids | { bits: Uint8Array };

/** The numbers of a typed array of any realm: an iframe and a test runner have classes of their own. */
function numbersOf(name: string, values: ArrayBufferView): Float32Array | Uint16Array | undefined {
  const kind = (values as { [Symbol.toStringTag]?: string })[Symbol.toStringTag];
  if (kind !== 'Float32Array' && kind !== 'Float16Array') return undefined;
  const { buffer, byteOffset, length } = values as Float32Array;
  try {
    return kind === 'Float32Array' ? new Float32Array(buffer, byteOffset, length) : new Uint16Array(buffer, byteOffset, length);
  } catch {
    throw argument(name, 'an array that is there', 'one whose buffer was moved away');
  }
}

/** Vectors of `dim` elements as the module takes them: floats, or the bits of 16-bit floats. */
export function vectorsOf(name: string, vectors: Exclude<VectorData, BufferData>, dim: number): Float32Array | Uint16Array {
  const values: unknown = vectors;
  const numbers = ArrayBuffer.isView(values) ? numbersOf(name, values) : Array.isArray(values) ? flat(name, values, dim) : undefined;
  if (!numbers) throw argument(name, 'a Float32Array, a Float16Array or an array of numbers', describe(values));
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
  if (typeof buffer !== 'object' || buffer === null) throw argument(`${name}.buffer`, 'a GPUBuffer', describe(buffer));
  if (!Number.isSafeInteger(rows) || rows < 0) throw argument(`${name}.rows`, 'the number of vectors', rows);
  if (!Number.isSafeInteger(offset) || offset < 0 || offset % 4 !== 0) throw argument(`${name}.offset`, 'a multiple of four', offset);
  return true;
}

function describe(value: unknown): string {
  if (value === null || typeof value !== 'object') return String(value);
  return `a ${value.constructor?.name ?? 'object'}`;
}

/** The bytes of a file. */
export function bytesOf(bytes: unknown): Uint8Array {
  if (!(bytes instanceof Uint8Array)) throw argument('bytes', 'a Uint8Array', describe(bytes));
  return bytes;
}

/** Ids as numbers. The module refuses those that are no ids. */
export function idsOf(name: string, ids: Ids): Float64Array<ArrayBuffer> {
  if (typeof ids !== 'object' || ids === null || !(Symbol.iterator in ids)) throw argument(name, 'ids', describe(ids));
  return Float64Array.from(ids as Iterable<number | bigint>, (id) => {
    const number = typeof id === 'bigint' ? Number(id) : id;
    if (!Number.isSafeInteger(number) || number < 0) throw argument(name, 'whole numbers from 0 to 2^53 - 1', describe(id));
    return number;
  });
}

export function allowOf(allow: Allowed | undefined): Allow {
  if (allow === undefined) return undefined;
  if (typeof allow !== 'object' || allow === null || !('bits' in allow)) return idsOf('allow', allow as Ids);
  const { bits } = allow;
  if (!(bits instanceof Uint8Array)) throw argument('allow.bits', 'a Uint8Array', describe(bits));
  const bytes = new Uint8Array(Math.ceil(bits.length / 8) * 8);
  bytes.set(bits);
  return new BigUint64Array(bytes.buffer);
}
