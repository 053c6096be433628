// A collection: vectors, what their rows are called, and the index that finds their neighbours.

import { DeviceLostError, Flat } from '../dist/index.js';
import { npz, vectorsOf } from './npy.mjs';

const DATA = new URL('./data/', import.meta.url);

async function fetched(name) {
  const answer = await fetch(new URL(name, DATA));
  if (!answer.ok) throw new Error(`${name}: the server answered ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}

const lines = async (name) => new TextDecoder().decode(await fetched(name)).trimEnd().split('\n');

/** The shipped descriptions of Debian packages, with their vectors. */
export async function packages() {
  const [bytes, names, descriptions] = await Promise.all([fetched('base.f16.npy'), lines('names.txt'), lines('descriptions.txt')]);
  return { title: 'Debian packages', names, descriptions, ...(await vectorsOf(bytes, 'base.f16.npy')) };
}

/** Queries beside the shipped packages, and their true neighbours by cosine, which were found in f64. */
export async function truth() {
  const file = 'groundtruth-normalised-cosine.npz';
  const [query, archive] = await Promise.all([fetched('query.f16.npy'), fetched(file)]);
  const { vectors, dim, rows } = await vectorsOf(query, 'query.f16.npy');
  const { ids } = await npz(archive, file);
  return { queries: vectors, dim, count: rows, ids: ids.values, k: ids.shape[1] };
}

/** Vectors of the visitor's own, which have row numbers and no names. */
export const own = (file, read) => ({ title: file.name, ...read });

export class Collection {
  #index;
  #recovering;
  #onRecovered;

  constructor(content, device, index, onRecovered) {
    Object.assign(this, content);
    this.device = device;
    this.#index = index;
    this.#onRecovered = onRecovered;
  }

  /** Puts the vectors into an index; `onRecovered` hears when a lost GPU was opened again. */
  static async create(device, content, { metric = 'cosine', onProgress, onRecovered } = {}) {
    const index = await Flat.create(device, { dim: content.dim, metric, capacity: content.rows });
    const collection = new Collection(content, device, index, onRecovered);
    try {
      await collection.held(() => index.add(content.vectors, { onProgress }));
    } catch (error) {
      await index.free().catch(() => undefined);
      throw error;
    }
    return collection;
  }

  get metric() {
    return this.#index.metric;
  }

  get memory() {
    return this.#index.memory;
  }

  name(row) {
    return this.names?.[row] ?? `row ${row}`;
  }

  description(row) {
    return this.descriptions?.[row] ?? '';
  }

  vector(row) {
    return this.vectors.subarray(row * this.dim, (row + 1) * this.dim);
  }

  /** The rows nearest to a row, apart from itself, with how long the search took and where it ran. */
  async neighbours(row, k, signal) {
    const { found, onHost, milliseconds } = await this.search(this.vector(row), k + 1, signal);
    const all = Array.from(found.ids, (id, at) => ({ row: id, distance: found.distances[at] }));
    const others = all.filter((one) => one.row !== row).slice(0, k);
    return { neighbours: others, milliseconds, onHost };
  }

  async search(queries, k, signal) {
    return this.held(async () => {
      const before = performance.now();
      const found = await this.#index.search(queries, { k, signal });
      const onHost = this.device.isHost || found.statistics.onHost;
      return { found, onHost, milliseconds: performance.now() - before };
    });
  }

  /** Compiles the kernels of a search. */
  async warmUp(queries, k) {
    await this.held(() => this.#index.warmUp({ queries, k }));
  }

  async free() {
    await this.#index.free();
  }

  /** Runs work, and once more if the GPU was lost meanwhile and came back. */
  async held(work) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DeviceLostError)) throw error;
      // Searches that failed together wait for one recovery.
      this.#recovering ??= this.#recover(error).finally(() => (this.#recovering = undefined));
      await this.#recovering;
      return work();
    }
  }

  async #recover(error) {
    const before = performance.now();
    await this.#index.recover();
    this.#onRecovered?.(error, performance.now() - before);
  }
}
