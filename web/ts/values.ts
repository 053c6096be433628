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

const isHalf = (values: object): values is Float16Array =>
  typeof Float16Array === 'function' && values instanceof Float16Array;

/** Vectors as the module takes them: floats, or the bits of 16-bit floats. */
export function vectorsOf(name: string, values: Exclude<VectorData, BufferData>): Float32Array | Uint16Array {
  if (values instanceof Float32Array) return values;
  if (typeof values === 'object' && values !== null) {
    if (isHalf(values)) return new Uint16Array(values.buffer, values.byteOffset, values.length);
    if (Array.isArray(values)) {
      const isNested = typeof values[0] === 'object';
      const numbers = isNested ? values.flatMap((row: ArrayLike<number>) => Array.from(row)) : values;
      if (numbers.every((number: unknown) => typeof number === 'number')) return Float32Array.from(numbers);
    }
  }
  throw argument(name, 'a Float32Array, a Float16Array or an array of numbers', describe(values));
}

/** Whether vectors are in a buffer on the GPU; an error if their description is wrong. */
export function isBuffer(name: string, vectors: VectorData): vectors is BufferData {
  if (typeof vectors !== 'object' || vectors === null || !('buffer' in vectors) || ArrayBuffer.isView(vectors)) return false;
  const { offset = 0, rows } = vectors as BufferData;
  if (!Number.isSafeInteger(rows) || rows < 0) throw argument(`${name}.rows`, 'the number of vectors', rows);
  if (!Number.isSafeInteger(offset) || offset < 0 || offset % 4 !== 0) throw argument(`${name}.offset`, 'a multiple of four', offset);
  return true;
}

function describe(value: unknown): string {
  if (value === null || typeof value !== 'object') return String(value);
  return `a ${value.constructor?.name ?? 'object'}`;
}

/** The number of vectors. */
export function countOf(name: string, values: ArrayLike<number>, dim: number): number {
  if (values.length % dim !== 0) {
    throw argument(name, `a multiple of dim, ${dim}, as its length`, values.length);
  }
  return values.length / dim;
}

/** Ids as numbers. The module refuses those that are no ids. */
export function idsOf(name: string, ids: Ids): Float64Array<ArrayBuffer> {
  if (typeof ids !== 'object' || ids === null || !(Symbol.iterator in ids)) throw argument(name, 'ids', describe(ids));
  return Float64Array.from(ids as Iterable<number | bigint>, (id) => {
    const number = Number(id);
    if (!Number.isSafeInteger(number) || number < 0) throw argument(name, 'whole numbers from 0 to 2^53 - 1', id);
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
