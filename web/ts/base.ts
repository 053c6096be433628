import type { Device } from './device.js';
import type { Engine, Found, Vectors } from './engine.js';
import { argument, NearfieldError } from './errors.js';
import { CALL, check, heard, WARM_UP, whole, WITHIN } from './options.js';
import { allowOf, type Allowed, bytesOf, type Ids, idsOf, isBuffer, type VectorData, vectorsOf } from './values.js';

/** How distances are measured: the squared or plain Euclidean distance, one minus the cosine, or the negative inner product. */
export type Metric = 'l2sq' | 'l2' | 'cosine' | 'ip';

/** Options that both kinds of index take. */
export interface StoreOptions {
  /**
   * Whether a second copy of the rows is kept in the memory of WebAssembly. The smallest searches run on it, because they are over before a
   * GPU has answered, and {@link Flat.recover} and saving read it when the GPU is lost. Default: true.
   */
  hostCopy?: boolean;
  /** The number of rows that are expected, so that their memory is taken at once. More can be added all the same. */
  capacity?: number;
}

/** Options of a new index. */
export interface IndexOptions extends StoreOptions {
  /** Elements of a vector. */
  dim: number;
  /** Default: `cosine`. */
  metric?: Metric;
  /** How rows are stored: `float16` takes half the memory and `Float16Array`s only. Default: `float32`. */
  dtype?: 'float32' | 'float16';
  /** Whether rows are screened by a copy in 8-bit integers. Answers are the same, bit for bit. Default: `auto`. */
  screen?: 'auto' | 'none' | 'i8';
}

/** What calls take that may end early. */
export interface SignalOptions {
  /** Ends the call between two pieces of work; it then rejects with the signal's reason and has changed nothing. */
  signal?: AbortSignal | null;
}

/** What every long call takes. */
export interface CallOptions extends SignalOptions {
  /** Hears how many rows or queries are done. What it throws is an uncaught error, and the call goes on. */
  onProgress?: (done: number) => void;
}

export interface AddOptions extends CallOptions {
  /** The ids of the rows, one a row. Default: the numbers of their insertion. */
  ids?: Ids;
}

export interface WithinOptions extends CallOptions {
  /** Only these rows may be found; default: all. */
  allow?: Allowed;
}

export interface SearchOptions extends WithinOptions {
  /** Neighbours of each query. Default: 10. */
  k?: number;
  /** Times the stages on the GPU, where it has timestamps. */
  profile?: boolean;
}

/**
 * The neighbours of all queries. Those of query `q` are at `offsets[q]` up to `offsets[q + 1]`, nearest first, ties by the smaller id.
 */
export interface SearchResult extends Found {}

/** What an index tells of itself. */
interface About {
  size: number;
  dim: number;
  dtype: 'float32' | 'float16';
  metric: Metric;
  lists: number | null;
  nextId: number;
  memory: string;
}

/** Rows go to the module in pieces of about as many bytes: copying one takes some milliseconds, and it holds no more at a time. */
const PIECE_BYTES = 8 << 20;

const released = new FinalizationRegistry<{ engine: Engine; handle: number }>(({ engine, handle }) => {
  void engine.call('free', [handle]).catch(() => undefined);
});

const isArray = (values: Vectors): values is Float32Array | Uint16Array => ArrayBuffer.isView(values);

/** `GPUBufferUsage.COPY_SRC`, which contexts without WebGPU lack. */
const COPY_SRC = 4;

/** The bits of 1 as a 16-bit float; the 1,023 numbers after it go up to 2. */
const HALF_ONE = 0x3c00;

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
  protected constructor(device: Device, [handle, about, settings]: [number, string, string]) {
    this.device = device;
    this.#handle = handle;
    this.#deviceHandle = device.handle;
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
          const part = isArray(values) ? this.#there(values, rows).subarray(done * this.dim, end * this.dim) : values;
          await this.#sent('add', part, (part) => [this.#handle, part, ids?.slice(done, end)], signal);
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
    const [values, rows] = this.#taken('vectors', vectors);
    const numbers = idsOf('ids', ids);
    await this.#change(signal, () =>
      this.#sent('update', this.#there(values, rows), (part) => [this.#handle, numbers, part], signal),
    );
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
    const [values, rows] = this.#taken('queries', queries);
    if (typeof radius !== 'number') throw argument('radius', 'a number', radius);
    const allow = allowOf(options.allow);
    return this.#queue(signal, () =>
      this.#call('within', [this.#handle, this.#there(values, rows), radius, allow], { signal, onProgress }),
    );
  }

  /** The rows with these ids, `[ids, dim]`. */
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
   */
  async recover(bytes?: Uint8Array): Promise<void> {
    if (bytes !== undefined) bytesOf(bytes);
    await this.#change(undefined, async () => {
      const saved = bytes ?? (await this.#saved());
      await this.device.reopen(this.#deviceHandle);
      const old = this.#handle;
      this.#handle = await this.#call('load', [this.device.handle, saved, this.#settings]);
      this.#deviceHandle = this.device.handle;
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
    const [values, rows] = this.#taken('queries', queries);
    const allow = allowOf(options.allow);
    const json = JSON.stringify({ ...settings, k, profile });
    return this.#queue(signal, () =>
      this.#call('search', [this.#handle, this.#there(values, rows), json, allow], { signal, onProgress }),
    );
  }

  /** @internal */
  protected async planned(queries: number, settings: { k: number; probes?: number | undefined }): Promise<string> {
    check(settings, ['k', 'probes']);
    whole('queries', queries);
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
        await this.#call('add', [other, some, undefined], { signal, transfer: [some.buffer] });
        await this.#call('search', [other, made, json, undefined], { signal });
      } finally {
        await this.#call('free', [other]);
      }
    });
  }

  /** Vectors of one element each that is not zero; successive ones differ. */
  #madeUp(name: string, count: number): Float32Array<ArrayBuffer> | Uint16Array<ArrayBuffer> {
    const isHalf = this.#about.dtype === 'float16';
    const [length, start, steps] = isHalf ? [count * this.dim, HALF_ONE, 1024] : [count * this.dim, 1, count];
    try {
      const made = isHalf ? new Uint16Array(length) : new Float32Array(length);
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

  /** Vectors whose turn has come, which still have to be there. */
  #there<T extends Vectors>(values: T, rows: number): T {
    if (isArray(values) && values.length !== rows * this.dim) {
      throw argument('vectors', 'an array that stays until the call has ended', 'one whose buffer was moved away');
    }
    return values;
  }

  get #call(): Engine['call'] {
    const engine = this.device.engine;
    return (method, args, options) => engine.call(method, args, options);
  }

  /** Calls with vectors, a copy of which moves to the worker. */
  async #sent<M extends 'add' | 'update'>(
    method: M,
    values: Vectors,
    args: (values: Vectors) => Parameters<import('./engine.js').Calls[M]>,
    signal: AbortSignal | null | undefined,
  ): Promise<void> {
    const moves = this.device.isInWorker && isArray(values);
    const part = moves ? values.slice() : values;
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

/** Which searches the kernels are compiled for. */
export interface WarmUpOptions extends SignalOptions {
  /** The number of queries of a search; without it all kernels are compiled, which takes longest. */
  queries?: number;
  /** Neighbours of each query. Default: 10. */
  k?: number;
  /** For an index without rows: how many it will have. Default: 2,000. */
  rows?: number;
}
