// The configuration in service: its text, complaints, differences, changes; and the ones that served before.

import { get, path, send } from './api.js';
import { agreed, badge, button, facts, field, h, notice, replace, section, table } from './dom.js';
import { count, counted, time } from './format.js';

export function configuration({ content, may, refresh }) {
  const told = h('div', {});
  const work = h('div', {});
  replace(content, told, work);
  let is_made = false;
  return async (signal) => {
    const [plan, response] = await Promise.all([get('/plan', signal), send('GET', '/config', { signal })]);
    const { configuration: state } = plan;
    replace(told, facts([
      ['Generation', String(plan.generation)], ['Hash', state.hash], ['Since', time(state.since_unix_ms)],
    ]), state.last_failed && h('div', { class: 'notice bad' }, h('p', {}, `Refused at ${time(state.last_failed.at_unix_ms)}; the configuration above stays in service.`), h('pre', {}, state.last_failed.why)),
    shared(state.shared), complaints(state.warnings, 'Warnings'));
    const text = await response.text();
    if (is_made) return;
    is_made = true;
    replace(work, may ? editor(text, response.headers.get('ETag'), refresh) : section('Text', h('pre', { tabindex: 0, class: 'code' }, text)));
  };
}

// One configuration for several gateways: what all serve, and what is on trial where.
function shared(state) {
  if (!state) return null;
  const { stable, trial, withdrawn } = state;
  return section('All gateways', facts([
    ['Configuration of all', String(stable)],
    ['On trial', trial && `${trial.number} at ${trial.canaries.join(', ')}`],
    ['Until', trial && time(trial.until_unix_ms)],
    ['By', trial && trial.by],
  ]), withdrawn && h('p', { class: 'notice bad' }, `The last trial was withdrawn: ${withdrawn}`));
}

function complaints(list, title) {
  if (!list || list.length === 0) return null;
  return section(title, h('ul', { class: 'complaints' }, list.map((one) => h('li', {},
    badge(one.severity, one.severity === 'error' ? 'bad' : 'warn'), ' ', h('code', {}, `${one.file || ''}:${one.line}:${one.column}`), ' ',
    one.message, one.help && h('span', { class: 'hint' }, ` ${one.help}`)))));
}

export function differences(list) {
  if (list.length === 0) return h('p', {}, 'No difference.');
  const signs = { added: '+', removed: '-', changed: '~', content: '~' };
  const value = (shown) => (shown === undefined ? '' : typeof shown === 'string' ? shown : JSON.stringify(shown));
  return h('ul', { class: 'differences' }, list.map((one) => h('li', { class: one.change },
    h('span', { class: 'sign' }, signs[one.change] || '~'), h('span', { class: 'unseen' }, one.change), ' ', h('code', {}, one.path), ' ',
    one.old !== undefined && h('del', {}, value(one.old)), ' ', one.new !== undefined && h('ins', {}, value(one.new)),
    one.change === 'content' && ' another content')));
}

