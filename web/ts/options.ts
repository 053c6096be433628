// Options, checked: a search whose filter has a misspelt name would answer too, with rows that it must not find.

import { argument } from './errors.js';

type Kind = 'boolean' | 'function' | 'number' | 'string';

/** The types of options that are passed on; the others are checked where they are used. */
const KINDS: Partial<Record<string, Kind>> = {
  budget: 'number',
  capacity: 'number',
  dim: 'number',
  dtype: 'string',
  iterativeScan: 'boolean',
  hostCopy: 'boolean',
  iterations: 'number',
  k: 'number',
  lists: 'number',
  mean: 'boolean',
  metric: 'string',
  onProgress: 'function',
  probes: 'number',
  profile: 'boolean',
  queries: 'number',
  rows: 'number',
  quantization: 'string',
  seed: 'number',
};

export const STORE = ['hostCopy', 'capacity'];
export const INDEX = [...STORE, 'dim', 'metric', 'dtype', 'quantization'];
export const IVF = [...INDEX, 'lists', 'iterations', 'seed'];
export const CALL = ['signal', 'onProgress'];
export const WITHIN = [...CALL, 'allow'];
export const SEARCH = [...WITHIN, 'k', 'profile'];
export const MAXSIM = [...SEARCH, 'weights', 'mean'];
export const WARM_UP = ['signal', 'queries', 'k', 'rows'];

/** An error unless options have these names only, and values of their types. */
export function check<T extends object>(options: T, names: readonly string[]): T {
  if (typeof options !== 'object' || options === null) throw argument('options', 'an object', options);
  for (const [name, value] of Object.entries(options)) {
    if (!names.includes(name)) throw argument('options', names.join(', '), name);
    const kind = KINDS[name];
    if (value === undefined) continue;
    if (kind === 'number') whole(name, value);
    else if (kind && typeof value !== kind) throw argument(name, `a ${kind}`, value);
    else if (name === 'signal' && value !== null && typeof value.throwIfAborted !== 'function') {
      throw argument(name, 'an AbortSignal', value);
    }
  }
  return options;
}

/** A whole number that is not negative. */
export function whole(name: string, value: unknown): number {
  if (!Number.isSafeInteger(value) || (value as number) < 0) {
    const given = typeof value === 'string' ? JSON.stringify(value) : value;
    throw argument(name, 'a whole number that is not negative', given);
  }
  return value as number;
}

/** A function that hears of progress. What it throws ends no call: it is an uncaught error of the page, as with a listener of events. */
export function heard(onProgress: ((done: number) => void) | undefined): ((done: number) => void) | undefined {
  return (
    onProgress &&
    ((done) => {
      try {
        onProgress(done);
      } catch (error) {
        queueMicrotask(() => {
          throw error;
        });
      }
    })
  );
}
