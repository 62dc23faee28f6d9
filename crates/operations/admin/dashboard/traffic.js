// Overview and routes: rates, errors and times over the last hour.

import { get, path } from './api.js';
import { chart } from './chart.js';
import { badge, facts, h, replace, section, table } from './dom.js';
import { count, counted, millis, percent, rate, sum } from './format.js';

export function overview({ content }) {
  const problems = h('div', {});
  const numbers = h('div', {});
  const charts = h('div', { class: 'charts' });
  const busiest = routesTable('Busiest routes');
  replace(content, problems, numbers, charts, section('Routes', busiest.element, h('p', {}, h('a', { href: '#/routes' }, 'All routes'))));
  return async (signal) => {
    const [traffic, plan] = await Promise.all([get('/traffic', signal), get('/plan', signal)]);
    replace(problems, warnings(plan));
    replace(numbers, summary(traffic, plan));
    draw(charts, traffic);
    busiest.update(traffic.routes.slice().sort((a, b) => b.requests - a.requests).slice(0, 20));
  };
}

function warnings(plan) {
  const { last_failed: refused } = plan.configuration;
  const ill = plan.upstreams.flatMap((upstream) => upstream.targets
    .filter((target) => target.health === 'unhealthy' || target.ejected || target.suspended_until_unix_ms)
    .map((target) => `${upstream.name}: ${target.url}`));
  return [
    refused && h('div', { class: 'notice bad' }, h('p', {}, 'The last change was refused; the configuration before it is in service.'), h('pre', {}, refused.why)),
    ill.length > 0 && h('p', { class: 'notice bad' }, `No requests go to ${counted(ill.length, 'target')}: ${ill.slice(0, 5).join(', ')}. `,
      h('a', { href: '#/upstreams' }, 'Upstreams')),
  ];
}

function summary(traffic, plan) {
  const { total } = traffic;
  const requests = sum(total.requests);
  return facts([
    ['Requests now', `${rate(total.requests.length ? total.requests.at(-1) / total.seconds.at(-1) : 0)} a second`],
    ['Last hour', counted(requests, 'request')],
    ['Client errors', percent(sum(total.client_errors), requests)],
    ['Server errors', percent(sum(total.server_errors), requests)],
    ['Configuration', h('a', { href: '#/configuration' }, `${plan.generation} (${plan.configuration.hash.slice(0, 8)})`)],
    ['Routes', count(plan.routes.length)],
    ['Upstreams', count(plan.upstreams.length)],
    ['Workers', count(plan.workers)],
  ]);
}

// Charts are left alone while somebody points at them or reads their numbers.
function draw(place, traffic) {
  if (place.matches(':hover') || place.querySelector('details[open]')) return;
  const { times, total } = traffic;
  const rates = (values) => values.map((value, at) => value / total.seconds[at]);
  const unit = (value) => rate(value);
  replace(place,
    chart({ title: 'Requests a second', times, unit, series: [{ name: 'all', values: rates(total.requests) }] }),
    chart({
      title: 'Errors a second', times, unit,
      series: [{ name: 'client', values: rates(total.client_errors) }, { name: 'server', values: rates(total.server_errors) }],
    }),
    chart({
      title: 'Time of a request', times, unit: millis,
      series: [{ name: 'p50', values: total.p50_ms }, { name: 'p95', values: total.p95_ms }, { name: 'p99', values: total.p99_ms }],
    }));
}

export function routes(page) {
  return page.parts.length ? oneRoute(page) : allRoutes(page);
}

function allRoutes({ content }) {
  const list = routesTable('Routes', true);
  replace(content, list.element);
  return async (signal) => {
    const [traffic, routes] = await Promise.all([get('/traffic', signal), get('/routes', signal)]);
    const counted = new Map(traffic.routes.map((route) => [route.name, route]));
    const idle = (name) => ({ name, requests: 0, rate: 0, client_errors: 0, server_errors: 0, p50_ms: null, p95_ms: null, p99_ms: null });
    const known = new Map(routes.map((route) => [route.name, route]));
    const all = routes.map((route) => ({ ...(counted.get(route.name) || idle(route.name)), route }));
    const others = traffic.routes.filter((route) => !known.has(route.name));
    list.update([...all, ...others]);
  };
}