// A text to edit, for one file; an archive to send, for a folder. Changes are made on the condition that nobody else made one.
function editor(text, hash, refresh) {
  const area = h('textarea', { rows: 28, spellcheck: 'false', class: 'code', wrap: 'off' });
  area.value = text;
  const file = h('input', { type: 'file', accept: '.zip,.yaml,.yml' });
  const outcome = h('div', { 'aria-live': 'polite' });
  let etag = hash;
  const chosen = () => {
    const [one] = file.files;
    if (!one) return { body: area.value, headers: { 'Content-Type': 'application/yaml' } };
    return { body: one, headers: { 'Content-Type': one.name.endsWith('.zip') ? 'application/zip' : 'application/yaml' } };
  };
  const attempt = async (work) => {
    try {
      await work();
    } catch (error) {
      if (!error.problem) throw error;
      const { complaints: list } = error.problem;
      replace(outcome, h('p', { class: 'notice bad' }, error.status === 412
        ? 'Somebody else has changed the configuration meanwhile. Reload it, and make your change again.' : error.message), complaints(list, 'Complaints'));
    }
  };
  const check = () => attempt(async () => {
    const told = await (await send('POST', '/config/check', chosen())).json();
    replace(outcome, h('p', { class: 'notice good' }, 'It can be used.'), complaints(told.complaints, 'Warnings'));
  });
  const compare = () => attempt(async () => {
    const told = await (await send('POST', '/config/diff', chosen())).json();
    replace(outcome, section('Differences to the one in service', differences(told.differences)));
  });
  const apply = () => attempt(async () => {
    const { body, headers } = chosen();
    const told = await (await send('POST', '/config/diff', { body, headers })).json();
    replace(outcome, section('Differences to the one in service', differences(told.differences)));
    if (told.equal || !await agreed(`Bring ${counted(told.differences.length, 'difference')} into service?`, 'Apply')) return;
    const response = await send('PUT', '/config', { body, headers: { ...headers, 'If-Match': etag } });
    etag = response.headers.get('ETag') || etag;
    const done = await response.json();
    replace(outcome, h('p', { class: 'notice good' }, `Generation ${done.generation} is in service.`),
      done.unwritten && h('p', { class: 'notice bad' }, `It could not be written to its file: ${done.unwritten}. A restart loses it.`),
      complaints(done.warnings, 'Warnings'));
    notice(`Generation ${done.generation} is in service.`);
    refresh();
  });
  const reload = async () => {
    const response = await send('GET', '/config');
    etag = response.headers.get('ETag');
    area.value = await response.text();
    file.value = '';
    replace(outcome);
  };
  const archive = async () => {
    const response = await send('GET', '/config', { headers: { Accept: 'application/zip' } });
    const link = h('a', { href: URL.createObjectURL(await response.blob()), download: 'tidegate.zip' });
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return [
    field('Text', area, 'Secrets are ***, which means the value in service. A gateway that serves a folder takes an archive.'),
    field('Or a file', file),
    h('div', { class: 'row' }, button('Check', check), button('Compare', compare), button('Apply', apply, { class: 'main' }),
      button('Reload the text', reload), button('Save as an archive', archive)),
    outcome,
  ];
}

export function generation({ content, parts, may, refresh }) {
  return parts.length ? past(content, parts[0]) : history(content, may, refresh);
}

function history(content, may, refresh) {
  const back = (row) => button('Roll back', async () => {
    const found = await get(`/config/history${path(String(row.generation))}/diff`);
    if (!await agreed(`Bring generation ${row.generation} into service again? It differs in ${counted(found.differences.length, 'place')} from the one in service.`, 'Roll back')) return;
    const response = await send('POST', `/config/history${path(String(row.generation))}/rollback`);
    notice(`Generation ${(await response.json()).generation} is in service.`);
    refresh();
  }, { 'aria-label': `Roll back to ${row.generation}` });
  const list = table({
    caption: 'Configurations that served, newest first',
    columns: [
      { title: 'Generation', text: (row) => String(row.generation), node: (row) => h('a', { href: `#/history/${row.generation}` }, String(row.generation)) },
      { title: 'Since', text: (row) => time(row.time) },
      { title: 'By', text: (row) => row.by },
      { title: 'Differences', number: true, sort: (row) => row.changes, text: (row) => count(row.changes) },
      { title: 'Hash', text: (row) => row.hash.slice(0, 12) },
      ...(may ? [{ title: '', text: () => '', sign: (row) => String(row.is_now), node: (row) => (row.is_now ? badge('in service', 'good') : back(row)) }] : []),
    ],
    key: (row) => row.generation,
    empty: 'No configuration is kept.',
  });
  replace(content, list.element);
  return async (signal) => {
    const [kept, plan] = await Promise.all([get('/config/history', signal), get('/plan', signal)]);
    list.update(kept.map((row) => ({ ...row, is_now: row.generation === plan.generation })));
  };
}

function past(content, number) {
  const changes = h('div', {});
  const text = h('pre', { tabindex: 0, class: 'code' });
  replace(content, section('Differences from it to the one in service', changes), section('Text', text));
  return async (signal) => {
    const place = `/config/history${path(number)}`;
    const [found, response] = await Promise.all([get(`${place}/diff`, signal), send('GET', place, { signal })]);
    replace(changes, differences(found.differences));
    text.textContent = await response.text();
  };
}
