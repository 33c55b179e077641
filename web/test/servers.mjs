// SPDX-License-Identifier: Apache-2.0 OR MIT
// servers.mjs - two loopback servers: of the site, below a path; and of models, at another origin, with and without ranges,
// and with and without leave for other pages (CORS).

import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { join, normalize } from 'node:path';

const TYPES = { html: 'text/html; charset=utf-8', js: 'text/javascript', css: 'text/css', wasm: 'application/wasm' };

async function listen(t, server) {
  await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return server.address().port;
}

/** The files of a folder below /some/where/. */
export const serveSite = (t, folder) => serveFolder(t, folder, '/some/where/');

export async function serveFolder(t, folder, below = '/', headers = {}) {
  const server = createServer((request, reply) => {
    const path = new URL(`http://x${request.url}`).pathname; // may begin with //
    const name = (path.startsWith(below) ? path.slice(below.length) : '') || 'index.html';
    const file = join(folder, name);
    if (request.method !== 'GET' || !path.startsWith(below) || name.includes('/') || !existsSync(file)) {
      reply.writeHead(404).end();
      return;
    }
    reply.writeHead(200, { ...headers, 'Content-Type': TYPES[name.split('.').pop()] ?? 'application/octet-stream' });
    reply.end(readFileSync(file));
  });
  const port = await listen(t, server);
  return { url: `http://127.0.0.1:${port}${below}`, end: () => { server.closeAllConnections(); server.close(); } };
}

/**
 * Files of a folder at another origin. asked: [path, range] of each request. secure: { key, cert }.
 * rewrite: the path in the folder for one of a URL. wait: milliseconds before an answer.
 */
export async function serveFiles(t, folder, { ranges = true, cors = true, expose = true, secure, rewrite = (path) => path, wait = 0 } = {}) {
  const asked = [];
  const answer = async (request, reply) => {
    await new Promise((resolve) => { setTimeout(resolve, wait); });
    const path = decodeURIComponent(new URL(request.url, 'http://x').pathname);
    const file = join(folder, normalize(rewrite(path)));
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
    asked.push([path, request.headers.range ?? '', request.method]);
    const headers = cors ? { 'Access-Control-Allow-Origin': '*', ...(expose ? { 'Access-Control-Expose-Headers': 'Content-Range, ETag' } : {}) } : {};
    if (!existsSync(file) || !statSync(file).isFile()) {
      reply.writeHead(404, headers).end('no');
      return;
    }
    const { size } = statSync(file);
    if (!(typeof ranges === 'function' ? ranges(path) : ranges) || range === null) {
      reply.writeHead(200, { ...headers, 'Content-Length': size });
      createReadStream(file).on('error', () => reply.destroy()).pipe(reply);
      return;
    }
    const [begin, end] = [Number(range[1]), Math.min(Number(range[2]), size - 1)];
    if (begin >= size) {
      reply.writeHead(416, { ...headers, 'Content-Range': `bytes */${size}` }).end();
      return;
    }
    reply.writeHead(206, { ...headers, 'Content-Range': `bytes ${begin}-${end}/${size}`, 'Content-Length': end - begin + 1, ETag: '"1"' });
    createReadStream(file, { start: begin, end }).pipe(reply);
  };
  const server = secure === undefined ? createServer(answer) : createSecureServer(secure, answer);
  const port = await listen(t, server);
  return { url: `http://127.0.0.1:${port}/`, port, asked };
}
