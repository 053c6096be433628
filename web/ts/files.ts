// Files of the page's own origin (OPFS): they survive a reload, and no other site sees them.

import { argument, NearfieldError } from './errors.js';

async function root(): Promise<FileSystemDirectoryHandle> {
  const storage = globalThis.navigator?.storage;
  if (typeof storage?.getDirectory !== 'function') {
    throw new NearfieldError('Unsupported', 'files: needs a page over https or from localhost in a browser with OPFS');
  }
  return storage.getDirectory();
}

/** The folder and the name that a path such as `indexes/movies.nf` leads to. */
async function place(path: string, create: boolean): Promise<[FileSystemDirectoryHandle, string]> {
  const names = typeof path === 'string' ? path.split('/').filter((name) => name !== '') : [];
  const last = names.pop();
  if (last === undefined || [...names, last].some((name) => name === '.' || name === '..')) {
    throw argument('path', 'names of folders and of a file, with / between them', typeof path === 'string' ? `"${path}"` : path);
  }
  let folder = await root();
  for (const name of names) folder = await folder.getDirectoryHandle(name, { create });
  return [folder, last];
}

const isMissing = (error: unknown) => error instanceof DOMException && error.name === 'NotFoundError';

/** What the browser says of a path, as an error of the package: a name that it refuses, a folder in the place of a file, a full disk. */
function fault(path: string, error: unknown): unknown {
  if (error instanceof TypeError) return argument('path', 'names that the browser takes', `"${path}"`);
  return error instanceof DOMException ? new NearfieldError('File', `${path}: ${error.name}, ${error.message}`) : error;
}

/** Runs `work` while no other tab or worker of the page writes this file; a reader lets others read. Without locks it just runs. */
async function locked<T>(path: string, mode: LockMode, work: () => Promise<T>): Promise<T> {
  const locks = globalThis.navigator?.locks;
  if (!locks || typeof path !== 'string') return work();
  const names = path.split('/').filter((name) => name !== '');
  try {
    return await locks.request(`nearfield:${names.join('/')}`, { mode }, work);
  } catch (error) {
    throw fault(path, error);
  }
}

/** Writes a file whole or not at all: until the last byte is written, the old one stays. */
export function write(path: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  return locked(path, 'exclusive', () => written(path, bytes));
}

async function written(path: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  try {
    const [folder, name] = await place(path, true);
    const handle = await folder.getFileHandle(name, { create: true });
    try {
      if (typeof handle.createWritable !== 'function') {
        throw new NearfieldError('Unsupported', 'files: this browser cannot replace a file as a whole (createWritable)');
      }
      // The browser writes to a file beside it, which takes its place when it is closed.
      const stream = await handle.createWritable();
      try {
        await stream.write(bytes);
        await stream.close();
      } catch (error) {
        await stream.abort().catch(() => undefined);
        throw error;
      }
    } catch (error) {
      // A file that was made for this call goes with it.
      const file = await handle.getFile().catch(() => undefined);
      if (file?.size === 0) await folder.removeEntry(name).catch(() => undefined);
      throw error;
    }
  } catch (error) {
    throw fault(path, error);
  }
}

/** The bytes of a file. */
export function read(path: string): Promise<Uint8Array<ArrayBuffer>> {
  // A file that is replaced between its size and its bytes is not found.
  return locked(path, 'shared', () => readNow(path));
}

async function readNow(path: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    const [folder, name] = await place(path, false);
    const file = await (await folder.getFileHandle(name)).getFile();
    if (file.size === 0) throw new NearfieldError('File', `${path}: needed an index of nearfield, found an empty file`);
    return new Uint8Array(await file.arrayBuffer());
  } catch (error) {
    throw isMissing(error) ? new NearfieldError('File', `${path}: needed a saved index, found no file`) : fault(path, error);
  }
}

/** Removes a file. Whether there was one. */
export function remove(path: string): Promise<boolean> {
  return locked(path, 'exclusive', () => removed(path));
}

async function removed(path: string): Promise<boolean> {
  try {
    const [folder, name] = await place(path, false);
    await folder.removeEntry(name);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw fault(path, error);
  }
}
