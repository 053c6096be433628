// The benchmark's form and its outcome.

import { lines } from './lines.mjs';
import { measure, WAYS } from './measure.mjs';

/** Rows and queries of 32-bit floats that fit a tab, beside their copies in an index. */
const MOST_BYTES = 512 * 2 ** 20;

const milliseconds = (ms) => `${ms >= 100 ? Math.round(ms).toLocaleString('en') : ms.toPrecision(3)} ms`;

export class Benchmark {
  #form;
  #doing;
  #outcome;
  #controller;

  constructor(part, device) {
    [this.#form, this.#doing, this.#outcome] = ['form', '#doing', '#outcome'].map((name) => part.querySelector(name));
    const { elements } = this.#form;
    // A software adapter takes its time; whoever wants to see that can tick it.
    elements.gpu.checked = !device.isHost;
    elements.gpu.disabled = !('gpu' in navigator);
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#run(elements);
    });
    elements.cancel.addEventListener('click', () => this.#controller.abort(new Error('Cancelled. Nothing was kept.')));
  }

  async #run(elements) {
    const settings = {};
    for (const name of ['rows', 'dim', 'queries', 'k', 'runs']) settings[name] = elements[name].valueAsNumber;
    const ways = Object.keys(WAYS).filter((way) => elements[way].checked);
    const bytes = 4 * settings.dim * (settings.rows + settings.queries);
    if (bytes > MOST_BYTES) {
      return this.#say(`These vectors take ${Math.round(bytes / 2 ** 20)} MiB; this page measures up to ${MOST_BYTES / 2 ** 20} MiB.`);
    }
    this.#controller = new AbortController();
    const busy = (isBusy) => {
      elements.cancel.disabled = !isBusy;
      this.#form.querySelector('[type=submit]').disabled = isBusy;
    };
    busy(true);
    this.#outcome.replaceChildren();
    try {
      this.#show(await measure(settings, ways, { signal: this.#controller.signal, onProgress: (text) => this.#say(text) }));
    } catch (error) {
      this.#say(error.message);
    } finally {
      busy(false);
    }
  }

  #say(text) {
    this.#doing.textContent = text;
  }

  /** All figures of the ways, whether their answers are right, and a link that saves them. */
  #show(measured) {
    const { settings: { queries }, cases } = measured;
    const table = document.createElement('table');
    const row = (texts) => {
      const line = table.insertRow();
      for (const text of texts) line.insertCell().textContent = text;
    };
    row(['', 'median', 'least to most', 'runs', 'queries a second', 'times JavaScript', 'answers']);
    const slow = cases.find(({ way }) => way === 'javascript')?.ms;
    for (const { way, ms, least, most, runs, notRun, wrong, checked } of cases) {
      if (notRun) row([WAYS[way], `not measured: ${notRun}`]);
      else {
        row([
          WAYS[way], milliseconds(ms), `${milliseconds(least)} to ${milliseconds(most)}`, runs,
          Math.round((queries / ms) * 1000).toLocaleString('en'), slow ? `${(slow / ms).toPrecision(3)} ×` : '',
          wrong === 0 ? `right for ${checked} queries` : `${wrong} places are wrong`,
        ]);
        table.rows[table.rows.length - 1].className = wrong === 0 ? 'good' : 'bad';
      }
    }
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([lines(measured)], { type: 'application/jsonl' }));
    link.download = 'nearfield-browser.jsonl';
    link.textContent = 'Save as JSON lines';
    this.#outcome.replaceChildren(table, link);
    const isSoftware = cases.some(({ way, device }) => way === 'gpu' && device?.kind === 'software');
    if (isSoftware) this.#outcome.append(' The GPU here is a software adapter: the processor plays it, so its time says nothing of a real GPU.');
  }
}
