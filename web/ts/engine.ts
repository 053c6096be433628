// The calls as they run: in the context that loaded the module, be that a page, a worker, Node or Deno.

import init, { CoreDevice, CoreDocuments, CoreIndex } from './core/core.js';
import { argument, closed, NearfieldError, typed } from './errors.js';
import * as files from './files.js';
import type { GpuInfo, KnnGraph, Pairs, Ranking, SearchResult } from './types.js';
import type { Allow, Vectors } from './values.js';

/** What a call may do beside its arguments. */
export interface CallOptions {
  signal?: AbortSignal | null | undefined;
  onProgress?: ((done: number) => void) | undefined;
  /** Buffers that are moved to the worker and not copied. */
  transfer?: Transferable[] | undefined;
}

/** Runs calls: here, or in a worker. */
export interface Engine {
  call<M extends Method>(method: M, args: Parameters<Calls[M]>, options?: CallOptions): Promise<Awaited<ReturnType<Calls[M]>>>;
  /** Ends the worker, if there is one. */
  close(): void;
}

/** The kinds of index. */
export type Kind = 'flat' | 'ivf' | 'multivector';

export interface Opened {
  handle: number;
  /** JSON of the module, and what the browser says of the GPU. */
  about: string;
  gpu: GpuInfo | undefined;
}

const MODULE = new URL('./core/core_bg.wasm', import.meta.url);

let loading: Promise<unknown> | undefined;

/** Loads the module once. */
function load(): Promise<unknown> {
  loading ??= (async () => {
    if (MODULE.protocol !== 'file:') return init({ module_or_path: MODULE });
    // Node cannot fetch files.
    const name = 'node:fs/promises';
    const { readFile } = await import(/* @vite-ignore */ name);
    return init({ module_or_path: await readFile(MODULE) });
  })().catch((error) => {
    // After an error, such as a lost connection, the next call tries again.
    loading = undefined;
    throw new NearfieldError('File', `${MODULE.href}: needed the module of the package, ${error}`);
  });
  return loading;
}

/** Why the module has ended, if it has: its memory may hold anything then. */
let ended: NearfieldError | undefined;

/** Ends the calls in progress. */
const running = new Set<(error: unknown) => void>();

function end(error: Error): NearfieldError {
  ended ??= new NearfieldError('Internal', `the module has ended, please report it: ${error.message}`);
  running.forEach((reject) => reject(ended));
  return ended;
}

// What goes wrong in a task of the module's own reaches no caller: the promise of its call would never settle.
globalThis.addEventListener?.('error', ({ error }) => {
  const places = [MODULE.href, import.meta.url, import.meta.url.replace(/[^/]*$/, 'core/core.js')];
  const isOurs = () => places.some((place) => String(error.stack).includes(place));
  if (error instanceof WebAssembly.RuntimeError && isOurs()) end(error);
});

/** What calls refer to by numbers: the devices and indexes of one engine. */
class Handles {
  readonly devices = new Map<number, CoreDevice>();
  readonly indexes = new Map<number, CoreIndex | CoreDocuments>();
  #last = 0;

