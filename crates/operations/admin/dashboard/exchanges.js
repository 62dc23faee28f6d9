// Single exchanges: what was refused and why, what passes now, and one message step by step.

import { act, get } from './api.js';
import { badge, button, field, h, notice, replace, table } from './dom.js';
import { bytes, counted, millis, time } from './format.js';

export function refusals({ content, parts }) {
  const list = table({
    caption: 'Refused exchanges, newest first',
    columns: [
      { title: 'Time', text: (row) => time(row.time) },
      { title: 'Status', text: (row) => String(row.status), node: (row) => badge(row.status, row.status >= 500 ? 'bad' : 'warn') },
      { title: 'Route', sort: (row) => row.route || '', text: (row) => row.route || '(none)' },
      { title: 'Policy', sort: (row) => row.policy || '', text: (row) => row.policy || '' },
      { title: 'Fault', long: true, sort: (row) => row.fault, text: (row) => row.fault },
      { title: 'Cause', long: true, text: (row) => row.cause },
      { title: 'Client', sort: (row) => row.client, text: (row) => row.client },
      { title: 'Subject', text: (row) => row.subject || '' },
      { title: 'Request', long: true, text: (row) => row.request_id },
    ],
    key: (row) => `${row.request_id} ${row.time}`,
    filter: true,
    empty: 'Nothing was refused.',
  });
  replace(content, h('p', {}, 'What policies refused, and what the gateway refused because of its client. ',
    'tidegate explain fault NAME says what a fault means.'), list.element);
  return async (signal) => {
    const told = await get('/refusals?limit=500', signal);
    list.update(told.refusals.filter((row) => !parts.length || row.route === parts[0]));
  };
}

// Lines that the page keeps.
const LINES_MAX = 300;

export function tail({ content, parts }) {
  let next = null;
  let lines = [];
  let is_held = false;
  const list = table({
    caption: 'Exchanges as they end, newest first',
    columns: [
      { title: 'Time', text: (row) => time(row.time) },
      { title: 'Status', text: (row) => String(row.status), node: (row) => badge(row.status, row.status >= 500 ? 'bad' : row.status >= 400 ? 'warn' : 'good') },
      { title: 'Method', text: (row) => row.method },
      { title: 'Path', long: true, text: (row) => row.path },
      { title: 'Route', text: (row) => row.route || '(none)' },
      { title: 'Took', number: true, sort: (row) => row.duration_ms, text: (row) => millis(row.duration_ms) },
      { title: 'Upstream', number: true, sort: (row) => row.upstream_ms, text: (row) => millis(row.upstream_ms) },
      { title: 'Bytes', number: true, sort: (row) => row.reply_bytes, text: (row) => bytes(row.reply_bytes) },
      { title: 'Client', text: (row) => row.client },
      { title: 'Subject', text: (row) => row.subject || '' },
      { title: 'Fault', long: true, text: (row) => [row.fault, row.cause].filter(Boolean).join(': ') },
      { title: 'Request', long: true, text: (row) => row.request_id },
    ],
    key: (row) => row.number,
    filter: true,
    empty: 'Waiting for exchanges.',
  });
  const hold = button('Hold', () => {
    is_held = !is_held;
    hold.textContent = is_held ? 'Go on' : 'Hold';
  });
  const missed = h('span', { class: 'hint' });
  replace(content, h('div', { class: 'row' }, hold, button('Clear', () => { lines = []; list.update(lines); }), missed), list.element);
  return async (signal) => {
    if (is_held) return;
    const told = await get(next === null ? '/tail' : `/tail?after=${next}`, signal);
    next = told.next;
    const wanted = told.exchanges.filter((row) => !parts.length || row.route === parts[0]);
    lines = [...wanted.reverse(), ...lines].slice(0, LINES_MAX);
    missed.textContent = told.left_out ? `${counted(told.left_out, 'exchange')} left out: there are more than the tail takes.` : '';
    list.update(lines);
  };
}

export function trace({ content, parts, may, refresh }) {
  const asked = h('p', { class: 'hint', role: 'status' });
  const list = h('div', {});
  replace(content,
    h('p', {}, 'The next messages that meet all that is given are traced: each step with what it made of the message.',
      may ? '' : ' Bodies are shown to operators who may write.'),
    may && question(parts[0], refresh), asked, list);
  let shown = '';
  return async (signal) => {
    const told = await get('/trace', signal);
    const wish = told.asked;
    asked.textContent = wish ? `Waiting for ${counted(wish.count, 'more message')}${conditions(wish)}.` : '';
    const sign = JSON.stringify(told.traces);
    if (sign === shown) return;
    shown = sign;
    replace(list, told.traces.length === 0 && h('p', { class: 'empty' }, 'No message has been traced.'), told.traces.map(traced));
  };
}

function conditions(wish) {
  const given = ['route', 'flow', 'path', 'request_id'].filter((name) => wish[name]);
  return given.map((name) => `, ${name} ${wish[name]}`).join('');
}

function question(route, refresh) {
  const inputs = {
    route: h('input', { value: route || '' }),
    flow: h('input'),
    path: h('input', { placeholder: '/orders/**' }),
    request_id: h('input'),
    count: h('input', { type: 'number', min: 1, max: 100, value: 1, class: 'short' }),
  };
  const ask = async () => {
    const wish = { count: Number(inputs.count.value) };
    for (const name of ['route', 'flow', 'path', 'request_id']) {
      if (inputs[name].value.trim()) wish[name] = inputs[name].value.trim();
    }
    await act('POST', '/trace', wish);
    notice('The next such message will be traced.');
    refresh();
  };
  const submit = (event) => {
    event.preventDefault();
    ask().catch((error) => notice(error.message, 'bad'));
  };
  return h('form', { class: 'row', on: { submit } },
    field('Route', inputs.route), field('Flow', inputs.flow), field('Path', inputs.path), field('Request id', inputs.request_id),
    field('Messages', inputs.count), h('button', { type: 'submit', class: 'main' }, 'Trace'));
}

function traced(told) {
  const title = [time(told.time), told.route && `route ${told.route}`, told.flow && `flow ${told.flow}`, told.request_id].filter(Boolean).join(', ');
  return h('details', { class: 'trace' }, h('summary', {}, title, ' ', (told.fault || told.steps.some((step) => step.fault)) && badge('fault', 'bad')),
    told.fault && h('p', { class: 'notice bad' }, told.fault),
    h('ol', {}, told.steps.map(step)),
    told.left_out > 0 && h('p', {}, `${counted(told.left_out, 'more step')} ran.`));
}

function step(told) {
  const name = told.name === told.step ? told.name : `${told.name} (${told.step})`;
  if (told.on) {
    return h('li', {}, h('strong', {}, name), ' ', badge(told.on, 'plain'), ' ', told.verdict,
      told.changes.length > 0 && h('ul', {}, told.changes.map((change) => h('li', {}, change))), body(told.body));
  }
  const indent = `depth-${Math.min(told.depth, 8)}`;
  return h('li', { class: indent }, h('strong', {}, name), ' ', told.fault && badge(told.fault, 'bad'),
    message('before', told.before), told.after && message('after', told.after));
}

function message(when, seen) {
  return h('details', {}, h('summary', {}, [when, seen.status, seen.content_type, bytes(seen.bytes)].filter((part) => part !== null && part !== '').join(', ')),
    body(seen.body) || h('p', {}, seen.bytes === 0 ? 'No body.' : 'The body is not shown.'));
}

function body(text) {
  return text ? h('pre', { tabindex: 0 }, text) : null;
}
