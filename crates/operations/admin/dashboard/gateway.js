// Open streams, certificates, and memory with the work of each worker.

import { get, path } from './api.js';
import { badge, facts, h, replace, table } from './dom.js';
import { bytes, count, time } from './format.js';

export function streams({ content }) {
  const number = (title, name) => ({ title, number: true, sort: (row) => row[name], text: (row) => count(row[name]) });
  const list = table({
    caption: 'Open streams by route',
    columns: [
      { title: 'Route', sort: (row) => row.route, text: (row) => row.route, node: (row) => h('a', { href: `#/routes${path(row.route)}` }, row.route) },
      number('Event streams', 'sse'), number('WebSockets', 'websocket'), number('Tunnels', 'tunnel'), number('gRPC calls', 'grpc'),
    ],
    key: (row) => row.route,
    empty: 'No stream is open.',
  });
  replace(content, list.element);
  return async (signal) => list.update((await get('/streams', signal)).streams);
}

export function certificates({ content }) {
  const where = (row) => ['listener', 'upstream', 'admin', 'catalog', 'status'].filter((kind) => row[kind]).map((kind) => `${kind} ${row[kind]}`).join('');
  const left = (row) => badge(row.days_left < 0 ? 'expired' : `${count(row.days_left)} days`, row.days_left < 7 ? 'bad' : row.days_left < 30 ? 'warn' : 'good');
  const list = table({
    caption: 'Certificates that the gateway shows',
    columns: [
      { title: 'Where', sort: where, text: where },
      { title: 'Left', number: true, sort: (row) => row.days_left, text: (row) => String(row.days_left), node: left },
      { title: 'Ends', text: (row) => time(row.not_after) },
      { title: 'Subject', long: true, text: (row) => row.subject || '' },
      { title: 'Names', long: true, text: (row) => row.names.join(', ') },
      { title: 'Issuer', long: true, text: (row) => row.issuer || '' },
      { title: 'File', long: true, text: (row) => row.file },
    ],
    key: (row) => `${where(row)} ${row.serial} ${row.file}`,
    empty: 'The gateway shows no certificate.',
  });
  replace(content, list.element);
  return async (signal) => list.update((await get('/certificates', signal)).certificates);
}

export function memory({ content }) {
  const numbers = h('div', {});
  const number = (title, of, text) => ({ title, number: true, sort: of, text: (row) => text(of(row)) });
  const list = table({
    caption: 'Workers',
    columns: [
      { title: 'Worker', text: (row) => row.worker },
      number('Memory', (row) => row.memory_bytes, bytes),
      number('Connections', (row) => row.connections_open, count),
      number('Requests since the start', (row) => row.requests, count),
      number('Panics', (row) => row.panics, count),
    ],
    key: (row) => row.worker,
  });
  replace(content, numbers, list.element,
    h('p', { class: 'hint' }, 'A worker\'s memory is what its thread allocated less what it freed. What one allocates and another frees, such as a plan, is in both.'));
  return async (signal) => {
    const told = await get('/memory', signal);
    replace(numbers, facts([
      ['Messages', bytes(told.used_bytes)],
      ['Bound', told.limit_bytes === null ? 'none' : bytes(told.limit_bytes)],
      ['Refused for lack of memory', count(told.refused)],
      ['Resident', bytes(told.resident_bytes)],
    ]));
    list.update(told.workers);
  };
}
