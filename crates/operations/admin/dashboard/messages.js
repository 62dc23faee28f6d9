// Queues, hubs and schedules: what waits, what is dead, and what operators may do about it.

import { act, get, path } from './api.js';
import { agreed, badge, button, facts, h, notice, replace, section, table } from './dom.js';
import { bytes, count, time } from './format.js';

export function queues(page) {
  const columns = [
    { title: 'Waiting', number: true, sort: (row) => row.depth, text: (row) => count(row.depth) },
    { title: 'Dead', number: true, sort: (row) => row.dead, text: (row) => count(row.dead), node: dead },
  ];
  return page.parts.length ? oneHolder(page, 'queues', waiting) : allHolders(page, 'queues', columns);
}

export function hubs(page) {
  const columns = [
    { title: 'Topics', text: (row) => topics(row).join(', ') },
    { title: 'Subscriptions', number: true, sort: (row) => row.subscriptions, text: (row) => count(row.subscriptions) },
    { title: 'Dead', number: true, sort: (row) => row.dead, text: (row) => count(row.dead), node: dead },
  ];
  return page.parts.length ? oneHolder(page, 'hubs', subscriptions) : allHolders(page, 'hubs', columns);
}

function topics(row) {
  const named = Array.isArray(row.topics) ? row.topics : Object.keys(row.topics || {});
  return named.map((topic) => (typeof topic === 'string' ? topic : topic.name));
}

function dead(row) {
  return row.dead ? badge(count(row.dead), 'bad') : '0';
}

// The list of all queues or hubs.
function allHolders({ content, may, refresh }, kind, columns) {
  const list = table({
    caption: kind === 'queues' ? 'Queues' : 'Hubs',
    columns: [
      { title: 'Name', sort: (row) => row.name, text: (row) => row.name, node: (row) => h('a', { href: `#/${kind}${path(row.name)}` }, row.name) },
      ...columns,
      { title: 'State', text: (row) => (row.paused ? 'paused' : 'works'), node: (row) => badge(row.paused ? 'paused' : 'works', row.paused ? 'warn' : 'good') },
      ...(may ? [{ title: '', text: () => '', sign: (row) => String(row.paused), node: (row) => pause(`/${kind}${path(row.name)}`, row, refresh) }] : []),
    ],
    key: (row) => row.name,
    empty: `The configuration has no ${kind}.`,
  });
  const nodes = h('div', {});
  replace(content, list.element, nodes);
  return async (signal) => {
    const told = await get(`/${kind}`, signal);
    list.update(told[kind]);
    replace(nodes, told.nodes && h('p', {}, `Gateways of this store: ${told.nodes.map((node) => node.name).join(', ')}`));
  };
}

function pause(place, row, refresh) {
  const wish = row.paused ? 'resume' : 'pause';
  const text = row.paused ? 'Resume' : 'Pause';
  return button(text, async () => {
    await act('POST', `${place}/${wish}`);
    notice(`${row.name} is ${row.paused ? 'at work' : 'paused'}.`);
    refresh();
  }, { 'aria-label': `${text} ${row.name}` });
}

// One queue or hub: its numbers, its dead messages, and what else it has.
function oneHolder({ content, parts, may, refresh }, kind, other) {
  const [name] = parts;
  const place = `/${kind}${path(name)}`;
  const numbers = h('div', {});
  const control = h('div', { class: 'row' });
  const detail = h('div', { 'aria-live': 'polite' });
  const gone = deadPage(place, may, detail, refresh);
  const more = other(place, may, refresh);
  replace(content, numbers, control, section('Dead messages', gone.element, detail), more.element);
  return async (signal) => {
    const row = await get(place, signal);
    replace(numbers, facts([
      ['Waiting', row.depth === undefined ? null : count(row.depth)],
      ['Topics', row.topics && topics(row).join(', ')],
      ['Subscriptions', row.subscriptions === undefined ? null : count(row.subscriptions)],
      ['Dead', count(row.dead)],
      ['State', row.paused ? 'paused' : 'works'],
    ]));
    const sign = `${row.paused} ${row.dead > 0}`;
    if (may && control.dataset.sign !== sign) {
      control.dataset.sign = sign;
      replace(control, pause(place, row, refresh), row.dead > 0 && all(place, name, refresh));
    }
    await Promise.all([gone.load(signal), more.load(signal)]);
  };
}

