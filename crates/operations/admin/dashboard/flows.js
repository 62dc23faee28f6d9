// Flows: runs, faults, and the time of each step.

import { get, path } from './api.js';
import { h, replace, table } from './dom.js';
import { count, counted, millis, percent, sum } from './format.js';

export function flows(page) {
  return page.parts.length ? oneFlow(page) : allFlows(page);
}

function faults(row) {
  const all = Object.entries(row.faults);
  return all.map(([name, number]) => `${name} ${count(number)}`).join(', ');
}

function common(first) {
  return [
    first,
    { title: 'Runs', number: true, sort: (row) => row.runs, text: (row) => count(row.runs) },
    { title: 'Failed', number: true, sort: (row) => sum(Object.values(row.faults)), text: (row) => percent(sum(Object.values(row.faults)), row.runs) },
    { title: 'Faults', long: true, text: faults, node: (row) => h('span', { class: faults(row) ? 'bad' : null }, faults(row)) },
  ];
}

function allFlows({ content }) {
  const name = { title: 'Flow', sort: (row) => row.name, text: (row) => row.name, node: (row) => h('a', { href: `#/flows${path(row.name)}` }, row.name) };
  const list = table({ caption: 'Flows since the start', columns: common(name), key: (row) => row.name, filter: true, empty: 'The configuration has no flows.' });
  replace(content, list.element);
  return async (signal) => list.update((await get('/flows', signal)).flows);
}

function oneFlow({ content, parts }) {
  const of = (title, value) => ({
    title, number: true, sort: (row) => (row.runs ? value(row) / row.runs : 0), text: (row) => (row.runs ? millis(value(row) / row.runs) : ''),
  });
  const columns = [
    ...common({ title: 'Step', text: (row) => row.name }),
    of('Own time a run', (row) => row.own_ms),
    of('Calls a run', (row) => row.call_ms),
    { title: 'Time in all', number: true, sort: (row) => row.own_ms + row.call_ms, text: (row) => millis(row.own_ms + row.call_ms) },
  ];
  const list = table({ caption: `Steps of ${parts[0]} since the start`, columns, key: (row) => `${row.at}` });
  const all = h('p', {});
  replace(content, all, list.element);
  return async (signal) => {
    const flow = await get(`/flows${path(parts[0])}`, signal);
    all.textContent = `${counted(flow.runs, 'run')}. ${faults(flow) ? `Faults: ${faults(flow)}.` : 'No fault.'}`;
    list.update(flow.steps.map((step, at) => ({ ...step, at })));
  };
}
