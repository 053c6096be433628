import type { Device } from './device.js';
import type { Calls, Engine, Vectors } from './engine.js';
import { argument, DeviceLostError, NearfieldError } from './errors.js';
import { CALL, check, heard, WARM_UP, whole, WITHIN } from './options.js';
import type { AddOptions, Dtype, KnnGraph, Metric, Pairs, SearchOptions, SearchResult, SignalOptions, WarmUpOptions, WithinOptions } from './types.js';
import { allowOf, bytesOf, type Ids, idsOf, isBuffer, type Numbers, radiusOf, stays, type VectorData, vectorsOf } from './values.js';

/** What an index is made of: its handle, what it tells of itself, its settings, and the handle of the device that it was made on. @internal */
export type Made = [handle: number, about: string, settings: string, deviceHandle: number];

/** What an index tells of itself. */
interface About {
  size: number;
  dim: number;
  /** An index that another program saved may also have bfloat16. */
  dtype: Dtype | 'bfloat16';
  metric: Metric;
  lists: number | null;
  nextId: number;
  memory: string;
}

/** What no other index may take the place of. */
const kind = ({ lists, dim, metric, dtype }: About) => `${lists === null ? 'a Flat' : 'an Ivf'} of dim ${dim}, ${metric}, ${dtype}`;

/** Rows go to the module in pieces of about as many bytes: copying one takes some milliseconds, and it holds no more at a time. */
const PIECE_BYTES = 8 << 20;

const released = new FinalizationRegistry<{ engine: Engine; handle: number }>(({ engine, handle }) => {
  void engine.call('free', [handle]).catch(() => undefined);
});

const isArray = (values: Vectors): values is Numbers => ArrayBuffer.isView(values);

/** `GPUBufferUsage.COPY_SRC`, which contexts without WebGPU lack. */
const COPY_SRC = 4;

/** For each type of rows: the class of arrays, a number that is not zero, and how many that differ follow each other from it on. */
const MADE_UP = {
  float32: [Float32Array, 1, 1 << 24],
  // The bits of 1 as a 16-bit float; the 1,023 numbers after it go up to 2.
  float16: [Uint16Array, 0x3c00, 1024],
  int8: [Int8Array, 1, 127],
  uint8: [Uint8Array, 1, 255],
  ubinary: [Uint8Array, 1, 255],
  // Which takes integers.
  bfloat16: [Int8Array, 1, 127],
} as const;

/** Rows of an empty index that is warmed up, unless the caller tells how many there will be. */
const FEW_ROWS = 2000;

