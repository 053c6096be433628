import { BaseIndex, type IndexOptions, type SearchOptions, type SearchResult, type StoreOptions, type WarmUpOptions } from './base.js';
import type { Device } from './device.js';
import type { VectorData } from './values.js';

/** An index opens with settings, and answers as JSON what it is. @internal */
export async function opened(device: Device, handle: number, lists: boolean): Promise<[number, string]> {
  const about = await device.engine.call('describe', [handle]);
  if ((JSON.parse(about).lists !== null) === lists) return [handle, about];
  await device.engine.call('free', [handle]);
  const { argument } = await import('./errors.js');
  throw argument('index', lists ? 'an Ivf' : 'a Flat', lists ? 'the file of a Flat' : 'the file of an Ivf');
}

/** The settings of an index as JSON, with the defaults of this package. @internal */
export function settingsOf(options: object): string {
  return JSON.stringify({ hostCopy: true, ...options });
}

/**
 * Exact search: the k nearest rows of each query among all rows, under the order (distance, id).
 *
 * ```ts
 * const index = await Flat.create(device, { dim: 384, metric: 'cosine' });
 * await index.add(vectors); // Float32Array, [rows, dim]
 * const { ids, distances } = await index.search(query, { k: 10 });
 * ```
 */
export class Flat extends BaseIndex {
  /**
   * An empty index.
   *
   * @throws NearfieldError `Argument` for a dim of 0 or above 2^20 or an unknown metric; `Unsupported` where 128 rows do not fit one binding.
   */
  static async create(device: Device, options: IndexOptions): Promise<Flat> {
    const settings = settingsOf(options);
    const handle = await device.engine.call('flat', [device.handle, settings]);
    return new Flat(device, ...(await opened(device, handle, false)), settings);
  }

  /** The index of a file's bytes: those of {@link toBytes}, or of a file that any other binding of nearfield saved. */
  static async fromBytes(device: Device, bytes: Uint8Array, options: StoreOptions = {}): Promise<Flat> {
    const settings = settingsOf(options);
    const handle = await device.engine.call('load', [device.handle, bytes, settings]);
    return new Flat(device, ...(await opened(device, handle, false)), settings);
  }

  /** The index that {@link save} left among the page's own files. */
  static async load(device: Device, path: string, options: StoreOptions = {}): Promise<Flat> {
    const settings = settingsOf(options);
    const handle = await device.engine.call('loadFile', [device.handle, path, settings]);
    return new Flat(device, ...(await opened(device, handle, false)), settings);
  }

  /**
   * The k nearest rows of each query, `[queries, dim]`.
   *
   * @throws NearfieldError `Argument` for k = 0 or another length, `NotFinite` and `NormOutOfRange` with the query, `Budget`, `DeviceLost`.
   */
  async search(queries: VectorData, options: SearchOptions = {}): Promise<SearchResult> {
    return this.found(queries, {}, options);
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
