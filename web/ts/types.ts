// The types of options and answers. They need no other file's but those of arguments, so that a caller's TypeScript reads no internals.

import type { Allowed, Ids } from './values.js';

/** A class that the caller's TypeScript may lack, by its name: WebGPU and `Float16Array` are in newer libraries only. */
export type Instance<Name extends string, Otherwise> = typeof globalThis extends Record<Name, { prototype: infer T }> ? T : Otherwise;

/** How distances are measured: the squared or plain Euclidean distance, one minus the cosine, or the negative inner product; of bits
 * how many differ, or their part of those that either vector has. */
export type Metric = 'l2sq' | 'l2' | 'cosine' | 'ip' | 'hamming' | 'jaccard';

/** How rows are stored. */
export type Dtype = 'float32' | 'float16' | 'int8' | 'uint8' | 'ubinary';

/** Options that all kinds of index take. */
export interface StoreOptions {
  /**
   * Whether a second copy of the rows is kept in the memory of WebAssembly. The smallest searches run on it, because they are over before a
   * GPU has answered, and {@link Flat.recover} and saving read it when the GPU is lost. Default: true.
   */
  hostCopy?: boolean;
  /** The number of rows, or of tokens, that are expected, so that their memory is taken at once. More can be added all the same. */
  capacity?: number;
}

/** Options of a new index. */
export interface IndexOptions extends StoreOptions {
  /** Elements of a vector. */
  dim: number;
  /** Default: `cosine`. */
  metric?: Metric;
  /**
   * How rows are stored. `float16` takes half the memory, and `Float16Array`s and integers only. `int8` and `uint8` take a quarter, and
   * `Int8Array`s or `Uint8Array`s only; `l2sq` and `ip` between integers are exact, rounded once. `ubinary` are bytes of eight bits,
   * in `Uint8Array`s, whose `dim` counts bytes: the metrics `hamming` and `jaccard` have them. Default: `float32`, and for these metrics `ubinary`.
   */
  dtype?: Dtype;
  /** Whether rows are screened by a copy in 8-bit integers. Answers are the same, bit for bit. Default: `auto`. */
  quantization?: 'auto' | 'none' | 'int8';
}

/** What calls take that may end early. */
export interface SignalOptions {
  /**
   * Ends the call between two pieces of work; it then rejects with the signal's reason and has changed nothing. On the processor a
   * search of 24 queries or more has pieces of some 30 ms; one of fewer and a training are one piece: nothing interrupts WebAssembly.
   */
  signal?: AbortSignal | null | undefined;
}

/** What every long call takes. */
export interface CallOptions extends SignalOptions {
  /** Hears how many rows, documents or queries are done. What it throws is an uncaught error, and the call goes on. */
  onProgress?: (done: number) => void;
}

export interface AddOptions extends CallOptions {
  /** The ids of the rows, or documents, one each. Default: the numbers of their insertion. */
  ids?: Ids;
}

export interface WithinOptions extends CallOptions {
  /** Only these rows, or documents, may be found; default: all. */
  allow?: Allowed;
}

export interface SearchOptions extends WithinOptions {
  /** Neighbours of each query. Default: 10. */
  k?: number;
  /** Times the stages on the GPU, where it has timestamps. */
  profile?: boolean;
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

/** How an answer came about. */
export interface Statistics {
  /** Rows with a computed score or distance, summed over all queries. */
  scored: number;
  /** Rows that screens could not exclude, whose distances were computed as they are reported. */
  refined: number;
  /** Whether the host's copy answered for a GPU; false where the device is the host engine itself. */
  onHost: boolean;
  /** The time of each stage on the GPU, if `profile` asked for it. */
  stages: StageTime[];
}

/** The time of a stage on the GPU. */
export interface StageTime {
  stage: string;
  milliseconds: number;
  passes: number;
}

/**
 * The neighbours of all queries. Those of query `q` are at `offsets[q]` up to `offsets[q + 1]`, nearest first, ties by the smaller id.
 */
export interface SearchResult {
  ids: Float64Array<ArrayBuffer>;
  distances: Float32Array<ArrayBuffer>;
  offsets: Uint32Array<ArrayBuffer>;
  statistics: Statistics;
}

/**
 * The neighbours of every row of an index among its other rows. Those of `rows[r]` are at `offsets[r]` up to `offsets[r + 1]`, nearest first,
 * ties by the smaller id.
 */
export interface KnnGraph {
  /** The ids of the rows, ascending. */
  rows: Float64Array<ArrayBuffer>;
  ids: Float64Array<ArrayBuffer>;
  distances: Float32Array<ArrayBuffer>;
  offsets: Uint32Array<ArrayBuffer>;
}

/** Pairs of rows, each once: `a[i]` is below `b[i]`, and pairs are in the order of both. */
export interface Pairs {
  a: Float64Array<ArrayBuffer>;
  b: Float64Array<ArrayBuffer>;
  distances: Float32Array<ArrayBuffer>;
}

/**
 * The documents that a search found. Those of query `q` are at `offsets[q]` up to `offsets[q + 1]`, larger scores first, ties by the smaller id.
 */
export interface Ranking {
  ids: Float64Array<ArrayBuffer>;
  /** The MaxSim of each: larger is nearer. */
  scores: Float32Array<ArrayBuffer>;
  offsets: Uint32Array<ArrayBuffer>;
  statistics: RankingStatistics;
}

/** How a ranking came about. */
export interface RankingStatistics {
  /** Documents whose scores were bounded, summed over all queries. */
  bounded: number;
  /** Documents that bounds could not exclude, whose scores were computed as they are reported. */
  computed: number;
  /** The time of each stage on the GPU, if `profile` asked for it. */
  stages: StageTime[];
}

/** Which GPU a browser says it is. */
export interface GpuInfo {
  vendor: string;
  architecture: string;
  device: string;
  description: string;
}
