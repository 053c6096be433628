// What a page and its worker send each other.

import type { SentError } from './errors.js';
import type { Method } from './engine.js';

export type ToWorker =
  | { kind: 'call'; number: number; method: Method; args: unknown[]; reports: boolean }
  | { kind: 'abort'; number: number; reason: SentError };

export type FromWorker =
  | { kind: 'progress'; number: number; done: number }
  | { kind: 'result'; number: number; result: unknown }
  | { kind: 'error'; number: number; error: SentError };

/** The buffers of a result, which move to the page. */
export function buffers(result: unknown): ArrayBuffer[] {
  const values = ArrayBuffer.isView(result) ? [result] : Object.values(result ?? {});
  return values.filter(ArrayBuffer.isView).map((view) => view.buffer as ArrayBuffer);
}
