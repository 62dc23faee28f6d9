// Good and bad requests at the same time, which must not see anything of one another: CONCURRENT=1 has a route with a WSDL that
// is none, CONCURRENT=3 a request for an operation that is none.

import { XML, ask, envelope, fault, ramp, settings } from './common.js';
import { calls } from './messages.js';

const number = __ENV.CONCURRENT || '1';

export const options = settings({
  ok: ramp('policies', 'good'),
  ko: ramp('policies', 'bad'),
});

export function good() {
  calls[number](`/scen${number}`);
}

const STEP = 'Request - XSD validation failed';
const UNKNOWN = 'Add_DOES_NOT_EXIST';

const bads = {
  1: () => ({
    path: '/scen1invalidwsdl',
    body: envelope('Add', 5, 7),
    message: 'Unable to find a suitable Schema to validate the SOAP/XML',
  }),
  3: () => ({
    path: '/scen3',
    body: envelope(UNKNOWN, 5, 7),
    message: `Error Node: ${UNKNOWN}, Error code: 1845, Line: 4, Message: Element '{http://tempuri.org/}${UNKNOWN}': No matching global declaration available for the validation root.`,
  }),
};

export function bad() {
  const { path, body, message } = bads[number]();
  ask(path, body, { 'Content-Type': XML }, { status: 500, type: XML, body: fault('Client', STEP, message) });
}
