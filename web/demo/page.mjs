// The page: opens the device, shows a collection, and joins its parts. `?prefer=gpu` or `host` chooses the device, as `Device.open` takes it.

import { Device } from '../dist/index.js';
import { Benchmark } from './benchmark/benchmark.mjs';
import { Collection, own, packages } from './collection.mjs';
import { showFacts, verify } from './device.mjs';
import { FAMILY_NAMES, familiesOf } from './families.mjs';
import { Map2D } from './map.mjs';
import { bytesOf, vectorsOf } from './npy.mjs';
import { files } from './own.mjs';
import { project } from './projection.mjs';
import { Field, Results } from './search.mjs';
import { Tabs } from './tabs.mjs';

/** Its neighbours come from many languages, and so from many parts of the map. */
const FIRST = 'cantata';
const by = (id) => document.getElementById(id);
const number = (value) => value.toLocaleString('en');
const duration = (ms) => `${ms < 10 ? ms.toFixed(1) : number(Math.round(ms))} ms`;
const place = (onHost) => (onHost ? 'the host engine' : 'the GPU');

let device;
let collection;
let families;
let chosen;
let lit = [];
/** Ends the work on a collection when another takes its place. */
let opened = new AbortController();
/** Counts the collections that were asked for: the last one is shown. */
let asked = 0;
/** The vectors on the map. */
let mapped;
/** Ends a search when the next one begins. */
let searching = new AbortController();

const map = new Map2D(by('map'), by('tip'), { onChoose: choose });
const field = new Field(by('query'), by('options'), { onChoose: choose });
const results = new Results(by('results'), { choose, hover: (row) => map.hover(row) });
new Tabs(document.querySelector('[role=tablist]'));

/** Tells the visitor something: `bad` news, or what is `passing` and goes when it is done. */
function say(text, kind = '') {
  by('notice').textContent = text;
  by('notice').className = kind;
}

function done() {
  if (by('notice').className === 'passing') say('');
}

/** Tells what went wrong, unless the visitor went on to something else. */
function fail(error) {
  if (error?.name !== 'AbortError') say(error?.message ?? String(error), 'bad');
}

function recovered(error, milliseconds) {
  say(`The GPU was lost (${error.message}). It was opened again and the index came back from its host copy in ${duration(milliseconds)}.`);
  showFacts(by('about'), device, collection);
}

/** Makes a row the query. */
function choose(row) {
  search(row).catch(fail);
}

/** Searches first and changes the page afterwards: an answer would wait for the page to be painted, and that time is not the search's. */
async function search(row) {
  searching.abort();
  searching = new AbortController();
  const { signal } = searching;
  const searched = collection;
  const answer = await searched.neighbours(row, Number(by('k').value), signal);
  // An answer that comes after the next question is not shown.
  if (signal.aborted || searched !== collection) return;
  chosen = row;
  field.set(row);
  history.replaceState(null, '', `#${collection.names ? encodeURIComponent(collection.name(row)) : row}`);
  const [name, text] = by('chosen').children;
  [name.textContent, text.textContent] = [collection.name(row), collection.description(row)];
  by('chosen').hidden = false;
  const strong = document.createElement('strong');
  strong.textContent = duration(answer.milliseconds);
  const why = answer.onHost && !device.isHost ? ', which answers small searches before the GPU could' : '';
  by('took').replaceChildren(`The ${answer.neighbours.length} nearest of ${number(collection.rows)} in `, strong, ` on ${place(answer.onHost)}${why}`);
  results.show(collection, families, answer);
  lit = answer.neighbours;
  map.light(row, lit);
}

/** Shows a collection: its index, then its map, then the proof that its answers are right. */
async function show(content, first) {
  const turn = ++asked;
  say('', 'passing');
  const metric = by('metric').value;
  const make = () => Collection.create(device, content, {
    metric,
    onRecovered: recovered,
    onProgress: (done) => done < content.rows && say(`${number(done)} of ${number(content.rows)} vectors are in the index…`, 'passing'),
  });
  // A lost GPU comes back with the index that it had.
  const next = await (collection ? collection.held(make) : make());
  // Kernels are compiled before a search is timed.
  await next.warmUp(1, Number(by('k').value) + 1);
  if (turn !== asked) return next.free();
  opened.abort();
  searching.abort();
  opened = new AbortController();
  const { signal } = opened;
  void collection?.free().catch(() => undefined);
  collection = next;
  families = familiesOf(collection);
  field.show(collection);
  for (const id of ['query', 'k', 'metric']) by(id).disabled = false;
  by('query-label').textContent = collection.names ? 'Packages like' : `Rows of ${collection.title} like`;
  by('shipped').hidden = Boolean(collection.names);
  done();
  showFacts(by('about'), device, collection);
  const isNew = mapped !== content.vectors;
  if (isNew) map.clear();
  await search(first);
  if (isNew) await draw(signal);
  if (collection.names && metric === 'cosine' && !signal.aborted) await prove(signal);
}

