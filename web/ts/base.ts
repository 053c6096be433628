import type { Device } from './device.js';
import type { Engine, Kind } from './engine.js';
import { argument, DeviceLostError, NearfieldError } from './errors.js';
import { check, heard, STORE } from './options.js';
import type { CallOptions, Dtype, Metric, SignalOptions, StoreOptions } from './types.js';
import { bytesOf, type Ids, idsOf, isArray, type Numbers, stays, type Vectors } from './values.js';

/** What an index is made of: its handle, what it tells of itself, its settings, and the handle of the device that it was made on. @internal */
export type Made = [handle: number, about: string, settings: string, deviceHandle: number];

/** What an index tells of itself. @internal */
export interface About {
  kind: Kind;
  size: number;
  dim: number;
  /** An index that another program saved may also have bfloat16. */
  dtype: Dtype | 'bfloat16';
  nextId: number;
  memory: string;
  /** Of rows. */
  metric: Metric;
  lists: number | null;
  /** Of documents. */
  tokens: number;
}

const NAMES = { flat: 'a Flat', ivf: 'an Ivf', multivector: 'a MultiVector' };

/** What no other index may take the place of. */
const words = ({ kind, dim, metric, dtype }: About) => `${NAMES[kind]} of dim ${dim}, ${metric ? `${metric}, ` : ''}${dtype}`;

type Make = (device: number, settings: string) => Promise<number>;

/** A new index. @internal */
export async function made(device: Device, make: Make, options: object, kind: Kind): Promise<Made> {
  if (!device?.engine) throw argument('device', 'a Device, which Device.open() resolves with', device);
  const deviceHandle = device.handle;
  const settings = JSON.stringify({ hostCopy: true, ...options });
  const handle = await make(deviceHandle, settings);
  const about = await device.engine.call('describe', [handle]);
  const given: Kind = JSON.parse(about).kind;
  if (given === kind) return [handle, about, settings, deviceHandle];
  await device.engine.call('free', [handle]);
  throw argument('index', NAMES[kind], `the file of ${NAMES[given]}`);
}

/** An index from a file's bytes, or from a file of the page's own. @internal */
export async function loaded(device: Device, source: { bytes: Uint8Array } | { path: string }, options: StoreOptions, kind: Kind): Promise<Made> {
  check(options, STORE);
  const make: Make = async (deviceHandle, settings) =>
    'path' in source
      ? device.engine.call('loadFile', [deviceHandle, source.path, settings, kind])
      : device.engine.call('load', [deviceHandle, bytesOf('bytes', source.bytes), settings, kind]);
  return made(device, make, options, kind);
}

/** Rows go to the module in pieces of about as many bytes: copying one takes some milliseconds, and it holds no more at a time. */
const PIECE_BYTES = 8 << 20;

const released = new FinalizationRegistry<{ engine: Engine; handle: number }>(({ engine, handle }) => {
  void engine.call('free', [handle]).catch(() => undefined);
});

/** What all kinds of index do. */
export abstract class BaseIndex {
  readonly device: Device;
  /** Elements of a vector. */
  readonly dim: number;
  /** @internal */
  protected readonly settings: string;
  #handle: number;
  #deviceHandle: number;
  #about: About;
  #last: Promise<unknown> = Promise.resolve();
  #freed: Promise<void> | undefined;

  /** @internal */
  protected constructor(device: Device, [handle, about, settings, deviceHandle]: Made) {
    this.device = device;
    this.#handle = handle;
    this.#deviceHandle = deviceHandle;
    this.#about = JSON.parse(about);
    this.settings = settings;
    this.dim = this.#about.dim;
    released.register(this, { engine: device.engine, handle }, this);
  }

  /** How many rows, or documents, there are. */
  get size(): number {
    return this.#about.size;
  }

  /** The memory that the index takes, by part and place, in words. */
  get memory(): string {
    return this.#about.memory;
  }

