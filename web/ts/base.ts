import type { Device } from './device.js';
import type { Engine, Found, Vectors } from './engine.js';
import { argument, NearfieldError } from './errors.js';
import { allowOf, type Allowed, countOf, type Ids, idsOf, isBuffer, type VectorData, vectorsOf } from './values.js';

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

/** What every long call takes. */
export interface CallOptions {
  /** Ends the call between two pieces of work; it then rejects with the signal's reason and has changed nothing. */
  signal?: AbortSignal;
  /** Hears how many rows or queries are done. */
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
  #isFreed = false;

  /** @internal */
  protected constructor(device: Device, handle: number, about: string, settings: string) {
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
   * Adds rows, `[rows, dim]`. Many rows go in pieces; if one of them fails, those before it are removed again.
   *
   * @throws NearfieldError `Argument` for another length or number of ids, `NotFinite` and `NormOutOfRange` with the row, `DuplicateId`,
   * `OutOfMemory`, `DeviceLost`.
   */
  async add(vectors: VectorData, options: AddOptions = {}): Promise<void> {
    const [values, rows] = this.#taken('vectors', vectors);
    const ids = options.ids === undefined ? undefined : idsOf('ids', options.ids);
    if (ids && ids.length !== rows) throw argument('ids', `${rows} ids, one a row`, ids.length);
    const most = isArray(values) ? Math.max(1, Math.floor(PIECE_BYTES / (this.dim * values.BYTES_PER_ELEMENT))) : rows;
    await this.#change(options.signal, async () => {
      if (rows === 0) return;
      const before = rows > most && !ids ? new Set(await this.#call('ids', [this.#handle])) : undefined;
      let done = 0;
      try {
        while (done < rows) {
          const end = Math.min(rows, done + most);
          const part = isArray(values) ? values.subarray(done * this.dim, end * this.dim) : values;
          await this.#sent('add', part, (part) => [
            this.#handle,
            part,
            ids?.slice(done, end),
          ], options.signal);
          done = end;
          options.onProgress?.(done);
        }
      } catch (error) {
        if (done > 0) await this.#takeBack(ids?.slice(0, done), before).catch(() => undefined);
        throw error;
      }
    });
  }

  /** Replaces the vectors of rows. `vectors` are `[ids, dim]`. */
  async update(ids: Ids, vectors: VectorData, { signal }: CallOptions = {}): Promise<void> {
    const [values] = this.#taken('vectors', vectors);
    const numbers = idsOf('ids', ids);
    await this.#change(signal, () => this.#sent('update', values, (part) => [this.#handle, numbers, part], signal));
  }

  /** Removes rows. An error, and no change, if there is no row of some id. */
  async remove(ids: Ids, { signal }: CallOptions = {}): Promise<void> {
    const numbers = idsOf('ids', ids);
    await this.#change(signal, () => this.#call('remove', [this.#handle, numbers], { signal }));
  }

  /** Frees the memory of removed rows. */
  async compact({ signal }: CallOptions = {}): Promise<void> {
    await this.#change(signal, () => this.#call('compact', [this.#handle], { signal }));
  }

  /** All rows nearer to each query than `radius`, a distance of the index's metric. Always exact. */
  async within(queries: VectorData, radius: number, options: WithinOptions = {}): Promise<SearchResult> {
    const [values] = this.#taken('queries', queries);
    const allow = allowOf(options.allow);
    const { signal, onProgress } = options;
    return this.#queue(signal, () =>
      this.#call('within', [this.#handle, values, radius, allow], { signal, onProgress }),
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
  async has(id: number): Promise<boolean> {
    return this.#queue(undefined, () => this.#call('has', [this.#handle, id]));
  }

  /**
   * The index as a file, the same on every platform: save it in a database or send it to a server.
   *
   * @throws NearfieldError `OutOfMemory`; `DeviceLost` for an index without a host copy.
   */
  async toBytes({ signal }: CallOptions = {}): Promise<Uint8Array<ArrayBuffer>> {
    return this.#queue(signal, () => this.#call('toBytes', [this.#handle], { signal }));
  }

  /** Saves the index among the page's own files (OPFS), where it survives a reload: whole, or the old file stays. */
  async save(path: string, { signal }: CallOptions = {}): Promise<void> {
    return this.#queue(signal, () => this.#call('save', [this.#handle, path], { signal }));
  }

  /**
   * Brings the index back after a {@link DeviceLostError}: opens the GPU again and loads the index from `bytes`, or from its host copy if
   * none are given.
   */
  async recover(bytes?: Uint8Array): Promise<void> {
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
    if (this.#isFreed) return;
    released.unregister(this);
    await this.#queue(undefined, () => this.#call('free', [this.#handle]));
    this.#isFreed = true;
  }

  /** @internal */
  protected async found(queries: VectorData, settings: object, options: SearchOptions): Promise<SearchResult> {
    const [values] = this.#taken('queries', queries);
    const allow = allowOf(options.allow);
    const { signal, onProgress, k = 10, profile = false } = options;
    const json = JSON.stringify({ ...settings, k, profile });
    return this.#queue(signal, () =>
      this.#call('search', [this.#handle, values, json, allow], { signal, onProgress }),
    );
  }

  /** @internal */
  protected async planned(queries: number, settings: object): Promise<string> {
    return this.#queue(undefined, () => this.#call('plan', [this.#handle, queries, JSON.stringify(settings)]));
  }

  /** @internal */
  protected async warmed({ queries, k = 10, rows = FEW_ROWS, signal }: WarmUpOptions, settings: object): Promise<void> {
    await this.#queue(signal, async () => {
      if (queries === undefined) return this.#call('warmUp', [this.#handle], { signal });
      const made = new Float32Array(queries * this.dim);
      for (let query = 0; query < queries; query++) made[query * this.dim + (query % this.dim)] = 1;
      const json = JSON.stringify({ ...settings, k });
      if (this.size > 0 || this.lists > 0) {
        await this.#call('search', [this.#handle, made, json, undefined], { signal });
        return;
      }
      // Which kernels run depends on the number of rows: an index with as many stands in for this one.
      const other = await this.#call('flat', [this.device.handle, JSON.stringify({ ...JSON.parse(this.#settings), hostCopy: false })]);
      try {
        const some = new Float32Array(rows * this.dim);
        for (let row = 0; row < rows; row++) some[row * this.dim + (row % this.dim)] = 1 + row;
        await this.#call('add', [other, some, undefined], { signal, transfer: [some.buffer] });
        await this.#call('search', [other, made, json, undefined], { signal });
      } finally {
        await this.#call('free', [other]);
      }
    });
  }

  /** Vectors for the module, and how many: copied from arrays, or as they are in a buffer on the GPU. */
  #taken(name: string, vectors: VectorData): [Vectors, number] {
    if (!isBuffer(name, vectors)) {
      const values = vectorsOf(name, vectors);
      return [values, countOf(name, values, this.dim)];
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
    args: (values: Vectors) => Parameters<import('./engine.js').Calls[M]>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const moves = this.device.isInWorker && isArray(values);
    const part = moves ? values.slice() : values;
    const transfer = moves ? [(part as Float32Array).buffer as ArrayBuffer] : [];
    await this.#call(method, args(part), { signal, transfer });
  }

  async #takeBack(ids: Float64Array | undefined, before: Set<number> | undefined): Promise<void> {
    const added = ids ?? (await this.#call('ids', [this.#handle])).filter((id) => !before?.has(id));
    await this.#call('remove', [this.#handle, added]);
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
  async #change(signal: AbortSignal | undefined, work: () => Promise<unknown>): Promise<void> {
    await this.#queue(signal, async () => {
      try {
        await work();
      } finally {
        this.#about = JSON.parse(await this.#call('describe', [this.#handle]));
      }
    });
  }

  /** Runs work after all that was called before, so that calls see the index as their order says. */
  #queue<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(() => {
      signal?.throwIfAborted();
      if (this.#isFreed) throw argument('index', 'one that is in use', 'one that was freed');
      return work();
    });
    this.#last = result.catch(() => undefined);
    return result;
  }
}

/** Which searches the kernels are compiled for. */
export interface WarmUpOptions extends CallOptions {
  /** The number of queries of a search; without it all kernels are compiled, which takes longest. */
  queries?: number;
  /** Neighbours of each query. Default: 10. */
  k?: number;
  /** For an index without rows: how many it will have. Default: 2,000. */
  rows?: number;
}
