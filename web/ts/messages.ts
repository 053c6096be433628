// What a page and its worker send each other.

import type { SentError } from './errors.js';
import type { Method } from './engine.js';

/** A worker of the page's own has messages of its own too. */
export type ToWorker =
  | { kind: 'nearfield call'; number: number; method: Method; args: unknown[]; reports: boolean }
  | { kind: 'nearfield abort'; number: number }
  /** The worker holds a lock of this name while it lives: nothing else tells a page that its worker was terminated. */
  | { kind: 'nearfield watch'; lock: string };

export type FromWorker =
  | { kind: 'nearfield progress'; number: number; done: number }
  | { kind: 'nearfield result'; number: number; result: unknown }
  | { kind: 'nearfield error'; number: number; error: SentError }
  /** The call was ended by its signal. */
  | { kind: 'nearfield aborted'; number: number }
  /** A message that did not arrive, so that nobody can tell which call it was. */
  | { kind: 'nearfield unread' }
  /** The worker holds the lock. */
  | { kind: 'nearfield watched'; lock: string };

/** Whether a message is one of the package. */
export function isOurs(message: unknown): boolean {
  const kind = (message as { kind?: unknown } | null | undefined)?.kind;
  return typeof kind === 'string' && kind.startsWith('nearfield ');
}

/** The buffers of a result, which move to the page. */
export function buffers(result: unknown): ArrayBuffer[] {
  const values = ArrayBuffer.isView(result) ? [result] : Object.values(result ?? {});
  return values.filter(ArrayBuffer.isView).map((view) => view.buffer as ArrayBuffer);
}