/** What both kinds of index do. */
export abstract class BaseIndex {
  readonly device: Device;
  /** Elements of a vector. */
  readonly dim: number;
  readonly metric: Metric;
  readonly #settings: string;
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
    this.#settings = settings;
    this.dim = this.#about.dim;
    this.metric = this.#about.metric;
    released.register(this, { engine: device.engine, handle }, this);
  }

  /** How many rows there are. */
  get size(): number {
    return this.#about.size;
  }

  /** The memory that the index takes, by part and place, in words. */
  get memory(): string {
    return this.#about.memory;
  }

  /** @internal */
  protected get lists(): number {
    return this.#about.lists ?? 0;
  }

  /**
   * Adds rows, `[rows, dim]`. Many rows go in pieces; if one of them fails, those before it are removed again, but their insertion numbers
   * are not given twice. The array stays the caller's, and must not change until the call has ended.
   *
   * @throws NearfieldError `Argument` for another length or number of ids, `NotFinite` and `NormOutOfRange` with the row, `DuplicateId`,
   * `OutOfMemory`, `DeviceLost`.
   */
  async add(vectors: VectorData, options: AddOptions = {}): Promise<void> {
    const { signal } = check(options, [...CALL, 'ids']);
    const onProgress = heard(options.onProgress);
    const [values, rows] = this.#taken('vectors', vectors);
    const ids = options.ids === undefined ? undefined : idsOf('ids', options.ids);
    if (ids && ids.length !== rows) throw argument('ids', `${rows} ids, one a row`, ids.length);
    const most = isArray(values) ? Math.max(1, Math.floor(PIECE_BYTES / (this.dim * values.BYTES_PER_ELEMENT))) : rows;
    await this.#change(signal, async () => {
      const undo = rows > most ? await this.#undo(ids) : undefined;
      for (let done = 0; done < rows; ) {
        const end = Math.min(rows, done + most);
        try {
          const part = isArray(values) ? stays('vectors', values).subarray(done * this.dim, end * this.dim) : values;
          await this.#sent('add', part, (part) => [this.#handle, part, ids?.slice(done, end), done], signal);
        } catch (error) {
          if (done > 0) await undo?.(done).catch(() => undefined);
          throw error;
        }
        done = end;
        onProgress?.(done);
      }
    });
  }

  /** Replaces the vectors of rows. `vectors` are `[ids, dim]`. */
  async update(ids: Ids, vectors: VectorData, options: SignalOptions = {}): Promise<void> {
    const { signal } = check(options, ['signal']);
    const [values] = this.#taken('vectors', vectors);
    const numbers = idsOf('ids', ids);
    await this.#change(signal, () => this.#sent('update', values, (part) => [this.#handle, numbers, part], signal));
  }

  /** Removes rows. An error, and no change, if there is no row of some id. */
  async remove(ids: Ids, options: SignalOptions = {}): Promise<void> {
    const { signal } = check(options, ['signal']);
    const numbers = idsOf('ids', ids);
    await this.#change(signal, () => this.#call('remove', [this.#handle, numbers], { signal }));
  }

  /** Frees the memory of removed rows. */
  async compact(options: SignalOptions = {}): Promise<void> {
    const { signal } = check(options, ['signal']);
    await this.#change(signal, () => this.#call('compact', [this.#handle], { signal }));
  }

  /** All rows nearer to each query than `radius`, a distance of the index's metric. Always exact. */
  async within(queries: VectorData, radius: number, options: WithinOptions = {}): Promise<SearchResult> {
    const { signal } = check(options, WITHIN);
    const onProgress = heard(options.onProgress);
    const [values] = this.#taken('queries', queries);
    const below = radiusOf(radius);
    const allow = allowOf(options.allow);
    return this.#queue(signal, () => this.#call('within', [this.#handle, values, below, allow], { signal, onProgress }));
  }

  /**
   * All pairs of rows nearer to each other than `radius`, each once. Always exact. `allow` restricts both rows, and `onProgress` hears how many
   * rows were compared with all behind them.
   */
  async pairsWithin(radius: number, options: WithinOptions = {}): Promise<Pairs> {
    const { signal } = check(options, WITHIN);
    const onProgress = heard(options.onProgress);
    const below = radiusOf(radius);
    const allow = allowOf(options.allow);
    return this.#queue(signal, () => this.#call('pairsWithin', [this.#handle, below, allow], { signal, onProgress }));
  }

  /** The rows with these ids, `[ids, dim]`. Those of bits are their bytes, as numbers. */
  async get(ids: Ids): Promise<Float32Array<ArrayBuffer>> {
    const numbers = idsOf('ids', ids);
    return this.#queue(undefined, () => this.#call('get', [this.#handle, numbers]));
  }

  /** The ids of all rows. */
  async ids(): Promise<Float64Array<ArrayBuffer>> {
    return this.#queue(undefined, () => this.#call('ids', [this.#handle]));
  }

  /** Whether there is a row with this id. */
  async has(id: number | bigint): Promise<boolean> {
    const [number = 0] = idsOf('id', [id]);
    return this.#queue(undefined, () => this.#call('has', [this.#handle, number]));
  }

  /**
   * The index as a file, the same on every platform: save it in a database or send it to a server.
   *
   * @throws NearfieldError `OutOfMemory`; `DeviceLost` for an index without a host copy.
   */
  async toBytes(options: SignalOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    const { signal } = check(options, ['signal']);
    return this.#queue(signal, () => this.#call('toBytes', [this.#handle], { signal }));
  }

  /** Saves the index among the page's own files (OPFS), where it survives a reload: whole, or the old file stays. */
  async save(path: string, options: SignalOptions = {}): Promise<void> {
    const { signal } = check(options, ['signal']);
    return this.#queue(signal, () => this.#call('save', [this.#handle, path], { signal }));
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
    await this.#change(undefined, async () => {
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
      await this.#call('free', [old]);
    });
  }

  /** Frees the index, once the calls before this one are done. Later calls fail. An index that nobody refers to is freed by itself. */
  async free(): Promise<void> {
    // Where the device was closed, the memory is free already.
    this.#freed ??= this.#queue(undefined, () => this.#call('free', [this.#handle])).catch(() => undefined);
    released.unregister(this);
    await this.#freed;
  }

  /** @internal */
  protected async found(queries: VectorData, settings: object, options: SearchOptions): Promise<SearchResult> {
    const { signal, k = 10, profile = false } = options;
    const onProgress = heard(options.onProgress);
    const [values] = this.#taken('queries', queries);
    const allow = allowOf(options.allow);
    const json = JSON.stringify({ ...settings, k, profile });
    return this.#queue(signal, () => this.#call('search', [this.#handle, values, json, allow], { signal, onProgress }));
  }

  /** @internal */
  protected async graph(k: number, settings: { probes?: number | undefined }, options: WithinOptions): Promise<KnnGraph> {
    const { signal } = options;
    const onProgress = heard(options.onProgress);
    const json = JSON.stringify({ ...settings, k: whole('k', k) });
    const allow = allowOf(options.allow);
    return this.#queue(signal, () => this.#call('knnGraph', [this.#handle, json, allow], { signal, onProgress }));
  }

  /** @internal */
  protected async planned(queries: number, settings: { k: number; probes?: number | undefined }): Promise<string> {
    const { k, probes } = check(settings, ['k', 'probes']);
    whole('queries', queries);
    // As a search refuses them.
    if (k === 0) throw argument('k', 'at least 1', k);
    if (probes === 0 || (probes ?? 0) > this.lists) throw argument('probes', `1 to ${this.lists}, the number of lists`, probes);
    return this.#queue(undefined, () => this.#call('plan', [this.#handle, queries, JSON.stringify(settings)]));
  }

  /** @internal */
  protected async warmed(options: WarmUpOptions, settings: { probes?: number | undefined }): Promise<void> {
    const { queries, k = 10, rows = FEW_ROWS, signal } = check(options, WARM_UP);
    check(settings, ['probes']);
    await this.#queue(signal, async () => {
      if (queries === undefined) return this.#call('warmUp', [this.#handle], { signal });
      const made = this.#madeUp('queries', queries);
      const json = JSON.stringify({ ...settings, k });
      if (this.size > 0 || this.lists > 0) {
        await this.#call('search', [this.#handle, made, json, undefined], { signal });
        return;
      }
      // Which kernels run depends on the number of rows: an index with as many stands in for this one.
      const { dim, metric, dtype } = this.#about;
      const like = { ...JSON.parse(this.#settings), dim, metric, dtype, hostCopy: false };
      const other = await this.#call('flat', [this.device.handle, JSON.stringify(like)]);
      try {
        const some = this.#madeUp('rows', rows);
        await this.#call('add', [other, some, undefined, 0], { signal, transfer: [some.buffer] });
        await this.#call('search', [other, made, json, undefined], { signal });
      } finally {
        await this.#call('free', [other]);
      }
    });
  }

  /** Vectors of one element each that is not zero; successive ones differ. */
  #madeUp(name: string, count: number): Numbers<ArrayBuffer> {
    const [Kind, start, steps] = MADE_UP[this.#about.dtype];
    try {
      const made = new Kind(count * this.dim);
      for (let row = 0; row < count; row++) made[row * this.dim + (row % this.dim)] = start + (row % steps);
      return made;
    } catch {
      throw new NearfieldError('OutOfMemory', `memory: ${count} ${name} need more than is left`);
    }
  }

  /** Vectors for the module, and how many. */
  #taken(name: string, vectors: VectorData): [Vectors, number] {
    if (!isBuffer(name, vectors)) {
      const values = vectorsOf(name, vectors, this.dim);
      return [values, values.length / this.dim];
    }
    if (!this.device.gpuDevice) {
      throw argument(name, 'arrays, or a device on a GPU that was opened with `worker: false`', 'a GPUBuffer');
    }
    const { buffer, offset = 0, rows } = vectors;
    const bytes = offset + rows * this.dim * Float32Array.BYTES_PER_ELEMENT;
    if (!(buffer.size >= bytes)) throw argument(name, `a buffer of ${bytes} bytes`, `one of ${buffer.size}`);
    if (!(buffer.usage & COPY_SRC)) throw argument(name, 'a buffer with the usage COPY_SRC', 'one without');
    return [{ buffer, offset, rows }, rows];
  }

  get #call(): Engine['call'] {
    const engine = this.device.engine;
    return (method, args, options) => engine.call(method, args, options);
  }

  /** Calls with vectors, a copy of which moves to the worker. */
  async #sent<M extends 'add' | 'update'>(
    method: M,
    values: Vectors,
    args: (values: Vectors) => Parameters<Calls[M]>,
    signal: AbortSignal | null | undefined,
  ): Promise<void> {
    const moves = this.device.isInWorker && isArray(values);
    const part = moves ? stays('vectors', values).slice() : values;
    const transfer = moves ? [(part as Float32Array).buffer as ArrayBuffer] : [];
    await this.#call(method, args(part), { signal, transfer });
  }

  /** Removes the first rows of an addition again. */
  async #undo(ids: Float64Array | undefined): Promise<(count: number) => Promise<void>> {
    const { nextId } = this.#about;
    const all = () => this.#call('ids', [this.#handle]);
    // Insertion numbers go on from the next, and jump over those that callers gave to rows.
    const before = new Set(ids ? [] : (await all()).filter((id) => id >= nextId));
    return async (count) => {
      const added = ids?.slice(0, count) ?? (await all()).filter((id) => id >= nextId && !before.has(id));
      await this.#call('remove', [this.#handle, added]);
    };
  }

  /** The handle of an index of saved bytes that may take the place of this one. */
  async #loaded(deviceHandle: number, saved: Uint8Array): Promise<number> {
    const handle = await this.#call('load', [deviceHandle, saved, this.#settings]);
    const [needed, given] = [kind(this.#about), kind(JSON.parse(await this.#call('describe', [handle])))];
    if (given === needed) return handle;
    await this.#call('free', [handle]);
    throw argument('bytes', `those of ${needed}`, `those of ${given}`);
  }

  async #saved(): Promise<Uint8Array<ArrayBuffer>> {
    try {
      return await this.#call('toBytes', [this.#handle]);
    } catch (error) {
      if (!(error instanceof NearfieldError)) throw error;
      throw argument('bytes', 'those of the saved index, because it cannot be read any more', `none (${error.message})`);
    }
  }

  /** Runs a change, and learns what the index is afterwards. */
  async #change(signal: AbortSignal | null | undefined, work: () => Promise<unknown>): Promise<void> {
    await this.#queue(signal, async () => {
      try {
        await work();
      } finally {
        // The error of a device that is gone would take the place of the first.
        const about = await this.#call('describe', [this.#handle]).catch(() => undefined);
        if (about) this.#about = JSON.parse(about);
      }
    });
  }

  /** Runs work after all that was called before, so that calls see the index as their order says. */
  #queue<T>(signal: AbortSignal | null | undefined, work: () => Promise<T>): Promise<T> {
    if (this.#freed) return Promise.reject(argument('index', 'one that is in use', 'one that was freed'));
    const result = this.#last.then(() => {
      signal?.throwIfAborted();
      return work();
    });
    this.#last = result.catch(() => undefined);
    return result;
  }
}