  /** @internal */
  protected get about(): Readonly<About> {
    return this.#about;
  }

  /** @internal */
  protected get handle(): number {
    return this.#handle;
  }

  /** Removes rows, or documents. An error, and no change, if there is none of some id. */
  async remove(ids: Ids, options: SignalOptions = {}): Promise<void> {
    const { signal } = check(options, ['signal']);
    const numbers = idsOf('ids', ids);
    await this.change(signal, () => this.call('remove', [this.#handle, numbers], { signal }));
  }

  /** Frees the memory of what was removed. */
  async compact(options: SignalOptions = {}): Promise<void> {
    const { signal } = check(options, ['signal']);
    await this.change(signal, () => this.call('compact', [this.#handle], { signal }));
  }

  /** The ids of all rows, or documents. */
  async ids(): Promise<Float64Array<ArrayBuffer>> {
    return this.queue(undefined, () => this.call('ids', [this.#handle]));
  }

  /** Whether there is a row, or a document, with this id. */
  async has(id: number | bigint): Promise<boolean> {
    const [number = 0] = idsOf('id', [id]);
    return this.queue(undefined, () => this.call('has', [this.#handle, number]));
  }

  /**
   * The index as a file, the same on every platform: save it in a database or send it to a server.
   *
   * @throws NearfieldError `OutOfMemory`; `DeviceLost` for an index without a host copy.
   */
  async toBytes(options: SignalOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    const { signal } = check(options, ['signal']);
    return this.queue(signal, () => this.call('toBytes', [this.#handle], { signal }));
  }

  /** Saves the index among the page's own files (OPFS), where it survives a reload: whole, or the old file stays. */
  async save(path: string, options: SignalOptions = {}): Promise<void> {
    const { signal } = check(options, ['signal']);
    return this.queue(signal, () => this.call('save', [this.#handle, path], { signal }));
  }

  /**
   * Brings the index back after a {@link DeviceLostError}: opens the GPU again and loads the index from `bytes`, or from its host copy if
   * none are given. A `GPUDevice` of the page's own is not opened again: give another to {@link Device.open}, and load the index there.
   *
   * @throws NearfieldError `Argument` for bytes of another kind of index, dim, metric or element type, and for none where there is no host
   * copy; `File` for damaged ones. The index then is as it was.
   */
  async recover(bytes?: Uint8Array): Promise<void> {
    const given = bytes === undefined ? undefined : bytesOf('bytes', bytes);
    await this.change(undefined, async () => {
      const saved = given ?? (await this.#saved());
      await this.device.reopen(this.#deviceHandle);
      let deviceHandle = this.device.handle;
      const handle = await this.#loaded(deviceHandle, saved).catch(async (error) => {
        // A device that was opened since is lost too.
        if (!(error instanceof DeviceLostError)) throw error;
        await this.device.reopen(deviceHandle);
        deviceHandle = this.device.handle;
        return this.#loaded(deviceHandle, saved);
      });
      const old = this.#handle;
      this.#handle = handle;
      this.#deviceHandle = deviceHandle;
      released.unregister(this);
      released.register(this, { engine: this.device.engine, handle: this.#handle }, this);
      await this.call('free', [old]);
    });
  }

  /** Frees the index, once the calls before this one are done. Later calls fail. An index that nobody refers to is freed by itself. */
  async free(): Promise<void> {
    // Where the device was closed, the memory is free already.
    this.#freed ??= this.queue(undefined, () => this.call('free', [this.#handle])).catch(() => undefined);
    released.unregister(this);
    await this.#freed;
  }

  /** @internal */
  protected get call(): Engine['call'] {
    const engine = this.device.engine;
    return (method, args, options) => engine.call(method, args, options);
  }

  /** How many of these vectors go to the module at a time. @internal */
  protected most(values: Vectors): number {
    return isArray(values) ? Math.max(1, Math.floor(PIECE_BYTES / (this.dim * values.BYTES_PER_ELEMENT))) : Infinity;
  }

  /** Some of the vectors. A buffer goes as a whole. @internal */
  protected part(name: string, values: Vectors, start: number, end: number): Vectors {
    return isArray(values) ? stays(name, values).subarray(start * this.dim, end * this.dim) : values;
  }

  /** Adds rows, or documents, in pieces, of which `endOf` tells the end. If one fails, those before it are removed again. @internal */
  protected async added(
    count: number,
    ids: Float64Array | undefined,
    { signal, onProgress }: CallOptions,
    endOf: (start: number) => number,
    send: (start: number, end: number, ids: Float64Array | undefined) => Promise<void>,
  ): Promise<void> {
    const report = heard(onProgress);
    await this.change(signal, async () => {
      const undo = count > 0 && endOf(0) < count ? await this.#undo(ids) : undefined;
      for (let done = 0; done < count; ) {
        const end = endOf(done);
        try {
          await send(done, end, ids?.slice(done, end));
        } catch (error) {
          if (done > 0) await undo?.(done).catch(() => undefined);
          throw error;
        }
        done = end;
        report?.(done);
      }
    });
  }

  /** Calls with vectors, a copy of which moves to the worker. @internal */
  protected async sent(name: string, values: Vectors, run: (part: Vectors, transfer: Transferable[]) => Promise<void>): Promise<void> {
    const moves = this.device.isInWorker && isArray(values);
    const part = moves ? stays(name, values).slice() : values;
    await run(part, moves ? [(part as Numbers).buffer as ArrayBuffer] : []);
  }

  /** Removes the first of an addition again. */
  async #undo(ids: Float64Array | undefined): Promise<(count: number) => Promise<void>> {
    const { nextId } = this.#about;
    const all = () => this.call('ids', [this.#handle]);
    // Insertion numbers go on from the next, and jump over those that callers gave to rows.
    const before = new Set(ids ? [] : (await all()).filter((id) => id >= nextId));
    return async (count) => {
      const added = ids?.slice(0, count) ?? (await all()).filter((id) => id >= nextId && !before.has(id));
      await this.call('remove', [this.#handle, added]);
    };
  }

  /** The handle of an index of saved bytes that may take the place of this one. */
  async #loaded(deviceHandle: number, saved: Uint8Array): Promise<number> {
    const handle = await this.call('load', [deviceHandle, saved, this.settings, this.#about.kind]);
    const [needed, given] = [words(this.#about), words(JSON.parse(await this.call('describe', [handle])))];
    if (given === needed) return handle;
    await this.call('free', [handle]);
    throw argument('bytes', `those of ${needed}`, `those of ${given}`);
  }

  async #saved(): Promise<Uint8Array<ArrayBuffer>> {
    try {
      return await this.call('toBytes', [this.#handle]);
    } catch (error) {
      if (!(error instanceof NearfieldError)) throw error;
      throw argument('bytes', 'those of the saved index, because it cannot be read any more', `none (${error.message})`);
    }
  }

  /** Runs a change, and learns what the index is afterwards. @internal */
  protected async change(signal: AbortSignal | null | undefined, work: () => Promise<unknown>): Promise<void> {
    await this.queue(signal, async () => {
      try {
        await work();
      } finally {
        // The error of a device that is gone would take the place of the first.
        const about = await this.call('describe', [this.#handle]).catch(() => undefined);
        if (about) this.#about = JSON.parse(about);
      }
    });
  }

  /** Runs work after all that was called before, so that calls see the index as their order says. @internal */
  protected queue<T>(signal: AbortSignal | null | undefined, work: () => Promise<T>): Promise<T> {
    if (this.#freed) return Promise.reject(argument('index', 'one that is in use', 'one that was freed'));
    const result = this.#last.then(() => {
      signal?.throwIfAborted();
      return work();
    });
    this.#last = result.catch(() => undefined);
    return result;
  }
}
