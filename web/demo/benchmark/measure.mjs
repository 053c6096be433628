// Measures searches in up to three ways, and holds their answers against each other.

import { Device, Flat } from '../../dist/index.js';

export const WAYS = { gpu: 'GPU', host: 'host engine', javascript: 'plain JavaScript' };
export const SEED = 1;
/** A way that takes longer than this has fewer runs. */
const MOST_MILLISECONDS = 20_000;
/** Queries whose true neighbours are found apart, in f64, by sorting all distances. */
export const CHECKED = 4;

/** The worker of plain JavaScript. */
class Loop {
  #worker = new Worker(new URL('./loop.mjs', import.meta.url), { type: 'module', name: 'loop' });
  #waiting = new Map();
  #last = 0;

  constructor() {
    this.#worker.addEventListener('message', ({ data }) => {
      const { resolve, reject } = this.#waiting.get(data.number);
      this.#waiting.delete(data.number);
      if (data.error === undefined) resolve(data);
      else reject(new Error(data.error));
    });
    this.#worker.addEventListener('error', (event) => {
      this.#waiting.forEach(({ reject }) => reject(new Error(`the worker of the loop failed: ${event.message}`)));
    });
  }

  call(call, settings) {
    const number = ++this.#last;
    return new Promise((resolve, reject) => {
      this.#waiting.set(number, { resolve, reject });
      this.#worker.postMessage({ number, call, settings });
    });
  }

  close() {
    this.#worker.terminate();
  }
}

const median = (sorted) => (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;

/** Rejects when the signal is aborted, however long the work itself goes on. */
function unless(signal, work) {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    work.finally(() => signal.removeEventListener('abort', abort)).then(resolve, reject);
  });
}

/**
 * Measures a search in each of `ways`: the median of its runs. `onProgress` hears the share that is done, and what is being done. A cancelled
 * measurement ends at once, because its workers do.
 */
export async function measure(settings, ways, { signal, onProgress }) {
  const { runs, metric, k, queries } = settings;
  const loop = new Loop();
  const devices = [];
  const steps = 2 + ways.length * (runs + 1);
  let done = 0;
  const step = (text) => onProgress(done++ / steps, text);
  try {
    step('Vectors are being made');
    const { result: vectors } = await unless(signal, loop.call('make', { ...settings, seed: SEED }));
    const cases = [];
    for (const way of ways) {
      step(`${WAYS[way]}: the index is being built`);
      const ready = way === 'javascript' ? prepareLoop(loop, settings) : prepareIndex(way, settings, vectors, devices);
      const { run, ...about } = await unless(signal, ready);
      if (!run) {
        done += runs;
        cases.push({ way, ...about });
        continue;
      }
      const times = [];
      let found;
      for (let spent = 0; times.length < runs && (times.length === 0 || spent < MOST_MILLISECONDS); ) {
        step(`${WAYS[way]}: run ${times.length + 1} of ${runs}`);
        const one = await unless(signal, run(signal));
        times.push(one.milliseconds);
        spent += one.milliseconds;
        found = one.found;
      }
      done += runs - times.length;
      times.sort((a, b) => a - b);
      cases.push({ way, ...about, found, runs: times.length, ms: median(times), least: times[0], most: times.at(-1) });
    }
    step('Answers are being compared');
    const timed = cases.filter(({ found }) => found);
    const checked = Math.min(queries, CHECKED);
    const { result: truth } = await unless(signal, loop.call('truth', { metric, k, queries: checked }));
    for (const one of timed) {
      // The first way is held against the second, and all others against the first.
      const other = timed.find((other) => other !== one)?.found;
      const sums = { wrong: 0, swapped: 0, compared: 0, queries: other ? queries : checked };
      for (const reference of [truth, other && { ...other, k: other.ids.length / queries }].filter(Boolean)) {
        const { result } = await unless(signal, loop.call('compare', { metric, reference, found: one.found }));
        for (const key of ['wrong', 'swapped', 'compared']) sums[key] += result[key];
      }
      one.agreement = sums;
    }
    for (const one of timed) delete one.found;
    onProgress(1, '');
    return { settings, cases };
  } finally {
    loop.close();
    devices.forEach((device) => device.close());
  }
}

async function prepareLoop(loop, { metric, k, queries }) {
  const { milliseconds } = await loop.call('prepare', { metric });
  const run = async () => {
    const { result, milliseconds } = await loop.call('search', { metric, k, queries });
    return { found: result, milliseconds };
  };
  return { run, ready: milliseconds, device: { adapter: 'plain JavaScript', backend: 'javascript', kind: 'host' } };
}

async function prepareIndex(way, { dim, rows, metric, k, queries }, vectors, devices) {
  const before = performance.now();
  const device = await Device.open({ prefer: way });
  devices.push(device);
  if (way === 'gpu' && device.isHost) return { notRun: device.reason };
  // With a copy on the host, small searches would not run on the GPU.
  const index = await Flat.create(device, { dim, metric, capacity: rows, hostCopy: false });
  await index.add(vectors.rows);
  await index.warmUp({ queries, k });
  const run = async (signal) => {
    const before = performance.now();
    const found = await index.search(vectors.queries, { k, signal });
    const milliseconds = performance.now() - before;
    if (found.statistics.onHost) throw new Error(`${WAYS[way]}: the search ran elsewhere`);
    return { found, milliseconds };
  };
  const { name: adapter, backend, kind } = device;
  return { run, ready: performance.now() - before, plan: await index.plan(queries, k), device: { adapter, backend, kind } };
}