function routesTable(caption, filter = false) {
  const number = (title, of, text) => ({ title, number: true, sort: (row) => of(row) ?? -1, text: (row) => text(of(row), row) });
  const errors = (title, name) => ({
    title, number: true, sort: (row) => row[name],
    text: (row) => (row[name] ? `${count(row[name])} (${percent(row[name], row.requests)})` : '0'),
    node: (row) => (row[name] ? h('span', { class: name === 'server_errors' ? 'bad' : null }, `${count(row[name])} (${percent(row[name], row.requests)})`) : '0'),
  });
  const columns = [
    { title: 'Route', sort: (row) => row.name, text: (row) => row.name, node: (row) => h('a', { href: `#/routes${path(row.name)}` }, row.name) },
    { title: 'Match', long: true, text: (row) => (row.route ? matched(row.route) : '') },
    { title: 'Goes to', text: (row) => (row.route ? destination(row.route) : '') },
    number('Requests', (row) => row.requests, count),
    number('A second', (row) => row.rate, rate),
    errors('Client errors', 'client_errors'),
    errors('Server errors', 'server_errors'),
    number('p50', (row) => row.p50_ms, millis),
    number('p95', (row) => row.p95_ms, millis),
    number('p99', (row) => row.p99_ms, millis),
  ];
  const shown = filter ? columns : columns.filter((column) => !['Match', 'Goes to'].includes(column.title));
  return table({ caption: `${caption}, last hour`, columns: shown, key: (row) => row.name, filter, empty: 'No requests yet.' });
}

function matched(route) {
  const { host, path: where, methods } = route.match;
  return [methods.join(' '), `${host || ''}${where}`].filter(Boolean).join(' ');
}

function destination(route) {
  const to = route.destination;
  if (!to) return 'its policies';
  if (typeof to.upstream === 'string') return to.upstream;
  if (to.upstream) return Object.entries(to.upstream).map(([name, weight]) => `${name} ${weight}`).join(', ');
  if (to.flow) return `flow ${to.flow}`;
  if (to.hub) return `hub ${typeof to.hub === 'string' ? to.hub : ''}`;
  return to.respond ? `fixed ${to.respond.status}` : 'its policies';
}

function oneRoute({ content, parts }) {
  const [name] = parts;
  const told = h('div', {});
  const charts = h('div', { class: 'charts' });
  const policies = h('div', {});
  const asks = [['/refusals', 'Refusals'], ['/tail', 'Live tail'], ['/trace', 'Trace']];
  replace(content, told, charts, policies, h('p', {}, asks.map(([to, text]) => [h('a', { href: `#${to}${path(name)}` }, `${text} of this route`), ' '])));
  return async (signal) => {
    const [traffic, routes] = await Promise.all([get(`/traffic${path(name)}`, signal), get('/routes', signal)]);
    const route = routes.find((one) => one.name === name);
    const requests = sum(traffic.total.requests);
    replace(told, facts([
      ['Match', route && matched(route)],
      ['Goes to', route && destination(route)],
      ['Last hour', counted(requests, 'request')],
      ['Client errors', percent(sum(traffic.total.client_errors), requests)],
      ['Server errors', percent(sum(traffic.total.server_errors), requests)],
    ]));
    draw(charts, traffic);
    replace(policies, route && section('Policies', route.policies.length === 0 ? h('p', {}, 'None.') : h('ol', {},
      route.policies.map((policy) => h('li', {}, policy.name, ' ', policy.request && badge('request', 'plain'), ' ', policy.response && badge('response', 'plain'))))));
  };
}
