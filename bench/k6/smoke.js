// Every scenario that is listed in SCENARIOS once ("0 1 2 3"), so that a defect shows before a long run.

import { settings } from './common.js';
import { calls, place } from './messages.js';

const numbers = (__ENV.SCENARIOS || '0 1 2 3 4 5 6 7 typed').split(' ');

export const options = settings({
  smoke: { executor: 'per-vu-iterations', vus: 1, iterations: 1, exec: 'run' },
});

export function run() {
  for (const number of numbers) calls[number](place(number));
}
