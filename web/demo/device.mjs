// What the page knows of its device, and the proof that answers are right.

import { truth } from './collection.mjs';

const number = (value) => value.toLocaleString('en');

function size(bytes) {
  const isLarge = bytes >= 2 ** 30;
  return `${number(Math.round((bytes / (isLarge ? 2 ** 30 : 2 ** 20)) * 10) / 10)} ${isLarge ? 'GiB' : 'MiB'}`;
}

/** The device in words, as pairs of a term and its value. */
export function facts(device, collection) {
  const { gpu, limits, features } = device;
  const pairs = [['Device', device.isHost ? 'host engine: WebAssembly on the processor, on one thread' : device.name]];
  if (gpu) {
    pairs.push(['Vendor', gpu.vendor || 'the browser does not tell']);
    pairs.push(['Architecture', gpu.architecture || 'the browser does not tell']);
  }
  pairs.push(['Kind', device.kind], ['Taken', device.reason]);
  pairs.push(['WebGPU', 'gpu' in navigator ? 'this browser has it' : 'this browser has none here (it needs https or localhost)']);
  if (gpu) {
    const { f16, subgroups, timestamps } = features;
    const has = [f16 && '16-bit floats', subgroups && `subgroups of ${subgroups.join(' to ')}`, timestamps && 'timestamps'].filter(Boolean);
    pairs.push(['Features', has.join(', ') || 'none of 16-bit floats, subgroups, timestamps']);
    pairs.push(['Limits', `buffers of ${size(limits.bufferBytes)}, bindings of ${size(limits.bindingBytes)}, ` +
      `${limits.storageBuffers} storage buffers, ${limits.workgroupSize} invocations and ${number(limits.workgroupBytes)} bytes a workgroup`]);
  }
  pairs.push(['Lives in', device.isInWorker ? 'a worker: searches do not block the page' : 'the page']);
  if (collection) pairs.push(['Memory', collection.memory]);
  return pairs;
}

export function showFacts(place, device, collection) {
  const list = document.createElement('dl');
  for (const [term, value] of facts(device, collection)) {
    const [dt, dd] = [document.createElement('dt'), document.createElement('dd')];
    [dt.textContent, dd.textContent] = [term, value];
    list.append(dt, dd);
  }
  place.replaceChildren(list);
}

/** Searches that answer in different places: single queries may be answered by the host engine on a device with a GPU. */
const BATCHES = [1, 1, 1, 1, 64, 132];

/** Searches for the shipped queries and compares each neighbour with the truth, found in f64. What was seen, in words. */
export async function verify(collection) {
  const known = await truth();
  const places = { 'the GPU': { queries: 0, wrong: 0 }, 'the host engine': { queries: 0, wrong: 0 } };
  let first = 0;
  for (const batch of BATCHES) {
    const queries = known.queries.subarray(first * known.dim, (first + batch) * known.dim);
    const { found, onHost } = await collection.search(queries, known.k);
    const place = places[onHost ? 'the host engine' : 'the GPU'];
    place.queries += batch;
    // Equal distances are ordered by id in both, so the places are the same, too.
    for (let at = 0; at < batch * known.k; at++) place.wrong += found.ids[at] === known.ids[first * known.k + at] ? 0 : 1;
    first += batch;
  }
  const seen = Object.entries(places).filter(([, { queries }]) => queries > 0);
  const isRight = seen.every(([, { wrong }]) => wrong === 0);
  const words = seen.map(([place, { queries, wrong }]) => {
    const of = `the ${known.k} nearest of ${queries} queries by cosine`;
    return wrong === 0 ? `${of} on ${place}: all right` : `${of} on ${place}: ${wrong} of ${queries * known.k} wrong`;
  });
  return { isRight, words: `${words.join('; ')}. The truth was found in 64-bit floats beforehand.` };
}
