// What all scenarios share: stages, options, messages, and the check of every reply.
//
// GATEWAY is the gateway's URL, https://127.0.0.1:8443 if absent. SCALE shortens every stage, as 0.01 for CI; ITERATIONS=1 runs
// each scenario that often and no longer. A run fails unless every check passes.

import { check } from 'k6';
import http from 'k6/http';

export const gateway = __ENV.GATEWAY || 'https://127.0.0.1:8443';

const scale = Number(__ENV.SCALE || 1);

// A stage of so many seconds to so many users.
function stage(seconds, target) {
  return { duration: `${Math.max(1, Math.round(seconds * scale))}s`, target };
}

const STAGES = {
  scen0: [[30, 25], [30, 40], [900, 65]],
  policies: [[30, 6], [30, 12], [30, 20], [900, 20]],
  httpbin: [[30, 6], [30, 12], [30, 300], [900, 300]],
  gobench: [[30, 6], [30, 12], [30, 100], [900, 100]],
};

// How the users of a group come, as k6 wants to be told it.
export function ramp(group, exec) {
  if (__ENV.ITERATIONS) {
    return { executor: 'per-vu-iterations', vus: 1, iterations: Number(__ENV.ITERATIONS), exec };
  }
  const stages = STAGES[group].map(([seconds, target]) => stage(seconds, target));
  return { executor: 'ramping-vus', startVUs: 0, stages, gracefulRampDown: '5s', exec };
}

// The endurance runs' users of one route: a minute to ten, then a day to twenty.
export function endurance(exec) {
  if (__ENV.ITERATIONS) return ramp('policies', exec);
  const minutes = Number(__ENV.MINUTES || 24 * 60);
  const vus = Number(__ENV.VUS_EACH || 0);
  const stages = [
    { duration: '60s', target: vus || 10 },
    { duration: `${minutes}m`, target: vus || 20 },
  ];
  return { executor: 'ramping-vus', startVUs: 0, stages, gracefulRampDown: '30s', exec };
}

export function settings(scenarios) {
  return {
    scenarios,
    insecureSkipTLSVerify: true,
    thresholds: { checks: ['rate==1'] },
    summaryTrendStats: ['min', 'max', 'avg', 'p(90)', 'p(95)', 'p(99)'],
  };
}

export function envelope(operation, a, b) {
  return `<?xml version="1.0" encoding="utf-8"?>
<soap:Envelope xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">
  <soap:Body>
    <${operation} xmlns="http://tempuri.org/">
      <intA>${a}</intA>
      <intB>${b}</intB>
    </${operation}>
  </soap:Body>
</soap:Envelope>
`;
}

export const XML = 'text/xml; charset=utf-8';

// Sends one request and checks its reply: status, the exact content type, and what stands in the body.
export function ask(path, body, headers, wanted) {
  const reply = http.post(`${gateway}${path}`, body, { headers });
  const checks = {
    [`${path}: status ${wanted.status || 200}`]: (r) => r.status === (wanted.status || 200),
    [`${path}: content type`]: (r) => r.headers['Content-Type'] === wanted.type,
  };
  if (wanted.holds) checks[`${path}: ${wanted.holds}`] = (r) => r.body.includes(wanted.holds);
  if (wanted.body) checks[`${path}: exact body`] = (r) => r.body === wanted.body;
  if (wanted.region) checks[`${path}: region`] = (r) => r.headers['X-Soap-Region'] === wanted.region;
  check(reply, checks);
  return reply;
}

// The fault of SOAP 1.1 in the reference system's layout.
export function fault(code, step, message) {
  return `<?xml version="1.0" encoding="utf-8"?>
<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/">
  <soap:Body>
    <soap:Fault>
      <faultcode>soap:${code}</faultcode>
      <faultstring>${step}</faultstring>
      <detail>
        <errorMessage>${message}</errorMessage>
      </detail>
    </soap:Fault>
  </soap:Body>
</soap:Envelope>`;
}
