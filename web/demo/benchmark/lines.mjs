// Measurements as the JSON lines that `nearfield-bench compare` and `nearfield-bench report` read (docs/benchmark.md lists their fields).

import { version } from '../../dist/index.js';
import { SEED } from './measure.mjs';

/** What an index may use as scratch memory, by default. */
const SCRATCH = 256 * 2 ** 20;

/** Six digits are more than a clock of a browser has. */
const rounded = (number) => Number(number.toPrecision(6));

export function lines({ settings, cases }) {
  const now = new Date().toISOString();
  const { rows, dim, queries, k } = settings;
  const data = `noise around 256 centres, norm 1, seed ${SEED}, made in a browser`;
  const records = cases.flatMap(({ way, device, notRun, ms, least, most, runs, plan, wrong, checked }) => {
    const name = `${rows} x ${dim} ${data}, ${queries} ${queries === 1 ? 'query' : 'queries'}, cosine, k ${k}, ${way} in a browser`;
    if (notRun) return [{ record: 'not_run', suite: 'exact', case: name, reason: notRun }];
    const places = `${way} in a browser`;
    const identity = { rows, dim, queries, k, metric: 'cosine', data, screened: plan.includes('integers'), scratch: SCRATCH, places };
    const head = {
      record: 'device', schema: 1, date: now.slice(0, 10), time: now.slice(11, 19), ...device, driver: navigator.userAgent,
      threads: way === 'gpu' ? navigator.hardwareConcurrency : 1, os: navigator.userAgentData?.platform ?? navigator.platform,
      version, revision: null, command: location.pathname,
    };
    const figures = {
      runs, ms: rounded(ms), ms_least: rounded(least), ms_most: rounded(most), device_ms: null,
      queries_per_s: rounded((queries / ms) * 1000), plan, stages: {},
      // A number of checked queries stands for answers that are right.
      verified: wrong === 0 && checked,
    };
    return [head, { record: 'case', suite: 'exact', case: name, ...identity, ...figures }];
  });
  return `${records.map((record) => JSON.stringify(record)).join('\n')}\n`;
}
