// Judges forms of kernels by Tint. Dawn's null backend compiles them to the end without a GPU.
//   node tint.mjs FOLDER        of files NAME.wgsl and NAME.json, as tests/contract.rs leaves them

import fs from 'node:fs';
import path from 'node:path';
import { create, globals } from 'webgpu';

Object.assign(globalThis, globals);
// Browsers want what naga 30 does not know. The diagnostic would refuse loops whose step is the size of a subgroup.
const SUBGROUPS = 'enable subgroups;\ndiagnostic(off, subgroup_uniformity);\n';

// It has to outlive its devices.
const gpu = create(['backend=null']);
const adapter = await gpu.requestAdapter();
// Without required limits a device has the default ones.
const device = await adapter.requestDevice({ requiredFeatures: ['subgroups'] });
const modules = new Map();

/** What Tint says against a text; null if nothing. */
async function moduleOf(code) {
  if (!modules.has(code)) {
    device.pushErrorScope('validation');
    const module = device.createShaderModule({ code });
    const { messages } = await module.getCompilationInfo();
    const error = await device.popErrorScope();
    const line = ({ lineNum, message }) => `${message} | ${code.split('\n')[lineNum - 1]?.trim()}`;
    modules.set(code, { module, fault: error && (messages.map(line)[0] ?? error.message) });
  }
  return modules.get(code);
}

/** What Tint says against a kernel with values for its override constants; null if nothing. */
async function fault(text, { kernel, constants, isRead }) {
  const { module, fault } = await moduleOf(/subgroup/.test(text) ? SUBGROUPS + text : text);
  if (fault) return fault;
  const storage = isRead.map((read, place) => ({ binding: place + 1, buffer: { type: read ? 'read-only-storage' : 'storage' } }));
  const entries = [{ binding: 0, buffer: { type: 'uniform', hasDynamicOffset: true } }, ...storage];
  const all = entries.map((entry) => ({ ...entry, visibility: GPUShaderStage.COMPUTE }));
  device.pushErrorScope('validation');
  const layout = device.createPipelineLayout({ bindGroupLayouts: [device.createBindGroupLayout({ entries: all })] });
  let refusal = null;
  try {
    await device.createComputePipelineAsync({ layout, compute: { module, entryPoint: kernel, constants } });
  } catch (error) {
    refusal = error;
  }
  return (refusal ?? (await device.popErrorScope()))?.message ?? null;
}

// Tint does refuse what only naga takes.
const CONTROL = 'override N = 1u; @compute @workgroup_size(N) fn main() { let a = N << 1u | 1u; }';
const form = { kernel: 'main', constants: {}, isRead: [] };
const controls = [await fault(CONTROL, form), await fault(CONTROL.replace('N << 1u', '(N << 1u)'), { ...form, constants: { N: 512 } })];
if (controls.includes(null)) throw new Error('Tint accepts what it has to refuse');

const folder = process.argv[2];
const names = fs.readdirSync(folder).filter((name) => name.endsWith('.json'));
let judged = 0;
const refused = new Map();
for (const name of names) {
  const form = JSON.parse(fs.readFileSync(path.join(folder, name), 'utf8'));
  // Adding floats atomically and cooperative matrices: no browser has them, and other forms do without.
  if (form.native) continue;
  judged += 1;
  const message = await fault(fs.readFileSync(path.join(folder, name.replace('.json', '.wgsl')), 'utf8'), form);
  if (message) refused.set(`${form.kernel}: ${message}`, (refused.get(`${form.kernel}: ${message}`) ?? 0) + 1);
}
for (const [message, count] of refused) console.log(`refused by Tint, ${count} forms of ${message}`);
console.log(`Tint: ${judged} forms, ${names.length - judged} that browsers lack the features for, ${refused.size} kinds of refusals`);
device.destroy();
// Dawn's threads would keep Node alive.
process.exit(judged > 0 && refused.size === 0 ? 0 : 1);
