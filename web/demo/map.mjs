// The map of all vectors in two dimensions: an SVG whose view box is the part of it that is shown.

const SVG = 'http://www.w3.org/2000/svg';
/** Units of the view box along a direction of length 1: letters of a fraction of a unit would not be drawn well. */
const UNITS = 1000;
const LETTERS = 13;
const ZOOM = 1.4;
/** A move of fewer pixels is a click by an unsteady hand. */
const STILL = 3;

function element(name, attributes, text = '') {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

const apart = (a, b) => a.x > b.x + b.width || b.x > a.x + a.width || a.y > b.y + b.height || b.y > a.y + a.height;

export class Map2D {
  #svg;
  #names;
  #titles;
  #places;
  /** The chosen point, its neighbours and their names, above all others. */
  #lit = element('g', {});
  #box;

  /** Draws a point for each name, in the colour of its family; a click on one calls `onChoose` with its row. */
  constructor(svg, { names, titles, families, places, onChoose }) {
    [this.#svg, this.#names, this.#titles, this.#places] = [svg, names, titles, places];
    const all = element('g', {});
    // The last families are the largest, and would hide others.
    const rows = [...names.keys()].sort((a, b) => families[b] - families[a]);
    all.append(...rows.map((row) => this.#point(row, { style: `--family: ${families[row]}` })));
    svg.replaceChildren(all, this.#lit);
    this.fit();
    new ResizeObserver(() => this.#look()).observe(svg);
    svg.addEventListener('click', ({ target }) => target.dataset.row && onChoose(Number(target.dataset.row)));
    svg.addEventListener('pointermove', (event) => this.#drag(event));
    svg.addEventListener('wheel', (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 300), event);
    });
  }

  /** Lights up a row and its neighbours. */
  light(row, neighbours) {
    const place = (row) => `${this.#at(row)}`;
    const lines = element('path', { class: 'line', d: neighbours.map((near) => `M${place(row)}L${place(near)}`).join('') });
    const points = [...neighbours, row].map((one) => this.#point(one, { class: one === row ? 'chosen' : 'near' }));
    const names = [row, ...neighbours].map((one) => {
      const [x, y] = this.#at(one);
      return element('text', { x, y, class: one === row ? 'chosen' : 'near' }, this.#names[one]);
    });
    this.#lit.replaceChildren(lines, ...points, ...names);
    this.#look();
  }

  /** Shows some points, by default all. */
  fit(rows = [...this.#names.keys()]) {
    const [xs, ys] = [0, 1].map((axis) => rows.map((row) => this.#at(row)[axis]));
    const [x, y, width, height] = [Math.min(...xs), Math.min(...ys), Math.max(...xs) - Math.min(...xs), Math.max(...ys) - Math.min(...ys)];
    const edge = 0.08 * Math.max(width, height) + 1;
    this.#look([x - edge, y - edge, width + 2 * edge, height + 2 * edge]);
  }

  /** Shows more of a place of the screen, by default the middle, or less of it with a factor below 1. */
  zoom(factor = ZOOM, { clientX, clientY } = {}) {
    const [x, y, width, height] = this.#box;
    const middle = { x: x + width / 2, y: y + height / 2 };
    const still = clientX === undefined ? middle : new DOMPoint(clientX, clientY).matrixTransform(this.#svg.getScreenCTM().inverse());
    this.#look([still.x - (still.x - x) / factor, still.y - (still.y - y) / factor, width / factor, height / factor]);
  }

  #drag({ buttons, movementX, movementY, pointerId }) {
    if (buttons !== 1) return;
    const isDrag = this.#svg.hasPointerCapture(pointerId) || Math.hypot(movementX, movementY) >= STILL;
    if (!isDrag) return;
    // A click then is the map's, and no point's.
    this.#svg.setPointerCapture(pointerId);
    const [x, y, width, height] = this.#box;
    const scale = this.#svg.getScreenCTM().a;
    this.#look([x - movementX / scale, y - movementY / scale, width, height]);
  }

  #at(row) {
    return [UNITS * this.#places[2 * row], UNITS * this.#places[2 * row + 1]];
  }

  /** A line without length, whose round ends are a point as large at any zoom. */
  #point(row, attributes) {
    const point = element('path', { ...attributes, d: `M${this.#at(row)}h0`, 'data-row': row });
    point.append(element('title', {}, this.#titles[row]));
    return point;
  }

  /** Shows a part of the map, with letters as large as ever; a name that would cover another is hidden. */
  #look(box = this.#box) {
    this.#box = box;
    this.#svg.setAttribute('viewBox', box.join(' '));
    this.#lit.setAttribute('font-size', LETTERS / this.#svg.getScreenCTM().a);
    const seen = [];
    for (const name of this.#lit.querySelectorAll('text')) {
      const place = name.getBBox();
      const isFree = seen.every((other) => apart(place, other));
      name.style.visibility = isFree ? 'visible' : 'hidden';
      if (isFree) seen.push(place);
    }
  }
}
