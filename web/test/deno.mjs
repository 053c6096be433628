// What deno.test.mjs has Deno run: searches on the GPU, held against sums in f64. Prints JSON: the device, and of each search how many true
// neighbours are missing, and whether the processor answered.

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';

import { Device, Flat, Ivf } from '../dist/index.js';
import { missing, nearest, rows, shipped, whole } from './fixtures.mjs';
import { DATA } from './folders.mjs';

const device = await Device.open({ prefer: 'gpu' });
const answers = [];

const { base, query, dim } = await shipped((name) => readFile(join(DATA, name)));
const some = query.vectors.subarray(0, 20 * dim);
const halves = new Float16Array(base.bits.slice().buffer);
for (const [metric, dtype, vectors] of [['cosine', 'float32', base.vectors], ['l2sq', 'float16', halves]]) {
  const index = await Flat.create(device, { dim, metric, dtype, hostCopy: false });
  await index.add(vectors);
  const found = await index.search(some, { k: 20 });
  answers.push([missing(found, nearest(base.vectors, some, dim, 20, { metric })), found.statistics.onHost]);
}

// Sums of whole numbers are equal bit for bit. An `Ivf` that looks into all lists is exact.
const options = { dim: 24, metric: 'l2sq', hostCopy: false };
const [few, asked] = [whole(1, 3000, 24), whole(2, 5, 24)];
const want = JSON.stringify(nearest(few, asked, 24, 7));
for (const index of [await Flat.create(device, options), await Ivf.train(device, { ...options, lists: 8 }, few)]) {
  await index.add(few);
  const found = await index.search(asked, { k: 7, ...(index instanceof Ivf && { probes: 8 }) });
  answers.push([JSON.stringify(rows(found)) === want ? 0 : 'others', found.statistics.onHost]);
}
console.log(JSON.stringify({ about: device.describe(), isHost: device.isHost, missing: answers }));
device.close();
