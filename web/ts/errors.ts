/** What went wrong: the library's own kinds of errors, by name. */
export type ErrorCode =
  | 'NoAdapter'
  | 'Unsupported'
  | 'Argument'
  | 'NotFinite'
  | 'NormOutOfRange'
  | 'DuplicateId'
  | 'UnknownId'
  | 'IdTooLarge'
  | 'Budget'
  | 'OutOfMemory'
  | 'DeviceLost'
  | 'Device'
  | 'File'
  | 'Internal';

/** An error of the library. `message` names the argument, what was needed and what was given; `code` is for programs. */
export class NearfieldError extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.name = 'NearfieldError';
    this.code = code;
  }
}

/**
 * The GPU is gone: its driver was reset, the browser ended its process, or somebody destroyed the device. Every later call fails alike, until
 * {@link Flat.recover} has brought the index back.
 */
export class DeviceLostError extends NearfieldError {
  constructor(message: string) {
    super('DeviceLost', message);
    this.name = 'DeviceLostError';
  }
}

/** A value in words. `String` fails for objects without a prototype. */
function words(given: unknown): string {
  if (typeof given !== 'object' || given === null) return String(given);
  const name = given.constructor?.name || 'object';
  // A Uint8Array, but an Int8Array.
  return `${/^[aeio]/i.test(name) ? 'an' : 'a'} ${name}`;
}

/** An argument that only TypeScript checks. */
export function argument(name: string, needed: string, given: unknown): NearfieldError {
  return new NearfieldError('Argument', `${name}: needed ${needed}, given ${words(given)}`);
}

/** The error of all calls after a device was closed. */
export function closed(): NearfieldError {
  return argument('device', 'one that is open', 'one that was closed');
}

/** What a worker sends for an error, and makes an error of again. */
export interface SentError {
  code: ErrorCode | undefined;
  name: string;
  message: string;
  stack: string | undefined;
}

/** The library's error as a class of this package; anything else as it is. */
export function typed(error: unknown): unknown {
  const code = error instanceof Error && !(error instanceof NearfieldError) ? (error as { code?: unknown }).code : undefined;
  if (typeof code !== 'string' || !(error instanceof Error) || error instanceof DOMException) return error;
  return code === 'DeviceLost' ? new DeviceLostError(error.message) : new NearfieldError(code as ErrorCode, error.message);
}

export function sent(error: unknown): SentError {
  const { name, message, stack } = error instanceof Error || error instanceof DOMException ? error : new Error(String(error));
  return { code: error instanceof NearfieldError ? error.code : undefined, name, message, stack };
}

export function received(sent: SentError): Error {
  if (sent.code === 'DeviceLost') return new DeviceLostError(sent.message);
  if (sent.code) return new NearfieldError(sent.code, sent.message);
  const error = new Error(sent.message);
  error.name = sent.name;
  if (sent.stack) error.stack = sent.stack;
  return error;
}
