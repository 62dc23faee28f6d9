// httpbin 0 to 2: JSON to /anything, whose echo has to be what was sent. k6 run -e HTTPBIN=1 httpbin.js

import { check } from 'k6';
import http from 'k6/http';

import { gateway, ramp, settings } from './common.js';

const number = __ENV.HTTPBIN || '0';

export const options = settings({ [`httpbin${number}`]: ramp('httpbin', 'run') });

const long = (letter) => letter.repeat(64);
const sent = { one: long('a'), two: long('b'), three: long('c'), four: long('d') };
const body = JSON.stringify(sent);

// k6 gives the members of an object in any order.
function same(echoed) {
  const names = Object.keys(echoed);
  return names.length === Object.keys(sent).length && names.every((name) => echoed[name] === sent[name]);
}

export function run() {
  const headers = { 'Content-Type': 'application/json' };
  const reply = http.post(`${gateway}/httpbin${number}/anything`, body, { headers });
  check(reply, {
    'status 200': (r) => r.status === 200,
    'the echo is what was sent': (r) => same(r.json('json')),
  });
}
