/**
 * Exact nearest neighbours in the browser, on the visitor's own GPU.
 *
 * @packageDocumentation
 */
export type {
  AddOptions,
  CallOptions,
  GpuInfo,
  IndexOptions,
  KnnGraph,
  Metric,
  Pairs,
  Ranking,
  RankingStatistics,
  SearchOptions,
  SearchResult,
  SignalOptions,
  StageTime,
  Statistics,
  StoreOptions,
  WarmUpOptions,
  WithinOptions,
} from './types.js';
export { Device, type DeviceOptions, type Features, type Limits } from './device.js';
export { type MaxSimOptions, MultiVector, type MultiVectorOptions } from './documents.js';
export { DeviceLostError, type ErrorCode, NearfieldError } from './errors.js';
export { Flat } from './flat.js';
export { Ivf, type IvfOptions, type ListSearchOptions } from './ivf.js';
export type { TokenData, TokenWeights } from './tokens.js';
export type { Allowed, BufferData, Ids, VectorData } from './values.js';

/** The version of the package. */
export const version = '0.1.0';