  keep<T>(all: Map<number, T>, one: T): number {
    all.set(++this.#last, one);
    return this.#last;
  }

  device(handle: number): CoreDevice {
    return of('device', this.devices, handle);
  }

  /** The caller knows of which class. */
  index<T extends CoreIndex | CoreDocuments>(handle: number): T {
    return of('index', this.indexes, handle) as T;
  }

  free(handle: number): void {
    this.indexes.get(handle)?.free();
    this.indexes.delete(handle);
    // Calls may use the device still, and cannot have it freed: its finalizer frees it after them.
    this.devices.delete(handle);
  }

  freeAll(): void {
    for (const all of [this.indexes, this.devices]) {
      all.forEach((one) => one.free());
      all.clear();
    }
  }
}

function of<T>(name: string, all: Map<number, T>, handle: number): T {
  const one = all.get(handle);
  if (one === undefined) throw argument(name, 'one that is in use', 'one that was freed');
  return one;
}

/** A promise that resolves with the reason when a signal is aborted, and a function that lets go of the signal. */
function aborted(signal: AbortSignal | null | undefined): [Promise<unknown> | undefined, () => void] {
  if (!signal) return [undefined, () => undefined];
  signal.throwIfAborted();
  let listener = () => undefined as void;
  const promise = new Promise((resolve) => {
    listener = () => resolve(signal.reason);
    signal.addEventListener('abort', listener, { once: true });
  });
  return [promise, () => signal.removeEventListener('abort', listener)];
}

/** Which GPU it is: wgpu does not pass that on. */
function info(gpu: (GPUDevice & { adapterInfo?: GPUAdapterInfo }) | undefined): GpuInfo | undefined {
  const { vendor = '', architecture = '', device = '', description = '' } = gpu?.adapterInfo ?? {};
  return gpu && { vendor, architecture, device, description };
}

type Aborted = Promise<unknown> | undefined;
type Progress = ((done: number) => void) | undefined;

/** Every call, with what ends it and who hears of its progress in the last two places. */
function calls(held: Handles, aborted: Aborted, progress: Progress) {
  /** An index of either class, for what both do. */
  const any = (handle: number) => held.index(handle);
  const index = (handle: number) => held.index<CoreIndex>(handle);
  const documents = (handle: number) => held.index<CoreDocuments>(handle);
  const added = (index: CoreIndex | CoreDocuments) => held.keep(held.indexes, index);
  const load = async (device: number, bytes: Uint8Array, settings: string, kind: Kind): Promise<number> => {
    const on = held.device(device);
    return added(await (kind === 'multivector' ? on.load_documents(bytes, settings) : on.load(bytes, settings)));
  };
  return {
    async open(name: string, settings: string): Promise<Opened> {
      const device = await CoreDevice.open(name, settings);
      return { handle: held.keep(held.devices, device), about: device.describe(), gpu: info(device.gpu_device()) };
    },
    async openGpuDevice(gpuDevice: GPUDevice, settings: string): Promise<Opened> {
      const device = await CoreDevice.of_gpu_device(gpuDevice, settings);
      return { handle: held.keep(held.devices, device), about: device.describe(), gpu: info(gpuDevice) };
    },
    async flat(device: number, settings: string): Promise<number> {
      return added(await held.device(device).flat(settings));
    },
    async train(device: number, settings: string, sample: Vectors): Promise<number> {
      return added(await held.device(device).train(settings, sample, progress, aborted));
    },
    async documents(device: number, settings: string): Promise<number> {
      return added(await held.device(device).documents(settings));
    },
    load,
    async loadFile(device: number, path: string, settings: string, kind: Kind): Promise<number> {
      return load(device, await files.read(path), settings, kind);
    },
    async maxsim(device: number, queries: Vectors, queryOffsets: Uint32Array, own: Vectors, offsets: Uint32Array, dim: number): Promise<Float32Array<ArrayBuffer>> {
      return (await held.device(device).maxsim(queries, queryOffsets, own, offsets, dim, aborted)) as Float32Array<ArrayBuffer>;
    },
    async describe(handle: number): Promise<string> {
      return any(handle).describe();
    },
    async add(handle: number, vectors: Vectors, ids: Float64Array | undefined, first: number): Promise<void> {
      await index(handle).add(vectors, ids, first, aborted);
    },
    async update(handle: number, ids: Float64Array, vectors: Vectors): Promise<void> {
      await index(handle).update(ids, vectors, aborted);
    },
    async addDocuments(handle: number, tokens: Vectors, offsets: Uint32Array, ids: Float64Array | undefined, first: number): Promise<void> {
      await documents(handle).add(tokens, offsets, ids, first, aborted);
    },
    async updateDocuments(handle: number, ids: Float64Array, tokens: Vectors, offsets: Uint32Array): Promise<void> {
      await documents(handle).update(ids, tokens, offsets, aborted);
    },
    async searchDocuments(
      handle: number,
      queries: Vectors,
      offsets: Uint32Array,
      settings: string,
      weights: Float32Array | undefined,
      allow: Allow,
    ): Promise<Ranking> {
      return documents(handle).search(queries, offsets, settings, weights, allow, progress, aborted);
    },
    async getDocument(handle: number, id: number): Promise<Float32Array<ArrayBuffer>> {
      return (await documents(handle).get(id)) as Float32Array<ArrayBuffer>;
    },
    async remove(handle: number, ids: Float64Array): Promise<void> {
      await any(handle).remove(ids, aborted);
    },
    async compact(handle: number): Promise<void> {
      await any(handle).compact(aborted);
    },
    async search(handle: number, queries: Vectors, settings: string, allow: Allow): Promise<SearchResult> {
      return index(handle).search(queries, settings, allow, progress, aborted);
    },
    async within(handle: number, queries: Vectors, radius: number, allow: Allow): Promise<SearchResult> {
      return index(handle).within(queries, radius, allow, progress, aborted);
    },
    async knnGraph(handle: number, settings: string, allow: Allow): Promise<KnnGraph> {
      return index(handle).knn_graph(settings, allow, progress, aborted);
    },
    async pairsWithin(handle: number, radius: number, allow: Allow): Promise<Pairs> {
      return index(handle).pairs_within(radius, allow, progress, aborted);
    },
    async get(handle: number, ids: Float64Array): Promise<Float32Array<ArrayBuffer>> {
      return (await index(handle).get(ids)) as Float32Array<ArrayBuffer>;
    },
    async ids(handle: number): Promise<Float64Array<ArrayBuffer>> {
      return any(handle).ids() as Float64Array<ArrayBuffer>;
    },
    async has(handle: number, id: number): Promise<boolean> {
      return any(handle).has(id);
    },
    async plan(handle: number, queries: number, settings: string): Promise<string> {
      return index(handle).plan(queries, settings);
    },
    async warmUp(handle: number): Promise<void> {
      await index(handle).warm_up(aborted);
    },
    async toBytes(handle: number): Promise<Uint8Array<ArrayBuffer>> {
      return (await any(handle).to_bytes(aborted)) as Uint8Array<ArrayBuffer>;
    },
    async save(handle: number, path: string): Promise<void> {
      await files.write(path, (await any(handle).to_bytes(aborted)) as Uint8Array<ArrayBuffer>);
    },
    async removeFile(path: string): Promise<boolean> {
      return files.remove(path);
    },
    async free(handle: number): Promise<void> {
      held.free(handle);
    },
  };
}

export type Calls = ReturnType<typeof calls>;
export type Method = keyof Calls;

/** Runs calls in this context. */
export class LocalEngine implements Engine {
  readonly #held = new Handles();
  #running = 0;
  #isClosed = false;

