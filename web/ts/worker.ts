// The worker that indexes live in, so that neither WebAssembly nor copies block the page.

import { LocalEngine } from './engine.js';
import { sent } from './errors.js';
import { buffers, isOurs, type FromWorker, type ToWorker } from './messages.js';

const engine = new LocalEngine();
const controllers = new Map<number, AbortController>();
const post = (message: FromWorker, transfer: Transferable[] = []) =>
  (globalThis as unknown as Worker).postMessage(message, transfer);

globalThis.addEventListener('message', async ({ data }: MessageEvent<ToWorker>) => {
  if (!isOurs(data)) return;
  if (data.kind === 'nearfield watch') {
    const { lock } = data;
    const held = () => {
      post({ kind: 'nearfield watched', lock });
      return new Promise(() => undefined);
    };
    // A page without an origin has no locks.
    globalThis.navigator?.locks?.request(lock, held).catch(() => undefined);
    return;
  }
  const { number } = data;
  if (data.kind === 'nearfield abort') {
    controllers.get(number)?.abort();
    return;
  }
  const controller = new AbortController();
  controllers.set(number, controller);
  const onProgress = data.reports ? (done: number) => post({ kind: 'nearfield progress', number, done }) : undefined;
  try {
    const result = await engine.call(data.method, data.args as never, { signal: controller.signal, onProgress });
    post({ kind: 'nearfield result', number, result }, buffers(result));
  } catch (error) {
    const { aborted, reason } = controller.signal;
    post(aborted && error === reason ? { kind: 'nearfield aborted', number } : { kind: 'nearfield error', number, error: sent(error) });
  } finally {
    controllers.delete(number);
  }
});

globalThis.addEventListener('messageerror', () => post({ kind: 'nearfield unread' }));
