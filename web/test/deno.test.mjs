// The package in Deno, whose own wgpu runs the kernels: on lavapipe, where there is no GPU.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';

import { WEB } from './folders.mjs';

test('in Deno true neighbours are found on the GPU by both kinds of index', (t) => {
  const given = [join(WEB, 'node_modules/deno/bin.cjs'), 'run', '--no-config', '--no-lock', '--no-prompt', '--allow-read', 'test/deno.mjs'];
  // Without Vulkan Deno would take OpenGL, on the processor for minutes.
  const env = { ...process.env, DENO_WEBGPU_BACKEND: 'vulkan,metal,dx12' };
  const { about, ...answers } = JSON.parse(execFileSync(process.execPath, given, { cwd: WEB, env, encoding: 'utf8', timeout: 300_000 }));
  if (answers.isHost && process.env.NEARFIELD_REQUIRE_GPU !== '1') return t.skip(about);
  assert.match(about, /webgpu/);
  assert.deepEqual(answers, { isHost: false, missing: Array(4).fill([0, false]) });
});
