// Everything at once, with errors mixed in: the scenarios 1, 5, 9 and 10, the JWT API, flows, streams and the hub, and beside them
// what clients do wrong. Each reply is checked, that of a bad request too. MINUTES, USERS of each kind, ROUTES, TOKEN, EXPIRED.

import { check, sleep } from 'k6';
import crypto from 'k6/crypto';
import exec from 'k6/execution';
import http from 'k6/http';
import ws from 'k6/ws';

import { XML, ask, envelope, gateway, settings } from './common.js';
import { calls, lasting } from './messages.js';

const minutes = Number(__ENV.MINUTES || 15);
const routes = Number(__ENV.ROUTES || 25);
const users = Number(__ENV.USERS || 2);
const KINDS = ['soap1', 'soap5', 'soap9', 'soap10', 'api', 'flows', 'events', 'sockets', 'hub', 'mistakes'];

const scenarios = {};
for (const kind of KINDS) scenarios[kind] = { executor: 'constant-vus', vus: users, duration: `${minutes}m`, exec: kind, gracefulStop: '30s' };
export const options = settings(scenarios);

const route = () => 1 + (exec.scenario.iterationInTest % routes);
// As the reference's endurance runs.
const think = () => sleep(0.65);

export function soap1() {
  calls[1](`/scen1/${route()}`);
  think();
}
export function soap5() {
  lasting[5](`/scen5/${route()}`);
  think();
}
export function soap9() {
  lasting[9](`/scen9/${route()}`);
  think();
}
export function soap10() {
  lasting[10](`/scen10/${route()}`);
  think();
}

const bearer = (token) => ({ Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' });
const status = (name, reply, wanted) => check(reply, { [`${name}: ${wanted}`]: (r) => r.status === wanted });

export function api() {
  const body = JSON.stringify({ number: exec.scenario.iterationInTest });
  const reply = http.post(`${gateway}/api/echo`, body, { headers: bearer(__ENV.TOKEN) });
  check(reply, { 'api: the echo': (r) => r.status === 200 && r.body === body });
  think();
}

const FLOWS = ['XSLTProxy', 'MessageBuildingProxy', 'CloneAndAggregateWithFourBackendProxy', 'EnrichBackAndForthProxy'];
const order = (n) => `<order><symbol>IBM</symbol><buyerID>b${n}</buyerID><price>140.34</price><volume>${n}</volume></order>`;
const stocks = (n) =>
  `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><m:buyStocks xmlns:m="http://services.samples/xsd">${order(n)}${order(n + 1)}</m:buyStocks></s:Body></s:Envelope>`;

export function flows() {
  const n = exec.scenario.iterationInTest;
  const flow = FLOWS[n % FLOWS.length];
  const reply = http.post(`${gateway}/services/${flow}`, stocks(n), { headers: { 'Content-Type': 'text/xml', SOAPAction: 'urn:buyStocks' } });
  check(reply, { [`${flow}: a symbol`]: (r) => r.status === 200 && r.body.includes('<symbol>IBM</symbol>') });
  think();
}

// k6 reads an event stream to its end, so each has ten events.
export function events() {
  const reply = http.get(`${gateway}/sse/?interval=100ms&count=10`);
  check(reply, { 'sse: ten events': (r) => r.status === 200 && r.body.split('\n\n').filter((event) => event.includes('data:')).length === 10 });
  think();
}

export function sockets() {
  let got = 0;
  const reply = ws.connect(`${gateway.replace('http', 'ws')}/ws/`, {}, (socket) => {
    socket.on('open', () => socket.send('abc'));
    socket.on('message', (text) => {
      if (text === 'cba') got += 1;
      if (got === 10) socket.close();
      else socket.setTimeout(() => socket.send('abc'), 100);
    });
    socket.setTimeout(() => socket.close(), 60000);
  });
  check(reply, { 'ws: 101': (r) => r && r.status === 101 });
  check(got, { 'ws: ten messages turned round': (count) => count === 10 });
  think();
}

export function hub() {
  const body = `event ${exec.scenario.iterationInTest} `.repeat(50);
  const signature = `sha256=${crypto.hmac('sha256', 'endurance', body, 'hex')}`;
  const reply = http.post(`${gateway}/news/publish?topic=news`, body, { headers: { 'Content-Type': 'text/plain', 'X-Hub-Signature': signature } });
  status('hub', reply, 200);
  think();
}

const MISTAKES = [
  () => status('no token', http.get(`${gateway}/api/x`), 401),
  () => status('expired token', http.get(`${gateway}/api/x`, { headers: bearer(__ENV.EXPIRED) }), 401),
  () => status('no route', http.get(`${gateway}/nowhere`), 404),
  () => status('no upstream', http.get(`${gateway}/down`), 502),
  () => status('broken WSDL', http.post(`${gateway}/broken`, envelope('Add', 5, 7), { headers: { 'Content-Type': XML } }), 500),
  () => status('no XML', http.post(`${gateway}/scen1/1`, '<a><b></a>', { headers: { 'Content-Type': XML } }), 500),
  () => status('unknown operation', http.post(`${gateway}/scen5/1`, envelope('Nothing', 5, 7), { headers: { 'Content-Type': XML, SOAPAction: 'http://tempuri.org/Add' } }), 500),
  () => status('no JSON', http.post(`${gateway}/scen9/1`, '{"operation":', { headers: { 'Content-Type': 'application/json' } }), 400),
  () => status('no XML for a flow', http.post(`${gateway}/services/XSLTProxy`, '<a><b></a>', { headers: { 'Content-Type': 'text/xml' } }), 400),
  () => status('unsigned event', http.post(`${gateway}/news/publish?topic=news`, 'x'), 401),
  // A client that does not wait for the reply.
  () => http.get(`${gateway}/sse/?interval=1s&count=5`, { timeout: '50ms' }),
];

export function mistakes() {
  MISTAKES[exec.scenario.iterationInTest % MISTAKES.length]();
  think();
}
