// The calls as they run: in the context that loaded the module, be that a page, a worker, Node or Deno.

import init, { CoreDevice, CoreIndex } from './core/core.js';
import { NearfieldError, typed } from './errors.js';
import * as files from './files.js';

/** What a call may do beside its arguments. */
export interface CallOptions {
  signal?: AbortSignal | undefined;
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

/** Vectors as the module takes them. The buffer is one of the device's. */
export type Vectors = Float32Array | Uint16Array | { buffer: GPUBuffer; offset: number; rows: number };
export type Allow = Float64Array | BigUint64Array | undefined;

/** How an answer came about. */
export interface Statistics {
  /** Rows with a computed score or distance, summed over all queries. */
  scored: number;
  /** Rows that screens could not exclude, whose distances were computed as they are reported. */
  rescored: number;
  /** Whether the host's copy answered for a GPU; false where the device is the host engine itself. */
  onHost: boolean;
  /** The time of each stage on the GPU, if `profile` asked for it. */
  stages: { stage: string; milliseconds: number; passes: number }[];
}

/** Neighbours as they come from the module. */
export interface Found {
  ids: Float64Array<ArrayBuffer>;
  distances: Float32Array<ArrayBuffer>;
  offsets: Uint32Array<ArrayBuffer>;
  statistics: Statistics;
}

/** Which GPU a browser says it is. */
export interface GpuInfo {
  vendor: string;
  architecture: string;
  device: string;
  description: string;
}

export interface Opened {
  handle: number;
  /** JSON of the module, and what the browser says of the GPU. */
  about: string;
  gpu: GpuInfo | undefined;
}

let loading: Promise<unknown> | undefined;

/** Loads the module once. */
export function load(): Promise<unknown> {
  loading ??= (async () => {
    const url = new URL('./core/core_bg.wasm', import.meta.url);
    if (url.protocol !== 'file:') return init({ module_or_path: url });
    // Node cannot fetch files.
    const name = 'node:fs/promises';
    const { readFile } = await import(/* @vite-ignore */ name);
    return init({ module_or_path: await readFile(url) });
  })();
  // After an error, such as a lost connection, the next call tries again.
  loading.catch(() => (loading = undefined));
  return loading;
}

const devices = new Map<number, CoreDevice>();
const indexes = new Map<number, CoreIndex>();
let last = 0;

function keep<T>(all: Map<number, T>, one: T): number {
  all.set(++last, one);
  return last;
}

function of<T>(all: Map<number, T>, handle: number): T {
  const one = all.get(handle);
  if (one === undefined) throw new NearfieldError('Argument', 'index: needed one that is in use, given one that was freed');
  return one;
}

/** A promise that resolves with the reason when a signal is aborted, and a function that lets go of the signal. */
function aborted(signal: AbortSignal | undefined): [Promise<unknown> | undefined, () => void] {
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
function calls(aborted: Aborted, progress: Progress) {
  const index = (handle: number) => of(indexes, handle);
  return {
    async open(name: string | undefined, settings: string): Promise<Opened> {
      const device = await CoreDevice.open(name, settings);
      return { handle: keep(devices, device), about: device.describe(), gpu: info(device.gpu_device()) };
    },
    async openGpuDevice(gpuDevice: GPUDevice, settings: string): Promise<Opened> {
      const device = await CoreDevice.of_gpu_device(gpuDevice, settings);
      return { handle: keep(devices, device), about: device.describe(), gpu: info(gpuDevice) };
    },
    async flat(device: number, settings: string): Promise<number> {
      return keep(indexes, await of(devices, device).flat(settings));
    },
    async train(device: number, settings: string, sample: Vectors): Promise<number> {
      return keep(indexes, await of(devices, device).train(settings, sample, progress, aborted));
    },
    async load(device: number, bytes: Uint8Array, settings: string): Promise<number> {
      return keep(indexes, await of(devices, device).load(bytes, settings));
    },
    async loadFile(device: number, path: string, settings: string): Promise<number> {
      return keep(indexes, await of(devices, device).load(await files.read(path), settings));
    },
    async describe(handle: number): Promise<string> {
      return index(handle).describe();
    },
    async add(handle: number, vectors: Vectors, ids: Float64Array | undefined): Promise<void> {
      await index(handle).add(vectors, ids, aborted);
    },
    async update(handle: number, ids: Float64Array, vectors: Vectors): Promise<void> {
      await index(handle).update(ids, vectors, aborted);
    },
    async remove(handle: number, ids: Float64Array): Promise<void> {
      await index(handle).remove(ids, aborted);
    },
    async compact(handle: number): Promise<void> {
      await index(handle).compact(aborted);
    },
    async search(handle: number, queries: Vectors, settings: string, allow: Allow): Promise<Found> {
      return index(handle).search(queries, settings, allow, progress, aborted);
    },
    async within(handle: number, queries: Vectors, radius: number, allow: Allow): Promise<Found> {
      return index(handle).within(queries, radius, allow, progress, aborted);
    },
    async get(handle: number, ids: Float64Array): Promise<Float32Array<ArrayBuffer>> {
      return (await index(handle).get(ids)) as Float32Array<ArrayBuffer>;
    },
    async ids(handle: number): Promise<Float64Array<ArrayBuffer>> {
      return index(handle).ids() as Float64Array<ArrayBuffer>;
    },
    async has(handle: number, id: number): Promise<boolean> {
      return index(handle).has(id);
    },
    async plan(handle: number, queries: number, settings: string): Promise<string> {
      return index(handle).plan(queries, settings);
    },
    async warmUp(handle: number): Promise<void> {
      await index(handle).warm_up(aborted);
    },
    async toBytes(handle: number): Promise<Uint8Array<ArrayBuffer>> {
      return (await index(handle).to_bytes(aborted)) as Uint8Array<ArrayBuffer>;
    },
    async save(handle: number, path: string): Promise<void> {
      await files.write(path, (await index(handle).to_bytes(aborted)) as Uint8Array<ArrayBuffer>);
    },
    async removeFile(path: string): Promise<boolean> {
      return files.remove(path);
    },
    async free(handle: number): Promise<void> {
      const one = indexes.get(handle) ?? devices.get(handle);
      indexes.delete(handle);
      devices.delete(handle);
      one?.free();
    },
  };
}

export type Calls = ReturnType<typeof calls>;
export type Method = keyof Calls;

/** Runs calls in this context. */
export class LocalEngine implements Engine {
  async call<M extends Method>(
    method: M,
    args: Parameters<Calls[M]>,
    { signal, onProgress }: CallOptions = {},
  ): Promise<Awaited<ReturnType<Calls[M]>>> {
    const [promise, letGo] = aborted(signal);
    try {
      await load();
      const run = calls(promise, onProgress)[method] as (...args: unknown[]) => Promise<Awaited<ReturnType<Calls[M]>>>;
      return await run(...args);
    } catch (error) {
      throw typed(error);
    } finally {
      letGo();
    }
  }

  /** The `GPUDevice` of an opened device. */
  gpuDevice(handle: number): GPUDevice | undefined {
    return of(devices, handle).gpu_device();
  }

  close(): void {}
}
