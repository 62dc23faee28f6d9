// Upstreams: their targets with state and reason, and weights and drains for operators who may change them.

import { act, get, path } from './api.js';
import { badge, button, field, h, notice, replace, table } from './dom.js';
import { count } from './format.js';

export function upstreams({ content, may, refresh }) {
  const list = table({
    caption: 'Targets of upstreams',
    columns: [
      { title: 'Upstream', sort: (row) => row.upstream, text: (row) => row.upstream },
      { title: 'Target', long: true, sort: (row) => row.target.url, text: (row) => row.target.url },
      { title: 'State', sort: (row) => state(row.target)[0], text: (row) => state(row.target)[0], sign: (row) => state(row.target).join(), node: shown },
      { title: 'Why', long: true, text: (row) => row.target.reason || '' },
      { title: 'Weight', number: true, sort: (row) => row.target.weight, text: weight },
      { title: 'Active', number: true, sort: (row) => row.target.requests_active, text: (row) => count(row.target.requests_active) },
      ...(may ? [controls(refresh)] : []),
    ],
    key: (row) => `${row.upstream} ${row.target.id}`,
    filter: true,
    empty: 'No upstream has a target.',
  });
  const without = h('div', {});
  replace(content, list.element, without);
  return async (signal) => {
    const all = await get('/upstreams', signal);
    list.update(all.flatMap((upstream) => upstream.targets.map((target) => ({ upstream: upstream.name, target }))));
    const none = all.filter((upstream) => upstream.no_targets_because);
    replace(without, none.map((upstream) => h('p', { class: 'notice bad' }, `${upstream.name} has no targets: ${upstream.no_targets_because}`)));
  };
}

function state(target) {
  if (target.drain) return ['drained', 'warn'];
  if (target.suspended_until_unix_ms) return ['suspended', 'bad'];
  if (target.ejected) return ['ejected', 'bad'];
  const kinds = { healthy: 'good', failing: 'warn', unhealthy: 'bad' };
  return [target.health, kinds[target.health] || 'plain'];
}

function shown(row) {
  const until = row.target.suspended_until_unix_ms;
  const text = state(row.target)[0];
  return [badge(text, state(row.target)[1]), until ? ` until ${new Date(until).toLocaleTimeString('en-GB')}` : ''];
}

function weight(row) {
  const { weight: now, configured_weight: configured } = row.target;
  return now === configured ? String(now) : `${now} (configured ${configured})`;
}

function controls(refresh) {
  const change = async (row, wish, told) => {
    await act('PATCH', `/upstreams${path(row.upstream)}/targets${path(row.target.id)}`, wish);
    notice(told);
    refresh();
  };
  const node = (row) => {
    const name = `${row.upstream} ${row.target.url}`;
    const input = h('input', { type: 'number', min: 0, max: 65535, value: row.target.weight, class: 'short' });
    const set = button('Set', () => change(row, { weight: Number(input.value) }, `${name} has weight ${input.value} now.`),
      { 'aria-label': `Set the weight of ${name}` });
    const drain = row.target.drain
      ? button('Use again', () => change(row, { drain: false }, `${name} gets requests again.`), { 'aria-label': `Use ${name} again` })
      : button('Drain', () => change(row, { drain: true }, `${name} gets no new requests.`), { 'aria-label': `Drain ${name}` });
    return h('div', { class: 'row' }, unseen(field(`Weight of ${name}`, input)), set, drain);
  };
  return { title: '', text: () => '', sign: (row) => `${row.target.weight} ${row.target.drain}`, node };
}

function unseen(labelled) {
  labelled.classList.add('label-unseen');
  return labelled;
}
