// gobench 0: 350 bytes of text.

import { check } from 'k6';
import http from 'k6/http';

import { gateway, ramp, settings } from './common.js';

export const options = settings({ gobench0: ramp('gobench', 'run') });

export function run() {
  const reply = http.get(`${gateway}/gobench0/size/350B`);
  check(reply, {
    'status 200': (r) => r.status === 200,
    'content type': (r) => r.headers['Content-Type'] === 'text/plain; charset=utf-8',
    '350 bytes': (r) => r.body.length === 350,
  });
}
