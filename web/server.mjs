// A server of folders on this machine alone.

import { createReadStream, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';

const TYPES = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.mjs': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
};

/** Whether there is such a file; not, if the system refuses its name. */
function isFile(file) {
  try {
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** The file that a path of the address leads to, or none. */
function fileOf(folders, path) {
  const prefix = Object.keys(folders).find((prefix) => path.startsWith(prefix));
  if (prefix === undefined) return undefined;
  const folder = join(normalize(folders[prefix]), '/');
  const file = join(folder, path.slice(prefix.length));
  return file.startsWith(folder) && isFile(file) ? file : undefined;
}

/** Serves folders, `{ prefix: folder }`; the first prefix that fits counts. Port 0 takes any free one. `headers` go with each file. */
export function serve(folders, { port = 0, headers = {} } = {}) {
  const server = createServer((request, response) => {
    const end = (status, more) => response.writeHead(status, more).end(status === 302 ? '' : `${status}\n`);
    let path;
    try {
      path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    } catch {
      return end(400, { 'content-type': 'text/plain' });
    }
    if (path === '/' || path === '/demo') return end(302, { location: '/demo/' });
    const file = path.includes('\0') ? undefined : fileOf(folders, path.endsWith('/') ? `${path}index.html` : path);
    if (!file) return end(404, { 'content-type': 'text/plain' });
    const type = TYPES[extname(file)] ?? 'application/octet-stream';
    response.writeHead(200, { 'content-type': type, 'cache-control': 'no-cache', ...headers });
    if (request.method === 'HEAD') return response.end();
    return createReadStream(file).on('error', () => response.destroy()).pipe(response);
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => resolve({ server, url: `http://127.0.0.1:${server.address().port}` }));
  });
}
