// The benchmark's form, its progress and its outcome.

import { chart, table } from './chart.mjs';
import { lines } from './lines.mjs';
import { CHECKED, measure, WAYS } from './measure.mjs';

/** Rows and queries of 32-bit floats that fit a tab, beside their copies in an index. */
const MOST_BYTES = 512 * 2 ** 20;

export class Benchmark {
  #form;
  #part;
  #controller;
  #measured;

  constructor(part, device) {
    this.#part = part;
    this.#form = part.querySelector('form');
    const { elements } = this.#form;
    // A software adapter takes its time; whoever wants to see that can tick it.
    elements.gpu.checked = !device.isHost;
    elements.gpu.disabled = !('gpu' in navigator);
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#run();
    });
    elements.cancel.addEventListener('click', () => this.#controller?.abort(new DOMException('cancelled', 'AbortError')));
    elements.save.addEventListener('click', () => this.#save());
  }

  async #run() {
    const { elements } = this.#form;
    const settings = { metric: elements.metric.value };
    for (const name of ['rows', 'dim', 'queries', 'k', 'runs']) settings[name] = elements[name].valueAsNumber;
    const ways = Object.keys(WAYS).filter((way) => elements[way].checked);
    if (ways.length === 0) return this.#say('Tick what should be measured.');
    const bytes = 4 * settings.dim * (settings.rows + settings.queries);
    if (bytes > MOST_BYTES) {
      return this.#say(`These vectors take ${Math.round(bytes / 2 ** 20)} MiB; this page measures up to ${MOST_BYTES / 2 ** 20} MiB.`);
    }
    this.#controller = new AbortController();
    this.#busy(true);
    try {
      this.#measured = await measure(settings, ways, {
        signal: this.#controller.signal,
        onProgress: (share, text) => {
          this.#progress.value = share;
          this.#say(text);
        },
      });
      this.#show();
    } catch (error) {
      this.#say(error.name === 'AbortError' ? 'Cancelled. Nothing was kept.' : error.message);
    } finally {
      this.#busy(false);
    }
  }

  get #progress() {
    return this.#part.querySelector('progress');
  }

  #say(text) {
    this.#part.querySelector('#doing').textContent = text;
  }

  #busy(isBusy) {
    const { elements } = this.#form;
    this.#progress.hidden = !isBusy;
    elements.cancel.disabled = !isBusy;
    this.#form.querySelector('[type=submit]').disabled = isBusy;
    if (isBusy) this.#measured = undefined;
    elements.save.disabled = isBusy || !this.#measured;
    if (isBusy) this.#part.querySelector('#outcome').replaceChildren();
  }

  #show() {
    const { cases, settings } = this.#measured;
    const told = document.createElement('p');
    const checked = cases.filter(({ agreement }) => agreement);
    const wrong = checked.filter(({ agreement }) => agreement.wrong > 0);
    told.className = wrong.length === 0 ? 'good' : 'bad';
    const swapped = checked.reduce((sum, { agreement }) => sum + agreement.swapped, 0);
    const several = checked.length > 1 ? `those of the ${settings.queries} queries with each other, and ` : '';
    const equal = `All answers agree: ${several}those of the first ${Math.min(settings.queries, CHECKED)} with the true ${settings.k} nearest` +
      `${swapped > 0 ? `; ${swapped} places have another row at the same distance, after rounding` : ''}.`;
    told.textContent = wrong.length === 0
      ? equal
      : wrong.map(({ way, agreement }) => `${WAYS[way]}: ${agreement.wrong} of ${agreement.compared} places are wrong.`).join(' ');
    const frame = document.createElement('div');
    frame.className = 'scroll';
    // On a narrow screen the table scrolls, with the keyboard, too.
    Object.assign(frame, { tabIndex: 0, role: 'region', ariaLabel: 'All figures' });
    frame.append(table(this.#measured, WAYS));
    const outcome = this.#part.querySelector('#outcome');
    outcome.replaceChildren(told, frame);
    if (checked.length > 0) outcome.prepend(chart(cases, WAYS, Math.max(300, Math.min(720, outcome.clientWidth))));
    else told.remove();
    const software = cases.find(({ way, device }) => way === 'gpu' && device?.kind === 'software');
    if (software) {
      const note = document.createElement('p');
      note.textContent = 'The GPU here is a software adapter: the processor plays it, so its time says nothing of a real GPU.';
      outcome.append(note);
    }
  }

  #save() {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([lines(this.#measured)], { type: 'application/jsonl' }));
    link.download = 'nearfield-browser.jsonl';
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }
}
