// Any scenario of requests, from the file that `tidegate-bench load write` makes of it: k6 run -e LOAD=load.json -e OUT=k6.json load-file.js
// Samples that begin within the warm-up do not count, as in our own generator.

import { sleep } from 'k6';
import exec from 'k6/execution';
import http from 'k6/http';
import { Counter, Trend } from 'k6/metrics';

const load = JSON.parse(open(__ENV.LOAD));
const seconds = (duration) => duration.secs + duration.nanos / 1e9;
const { groups, tables } = load.work.requests;
const url = `${load.target.tls ? 'https' : 'http'}://${load.target.address}`;

const samples = new Counter('measured_samples');
const errors = new Counter('measured_errors');
const times = new Trend('measured_ms');

const scenarios = {};
groups.forEach((group, n) => {
  const vus = group.stages[group.stages.length - 1].users;
  scenarios[`group${n}`] = { executor: 'constant-vus', vus, duration: `${seconds(load.duration)}s`, gracefulStop: '20s', exec: 'run', env: { GROUP: `${n}` } };
});
export const options = { scenarios, insecureSkipTLSVerify: true, noUsageReport: true };

const LETTERS = '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ';
function drawn(count) {
  let text = '';
  for (let n = 0; n < count; n += 1) text += LETTERS[Math.floor(Math.random() * LETTERS.length)];
  return text;
}

// To draw a body of a kilobyte letter by letter takes longer than its request. Pieces from random places of one text differ as well.
const POOL = drawn(4096);
function letters(count) {
  let text = '';
  while (text.length < count) {
    const from = Math.floor(Math.random() * (POOL.length - 64));
    text += POOL.slice(from, Math.min(POOL.length, from + count - text.length));
  }
  return text;
}

// Fills in the places of a text.
function filled(text, turn) {
  return text.replace(/\$\{([^}]+)\}/g, (whole, place) => {
    const [kind, size] = place.split(':');
    if (kind === 'number') return `${turn.number}`.padStart(size, '0').slice(-size);
    if (kind === 'user') return `${turn.user}`.padStart(size, '0').slice(-size);
    if (kind === 'random') return letters(Number(size));
    const [name, column] = place.split('.');
    const table = tables[name];
    const by = table.by === 'user' ? turn.user : turn.number;
    return table.rows[by % table.rows.length][table.columns.indexOf(column)];
  });
}

function isRight(reply, expected, sent, turn) {
  if (reply.status !== expected.status) return false;
  for (const [name, value] of expected.headers || []) {
    const line = Object.keys(reply.headers).find((key) => key.toLowerCase() === name);
    if (!line || reply.headers[line] !== value) return false;
  }
  const body = expected.body || 'any';
  if (body === 'any') return true;
  if (body === 'echo') return reply.body === sent;
  if (body === 'contains-request') return reply.body.includes(sent);
  if (body.contains !== undefined) return reply.body.includes(filled(body.contains, turn));
  if (body.equals !== undefined) return reply.body === filled(body.equals, turn);
  if (body.bytes !== undefined) return reply.body.length === body.bytes;
  throw new Error(`unknown expectation ${JSON.stringify(body)}`);
}

export function run() {
  const group = groups[Number(__ENV.GROUP)];
  const turn = { number: exec.scenario.iterationInTest, user: exec.vu.idInTest - 1 };
  const template = group.requests[turn.number % group.requests.length];
  const headers = {};
  for (const [name, value] of template.headers) headers[name] = filled(value, turn);
  const body = filled(template.body, turn);
  const at = (Date.now() - exec.scenario.startTime) / 1000;
  const reply = http.request(template.method, `${url}${filled(template.path, turn)}`, body, { headers });
  if (at >= seconds(load.warm_up)) {
    samples.add(1);
    times.add(reply.timings.duration);
    if (!isRight(reply, template.expected, body, turn)) errors.add(1);
  }
  sleep(seconds(group.think));
}

export function handleSummary(data) {
  const value = (name, key) => (data.metrics[name] ? data.metrics[name].values[key] : 0);
  const count = value('measured_samples', 'count');
  const figures = {
    samples: count,
    errors: value('measured_errors', 'count'),
    throughput: count / (seconds(load.duration) - seconds(load.warm_up)),
    mean_ms: value('measured_ms', 'avg'),
  };
  return { [__ENV.OUT]: JSON.stringify(figures) };
}
