// SPDX-License-Identifier: Apache-2.0 OR MIT
// helpers.mjs - what the tests share: where things are, files, and a server of ranges on the loopback.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The package that is tested, built. */
export const PACKAGE = dirname(dirname(fileURLToPath(import.meta.url)));
/** The project's source: its fixtures and corpora. */
export const ROOT = process.env.SFT_ROOT ?? dirname(PACKAGE);
/** The native tool; "" if there is none. */
export const TOOL = process.env.SFT_TOOL ?? '';
/** A Python with numpy and ml_dtypes; "" if there is none. */
export const PYTHON = process.env.SFT_PYTHON ?? '';
export const FIXTURES = join(ROOT, 'tests/import/fixtures');

export function scratch(t) {
  const folder = mkdtempSync(join(tmpdir(), 'sft-wasm-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A safetensors file of a header's text and so many bytes of data, 0, 1, 2 ... */
export function fileOf(header, data = 0) {
  const text = new TextEncoder().encode(header);
  const bytes = new Uint8Array(8 + text.length + data);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  for (let i = 0; i < data; i++) {
    bytes[8 + text.length + i] = i & 255;
  }
  return bytes;
}

const TYPES = { html: 'text/html', js: 'text/javascript', mjs: 'text/javascript', wasm: 'application/wasm' };

/**
 * Serves files: a function from a path to bytes, or null. log: [method, path, range] of each request. faults: by path
 * 'no-ranges', 'short', 'error', 'changing', or one of what only Content-Range tells: 'shifted' (other bytes), 'unsaid' (which they are),
 * 'refused' (416 of a file that has bytes).
 */
export async function serve(t, lookUp, { faults = {} } = {}) {
  const log = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://x').pathname);
    const range = request.headers.range ?? null;
    log.push([request.method, path, range, request.headers.authorization ?? null]);
    const fault = faults[path];
    const bytes = fault === 'error' ? null : lookUp(path);
    if (bytes === null) {
      response.writeHead(fault === 'error' ? 500 : 404).end();
      return;
    }
    const type = TYPES[path.split('.').pop()] ?? 'application/octet-stream';
    const version = fault === 'changing' ? `"v${log.length}"` : '"v"';
    const wanted = /^bytes=(\d+)-(\d+)$/.exec(range ?? '');
    if (wanted === null || fault === 'no-ranges') {
      response.writeHead(200, { 'Content-Type': type, 'Content-Length': bytes.length }).end(bytes);
      return;
    }
    const shift = fault === 'shifted' && wanted[1] !== '0' ? 4096 : 0;
    const begin = Number(wanted[1]) - shift;
    const end = Math.min(Number(wanted[2]) + 1, bytes.length) - shift;
    if (begin >= bytes.length || fault === 'refused') {
      response.writeHead(416, { 'Content-Range': `bytes */${bytes.length}` }).end();
      return;
    }
    const part = bytes.subarray(begin, fault === 'short' && begin > 0 ? end - 1 : end);
    response.writeHead(206, {
      'Content-Type': type, 'Content-Length': part.length, 'ETag': version,
      ...(fault === 'unsaid' && begin > 0 ? {} : { 'Content-Range': `bytes ${begin}-${end - 1}/${bytes.length}` }),
    }).end(part);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { base: `http://127.0.0.1:${server.address().port}`, log };
}

/** One line of JSON for each file, as the tool prints it. Files in batches: a command line has an end. */
export function toolJson(command, files, options = []) {
  const lines = [];
  for (let i = 0; i < files.length; i += 500) {
    let text;
    try {
      text = execFileSync(TOOL, [command, '--json', ...options, ...files.slice(i, i + 500)], {
        encoding: 'utf8', maxBuffer: 1 << 30, stdio: ['ignore', 'pipe', 'ignore'],
      });
    } catch (e) { // its exit status says that a file is not fine
      text = e.stdout;
    }
    lines.push(...text.split('\n').filter((line) => line !== '').map((line) => JSON.parse(line)));
  }
  return lines;
}

export const read = (...parts) => new Uint8Array(readFileSync(join(...parts)));
