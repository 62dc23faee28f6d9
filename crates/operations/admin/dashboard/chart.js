// Line charts over time, drawn as SVG. Each has its numbers as a table too.

import { h } from './dom.js';
import { time } from './format.js';

const SPACE = 'http://www.w3.org/2000/svg';
const WIDTH = 360;
const HEIGHT = 150;
const LEFT = 52;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 24;

function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// `series` is a list of `{ name, values }`; a value that is null leaves a gap. `times` are texts, one for each value.
export function chart({ title, times, series, unit }) {
  const max = nice(Math.max(0, ...series.flatMap((one) => one.values.filter((value) => value !== null))));
  const x = (at) => LEFT + (times.length < 2 ? 0 : (at * (WIDTH - LEFT - RIGHT)) / (times.length - 1));
  const y = (value) => HEIGHT - BOTTOM - (value / max) * (HEIGHT - TOP - BOTTOM);
  const mark = svg('line', { class: 'mark', y1: TOP, y2: HEIGHT - BOTTOM, x1: -9, x2: -9 });
  const drawing = svg('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': told(title, series, unit) },
    ...grid(max, y, unit), ...clock(times, x), mark, ...series.map((one, at) => line(one.values, at, x, y)));
  const legend = h('p', { class: 'legend', 'aria-hidden': 'true' });
  const say = (at) => legend.replaceChildren(...named(series, at, unit), at === null ? '' : ` at ${time(times[at])}`);
  say(null);
  drawing.addEventListener('pointermove', (event) => {
    const box = drawing.getBoundingClientRect();
    const part = ((event.clientX - box.left) * WIDTH / box.width - LEFT) / (WIDTH - LEFT - RIGHT);
    const at = Math.min(times.length - 1, Math.max(0, Math.round(part * (times.length - 1))));
    mark.setAttribute('x1', x(at));
    mark.setAttribute('x2', x(at));
    say(at);
  });
  drawing.addEventListener('pointerleave', () => {
    mark.setAttribute('x1', -9);
    mark.setAttribute('x2', -9);
    say(null);
  });
  return h('figure', { class: 'chart' }, h('figcaption', {}, title), drawing, legend, numbers(title, times, series, unit));
}

// The next number above that reads well.
function nice(max) {
  if (max <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(max));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= max);
}

function grid(max, y, unit) {
  return [0, 0.5, 1].flatMap((share) => {
    const label = svg('text', { x: LEFT - 6, y: y(max * share) + 4, class: 'axis', 'text-anchor': 'end' });
    label.textContent = unit(max * share);
    return [svg('line', { x1: LEFT, x2: WIDTH - RIGHT, y1: y(max * share), y2: y(max * share), class: 'grid' }), label];
  });
}

function clock(times, x) {
  const places = times.length < 2 ? [0] : [0, Math.floor((times.length - 1) / 2), times.length - 1];
  const anchors = ['start', 'middle', 'end'];
  return places.filter((at) => times[at]).map((at, index) => {
    const label = svg('text', { x: x(at), y: HEIGHT - 6, class: 'axis', 'text-anchor': anchors[index] });
    label.textContent = time(times[at]).slice(-8, -3);
    return label;
  });
}

function line(values, at, x, y) {
  let pen = 'M';
  const steps = values.map((value, index) => {
    if (value === null) {
      pen = 'M';
      return '';
    }
    const step = `${pen}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    // A value between two gaps is a short dash.
    const alone = pen === 'M' && (index + 1 === values.length || values[index + 1] === null) ? 'h4' : '';
    pen = 'L';
    return step + alone;
  });
  return svg('path', { d: steps.join('') || 'M0 0', class: `line line-${at}` });
}

function named(series, at, unit) {
  return series.flatMap((one, index) => {
    const value = at === null ? '' : ` ${one.values[at] === null ? '-' : unit(one.values[at])}`;
    return [h('span', { class: `key key-${index}` }), `${one.name}${value} `];
  });
}

function told(title, series, unit) {
  const last = series.map((one) => {
    const values = one.values.filter((value) => value !== null);
    return values.length ? `${one.name} now ${unit(values.at(-1))}, at most ${unit(Math.max(...values))}` : `${one.name} none`;
  });
  return `${title}: ${last.join('; ')}`;
}

// The table is made once somebody opens it.
function numbers(title, times, series, unit) {
  const details = h('details', {}, h('summary', {}, 'As a table'));
  details.addEventListener('toggle', () => {
    if (!details.open || details.children.length > 1) return;
    const heads = ['Time', ...series.map((one) => one.name)].map((name) => h('th', { scope: 'col' }, name));
    const rows = times.map((at, index) => h('tr', {}, h('td', {}, time(at)),
      series.map((one) => h('td', { class: 'number' }, one.values[index] === null ? '' : unit(one.values[index])))));
    details.append(h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': title },
      h('table', {}, h('thead', {}, h('tr', {}, heads)), h('tbody', {}, rows))));
  });
  return details;
}
