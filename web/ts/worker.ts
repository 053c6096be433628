// The worker that indexes live in, so that neither WebAssembly nor copies block the page.

import { LocalEngine } from './engine.js';
import { NearfieldError, received, sent } from './errors.js';
import { buffers, isOurs, type FromWorker, type ToWorker } from './messages.js';

const engine = new LocalEngine();
const controllers = new Map<number, AbortController>();
const post = (message: FromWorker, transfer: Transferable[] = []) =>
  (globalThis as unknown as Worker).postMessage(message, transfer);

globalThis.addEventListener('message', async ({ data }: MessageEvent<ToWorker>) => {
  if (!isOurs(data)) return;
  const { number } = data;
  if (data.kind === 'nearfield abort') {
    controllers.get(number)?.abort(received(data.reason));
    return;
  }
  const controller = new AbortController();
  controllers.set(number, controller);
  const onProgress = data.reports ? (done: number) => post({ kind: 'nearfield progress', number, done }) : undefined;
  try {
    const result = await engine.call(data.method, data.args as never, { signal: controller.signal, onProgress });
    post({ kind: 'nearfield result', number, result }, buffers(result));
  } catch (error) {
    post({ kind: 'nearfield error', number, error: sent(error) });
  } finally {
    controllers.delete(number);
  }
});

// Nobody can tell which call a message was that has no memory here: the page hears of the error and ends all calls.
globalThis.addEventListener('messageerror', () => {
  throw new NearfieldError('OutOfMemory', 'the worker: a message could not be read');
});