function all(place, name, refresh) {
  return [
    button('Retry all dead', async () => {
      const told = await act('POST', `${place}/dead/retry`);
      notice(`${told.retried} are processed again.`);
      refresh();
    }),
    button('Remove all dead', async () => {
      if (!await agreed(`Remove all dead messages of ${name}? They cannot be brought back.`, 'Remove them')) return;
      const told = await act('DELETE', `${place}/dead`);
      notice(`${told.removed} are removed.`);
      refresh();
    }, { class: 'danger' }),
  ];
}

function deadPage(place, may, detail, refresh) {
  const one = (id) => `${place}/dead${path(id)}`;
  const forget = () => detail.replaceChildren();
  const view = (row) => button(row.id, async () => {
    replace(detail, deadMessage(await get(one(row.id)), forget));
    detail.firstChild.focus();
  }, { class: 'link', 'aria-label': `View ${row.id}` });
  const retry = (row) => button('Retry', async () => {
    await act('POST', `${one(row.id)}/retry`);
    notice(`${row.id} is processed again.`);
    forget();
    refresh();
  }, { 'aria-label': `Retry ${row.id}` });
  const remove = (row) => button('Remove', async () => {
    if (!await agreed(`Remove the dead message ${row.id}? It cannot be brought back.`, 'Remove it')) return;
    await act('DELETE', one(row.id));
    notice(`${row.id} is removed.`);
    forget();
    refresh();
  }, { class: 'danger', 'aria-label': `Remove ${row.id}` });
  return paged(`${place}/dead`, 'dead', {
    caption: 'Dead messages',
    columns: [
      { title: 'Message', text: (row) => row.id, node: view },
      { title: 'Attempts', number: true, sort: (row) => row.attempts, text: (row) => count(row.attempts) },
      { title: 'Callback', long: true, text: (row) => row.callback || '' },
      { title: 'Last failure', long: true, text: (row) => row.last },
      ...(may ? [{ title: '', text: () => '', node: (row) => h('div', { class: 'row' }, retry(row), remove(row)) }] : []),
    ].filter((column) => column.title !== 'Callback' || place.startsWith('/hubs')),
    empty: 'No message is dead.',
  });
}

function deadMessage(told, close) {
  const headers = Object.entries(told.headers || {}).map((line) => line.join(': '));
  return h('article', { tabindex: -1, 'aria-label': `Dead message ${told.id}` },
    h('div', { class: 'row' }, h('h3', {}, `Message ${told.id}`), button('Close', close)),
    facts([
      ['Stored', time(told.time)], ['Died', time(told.died)], ['Topic', told.topic], ['Callback', told.callback],
      ['Request', [told.method, told.path].filter(Boolean).join(' ')],
      ['Content type', told.content_type], ['Size', bytes(told.bytes)],
    ]),
    headers.length > 0 && [h('h4', {}, 'Headers'), h('pre', { tabindex: 0 }, headers.join('\n'))],
    h('h4', {}, 'Body'),
    told.body === undefined && told.base64 === undefined
      ? h('p', {}, 'Not shown: that needs the role write.')
      : h('pre', { tabindex: 0 }, told.body ?? told.base64, told.truncated && '\n(cut)'),
    h('h4', {}, 'Attempts'),
    h('ol', {}, told.attempts.map((failure) => h('li', {}, [time(failure.time), failure.fault, failure.cause].filter(Boolean).join(': ')))));
}

