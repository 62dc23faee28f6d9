// Endurance 5, 9 or 10 on many routes: k6 run -e ENDURANCE=5 -e ROUTES=100 endurance.js. MINUTES and VUS_EACH shorten it.

import { sleep } from 'k6';
import exec from 'k6/execution';

import { endurance, settings } from './common.js';
import { lasting } from './messages.js';

const number = __ENV.ENDURANCE || '5';
const routes = Number(__ENV.ROUTES || 100);

const scenarios = {};
for (let route = 1; route <= routes; route += 1) scenarios[`route${route}`] = endurance('run');

export const options = settings(scenarios);

export function run() {
  const route = exec.scenario.name.slice('route'.length);
  lasting[number](`/endurance${number}/${route}`);
  sleep(0.65);
}
