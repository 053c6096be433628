// The page: opens the device, finds the neighbours of a package and draws them. `?prefer=gpu` or `host` chooses the device, as `Device.open`
// takes it.

import { Device, DeviceLostError, Flat } from '../dist/index.js';
import { Benchmark } from './benchmark/benchmark.mjs';
import { FAMILY_NAMES, familyOf } from './families.mjs';
import { Map2D } from './map.mjs';
import { vectorsOf } from './npy.mjs';
import { project } from './projection.mjs';

/** Its neighbours come from many languages, and so from many parts of the map. */
const FIRST = 'cantata';
const by = (id) => document.getElementById(id);
const number = (value) => value.toLocaleString('en');

let device;
let index;
let vectors;
let names;
let descriptions;
let families;
let map;
let chosen;
let neighbours = [];

async function fetched(name) {
  const answer = await fetch(new URL(`data/${name}`, import.meta.url));
  if (!answer.ok) throw new Error(`${name}: the server answered ${answer.status}`);
  return new Uint8Array(await answer.arrayBuffer());
}

const lines = async (name) => new TextDecoder().decode(await fetched(name)).trimEnd().split('\n');

/** Tells the visitor, beside what was told since they last asked for something: none takes another's place. */
function say(text, kind = '') {
  by('notice').append(made('span', `${text} `));
  if (kind) by('notice').className = kind;
}

/** An element with a text. */
function made(name, text, more = {}) {
  return Object.assign(document.createElement(name), { textContent: text, ...more });
}

/** What the visitor asked for last. */
let last = Promise.resolve();

/** Does what the visitor asks for after all that was asked before, and once more if the GPU was lost meanwhile and came back. */
function act(work) {
  by('notice').replaceChildren();
  by('notice').className = '';
  last = last.then(work).catch(async (error) => {
    if (!index || !(error instanceof DeviceLostError)) throw error;
    await index.recover();
    say(`The GPU was lost (${error.message}). It was opened again, and the index came back from its host copy.`);
    await work();
  }).catch((error) => say(error.message, 'bad'));
}

/** Waits until nothing is done for the visitor: a search would wait for the map's work on the page's one thread, and its time show that. */
async function idle() {
  for (let seen; seen !== last; ) await (seen = last);
}

/** Puts the vectors into an index of the chosen metric. */
async function build() {
  const { rows, dim } = vectors;
  const next = await Flat.create(device, { dim, metric: by('metric').value, capacity: rows });
  await next.add(vectors.vectors);
  // Kernels are compiled before a search is timed.
  await next.warmUp({ queries: 1 });
  await index?.free();
  index = next;
  const facts = { Device: device.describe(), Memory: index.memory };
  if (!device.isHost) {
    const { f16, subgroups, timestamps } = device.features;
    const has = [f16 && '16-bit floats', subgroups && `subgroups of ${subgroups.join(' to ')}`, timestamps && 'timestamps'].filter(Boolean);
    facts.Features = has.join(', ') || 'none that kernels use';
    facts.Limits = Object.entries(device.limits).map(([name, most]) => `${name} ${number(most)}`).join(', ');
  }
  by('about').replaceChildren(...Object.entries(facts).flatMap(([term, fact]) => [made('dt', term), made('dd', fact)]));
}

/** Searches for the neighbours of a package and shows them. */
async function search(row) {
  const { dim, rows } = vectors;
  const k = Number(by('k').value);
  const before = performance.now();
  // The nearest row of all is the package itself.
  const found = await index.search(vectors.vectors.subarray(row * dim, (row + 1) * dim), { k: k + 1 });
  const milliseconds = performance.now() - before;
  chosen = row;
  by('query').value = names[row];
  history.replaceState(null, '', `#${names[row]}`);
  by('chosen').replaceChildren(made('b', names[row]), made('span', descriptions[row]));
  const onHost = found.statistics.onHost ? 'the host engine, which answers small searches before the GPU could' : 'the GPU';
  const place = device.isHost ? 'the host engine' : onHost;
  by('took').replaceChildren(`The ${k} nearest of ${number(rows)} in `, made('strong', `${milliseconds.toFixed(1)} ms`), ` on ${place}`);
  const others = Array.from(found.ids, (id, at) => ({ id, distance: found.distances[at] })).filter(({ id }) => id !== row).slice(0, k);
  by('results').replaceChildren(...others.map(({ id, distance }) => {
    const button = made('button', '', { type: 'button', onclick: () => act(() => search(id)) });
    button.style.setProperty('--family', families[id]);
    button.append(made('b', names[id]), made('data', distance.toPrecision(4), { value: distance }), made('span', descriptions[id]));
    const item = made('li', '');
    item.append(button);
    return item;
  }));
  neighbours = others.map(({ id }) => id);
  map?.light(row, neighbours);
}

async function draw() {
  await idle();
  const places = await project(vectors, idle);
  const titles = names.map((name, row) => `${name}: ${descriptions[row]}`);
  await idle();
  map = new Map2D(by('map'), { names, titles, families, places, onChoose: (row) => act(() => search(row)) });
  map.light(chosen, neighbours);
  by('legend').replaceChildren(...FAMILY_NAMES.map((name, family) => {
    const item = made('li', name);
    item.style.setProperty('--family', family);
    return item;
  }));
  by('map-words').textContent =
    `The map shows the two principal directions of the vectors. Neighbours are found in all ${vectors.dim} dimensions, ` +
    'so near on the map is not always near.';
}

/** The first package whose name is a text, begins with it, or has all its words in name and description. */
function rowOf(text) {
  const typed = text.trim().toLowerCase();
  const words = typed.split(/\s+/);
  const fits = [
    (row) => names[row] === typed,
    (row) => names[row].startsWith(typed),
    (row) => words.every((word) => `${names[row]} ${descriptions[row]}`.toLowerCase().includes(word)),
  ];
  const rows = [...names.keys()];
  return typed === '' ? undefined : fits.map((fit) => rows.find(fit)).find((row) => row !== undefined);
}

/** Searches for the package that a text names, if there is one. */
function find(text) {
  act(async () => {
    const row = rowOf(text);
    if (row === undefined) throw new Error(`There is no package with these words: ${text}`);
    await search(row);
  });
}

async function start() {
  const prefer = new URLSearchParams(location.search).get('prefer') ?? 'best';
  const data = [Device.open({ prefer }), fetched('base.f16.npy').then(vectorsOf), lines('names.txt'), lines('descriptions.txt')];
  [device, vectors, names, descriptions] = await Promise.all(data);
  families = names.map(familyOf);
  by('names').replaceChildren(...names.map((name, row) => made('option', descriptions[row], { value: name })));
  new Benchmark(by('benchmark'), device);
  by('query').addEventListener('change', () => find(by('query').value));
  by('k').addEventListener('change', () => act(() => search(chosen)));
  by('metric').addEventListener('change', () => act(async () => {
    await build();
    await search(chosen);
  }));
  by('zoom-in').addEventListener('click', () => map?.zoom());
  by('zoom-out').addEventListener('click', () => map?.zoom(1 / 1.4));
  by('zoom-all').addEventListener('click', () => map?.fit());
  by('zoom-near').addEventListener('click', () => map?.fit([chosen, ...neighbours]));
  await build();
  addEventListener('hashchange', () => find(location.hash.slice(1)));
  await search(rowOf(location.hash.slice(1)) ?? names.indexOf(FIRST));
  by('settings').disabled = false;
  await draw();
}

start().catch((error) => say(error.message, 'bad'));
