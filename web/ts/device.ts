import { type Engine, LocalEngine, type Opened } from './engine.js';
import { argument, DeviceLostError, NearfieldError } from './errors.js';
import { check, whole } from './options.js';
import { WorkerEngine } from './remote.js';
import { type TokenData, tokensOf } from './tokens.js';
import type { GpuInfo, Instance, SignalOptions } from './types.js';

/** How a device is chosen and where its work runs. */
export interface DeviceOptions {
  /**
   * - `best` (default): the browser's GPU, and the host engine where there is none. A software adapter, which emulates a GPU on the
   *   processor, is slower than the host engine and not taken.
   * - `gpu`: any adapter, software ones too; without one the host engine.
   * - `host`: the host engine: WebAssembly on the processor, on one thread.
   * - `software`: a software adapter, for tests; an error if there is none.
   */
  prefer?: 'best' | 'gpu' | 'host' | 'software';
  /**
   * Whether the device and its indexes live in a dedicated worker, so that no call blocks the page; or a worker of your own that imports
   * `@nearfield/web/worker`, which several devices may share and {@link Device.close} ends. Without a worker, all runs in the calling
   * context, and an index takes `GPUBuffer`s of {@link Device.gpuDevice}. Default: true in a page, false in workers, Node and Deno.
   */
  worker?: boolean | Worker;
  /**
   * A device of the page's own, made without a worker: an index on it takes its `GPUBuffer`s. It has the limits and features that it was
   * made with, so ask for those of the adapter. After it was lost, open a device around another.
   */
  gpuDevice?: Instance<'GPUDevice', object>;
  /** Bytes of scratch memory on the device that searches may use. Default: 256 MiB. */
  budget?: number;
}

/** The limits of an adapter. */
export interface Limits {
  bufferBytes: number;
  bindingBytes: number;
  storageBuffers: number;
  workgroupSize: number;
  workgroupBytes: number;
}

/** The optional features of an adapter that kernels use. */
export interface Features {
  f16: boolean;
  /** The smallest and the largest subgroup; null where there are no subgroup operations. */
  subgroups: [number, number] | null;
  timestamps: boolean;
}

interface About {
  name: string;
  backend: string;
  kind: string;
  reason: string;
  limits: Limits;
  features: Features;
}

/** The most elements that a vector of an index has. */
const MOST_DIM = 1 << 20;

/** Whether this is a page's own thread, which long work would freeze. */
const isPage = () => typeof document !== 'undefined' && typeof Worker === 'function';

/**
 * A device that indexes live on: the browser's GPU, or the processor.
 *
 * ```ts
 * const device = await Device.open();
 * console.log(device.describe()); // "nvidia ampere (discrete, webgpu), because it is the best GPU"
 * ```
 */
export class Device {
  readonly #engine: Engine;
  readonly #options: DeviceOptions;
  #opened: Opened;
  #about: About;
  #opening: Promise<void> | undefined;

  private constructor(engine: Engine, options: DeviceOptions, [opened, about]: [Opened, About]) {
    this.#engine = engine;
    this.#options = options;
    this.#opened = opened;
    this.#about = about;
  }

  /**
   * Opens a device. Without WebGPU that is the host engine; {@link Device.reason} tells why.
   *
   * @throws NearfieldError `NoAdapter` only where `prefer` is `software`; `Argument` for an unknown `prefer`.
   */
  static async open(options: DeviceOptions = {}): Promise<Device> {
    const { prefer = 'best', gpuDevice, worker = isPage() && !gpuDevice } = check(options, ['prefer', 'worker', 'gpuDevice', 'budget']);
    if (gpuDevice && worker) throw argument('worker', 'false, because a GPUDevice stays where it was made', worker);
    if (!['best', 'gpu', 'host', 'software'].includes(prefer)) {
      throw argument('prefer', '"best", "gpu", "host" or "software"', prefer);
    }
    if (worker === true && typeof Worker !== 'function') {
      throw new NearfieldError('Unsupported', 'worker: needs a page or a worker that can start workers');
    }
    if (typeof worker !== 'boolean' && typeof worker?.postMessage !== 'function') throw argument('worker', 'true, false or a Worker', worker);
    if (gpuDevice && typeof globalThis.navigator !== 'object') throw new NearfieldError('Unsupported', 'gpuDevice: needs a navigator');
    const engine = worker === false ? new LocalEngine() : WorkerEngine.of(worker === true ? undefined : worker);
    try {
      return new Device(engine, options, await Device.#start(engine, options));
    } catch (error) {
      // A worker of the caller's may have other devices.
      if (typeof worker === 'boolean') engine.close();
      throw error;
    }
  }

  static async #start(engine: Engine, options: DeviceOptions): Promise<[Opened, About]> {
    const { prefer = 'best', budget, gpuDevice } = options;
    const settings = JSON.stringify({ budget });
    const open = (name: string) => engine.call('open', [name, settings]);
    const parsed = (opened: Opened): [Opened, About] => [opened, JSON.parse(opened.about)];
    if (gpuDevice) return parsed(await engine.call('openGpuDevice', [gpuDevice, settings]));
    try {
      return parsed(await open(prefer));
    } catch (error) {
      if (prefer !== 'gpu' || !(error instanceof NearfieldError) || error.code !== 'NoAdapter') throw error;
      const [opened, about] = parsed(await open('host'));
      return [opened, { ...about, reason: `because there is no GPU (${error.message})` }];
    }
  }

