import { loaded, made } from './base.js';
import type { Device } from './device.js';
import { check, INDEX, SEARCH, WITHIN } from './options.js';
import { RowIndex } from './rows.js';
import type { IndexOptions, KnnGraph, SearchOptions, SearchResult, StoreOptions, WarmUpOptions, WithinOptions } from './types.js';
import type { VectorData } from './values.js';

/**
 * Exact search: the k nearest rows of each query among all rows, under the order (distance, id).
 *
 * ```ts
 * const index = await Flat.create(device, { dim: 384, metric: 'cosine' });
 * await index.add(vectors); // Float32Array, [rows, dim]
 * const { ids, distances } = await index.search(query, { k: 10 });
 * ```
 */
export class Flat extends RowIndex {
  /**
   * An empty index.
   *
   * @throws NearfieldError `Argument` for a dim of 0 or above 2^20 or an unknown metric; `Unsupported` where 128 rows do not fit one binding.
   */
  static async create(device: Device, options: IndexOptions): Promise<Flat> {
    check(options, INDEX);
    return new Flat(device, await made(device, (...given) => device.engine.call('flat', given), options, 'flat'));
  }

  /** The index of a file's bytes: those of {@link toBytes}, or of a file that any other binding of nearfield saved. */
  static async fromBytes(device: Device, bytes: Uint8Array, options: StoreOptions = {}): Promise<Flat> {
    return new Flat(device, await loaded(device, { bytes }, options, 'flat'));
  }

  /** The index that {@link save} left among the page's own files. */
  static async load(device: Device, path: string, options: StoreOptions = {}): Promise<Flat> {
    return new Flat(device, await loaded(device, { path }, options, 'flat'));
  }

  /**
   * The k nearest rows of each query, `[queries, dim]`.
   *
   * @throws NearfieldError `Argument` for k = 0 or another length, `NotFinite` and `NormOutOfRange` with the query, `Budget`, `DeviceLost`.
   */
  async search(queries: VectorData, options: SearchOptions = {}): Promise<SearchResult> {
    check(options, SEARCH);
    return this.found(queries, {}, options);
  }

  /**
   * The k nearest other rows of every row. A row is left out by its place, not by its distance: duplicates of it are neighbours. `allow`
   * restricts the rows and their neighbours, and `onProgress` hears of rows.
   *
   * @throws NearfieldError `Argument` for k = 0, `Budget`, `OutOfMemory`, `DeviceLost`.
   */
  async knnGraph(k = 10, options: WithinOptions = {}): Promise<KnnGraph> {
    return this.graph(k, {}, check(options, WITHIN));
  }

  /** How a search would run, in words. */
  async plan(queries: number, k = 10): Promise<string> {
    return this.planned(queries, { k });
  }

  /**
   * Compiles the kernels of a search before the first one, while the page loads its data: a search for as many made-up queries runs, and its
   * answer is thrown away. The index needs no rows yet.
   */
  async warmUp(options: WarmUpOptions = {}): Promise<void> {
    await this.warmed(options, {});
  }
}
