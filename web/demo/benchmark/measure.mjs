// Measures searches in up to three ways, and judges their answers.

import { Device, Flat } from '../../dist/index.js';

export const WAYS = { gpu: 'GPU', host: 'host engine', javascript: 'plain JavaScript' };
export const SEED = 1;
/** A way that takes longer than this has fewer runs. */
const MOST_MILLISECONDS = 20_000;
/** Queries whose true neighbours are known if the loop is not measured. */
const CHECKED = 4;

const median = (sorted) => (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;

/**
 * Measures a search in each of `ways`: the median of its runs. `onProgress` hears what is being done. A cancelled measurement ends at once,
 * because its workers do.
 */
export async function measure(settings, ways, { signal, onProgress }) {
  const worker = new Worker(new URL('./loop.mjs', import.meta.url), { type: 'module', name: 'loop' });
  const devices = [];
  const cancelled = new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  // A measurement that was cancelled tells no more, and opens no more devices.
  const tell = (text) => {
    signal.throwIfAborted();
    onProgress(text);
  };
  // The worker does one thing at a time.
  const ask = (call, settings) =>
    new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message }) => reject(new Error(`plain JavaScript: ${message}`));
      worker.postMessage({ call, settings });
    });
  try {
    return await Promise.race([cancelled, measureAll(settings, ways, { ask, devices, tell })]);
  } finally {
    worker.terminate();
    for (const device of devices) device.then((device) => device.close(), () => undefined);
  }
}

async function measureAll(settings, ways, { ask, devices, tell }) {
  const { runs, queries, k } = settings;
  tell('Vectors are being made');
  const { result: vectors } = await ask('make', { ...settings, seed: SEED });
  const cases = [];
  for (const way of ways) {
    tell(`${WAYS[way]}: the index is being built`);
    const { run, ...about } = way === 'javascript' ? loop(ask, settings) : await indexed(way, settings, vectors, devices);
    const times = [];
    let found;
    for (let spent = 0; run && times.length < runs && spent < MOST_MILLISECONDS; spent += times.at(-1)) {
      tell(`${WAYS[way]}: run ${times.length + 1} of ${runs}`);
      const one = await run();
      times.push(one.milliseconds);
      found = one.found;
    }
    times.sort((a, b) => a - b);
    cases.push({ way, ...about, found, runs: times.length, ms: median(times), least: times[0], most: times.at(-1) });
  }
  tell('Answers are being compared');
  const looped = cases.find(({ way }) => way === 'javascript');
  const checked = looped ? queries : Math.min(queries, CHECKED);
  const truth = looped?.found ?? (await ask('search', { queries: checked, k })).result;
  for (const one of cases.filter(({ found }) => found)) {
    one.checked = checked;
    one.wrong = (await ask('judge', { found: one.found, truth })).result;
    delete one.found;
  }
  tell('');
  return { settings, cases };
}

function loop(ask, { k, queries }) {
  const run = async () => {
    const { result, milliseconds } = await ask('search', { k, queries });
    return { found: result, milliseconds };
  };
  return { run, plan: 'a loop over all rows', device: { adapter: 'plain JavaScript', backend: 'javascript', kind: 'host' } };
}

async function indexed(way, { dim, rows, k, queries }, vectors, devices) {
  devices.push(Device.open({ prefer: way }));
  const device = await devices.at(-1);
  if (way === 'gpu' && device.isHost) return { notRun: device.reason };
  // With a copy on the host, small searches would not run on the GPU.
  const index = await Flat.create(device, { dim, capacity: rows, hostCopy: false });
  await index.add(vectors.rows);
  await index.warmUp({ queries, k });
  const run = async () => {
    const before = performance.now();
    const found = await index.search(vectors.queries, { k });
    return { found, milliseconds: performance.now() - before };
  };
  const { name: adapter, backend, kind } = device;
  return { run, plan: await index.plan(queries, k), device: { adapter, backend, kind } };
}
