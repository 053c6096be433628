import { loaded, made } from './base.js';
import type { Device } from './device.js';
import { argument } from './errors.js';
import { CALL, check, heard, IVF, SEARCH, WARM_UP, whole, WITHIN } from './options.js';
import { RowIndex } from './rows.js';
import type { CallOptions, IndexOptions, KnnGraph, SearchOptions, SearchResult, StoreOptions, WarmUpOptions, WithinOptions } from './types.js';
import { isBuffer, type VectorData, vectorsOf } from './values.js';

export interface IvfOptions extends IndexOptions {
  /** How many lists there are. Default: as many as suit the sample. */
  lists?: number;
  /** Rounds of k-means. */
  iterations?: number;
  /** Starts the choice of the first centroids: the same seed gives the same lists. */
  seed?: number;
}

export interface ListSearchOptions extends SearchOptions {
  /** Lists that each query looks into. Default: a sixty-fourth of them. */
  probes?: number;
  /** Whether a query that finds fewer than k rows looks into more lists. */
  iterativeScan?: boolean;
}

/**
 * Approximate search among many rows: each query looks into the lists around the nearest centroids only.
 *
 * ```ts
 * const index = await Ivf.train(device, { dim: 384, lists: 256 }, sample);
 * await index.add(vectors);
 * const { ids } = await index.search(query, { k: 10, probes: 8 });
 * ```
 */
export class Ivf extends RowIndex {
  /**
   * An index without rows whose centroids are trained on a sample, `[rows, dim]`, of the rows that it will have. `onProgress` hears of each
   * round of k-means. On the processor `signal` ends a training that has not begun, and no other: nothing interrupts WebAssembly.
   */
  static async train(device: Device, options: IvfOptions, sample: VectorData, call: CallOptions = {}): Promise<Ivf> {
    check(options, IVF);
    const { signal, onProgress } = check(call, CALL);
    if (isBuffer('sample', sample)) throw argument('sample', 'an array', 'a GPUBuffer');
    const values = vectorsOf('sample', sample, whole('dim', options.dim));
    const train = (deviceHandle: number, settings: string) =>
      device.engine.call('train', [deviceHandle, settings, values], { signal, onProgress: heard(onProgress) });
    return new Ivf(device, await made(device, train, options, 'ivf'));
  }

  /** The index of a file's bytes. */
  static async fromBytes(device: Device, bytes: Uint8Array, options: StoreOptions = {}): Promise<Ivf> {
    return new Ivf(device, await loaded(device, { bytes }, options, 'ivf'));
  }

  /** The index that {@link save} left among the page's own files. */
  static async load(device: Device, path: string, options: StoreOptions = {}): Promise<Ivf> {
    return new Ivf(device, await loaded(device, { path }, options, 'ivf'));
  }

  /** How many lists there are. */
  override get lists(): number {
    return super.lists;
  }

  /** The k nearest rows of each query among those in the lists that it looks into. */
  async search(queries: VectorData, options: ListSearchOptions = {}): Promise<SearchResult> {
    const { probes, iterativeScan } = check(options, [...SEARCH, 'probes', 'iterativeScan']);
    return this.found(queries, { probes, iterativeScan }, options);
  }

  /**
   * The k nearest other rows of every row among those in the `probes` lists nearest to it, by default a 64th of all. Otherwise as
   * `Flat.knnGraph`.
   *
   * @throws NearfieldError `Argument` for k = 0 or probes = 0, `Budget`, `OutOfMemory`, `DeviceLost`.
   */
  async knnGraph(k = 10, options: WithinOptions & { probes?: number } = {}): Promise<KnnGraph> {
    const { probes } = check(options, [...WITHIN, 'probes']);
    return this.graph(k, { probes }, options);
  }

  /** How a search would run, in words. */
  async plan(queries: number, k = 10, probes?: number): Promise<string> {
    return this.planned(queries, { k, probes });
  }

  /** Compiles the kernels of a search before the first one. An index without rows compiles them for all searches. */
  async warmUp(options: WarmUpOptions & { probes?: number } = {}): Promise<void> {
    const { probes, queries, ...rest } = check(options, [...WARM_UP, 'probes']);
    await this.warmed(this.size > 0 ? { ...rest, queries } : rest, { probes });
  }
}