  async call<M extends Method>(
    method: M,
    args: Parameters<Calls[M]>,
    { signal, onProgress }: CallOptions = {},
  ): Promise<Awaited<ReturnType<Calls[M]>>> {
    this.#check();
    const [promise, letGo] = aborted(signal);
    this.#running++;
    try {
      await load();
      this.#check();
      const run = calls(this.#held, promise, onProgress)[method] as (...args: unknown[]) => Promise<Awaited<ReturnType<Calls[M]>>>;
      const result = await unlessEnded(run(...args));
      this.#check();
      return result;
    } catch (error) {
      // A reason is the caller's, whatever it is.
      if (signal?.aborted && error === signal.reason) throw error;
      throw error instanceof WebAssembly.RuntimeError ? end(error) : typed(error);
    } finally {
      letGo();
      this.#running--;
      this.#release();
    }
  }

  /** The `GPUDevice` of an opened device. */
  gpuDevice(handle: number): GPUDevice | undefined {
    this.#check();
    return this.#held.device(handle).gpu_device();
  }

  close(): void {
    this.#isClosed = true;
    this.#release();
  }

  #check(): void {
    if (this.#isClosed) throw closed();
    if (ended) throw ended;
  }

  /** Frees all that a closed engine has, once no call uses it. */
  #release(): void {
    if (this.#isClosed && this.#running === 0 && !ended) this.#held.freeAll();
  }
}

/** What a call resolves with, or the error of a module that ends meanwhile. */
async function unlessEnded<T>(call: Promise<T>): Promise<T> {
  let reject: (error: unknown) => void = () => undefined;
  try {
    return await new Promise<T>((resolve, rejects) => {
      reject = rejects;
      running.add(reject);
      call.then(resolve, reject);
    });
  } finally {
    running.delete(reject);
  }
}
