// Documents and queries of several tokens each, made ready for the module.

import { argument, NearfieldError } from './errors.js';
import { type BufferData, type Ids, idsOf, type Numbers, takenOf, type VectorData, type Vectors, vectorsOf } from './values.js';

/**
 * Documents, or queries, of one or more tokens each: a list with the tokens of each; the tokens of all, `[tokens, dim]`, with `offsets`, where
 * those of each begin, and the end of the last; or an array or a buffer with the tokens of one.
 */
export type TokenData = VectorData | readonly Exclude<VectorData, BufferData>[] | { tokens: VectorData; offsets: Ids };

/** The weight of each token of the queries: of all, one after the other, or a list with those of each query. */
export type TokenWeights = Float32Array | readonly number[] | readonly (Float32Array | readonly number[])[];

/** Tokens as the module takes them, and where those of each document or query begin. */
export type Tokens = [Vectors, offsets: Uint32Array<ArrayBuffer>];

const isList = (given: unknown): given is Exclude<VectorData, BufferData>[] => Array.isArray(given) && typeof given[0] === 'object';

export function tokensOf(name: string, given: TokenData, dim: number, takesBuffers: boolean): Tokens {
  if (isList(given)) return joined(name, given, dim);
  if (typeof given === 'object' && given !== null && 'tokens' in given) {
    const [values, count] = takenOf(`${name}.tokens`, given.tokens, dim, takesBuffers);
    return [values, offsetsOf(`${name}.offsets`, given.offsets, count)];
  }
  const [values, count] = takenOf(name, given as VectorData, dim, takesBuffers);
  return [values, Uint32Array.from(count > 0 ? [0, count] : [0])];
}

function offsetsOf(name: string, given: Ids, count: number): Uint32Array<ArrayBuffer> {
  const offsets = idsOf(name, given, 'whole numbers');
  const [first, last] = [offsets[0], offsets.at(-1)];
  if (first !== 0 || last !== count) {
    throw argument(name, `numbers that ascend from 0 to ${count}, the number of tokens`, first === undefined ? 'none' : `${first} to ${last}`);
  }
  const wrong = offsets.findIndex((offset, at) => at > 0 && offset <= offsets[at - 1]!);
  if (wrong >= 0) throw argument(name, 'numbers that ascend, by at least one token each', `${offsets[wrong]} behind ${offsets[wrong - 1]}`);
  return Uint32Array.from(offsets);
}

/** Copies what lies apart. */
function joined(name: string, given: Exclude<VectorData, BufferData>[], dim: number): Tokens {
  const offsets = new Uint32Array(given.length + 1);
  const parts = Array.from(given, (one, at) => {
    const values = vectorsOf(`${name}[${at}]`, one, dim);
    if (values.length === 0) throw argument(`${name}[${at}]`, 'at least one token', 'none');
    offsets[at + 1] = offsets[at]! + values.length / dim;
    return values;
  });
  const Kind = parts[0]!.constructor as new (length: number) => Numbers<ArrayBuffer>;
  const other = parts.findIndex((part) => part.constructor !== Kind);
  if (other >= 0) throw argument(`${name}[${other}]`, 'an array of the type of the first', given[other]);
  const tokens = offsets[given.length]!;
  let all;
  try {
    all = new Kind(tokens * dim);
  } catch {
    throw new NearfieldError('OutOfMemory', `memory: ${tokens} tokens need more than is left`);
  }
  for (const [at, part] of parts.entries()) all.set(part, offsets[at]! * dim);
  return [all, offsets];
}

/** The weight of each token of queries, copied. */
export function weightsOf(weights: TokenWeights | undefined, offsets: Uint32Array): Float32Array<ArrayBuffer> | undefined {
  if (weights === undefined) return undefined;
  const [values, own] = tokensOf('weights', weights, 1, false);
  if (!(values instanceof Float32Array)) throw argument('weights', 'a Float32Array, numbers, or a list of these', weights);
  const needed = offsets.at(-1)!;
  if (values.length !== needed) throw argument('weights', `${needed} numbers, one for each token of the queries`, values.length);
  const wrong = isList(weights) ? own.findIndex((offset, at) => offset !== offsets[at]) : -1;
  if (wrong >= 0) {
    const lengths = [offsets, own].map((all) => all[wrong]! - all[wrong - 1]!);
    throw argument(`weights[${wrong - 1}]`, `${lengths[0]} numbers, one for each token of the query`, lengths[1]);
  }
  return values.slice();
}
