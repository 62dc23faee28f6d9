// The pages and their order in the navigation. A page has a path, a title, `show`, and `every`: the seconds between two refreshes.
//
// `show({ content, parts, may, signal, refresh })` fills `content` once and returns what loads and shows the data, each time anew.
// `parts` are the names behind the path, such as a route's; `may` is true for operators who may change things: others get no controls.

import { configuration, generation } from './configuration.js';
import { flows } from './flows.js';
import { certificates, memory, streams } from './gateway.js';
import { hubs, queues, schedules } from './messages.js';
import { refusals, tail, trace } from './exchanges.js';
import { routes, overview } from './traffic.js';
import { upstreams } from './upstreams.js';

export const GROUPS = [
  {
    title: 'Traffic',
    pages: [
      { path: '/', title: 'Overview', show: overview, every: 5 },
      { path: '/routes', title: 'Routes', show: routes, every: 5 },
      { path: '/streams', title: 'Open streams', show: streams, every: 5 },
      { path: '/upstreams', title: 'Upstreams', show: upstreams, every: 5 },
    ],
  },
  {
    title: 'Exchanges',
    pages: [
      { path: '/refusals', title: 'Refusals', show: refusals, every: 5 },
      { path: '/tail', title: 'Live tail', show: tail, every: 1 },
      { path: '/trace', title: 'Trace a message', show: trace, every: 3 },
    ],
  },
  {
    title: 'Messages',
    pages: [
      { path: '/flows', title: 'Flows', show: flows, every: 5 },
      { path: '/queues', title: 'Queues', show: queues, every: 5 },
      { path: '/hubs', title: 'Hubs', show: hubs, every: 5 },
      { path: '/schedules', title: 'Schedules', show: schedules, every: 5 },
    ],
  },
  {
    title: 'Gateway',
    pages: [
      { path: '/configuration', title: 'Configuration', show: configuration },
      { path: '/history', title: 'History', show: generation, every: 10 },
      { path: '/certificates', title: 'Certificates', show: certificates, every: 60 },
      { path: '/memory', title: 'Memory and workers', show: memory, every: 5 },
    ],
  },
];

const PAGES = GROUPS.flatMap((group) => group.pages);

// The page of an address, and the names behind its path.
export function pageAt(address) {
  const [first, ...rest] = address.replace(/^\//, '').split('/');
  const page = PAGES.find((one) => one.path === `/${first}`) || PAGES[0];
  return { page, parts: page.path === '/' ? [] : rest.filter(Boolean).map(decoded) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
