// One of the scenarios 0 to 10, or `typed`: k6 run -e SCENARIO=5 scenario.js

import { ramp, settings } from './common.js';
import { calls, place } from './messages.js';

const number = __ENV.SCENARIO || '1';

export const options = settings({
  [`scen${number}`]: ramp(number === '0' ? 'scen0' : 'policies', 'run'),
});

export function run() {
  calls[number](place(number));
}
