// The search field, which completes names, and the list of neighbours.

const MOST_OPTIONS = 12;

/** Rows whose name or description fits a text, best first. */
export function matches({ names, descriptions, rows }, text) {
  const typed = text.trim().toLowerCase();
  if (typed === '') return [];
  if (!names) {
    const number = /^(?:row\s*)?(\d+)$/.exec(typed)?.[1];
    if (number === undefined) return [];
    const first = Number(number);
    const longer = Array.from({ length: 10 }, (_, digit) => first * 10 + digit);
    return [first, ...(first > 0 ? longer : [])].filter((row) => row < rows);
  }
  const words = typed.split(/\s+/);
  const ranks = [[], [], [], []];
  for (let row = 0; row < rows; row++) {
    const name = names[row].toLowerCase();
    const text = `${name} ${descriptions[row].toLowerCase()}`;
    if (name === typed) ranks[0].push(row);
    else if (name.startsWith(typed)) ranks[1].push(row);
    else if (name.includes(typed)) ranks[2].push(row);
    else if (words.every((word) => text.includes(word))) ranks[3].push(row);
  }
  const byName = (a, b) => (names[a] < names[b] ? -1 : 1);
  return ranks.flatMap((rank) => rank.sort(byName)).slice(0, MOST_OPTIONS);
}

/** A field with a list of completions, as the ARIA pattern "combobox" has it. */
export class Field {
  #input;
  #list;
  #rows = [];
  #active = -1;
  #collection;
  #onChoose;

  constructor(input, list, { onChoose }) {
    this.#input = input;
    this.#list = list;
    this.#onChoose = onChoose;
    input.addEventListener('input', () => this.#complete());
    input.addEventListener('focus', () => input.select());
    input.addEventListener('blur', () => this.#close());
    input.addEventListener('keydown', (event) => this.#key(event));
    // The field keeps the focus while an option is pressed.
    list.addEventListener('pointerdown', (event) => event.preventDefault());
    list.addEventListener('click', (event) => {
      const option = event.target.closest('[role=option]');
      if (option) onChoose(Number(option.dataset.row));
    });
  }

  show(collection) {
    this.#collection = collection;
    this.#input.placeholder = collection.names ? 'a name, or words of a description' : `a row: 0 to ${collection.rows - 1}`;
    this.#input.inputMode = collection.names ? 'search' : 'numeric';
    this.#close();
  }

  set(row) {
    this.#input.value = this.#collection.names ? this.#collection.name(row) : String(row);
    this.#close();
  }

  #complete() {
    this.#rows = this.#collection ? matches(this.#collection, this.#input.value) : [];
    this.#active = this.#rows.length > 0 ? 0 : -1;
    this.#list.replaceChildren(...this.#rows.map((row, at) => {
      const option = document.createElement('li');
      option.id = `option-${at}`;
      option.role = 'option';
      option.dataset.row = row;
      const name = document.createElement('b');
      name.textContent = this.#collection.name(row);
      const text = document.createElement('span');
      text.textContent = this.#collection.description(row);
      option.append(name, ' ', text);
      return option;
    }));
    if (this.#rows.length === 0 && this.#input.value.trim() !== '') {
      const nothing = document.createElement('li');
      nothing.className = 'nothing';
      nothing.textContent = this.#collection?.names ? 'no package with this name or these words' : 'no such row';
      this.#list.append(nothing);
    }
    this.#list.hidden = this.#list.children.length === 0;
    this.#input.setAttribute('aria-expanded', String(this.#rows.length > 0));
    this.#mark();
  }

  #mark() {
    [...this.#list.children].forEach((option, at) => option.setAttribute('aria-selected', String(at === this.#active)));
    const active = this.#list.children[this.#active];
    if (this.#active < 0) this.#input.removeAttribute('aria-activedescendant');
    else this.#input.setAttribute('aria-activedescendant', active.id);
    active?.scrollIntoView({ block: 'nearest' });
  }

  #key(event) {
    const count = this.#rows.length;
    if (event.key === 'Escape') this.#close();
    else if (event.key === 'Enter' && count > 0 && this.#active >= 0) this.#onChoose(this.#rows[this.#active]);
    else if (event.key === 'ArrowDown' && this.#list.hidden) this.#complete();
    else if (event.key === 'ArrowDown' && count > 0) this.#active = (this.#active + 1) % count;
    else if (event.key === 'ArrowUp' && count > 0) this.#active = (this.#active + count - 1) % count;
    else return;
    event.preventDefault();
    this.#mark();
  }

  #close() {
    this.#rows = [];
    this.#active = -1;
    this.#list.hidden = true;
    this.#list.replaceChildren();
    this.#input.setAttribute('aria-expanded', 'false');
    this.#input.removeAttribute('aria-activedescendant');
  }
}

/** Shows the neighbours of a row; a click on one makes it the query. */
export class Results {
  #list;
  #on;

  constructor(list, on) {
    this.#list = list;
    this.#on = on;
  }

  show(collection, families, { neighbours }) {
    const far = neighbours.at(-1)?.distance ?? 0;
    // Inner products have no zero that stands for "the same".
    const near = collection.metric === 'ip' ? (neighbours[0]?.distance ?? 0) : 0;
    this.#list.replaceChildren(...neighbours.map(({ row, distance }) => {
      const item = document.createElement('li');
      const button = document.createElement('button');
      button.type = 'button';
      const dot = document.createElement('i');
      dot.style.background = `var(--family-${families[row]})`;
      const name = document.createElement('b');
      name.textContent = collection.name(row);
      const value = document.createElement('data');
      value.value = distance;
      value.textContent = distance.toPrecision(4);
      value.title = `distance ${distance}`;
      const text = document.createElement('span');
      text.textContent = collection.description(row);
      const bar = document.createElement('s');
      bar.style.setProperty('--part', String(far > near ? (distance - near) / (far - near) : 0));
      button.append(dot, name, ' ', value, ' ', text, bar);
      button.addEventListener('click', () => this.#on.choose(row));
      button.addEventListener('pointerenter', () => this.#on.hover(row));
      button.addEventListener('pointerleave', () => this.#on.hover(undefined));
      button.addEventListener('focus', () => this.#on.hover(row));
      button.addEventListener('blur', () => this.#on.hover(undefined));
      item.append(button);
      return item;
    }));
  }
}
