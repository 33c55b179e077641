// SPDX-License-Identifier: Apache-2.0 OR MIT
// worker.ts - the worker of the site: one model, questions one after the other. While it reads it says how much.

import { BlobFile, range } from 'wasm/browser-places.js';
import { packError } from 'wasm/error.js';
import { HostError, type HostFile, type Mount } from 'wasm/host.js';
import { mountOf, type Operand } from 'wasm/operand.js';
import type { Finding } from '../data.js';
import { Engine, scan, warm, type Entries, type Page } from './engine.js';

export type Question =
  | { op: 'open'; module: WebAssembly.Module; operand: Operand; path: string; name: string; beside: boolean }
  | { op: 'warm'; module: WebAssembly.Module }
  | { op: 'look' }
  | { op: 'tensor'; index: number; nbytes: number; most: number }
  | { op: 'scan'; module: WebAssembly.Module; paths: string[] };

export type Answer = Page | string | Entries | Finding[];

export type Reply =
  | { id: number; read: number }
  | { id: number; ok: true; result: Answer }
  | { id: number; ok: false; error: ReturnType<typeof packError> };

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<Question & { id: number }>) => void;
  postMessage(message: Reply, transfer?: Transferable[]): void;
};

let engine: Engine | undefined;
let mount: Mount | undefined;
let asking = 0;
let read = 0;
let told = 0;

function count(bytes: number): void {
  read += bytes;
  const now = Date.now();
  if (now - told > 100) {
    told = now;
    scope.postMessage({ id: asking, read });
  }
}

class CountedFile extends BlobFile {
  protected override fetch(offset: number, size: number): Uint8Array {
    const bytes = super.fetch(offset, size);
    count(bytes.length);
    return bytes;
  }
}

const places = {
  blob: (blob: Blob): HostFile => new CountedFile(blob),
  range: (headers: Record<string, string>) => {
    const fetch = range(headers);
    return (url: string, begin: number, end: number): ReturnType<typeof fetch> => {
      const reply = fetch(url, begin, end);
      count(reply.body.length);
      return reply;
    };
  },
  path: () => { throw new HostError('ENOTSUP', 'there are no paths in a browser'); },
};

function answer(q: Question): [Answer, Transferable[]] {
  if (q.op === 'open') {
    mount = mountOf(q.operand, places);
    engine = new Engine(q.module, mount, q.path, q.name, q.beside);
    const page = engine.first();
    return [page, [page.columns.buffer]];
  }
  if (q.op === 'warm') {
    warm(q.module);
    return ['', []];
  }
  if (engine === undefined || mount === undefined) {
    throw new Error('no model is open');
  }
  switch (q.op) {
    case 'look': return [engine.look(), []];
    case 'tensor': {
      const entries = engine.tensor(q.index, q.nbytes, q.most);
      return [entries, [entries.stats.buffer, entries.heat.buffer]];
    }
    case 'scan': return [q.paths.flatMap((path) => scan(q.module, mount!, path)), []];
  }
}

scope.onmessage = ({ data }) => {
  asking = data.id;
  read = 0;
  told = Date.now();
  try {
    const [result, transfer] = answer(data);
    scope.postMessage({ id: data.id, ok: true, result }, transfer);
  } catch (e) {
    scope.postMessage({ id: data.id, ok: false, error: packError(e) });
  }
};
