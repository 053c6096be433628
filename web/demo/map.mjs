// The map of all vectors in two dimensions.

import { FAMILY_NAMES, familiesOf } from './families.mjs';
import { gestures } from './gestures.mjs';

/** More points would make a frame take longer than a screen shows it. */
const MOST_POINTS = 50_000;
/** Up to so many, points are round. */
const ROUND_POINTS = 10_000;
/** A pointer this near to a point means it, in pixels. */
const REACH = 14;
const ZOOM = 1.4;
const MOST_SCALE = 1e9;

export class Map2D {
  #canvas;
  #pen;
  #tip;
  #collection;
  #points;
  #order = [];
  #view = { scale: 1, x: 0, y: 0 };
  /** The scale at which all points fit. */
  #whole = 1;
  #size = [0, 0];
  #chosen;
  #near = [];
  #hovered;
  #isDue = false;

  constructor(canvas, tip, { onChoose }) {
    this.#canvas = canvas;
    this.#tip = tip;
    this.#pen = canvas.getContext('2d');
    gestures(canvas, {
      move: (dx, dy) => this.#move(dx, dy),
      zoom: (factor, x, y) => this.zoom(factor, x, y),
      fit: () => this.fit(),
      hover: (x, y) => this.hover(this.#at(x, y)),
      leave: () => this.hover(undefined),
      choose: (x, y) => {
        const row = this.#at(x, y);
        if (row !== undefined) onChoose(row);
      },
    });
    new ResizeObserver(() => this.#resize()).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw());
  }

  /** Shows a collection's points; how many of them are drawn. */
  show(collection, points) {
    this.#collection = collection;
    this.#points = points;
    [this.#chosen, this.#near, this.#hovered] = [undefined, [], undefined];
    const families = familiesOf(collection);
    const step = Math.max(1, Math.ceil(collection.rows / MOST_POINTS));
    this.#order = FAMILY_NAMES.map(() => []);
    for (let row = 0; row < collection.rows; row += step) this.#order[families[row]].push(row);
    this.fit();
    return this.#order.reduce((sum, rows) => sum + rows.length, 0);
  }

  clear() {
    this.#points = undefined;
    this.#draw();
  }

  /** Lights up a row and its neighbours. */
  light(row, neighbours) {
    [this.#chosen, this.#near] = [row, neighbours.map((one) => one.row)];
    this.#draw();
  }

  /** Names a point, that under the pointer or that of the result with the focus. */
  hover(row) {
    if (row === this.#hovered) return;
    this.#hovered = row;
    this.#canvas.style.cursor = row === undefined ? 'grab' : 'pointer';
    this.#draw();
  }

  zoom(factor = ZOOM, x = this.#size[0] / 2, y = this.#size[1] / 2) {
    const view = this.#view;
    const scale = Math.min(MOST_SCALE, Math.max(this.#whole / 4, view.scale * factor));
    const grown = scale / view.scale;
    view.x += (x - this.#size[0] / 2) / view.scale * (1 - 1 / grown);
    view.y += (y - this.#size[1] / 2) / view.scale * (1 - 1 / grown);
    view.scale = scale;
    this.#draw();
  }

  /** Shows all points, or the chosen one with its neighbours. */
  fit(onlyLit = false) {
    if (!this.#points) return;
    const rows = onlyLit && this.#chosen !== undefined ? [this.#chosen, ...this.#near] : this.#order.flat();
    const span = (axis) => {
      let [least, most] = [Infinity, -Infinity];
      for (const row of rows) {
        least = Math.min(least, this.#points[row * 2 + axis]);
        most = Math.max(most, this.#points[row * 2 + axis]);
      }
      return [(least + most) / 2, most - least];
    };
    const [[x, width], [y, height]] = [span(0), span(1)];
    const room = (size) => Math.max(40, size - (onlyLit ? 220 : 48));
    const scale = Math.min(room(this.#size[0]) / (width || 1e-9), room(this.#size[1]) / (height || 1e-9));
    this.#view = { x, y, scale: Math.min(scale, MOST_SCALE) };
    if (!onlyLit) this.#whole = this.#view.scale;
    this.#draw();
  }

  #move(dx, dy) {
    this.#view.x -= dx / this.#view.scale;
    this.#view.y -= dy / this.#view.scale;
    this.#draw();
  }

  #place(row) {
    const { scale, x, y } = this.#view;
    return [(this.#points[row * 2] - x) * scale + this.#size[0] / 2, (this.#points[row * 2 + 1] - y) * scale + this.#size[1] / 2];
  }

  /** The point at a place of the canvas. */
  #at(x, y) {
    if (!this.#points) return undefined;
    let [best, least] = [undefined, REACH ** 2];
    const look = (row, reach) => {
      const [px, py] = this.#place(row);
      const distance = ((px - x) ** 2 + (py - y) ** 2) * reach;
      if (distance < least) [best, least] = [row, distance];
    };
    for (const rows of this.#order) for (const row of rows) look(row, 1);
    // A lit point wins over one that lies a little nearer.
    for (const row of [...this.#near, this.#chosen]) if (row !== undefined) look(row, 0.4);
    return best;
  }

  #resize() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    if (width === 0 || (this.#size[0] === width && this.#size[1] === height)) return;
    const isFirst = this.#size[0] === 0;
    this.#size = [width, height];
    const ratio = devicePixelRatio || 1;
    [this.#canvas.width, this.#canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
    this.#pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (isFirst) this.fit();
    this.#draw();
  }

  #draw() {
    if (this.#isDue) return;
    this.#isDue = true;
    requestAnimationFrame(() => {
      this.#isDue = false;
      this.#paint();
    });
  }

  #paint() {
    const [width, height] = this.#size;
    const pen = this.#pen;
    pen.clearRect(0, 0, width, height);
    this.#tip.hidden = true;
    if (!this.#points) return;
    const style = getComputedStyle(this.#canvas);
    const color = (name) => style.getPropertyValue(name);
    const isLit = this.#chosen !== undefined;
    const count = this.#order.reduce((sum, rows) => sum + rows.length, 0);
    const grown = (this.#view.scale / this.#whole) ** 0.35;
    const size = Math.min(6, Math.max(1, grown * (count > ROUND_POINTS ? 1 : 2.2)));
    pen.globalAlpha = isLit ? Number(color('--dimmed')) : 0.8;
    // A large family drawn late would hide the small ones.
    const largestFirst = [...this.#order.keys()].sort((a, b) => this.#order[b].length - this.#order[a].length);
    for (const family of largestFirst) {
      pen.fillStyle = color(`--family-${family}`);
      pen.beginPath();
      for (const row of this.#order[family]) {
        const [x, y] = this.#place(row);
        if (x < -9 || y < -9 || x > width + 9 || y > height + 9) continue;
        if (count > ROUND_POINTS) pen.rect(x - size, y - size, 2 * size, 2 * size);
        else {
          pen.moveTo(x + size, y);
          pen.arc(x, y, size, 0, 7);
        }
      }
      pen.fill();
    }
    pen.globalAlpha = 1;
    if (isLit) this.#paintLit(color);
    if (this.#hovered !== undefined) this.#name(this.#hovered, color);
  }

  #paintLit(color) {
    const pen = this.#pen;
    const [x, y] = this.#place(this.#chosen);
    pen.lineWidth = 1;
    pen.strokeStyle = color('--near');
    pen.globalAlpha = 0.6;
    pen.beginPath();
    for (const row of this.#near) {
      pen.moveTo(x, y);
      pen.lineTo(...this.#place(row));
    }
    pen.stroke();
    pen.globalAlpha = 1;
    const taken = [];
    for (const row of [...this.#near].reverse()) this.#dot(row, 4.5, color('--near'), color('--ground'));
    this.#dot(this.#chosen, 6.5, color('--chosen'), color('--ground'));
    for (const row of [this.#chosen, ...this.#near]) this.#label(row, taken, color);
  }

  #dot(row, size, fill, edge) {
    const pen = this.#pen;
    pen.beginPath();
    pen.arc(...this.#place(row), size, 0, 7);
    pen.fillStyle = fill;
    pen.fill();
    pen.strokeStyle = edge;
    pen.lineWidth = 1.5;
    pen.stroke();
  }

  /** Writes a name where it covers no other; without such a place it is left out. */
  #label(row, taken, color) {
    const pen = this.#pen;
    const isChosen = row === this.#chosen;
    const text = this.#collection.name(row);
    pen.font = `${isChosen ? 600 : 400} ${isChosen ? 13 : 12}px ${color('--font')}`;
    const [x, y] = this.#place(row);
    const length = pen.measureText(text).width;
    const places = [[x + 10, y - 7], [x - 10 - length, y - 7], [x - length / 2, y - 24], [x - length / 2, y + 9]];
    const isFree = ([left, top]) =>
      left > 2 && top > 2 && left + length < this.#size[0] - 2 && top + 15 < this.#size[1] - 2
      && taken.every((other) => left > other.right || left + length < other.left || top > other.bottom || top + 15 < other.top);
    const place = places.find(isFree);
    if (!place) return;
    const [left, top] = place;
    taken.push({ left: left - 3, top: top - 1, right: left + length + 3, bottom: top + 16 });
    pen.lineWidth = 4;
    pen.lineJoin = 'round';
    pen.strokeStyle = color('--ground');
    pen.strokeText(text, left, top + 11.5);
    pen.fillStyle = isChosen ? color('--chosen') : color('--ink');
    pen.fillText(text, left, top + 11.5);
  }

  #name(row, color) {
    const [x, y] = this.#place(row);
    this.#dot(row, 5.5, color('--hover'), color('--ground'));
    if (x < 0 || y < 0 || x > this.#size[0] || y > this.#size[1]) return;
    const [name, text] = this.#tip.children;
    name.textContent = this.#collection.name(row);
    text.textContent = this.#collection.description(row);
    this.#tip.hidden = false;
    const left = Math.min(x + 12, this.#size[0] - this.#tip.offsetWidth - 6);
    const top = y > this.#size[1] - this.#tip.offsetHeight - 22 ? y - this.#tip.offsetHeight - 12 : y + 14;
    this.#tip.style.transform = `translate(${Math.max(4, left)}px, ${top}px)`;
  }
}