  /** The adapter's name: the browser's words for the GPU, or `host`. */
  get name(): string {
    const gpu = this.#opened.gpu;
    const words = gpu && (gpu.description || [gpu.vendor, gpu.architecture, gpu.device].filter(Boolean).join(' '));
    return words || this.#about.name || 'unnamed GPU';
  }

  /** `discrete`, `integrated`, `unknown` (most browsers do not tell), `software` or `host`. */
  get kind(): string {
    return this.#about.kind;
  }

  /** `webgpu`, or `host`. */
  get backend(): string {
    return this.#about.backend;
  }

  /** Why this device was taken. */
  get reason(): string {
    return this.#about.reason;
  }

  /** Vendor and architecture of the GPU, as far as the browser tells; undefined for the host engine. */
  get gpu(): Readonly<GpuInfo> | undefined {
    return this.#opened.gpu;
  }

  get limits(): Readonly<Limits> {
    return this.#about.limits;
  }

  get features(): Readonly<Features> {
    return this.#about.features;
  }

  /** Whether this is the processor. */
  get isHost(): boolean {
    return this.#about.backend === 'host';
  }

  /** Whether the device lives in a worker. */
  get isInWorker(): boolean {
    return !(this.#engine instanceof LocalEngine);
  }

  /** Names the device and says why it was taken. */
  describe(): string {
    return `${this.name} (${this.kind}, ${this.backend}), ${this.reason}`;
  }

  /**
   * The `GPUDevice` behind this one, for the page's own work on the same GPU: buffers of it go into an index without leaving the GPU.
   * Undefined for the host engine, and for a device that lives in a worker.
   */
  get gpuDevice(): Instance<'GPUDevice', object> | undefined {
    const engine = this.#engine;
    return engine instanceof LocalEngine && !this.isHost ? engine.gpuDevice(this.#opened.handle) : undefined;
  }

  /**
   * The MaxSim of every query and every document, `[queries, documents]`, without an index: the sum, over the tokens of a query, of the largest
   * inner product with a token of the document. `dim` is the number of elements of a token. On the processor it is one piece, which `signal`
   * does not end.
   *
   * @throws NearfieldError `Argument` for another length, `NotFinite` and `NormOutOfRange` with the token, `Unsupported` where the documents do
   * not fit one binding, `Budget`, `OutOfMemory`, `DeviceLost`.
   */
  async maxsim(queries: TokenData, documents: TokenData, options: SignalOptions & { dim: number }): Promise<Float32Array<ArrayBuffer>> {
    const { dim, signal } = check(options, ['dim', 'signal']);
    if (!(whole('dim', dim) > 0 && dim <= MOST_DIM)) throw argument('dim', `1 to ${MOST_DIM}, the elements of a token`, dim);
    const takesBuffers = this.gpuDevice !== undefined;
    const [asked, own] = [tokensOf('queries', queries, dim, takesBuffers), tokensOf('documents', documents, dim, takesBuffers)];
    return this.#engine.call('maxsim', [this.#opened.handle, ...asked, ...own, dim], { signal });
  }

  /** Removes the file of an index from the page's own files. Whether there was one. */
  async removeFile(path: string): Promise<boolean> {
    return this.#engine.call('removeFile', [path]);
  }

  /** Closes the device, its indexes and its worker, and frees their memory. Calls in progress and later ones fail. */
  close(): void {
    this.#engine.close();
  }

  /** @internal */
  get engine(): Engine {
    return this.#engine;
  }

  /** @internal */
  get handle(): number {
    return this.#opened.handle;
  }

  /** Opens the GPU again, unless another index has done so since `lost` was its handle. @internal */
  async reopen(lost: number): Promise<void> {
    if (this.#opened.handle !== lost) return;
    this.#opening ??= this.#reopened(lost).finally(() => (this.#opening = undefined));
    await this.#opening;
  }

  async #reopened(lost: number): Promise<void> {
    if (this.#options.gpuDevice) {
      throw new DeviceLostError('device: the GPUDevice is the page\'s own: open a device around another, and load the saved index there');
    }
    const [opened, about] = await Device.#start(this.#engine, this.#options);
    this.#opened = opened;
    this.#about = about;
    await this.#engine.call('free', [lost]);
  }
}