async function draw(signal) {
  by('map-words').textContent = 'Principal directions are being found…';
  const drawn = collection;
  const found = await drawn.held(() => project(device, drawn, signal)).catch((error) => {
    by('map-words').textContent = `There is no map: ${error.message}`;
    throw error;
  });
  if (signal.aborted) return;
  mapped = drawn.vectors;
  const points = map.show(drawn, found.points);
  const used = [...new Set(families)].sort((a, b) => a - b);
  by('legend').hidden = used.length < 2;
  by('legend').replaceChildren(...used.map((family) => {
    const item = document.createElement('li');
    const dot = document.createElement('i');
    dot.style.background = `var(--family-${family})`;
    item.append(dot, FAMILY_NAMES[family]);
    return item;
  }));
  map.light(chosen, lit);
  const what = found.byColumns ? 'columns' : 'rows';
  by('map-words').textContent =
    `The map shows the two principal directions of the vectors, which hold ${(found.share * 100).toFixed(0)} % of their variance; ` +
    `neighbours are found in all ${drawn.dim} dimensions, so near on the map is not always near. ` +
    `${points < drawn.rows ? `It has ${number(points)} of ${number(drawn.rows)} points. ` : ''}` +
    `The ${number(found.side)} × ${number(found.side)} inner products of ${what} are one search of an index, ` +
    `${duration(found.searchMilliseconds)} on ${place(found.onHost)}; ${found.rounds} rounds of power iteration and ` +
    `the projection are plain JavaScript, ${duration(found.scriptMilliseconds)}.`;
}

async function prove(signal) {
  const told = by('verified');
  told.textContent = 'Searching for the shipped queries…';
  try {
    const { isRight, words } = await verify(collection);
    if (signal.aborted) return;
    told.textContent = words[0].toUpperCase() + words.slice(1);
    told.className = isRight ? 'good' : 'bad';
    if (!isRight) say(`Wrong answers: ${words}`, 'bad');
  } catch (error) {
    told.textContent = `Not verified: ${error.message}`;
    told.className = 'bad';
  }
}

/** The row that the address names. */
function addressed(content) {
  let name = location.hash.slice(1);
  try {
    name = decodeURIComponent(name);
  } catch {
    // A percent sign without digits: no name has one.
  }
  const row = content.names ? content.names.indexOf(name || FIRST) : Number(name);
  return row >= 0 && row < content.rows ? row : undefined;
}

async function openFile(file) {
  try {
    say(`Reading ${file.name}…`, 'passing');
    const content = own(file, await vectorsOf(await bytesOf(file), file.name));
    await show(content, 0);
    const { rows, dim, type } = content;
    say(`${file.name}: ${number(rows)} ${type} vectors of ${number(dim)} elements.`);
  } catch (error) {
    fail(error);
  }
}

async function start() {
  const prefer = new URLSearchParams(location.search).get('prefer') ?? 'best';
  const [shipped] = await Promise.all([packages(), Device.open({ prefer }).then((one) => (device = one))]);
  new Benchmark(by('benchmark'), device);
  showFacts(by('about'), device);
  files(by('file'), by('drop'), openFile);
  by('shipped').addEventListener('click', () => show(shipped, shipped.names.indexOf(FIRST)).catch(fail));
  by('metric').addEventListener('change', () => show(collection, chosen).catch((error) => {
    // The old index is still there.
    by('metric').value = collection.metric;
    fail(error);
  }));
  by('k').addEventListener('change', () => choose(chosen));
  by('zoom-in').addEventListener('click', () => map.zoom());
  by('zoom-out').addEventListener('click', () => map.zoom(1 / 1.4));
  by('zoom-all').addEventListener('click', () => map.fit());
  by('zoom-lit').addEventListener('click', () => map.fit(true));
  addEventListener('hashchange', () => {
    const row = collection && addressed(collection);
    if (row !== undefined && row !== chosen) choose(row);
  });
  await show(shipped, addressed(shipped) ?? shipped.names.indexOf(FIRST));
}

start().catch(fail);
