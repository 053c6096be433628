// Files of the page's own origin (OPFS): they survive a reload, and no other site sees them.

import { NearfieldError } from './errors.js';

async function root(): Promise<FileSystemDirectoryHandle> {
  const storage = globalThis.navigator?.storage;
  if (typeof storage?.getDirectory !== 'function') {
    throw new NearfieldError('Unsupported', 'files: needs a page over https or from localhost in a browser with OPFS');
  }
  return storage.getDirectory();
}

/** The folder and the name that a path such as `indexes/movies.nf` leads to. */
async function place(path: string, create: boolean): Promise<[FileSystemDirectoryHandle, string]> {
  const names = path.split('/').filter((name) => name !== '');
  const last = names.pop();
  if (last === undefined || last === '.' || last === '..') {
    throw new NearfieldError('Argument', `path: needed the name of a file, given "${path}"`);
  }
  let folder = await root();
  for (const name of names) folder = await folder.getDirectoryHandle(name, { create });
  return [folder, last];
}

/** Writes a file whole or not at all: until the last byte is written, the old one stays. */
export async function write(path: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  const [folder, name] = await place(path, true);
  const handle = await folder.getFileHandle(name, { create: true });
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
}

/** The bytes of a file. */
export async function read(path: string): Promise<Uint8Array<ArrayBuffer>> {
  try {
    const [folder, name] = await place(path, false);
    const file = await (await folder.getFileHandle(name)).getFile();
    if (file.size === 0) throw new NearfieldError('File', `${path}: needed an index of nearfield, found an empty file`);
    return new Uint8Array(await file.arrayBuffer());
  } catch (error) {
    if (!(error instanceof DOMException) || error.name !== 'NotFoundError') throw error;
    throw new NearfieldError('File', `${path}: needed a saved index, found no file`);
  }
}

/** Removes a file. Whether there was one. */
export async function remove(path: string): Promise<boolean> {
  try {
    const [folder, name] = await place(path, false);
    await folder.removeEntry(name);
    return true;
  } catch (error) {
    if (error instanceof DOMException && error.name === 'NotFoundError') return false;
    throw error;
  }
}
