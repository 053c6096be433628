// Calls that run in a worker.

import type { CallOptions, Calls, Engine, Method } from './engine.js';
import { closed, NearfieldError, received } from './errors.js';
import { type FromWorker, isOurs, type ToWorker } from './messages.js';
import { stays } from './values.js';

interface Waiting {
  resolve(result: unknown): void;
  reject(error: unknown): void;
  abort(): void;
  onProgress: ((done: number) => void) | undefined;
}

/** Starts the package's worker. A page may not start a worker of another origin, such as a CDN, but its own worker may import it. */
function start(): Worker {
  const here = new URL(import.meta.url);
  if (here.origin === globalThis.location?.origin || here.protocol === 'file:') {
    // Bundlers look for these very words.
    return new Worker(new URL('./worker.js', import.meta.url), { type: 'module', name: 'nearfield' });
  }
  const script = JSON.stringify(new URL('./worker.js', here).href);
  const text = new Blob([`import ${script};`], { type: 'text/javascript' });
  const own = URL.createObjectURL(text);
  const worker = new Worker(own, { type: 'module', name: 'nearfield' });
  worker.addEventListener('message', () => URL.revokeObjectURL(own), { once: true });
  return worker;
}

/** A part of a larger array as an array of its own: a message with a part carries a copy of all that it is a part of. */
function alone(arg: unknown): unknown {
  const isPart = ArrayBuffer.isView(arg) && arg.byteLength < arg.buffer.byteLength;
  return isPart ? (arg as Uint8Array).slice() : arg;
}

/** What a caller calls the arrays of a call: one whose buffer was moved away while the call waited is no message. */
const ARRAYS: Partial<Record<Method, string>> = {
  load: 'bytes',
  search: 'queries',
  within: 'queries',
  addDocuments: 'documents',
  updateDocuments: 'documents',
  searchDocuments: 'queries',
};

/** The number of the last call: no two engines of a worker give the same. */
let last = 0;

/** The engines of the pages' own workers: devices that share a worker share its calls, and its end. */
const engines = new WeakMap<Worker, WorkerEngine>();

/** Runs calls in a worker of its own. */
export class WorkerEngine implements Engine {
  readonly #worker: Worker;
  /** Whether the package started the worker; otherwise it has work of the page's too. */
  readonly #isPackages: boolean;
  readonly #waiting = new Map<number, Waiting>();
  #hasAnswered = false;
  #ended: NearfieldError | undefined;

  constructor(worker: Worker, isPackages: boolean) {
    this.#worker = worker;
    this.#isPackages = isPackages;
    worker.addEventListener('message', ({ data }: MessageEvent<FromWorker>) => isOurs(data) && this.#hear(data));
    worker.addEventListener('messageerror', () => {
      this.#fail(new NearfieldError('OutOfMemory', 'the worker: an answer could not be read'));
    });
    this.#post({ kind: 'nearfield watch', lock: `nearfield worker ${Math.random()}` });
    worker.addEventListener('error', (event) => {
      // An error of the page's own code ends no call of the package; if the module ends, the worker answers so.
      if (!isPackages && this.#hasAnswered) return;
      this.#fail(new NearfieldError('Internal', `the worker failed: ${event.message ?? 'its script did not load'}`));
    });
  }

  /** For the package's worker, or one of the page's own. */
  static of(own?: Worker): WorkerEngine {
    const engine = (own && engines.get(own)) ?? new WorkerEngine(own ?? start(), !own);
    if (own) engines.set(own, engine);
    return engine;
  }

  call<M extends Method>(
    method: M,
    args: Parameters<Calls[M]>,
    { signal, onProgress, transfer = [] }: CallOptions = {},
  ): Promise<Awaited<ReturnType<Calls[M]>>> {
    const number = ++last;
    return new Promise((resolve, reject) => {
      if (this.#ended) return reject(this.#ended);
      if (signal?.aborted) return reject(signal.reason);
      const abort = () => this.#post({ kind: 'nearfield abort', number });
      signal?.addEventListener('abort', abort, { once: true });
      const letGo = () => signal?.removeEventListener('abort', abort);
      this.#waiting.set(number, {
        resolve: (result) => (letGo(), resolve(result as Awaited<ReturnType<Calls[M]>>)),
        reject: (error) => (letGo(), reject(error)),
        // The caller gets the very reason it gave.
        abort: () => (letGo(), reject(signal?.reason)),
        onProgress,
      });
      try {
        for (const arg of args) stays(ARRAYS[method] ?? 'vectors', arg);
        this.#post({ kind: 'nearfield call', number, method, args: args.map(alone), reports: onProgress !== undefined }, transfer);
      } catch (error) {
        this.#waiting.delete(number);
        letGo();
        reject(error);
      }
    });
  }

  close(): void {
    this.#worker.terminate();
    this.#end(closed());
  }

  #fail(error: NearfieldError): void {
    if (this.#isPackages) this.#worker.terminate();
    this.#end(error);
  }

  #post(message: ToWorker, transfer: Transferable[] = []): void {
    this.#worker.postMessage(message, transfer);
  }

  #hear(message: FromWorker): void {
    this.#hasAnswered = true;
    if (message.kind === 'nearfield unread') return this.#fail(new NearfieldError('OutOfMemory', 'the worker: a call could not be read'));
    if (message.kind === 'nearfield watched') {
      const ended = () => this.#fail(new NearfieldError('Internal', 'the worker: needed one that runs, given one that was terminated'));
      return void globalThis.navigator.locks.request(message.lock, ended);
    }
    const waiting = this.#waiting.get(message.number);
    if (!waiting) return;
    if (message.kind === 'nearfield progress') {
      waiting.onProgress?.(message.done);
      return;
    }
    this.#waiting.delete(message.number);
    if (message.kind === 'nearfield result') waiting.resolve(message.result);
    else if (message.kind === 'nearfield aborted') waiting.abort();
    else waiting.reject(received(message.error));
  }

  #end(error: NearfieldError): void {
    engines.delete(this.#worker);
    this.#ended ??= error;
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    all.forEach((waiting) => waiting.reject(error));
  }
}
