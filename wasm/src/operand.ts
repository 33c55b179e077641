// SPDX-License-Identifier: Apache-2.0 OR MIT
// operand.ts - what a caller gave, as data that may cross to a worker: which files, and which of them to open.

import { failure } from './error.js';
import { MemoryFile, plainPath, TableMount, UrlMount, type FetchRange, type HostFile, type Mount } from './host.js';
import type { Bytes, OpenOptions, RemoteOptions, Source } from './types.js';

export type Operand =
  | { kind: 'table'; files: [name: string, content: Uint8Array | Blob][] }
  | { kind: 'url'; url: string; headers: { [name: string]: string } }
  | { kind: 'path'; path: string };

export const isBytes = (x: unknown): x is Bytes =>
  x instanceof Uint8Array || Object.prototype.toString.call(x) === '[object ArrayBuffer]';
const isBlob = (x: unknown): x is Blob => typeof Blob !== 'undefined' && x instanceof Blob;
const asBytes = (x: Bytes): Uint8Array => (x instanceof Uint8Array ? x : new Uint8Array(x));
const content = (x: unknown, name: string): Uint8Array | Blob => {
  if (isBytes(x)) {
    return asBytes(x);
  }
  if (isBlob(x)) {
    return x;
  }
  throw failure('SFT_E_ARG', `"${name}" is neither bytes nor a Blob`);
};

/** Without the directory that all names begin with: a folder that was chosen or dropped. */
function withoutFolder(files: [string, Uint8Array | Blob][]): [string, Uint8Array | Blob][] {
  const folder = files.length > 0 ? files[0][0].split('/')[0] + '/' : '';
  return files.length > 0 && files.every(([name]) => name.startsWith(folder))
    ? files.map(([name, c]) => [name.slice(folder.length), c]) : files;
}

/** `base`: what a URL may be relative to; NULL: strings without a scheme are paths (Node). */
export function operandOf(source: Source, options: OpenOptions & RemoteOptions, base: string | null): Operand {
  const headers = { ...options.headers };
  if (typeof source === 'string' && base === null && !/^https?:\/\//i.test(source)) {
    return { kind: 'path', path: source };
  }
  if (typeof source === 'string' || source instanceof URL) {
    const url = new URL(source, base ?? undefined);
    if (base === null && url.protocol === 'file:') {
      return { kind: 'path', path: decodeURIComponent(url.pathname) };
    }
    if (url.protocol !== 'https:' && url.protocol !== 'http:') {
      throw failure('SFT_E_UNSUPPORTED', `${url.protocol} is not read: only http and https are`);
    }
    return { kind: 'url', url: url.href, headers };
  }
  if (isBytes(source)) {
    return { kind: 'table', files: [[options.name ?? 'memory', asBytes(source)]] };
  }
  if (isBlob(source)) {
    return { kind: 'table', files: [[options.name ?? ((source as File).name || 'blob'), source]] };
  }
  if (Array.isArray(source) || (typeof FileList !== 'undefined' && source instanceof FileList)) {
    const files = [...(source as readonly File[])].map((f): [string, Blob] => [f.webkitRelativePath || f.name, f]);
    return { kind: 'table', files: withoutFolder(files) };
  }
  if (typeof source === 'object' && source !== null) {
    return { kind: 'table', files: Object.entries(source).map(([name, x]) => [name, content(x, name)]) };
  }
  throw failure('SFT_E_ARG', 'nothing that can be opened: bytes, a Blob, files, a URL or a path are');
}

/** What of it to open. */
export function pathOf(operand: Operand, options: OpenOptions): string {
  if (operand.kind === 'path') {
    return options.path === undefined ? operand.path : `${operand.path.replace(/\/+$/, '')}/${options.path}`;
  }
  if (options.path !== undefined) {
    return options.path;
  }
  if (operand.kind === 'url') {
    const last = new URL(operand.url).pathname.split('/').pop() ?? '';
    return last !== '' ? decodeURIComponent(last) : 'model.safetensors.index.json';
  }
  const names = operand.files.map(([name]) => plainPath(name));
  const indexes = names.filter((name) => name.endsWith('.index.json') && !name.includes('/'));
  return names.length === 1 ? names[0] : indexes.length === 1 ? indexes[0] : '.';
}

export interface Places {
  blob(blob: Blob): HostFile;
  range(headers: { [name: string]: string }): FetchRange;
  path(): Mount;
}

export function mountOf(operand: Operand, places: Places): Mount {
  if (operand.kind === 'path') {
    return places.path();
  }
  if (operand.kind === 'url') {
    return new UrlMount(operand.url, places.range(operand.headers));
  }
  const table = new TableMount();
  for (const [name, c] of operand.files) {
    table.add(name, c instanceof Uint8Array ? new MemoryFile(c) : places.blob(c));
  }
  return table;
}
