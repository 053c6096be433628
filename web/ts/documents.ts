import { BaseIndex, loaded, made } from './base.js';
import type { Device } from './device.js';
import { argument } from './errors.js';
import { CALL, check, heard, MAXSIM, STORE } from './options.js';
import { type TokenData, type Tokens, tokensOf, type TokenWeights, weightsOf } from './tokens.js';
import type { AddOptions, Dtype, Ranking, SearchOptions, SignalOptions, StoreOptions } from './types.js';
import { allowOf, type Ids, idsOf } from './values.js';

/** Options of a new index of documents. On a GPU searches do not run on the host's copy: `recover` and saving read it. */
export interface MultiVectorOptions extends StoreOptions {
  /** Elements of a token. */
  dim: number;
  /** How tokens are stored, as {@link IndexOptions.dtype} says. Default: `float32`. */
  dtype?: Exclude<Dtype, 'ubinary'>;
}

export interface MaxSimOptions extends SearchOptions {
  /** Weights of the queries' tokens, from 0 to 1,000,000. Default: 1 each. */
  weights?: TokenWeights;
  /** Whether weights are divided by their sum, query by query: scores of queries of different lengths can then be compared. */
  mean?: boolean;
}

const DTYPES = ['float32', 'float16', 'int8', 'uint8'];

/**
 * Exact search for documents of several token vectors each, as models of late interaction make them (ColBERT, ColPali). The score of a document
 * is its MaxSim: the sum, over the tokens of a query, of the largest inner product with a token of the document. Larger is nearer.
 *
 * ```ts
 * const index = await MultiVector.create(device, { dim: 128 });
 * await index.add(documents); // a list of Float32Arrays, [tokens, dim] each
 * const { ids, scores } = await index.search([query], { k: 10 });
 * ```
 */
export class MultiVector extends BaseIndex {
  /**
   * An empty index.
   *
   * @throws NearfieldError `Argument` for a dim of 0 or above 2^20 or an unknown type; `Unsupported` where 128 tokens do not fit one binding.
   */
  static async create(device: Device, options: MultiVectorOptions): Promise<MultiVector> {
    const { dtype = 'float32' } = check(options, [...STORE, 'dim', 'dtype']);
    if (!DTYPES.includes(dtype)) throw argument('dtype', DTYPES.join(', '), dtype);
    return new MultiVector(device, await made(device, (...given) => device.engine.call('documents', given), options, 'multivector'));
  }

  /** The index of a file's bytes: those of {@link toBytes}, or of a file that any other binding of nearfield saved. */
  static async fromBytes(device: Device, bytes: Uint8Array, options: StoreOptions = {}): Promise<MultiVector> {
    return new MultiVector(device, await loaded(device, { bytes }, options, 'multivector'));
  }

  /** The index that {@link save} left among the page's own files. */
  static async load(device: Device, path: string, options: StoreOptions = {}): Promise<MultiVector> {
    return new MultiVector(device, await loaded(device, { path }, options, 'multivector'));
  }

  /** How many tokens all documents have. */
  get tokens(): number {
    return this.about.tokens;
  }

  /**
   * Adds documents. Many go in pieces; if one of them fails, those before it are removed again, but their insertion numbers are not given
   * twice. Arrays stay the caller's, and must not change until the call has ended. `onProgress` hears how many documents are done.
   *
   * @throws NearfieldError `Argument` for another length or number of ids, `NotFinite` and `NormOutOfRange` with the token, `DuplicateId`,
   * `OutOfMemory`, `DeviceLost`.
   */
  async add(documents: TokenData, options: AddOptions = {}): Promise<void> {
    const { signal } = check(options, [...CALL, 'ids']);
    const [values, offsets] = this.#taken('documents', documents);
    const count = offsets.length - 1;
    const ids = options.ids === undefined ? undefined : idsOf('ids', options.ids);
    if (ids && ids.length !== count) throw argument('ids', `${count} ids, one a document`, ids.length);
    const most = this.most(values);
    const endOf = (start: number) => {
      let end = start + 1;
      while (end < count && offsets[end + 1]! - offsets[start]! <= most) end++;
      return end;
    };
    await this.added(count, ids, options, endOf, (start, end, ids) => {
      const [first, last] = [offsets[start]!, offsets[end]!];
      const own = offsets.slice(start, end + 1).map((offset) => offset - first);
      return this.sent('documents', this.part('documents', values, first, last), (part, transfer) =>
        this.call('addDocuments', [this.handle, part, own, ids, first], { signal, transfer }),
      );
    });
  }

  /** Replaces the documents with these ids by others, of any numbers of tokens. */
  async update(ids: Ids, documents: TokenData, options: SignalOptions = {}): Promise<void> {
    const { signal } = check(options, ['signal']);
    const [values, offsets] = this.#taken('documents', documents);
    const numbers = idsOf('ids', ids);
    await this.change(signal, () =>
      this.sent('documents', values, (part, transfer) =>
        this.call('updateDocuments', [this.handle, numbers, part, offsets], { signal, transfer }),
      ),
    );
  }

  /**
   * The k documents of largest MaxSim for each query, among all or among those allowed: with the ids that another search has found, `allow`
   * puts these in order. On the processor `signal` ends a search between some 400 tokens of queries.
   *
   * @throws NearfieldError `Argument` for k = 0, another length or wrong weights, `NotFinite` and `NormOutOfRange` with the token, `Budget`,
   * `DeviceLost`.
   */
  async search(queries: TokenData, options: MaxSimOptions = {}): Promise<Ranking> {
    const { signal, k = 10, mean = false, profile = false } = check(options, MAXSIM);
    const onProgress = heard(options.onProgress);
    const [values, offsets] = this.#taken('queries', queries);
    const weights = weightsOf(options.weights, offsets);
    const allow = allowOf(options.allow);
    const json = JSON.stringify({ k, mean, profile });
    return this.queue(signal, () => this.call('searchDocuments', [this.handle, values, offsets, json, weights, allow], { signal, onProgress }));
  }

  /** The tokens of the document with this id, `[tokens, dim]`. */
  async get(id: number | bigint): Promise<Float32Array<ArrayBuffer>> {
    const [number = 0] = idsOf('id', [id]);
    return this.queue(undefined, () => this.call('getDocument', [this.handle, number]));
  }

  #taken(name: string, given: TokenData): Tokens {
    return tokensOf(name, given, this.dim, this.device.gpuDevice !== undefined);
  }
}