// A table of a list that comes in pages, with a button for the next page.
function paged(place, name, options) {
  const list = table({ key: (row) => row.id, ...options });
  let after = [null];
  let next = null;
  const load = async (signal) => {
    const at = after.at(-1);
    const told = await get(at === null ? place : `${place}?after=${encodeURIComponent(at)}`, signal);
    ({ next } = told);
    list.update(told[name]);
    forward.hidden = !next || told[name].length === 0;
    back.hidden = after.length < 2;
  };
  const forward = button('Next page', async () => {
    after = [...after, next];
    await load();
  }, { hidden: true });
  const back = button('Previous page', async () => {
    after = after.slice(0, -1);
    await load();
  }, { hidden: true });
  return { element: h('div', {}, list.element, h('div', { class: 'row' }, back, forward)), load };
}

function waiting(place) {
  const list = paged(`${place}/messages`, 'messages', {
    caption: 'Waiting messages, the next first',
    columns: [
      { title: 'Message', text: (row) => row.id },
      { title: 'Since', text: (row) => time(row.time) },
      { title: 'Request', long: true, text: (row) => [row.method, row.path].filter(Boolean).join(' ') },
      { title: 'Size', number: true, sort: (row) => row.bytes, text: (row) => bytes(row.bytes) },
      { title: 'Attempts', number: true, sort: (row) => row.attempts, text: (row) => count(row.attempts) },
      { title: 'Next try', text: (row) => time(row.next) },
    ],
    empty: 'No message waits.',
  });
  return { element: section('Waiting', list.element), load: list.load };
}

function subscriptions(place, may, refresh) {
  const remove = (row) => button('Remove', async () => {
    if (!await agreed(`Remove the subscription of ${row.callback} to ${row.topic}?`, 'Remove it')) return;
    await act('DELETE', `${place}/subscriptions${path(row.id)}`);
    notice('The subscription is removed.');
    refresh();
  }, { class: 'danger', 'aria-label': `Remove the subscription ${row.id}` });
  const list = paged(`${place}/subscriptions`, 'subscriptions', {
    caption: 'Subscriptions',
    columns: [
      { title: 'Topic', sort: (row) => row.topic, text: (row) => row.topic || '' },
      { title: 'Subject', sort: (row) => row.subject || '', text: (row) => row.subject || '' },
      { title: 'Callback', long: true, text: (row) => row.callback || '' },
      { title: 'Expires', text: (row) => time(row.expires) },
      { title: 'State', text: (row) => row.status, node: (row) => badge(row.status, row.status === 'active' ? 'good' : 'plain') },
      ...(may ? [{ title: '', text: () => '', node: remove }] : []),
    ],
    empty: 'Nobody has subscribed.',
  });
  return { element: section('Subscriptions', list.element), load: list.load };
}

export function schedules({ content, may, refresh }) {
  const run = (row) => button('Run now', async () => {
    await act('POST', `/schedules${path(row.name)}/run`);
    notice(`${row.name} runs.`);
    refresh();
  }, { 'aria-label': `Run ${row.name} now` });
  const state = (row) => (row.paused ? 'paused' : row.running ? 'runs' : 'waits');
  const list = table({
    caption: 'Schedules',
    columns: [
      { title: 'Name', sort: (row) => row.name, text: (row) => row.name },
      { title: 'Times', text: (row) => row.timing },
      { title: 'Flow', text: (row) => row.flow || '', node: (row) => (row.flow ? h('a', { href: `#/flows${path(row.flow)}` }, row.flow) : '') },
      { title: 'State', text: state, node: (row) => badge(state(row), row.paused ? 'warn' : 'good') },
      ...(may ? [{
        title: '', text: () => '', sign: (row) => String(row.paused),
        node: (row) => h('div', { class: 'row' }, run(row), pause(`/schedules${path(row.name)}`, row, refresh)),
      }] : []),
    ],
    key: (row) => row.name,
    empty: 'The configuration has no schedules.',
  });
  replace(content, list.element);
  return async (signal) => list.update((await get('/schedules', signal)).schedules);
}
