// Times as bars, from the least to the most, and the same as a table.

const SVG = 'http://www.w3.org/2000/svg';
const COLORS = { gpu: 'var(--chosen)', host: 'var(--near)', javascript: 'var(--family-9)' };
const [LEFT, ROW, BAR] = [128, 46, 22];
/** Room for the words beside the longest bar. */
const RIGHT = 90;

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

export const milliseconds = (ms) => `${ms >= 100 ? Math.round(ms).toLocaleString('en') : ms.toPrecision(3)} ms`;

/** One bar a case: the median, with a line from the least time to the most. Words are as large as the page's if the chart is drawn `width` wide. */
export function chart(cases, names, width) {
  const timed = cases.filter(({ ms }) => ms !== undefined);
  const words = timed.map(({ way, ms }) => `${names[way]} ${milliseconds(ms)}`).join(', ');
  const height = timed.length * ROW + 8;
  const svg = element('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': `Median times: ${words}` });
  const most = Math.max(...timed.map((one) => one.most));
  const x = (ms) => LEFT + (ms / most) * (width - LEFT - RIGHT);
  timed.forEach(({ way, ms, least, most }, at) => {
    const top = at * ROW + (ROW - BAR) / 2;
    const middle = top + BAR / 2;
    svg.append(
      element('text', { x: LEFT - 12, y: middle + 5, 'text-anchor': 'end' }, names[way]),
      element('rect', { x: LEFT, y: top, width: Math.max(2, x(ms) - LEFT), height: BAR, rx: 2, style: `fill: ${COLORS[way]}` }),
      element('path', { d: `M${x(least)} ${middle}H${x(most)}`, style: 'stroke: var(--ink); stroke-width: 1.5' }),
      element('text', { x: x(most) + 10, y: middle + 5 }, milliseconds(ms)),
    );
  });
  return svg;
}

/** All figures of the cases. */
export function table({ settings, cases }, names) {
  const made = document.createElement('table');
  const row = (cells, kind) => {
    const line = document.createElement('tr');
    for (const text of cells) {
      const cell = document.createElement(kind);
      cell.textContent = text;
      line.append(cell);
    }
    return line;
  };
  const slow = cases.find(({ way }) => way === 'javascript')?.ms;
  const head = document.createElement('thead');
  head.append(row(['', 'median', 'least to most', 'runs', 'queries a second', 'times JavaScript', 'ready after'], 'th'));
  const body = document.createElement('tbody');
  for (const { way, ms, least, most, runs, ready, notRun } of cases) {
    if (notRun) {
      body.append(row([names[way], `not measured: ${notRun}`], 'td'));
      body.lastChild.lastChild.colSpan = 6;
      continue;
    }
    body.append(row([
      names[way], milliseconds(ms), `${milliseconds(least)} to ${milliseconds(most)}`, runs,
      Math.round((settings.queries / ms) * 1000).toLocaleString('en'), slow ? `${(slow / ms).toPrecision(3)} ×` : '', milliseconds(ready),
    ], 'td'));
  }
  made.append(head, body);
  return made;
}
