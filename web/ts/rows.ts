import { BaseIndex, type Made } from './base.js';
import type { Device } from './device.js';
import { argument, NearfieldError } from './errors.js';
import { CALL, check, heard, WARM_UP, whole, WITHIN } from './options.js';
import type { AddOptions, KnnGraph, Metric, Pairs, SearchOptions, SearchResult, SignalOptions, WarmUpOptions, WithinOptions } from './types.js';
import { allowOf, type Ids, idsOf, type Numbers, radiusOf, takenOf, type VectorData, type Vectors } from './values.js';

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

/** What both kinds of index of rows do. */
export abstract class RowIndex extends BaseIndex {
  readonly metric: Metric;

  /** @internal */
  protected constructor(device: Device, made: Made) {
    super(device, made);
    this.metric = this.about.metric;
  }

  /** @internal */
  protected get lists(): number {
    return this.about.lists ?? 0;
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
    const [values, rows] = this.#taken('vectors', vectors);
    const ids = options.ids === undefined ? undefined : idsOf('ids', options.ids);
    if (ids && ids.length !== rows) throw argument('ids', `${rows} ids, one a row`, ids.length);
    const endOf = (start: number) => Math.min(rows, start + this.most(values));
    await this.added(rows, ids, options, endOf, (start, end, ids) =>
      this.sent('vectors', this.part('vectors', values, start, end), (part, transfer) =>
        this.call('add', [this.handle, part, ids, start], { signal, transfer }),
      ),
    );
  }

  /** Replaces the vectors of rows. `vectors` are `[ids, dim]`. */
  async update(ids: Ids, vectors: VectorData, options: SignalOptions = {}): Promise<void> {
    const { signal } = check(options, ['signal']);
    const [values] = this.#taken('vectors', vectors);
    const numbers = idsOf('ids', ids);
    await this.change(signal, () =>
      this.sent('vectors', values, (part, transfer) => this.call('update', [this.handle, numbers, part], { signal, transfer })),
    );
  }

  /** All rows nearer to each query than `radius`, a distance of the index's metric. Always exact. */
  async within(queries: VectorData, radius: number, options: WithinOptions = {}): Promise<SearchResult> {
    const { signal } = check(options, WITHIN);
    const onProgress = heard(options.onProgress);
    const [values] = this.#taken('queries', queries);
    const below = radiusOf(radius);
    const allow = allowOf(options.allow);
    return this.queue(signal, () => this.call('within', [this.handle, values, below, allow], { signal, onProgress }));
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
    return this.queue(signal, () => this.call('pairsWithin', [this.handle, below, allow], { signal, onProgress }));
  }

  /** The rows with these ids, `[ids, dim]`. Those of bits are their bytes, as numbers. */
  async get(ids: Ids): Promise<Float32Array<ArrayBuffer>> {
    const numbers = idsOf('ids', ids);
    return this.queue(undefined, () => this.call('get', [this.handle, numbers]));
  }

  /** @internal */
  protected async found(queries: VectorData, settings: object, options: SearchOptions): Promise<SearchResult> {
    const { signal, k = 10, profile = false } = options;
    const onProgress = heard(options.onProgress);
    const [values] = this.#taken('queries', queries);
    const allow = allowOf(options.allow);
    const json = JSON.stringify({ ...settings, k, profile });
    return this.queue(signal, () => this.call('search', [this.handle, values, json, allow], { signal, onProgress }));
  }

  /** @internal */
  protected async graph(k: number, settings: { probes?: number | undefined }, options: WithinOptions): Promise<KnnGraph> {
    const { signal } = options;
    const onProgress = heard(options.onProgress);
    const json = JSON.stringify({ ...settings, k: whole('k', k) });
    const allow = allowOf(options.allow);
    return this.queue(signal, () => this.call('knnGraph', [this.handle, json, allow], { signal, onProgress }));
  }

  /** @internal */
  protected async planned(queries: number, settings: { k: number; probes?: number | undefined }): Promise<string> {
    const { k, probes } = check(settings, ['k', 'probes']);
    whole('queries', queries);
    // As a search refuses them.
    if (k === 0) throw argument('k', 'at least 1', k);
    if (probes === 0 || (probes ?? 0) > this.lists) throw argument('probes', `1 to ${this.lists}, the number of lists`, probes);
    return this.queue(undefined, () => this.call('plan', [this.handle, queries, JSON.stringify(settings)]));
  }

  /** @internal */
  protected async warmed(options: WarmUpOptions, settings: { probes?: number | undefined }): Promise<void> {
    const { queries, k = 10, rows = FEW_ROWS, signal } = check(options, WARM_UP);
    check(settings, ['probes']);
    await this.queue(signal, async () => {
      if (queries === undefined) return this.call('warmUp', [this.handle], { signal });
      const made = this.#madeUp('queries', queries);
      const json = JSON.stringify({ ...settings, k });
      if (this.size > 0 || this.lists > 0) {
        await this.call('search', [this.handle, made, json, undefined], { signal });
        return;
      }
      // Which kernels run depends on the number of rows: an index with as many stands in for this one.
      const { dim, metric, dtype } = this.about;
      const like = { ...JSON.parse(this.settings), dim, metric, dtype, hostCopy: false };
      const other = await this.call('flat', [this.device.handle, JSON.stringify(like)]);
      try {
        const some = this.#madeUp('rows', rows);
        await this.call('add', [other, some, undefined, 0], { signal, transfer: [some.buffer] });
        await this.call('search', [other, made, json, undefined], { signal });
      } finally {
        await this.call('free', [other]);
      }
    });
  }

  /** Vectors of one element each that is not zero; successive ones differ. */
  #madeUp(name: string, count: number): Numbers<ArrayBuffer> {
    const [Kind, start, steps] = MADE_UP[this.about.dtype];
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
    return takenOf(name, vectors, this.dim, this.device.gpuDevice !== undefined);
  }
}
