// SPDX-License-Identifier: Apache-2.0 OR MIT
// worker.ts - the worker of the site: one model, questions one after the other. While it reads it says how much.

import { BlobFile, range } from 'wasm/browser-places.js';
import { packError } from 'wasm/error.js';
import { HostError, type HostFile, type Mount } from 'wasm/host.js';
import { mountOf, type Operand } from 'wasm/operand.js';
import type { Finding } from '../data.js';
import { Engine, MOST_HEADER, scan, warm, type Entries, type Page } from './engine.js';

export type Question =
  | { op: 'open'; module: WebAssembly.Module; operand: Operand; path: string; name: string; beside: boolean }
  | { op: 'warm'; module: WebAssembly.Module }
  | { op: 'look' }
  | { op: 'tensor'; index: number; nbytes: number; most: number }
  | { op: 'alone'; module: WebAssembly.Module; path: string; file: Blob; nbytes: number; most: number }
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
/** For single tensors, without the model they are of. */
let small: Engine | undefined;
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

/** From so many bytes on a header is read ahead. */
const LONG = 4 << 20;

class CountedFile extends BlobFile {
  private early: { end: number; room: (offset: number, size: number) => Uint8Array } | undefined;

  protected override fetch(offset: number, size: number): Uint8Array {
    const bytes = super.fetch(offset, size);
    count(bytes.length);
    return bytes;
  }

  /** What lies where it is wanted need not be read; once, as its reader changes it. */
  override read(offset: number, dst: Uint8Array): number {
    const { early } = this;
    if (early !== undefined && offset >= 8 && offset + dst.length <= early.end) {
      const there = early.room(offset - 8, dst.length);
      if (there.buffer === dst.buffer && there.byteOffset === dst.byteOffset) {
        this.early = offset + dst.length < early.end ? early : undefined;
        return dst.length;
      }
    }
    return super.read(offset, dst);
  }

  private async part(from: number, to: number, room: (offset: number, size: number) => Uint8Array): Promise<void> {
    const reader = this.blob.slice(from, to).stream().getReader();
    for (let at = from; at < to;) {
      const { value } = await reader.read();
      if (value === undefined || value.length > to - at) {
        throw new Error('the file has changed');
      }
      room(at - 8, value.length).set(value);
      at += value.length;
      count(value.length);
    }
  }

  /** Reads a long header of safetensors to where it will be wanted: two streams take less than half the time of reading piece by piece. */
  async readAhead(to: Engine): Promise<void> {
    const head = new DataView(await this.blob.slice(0, 9).arrayBuffer());
    const length = head.byteLength < 9 || head.getUint8(8) !== 0x7b ? 0 : Number(head.getBigUint64(0, true));
    const end = 8 + length;
    const room = length >= LONG && length <= MOST_HEADER && end <= this.blob.size ? to.headerRoom(length) : undefined;
    if (room !== undefined) {
      const half = 8 + Math.ceil(length / 2);
      const parts = await Promise.allSettled([this.part(8, half, room), this.part(half, end, room)]); // both: they write into the module
      this.early = parts.every(({ status }) => status === 'fulfilled') ? { end, room } : undefined;
    }
  }
}

const files = new Map<Blob, CountedFile>();

const places = {
  blob: (blob: Blob): HostFile => {
    const file = new CountedFile(blob);
    files.set(blob, file);
    return file;
  },
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

async function answer(q: Question): Promise<[Answer, Transferable[]]> {
  if (q.op === 'open') {
    files.clear();
    mount = mountOf(q.operand, places);
    engine = new Engine(q.module, mount);
    const [, content] = q.operand.kind === 'table' ? q.operand.files.find(([name]) => name === q.path) ?? [] : [];
    await files.get(content as Blob)?.readAhead(engine).catch(() => undefined); // whoever reads it then says what is wrong
    engine.open(q.path, q.name, q.beside);
    const page = engine.first();
    return [page, Object.values(page.columns).map(({ buffer }) => buffer)];
  }
  if (q.op === 'warm') {
    warm(q.module);
    return ['', []];
  }
  if (q.op === 'alone') {
    const file = mountOf({ kind: 'table', files: [[q.path, q.file]] }, { ...places, blob: (blob) => new BlobFile(blob) });
    const counter = small ?? new Engine(q.module, file);
    small = undefined; // one that fails is not asked again
    const entries = counter.alone(file, q.path, q.nbytes, q.most);
    small = counter;
    return [entries, [entries.stats.buffer, entries.heat.buffer]];
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

async function reply(data: Question & { id: number }): Promise<void> {
  asking = data.id;
  read = 0;
  told = Date.now();
  try {
    const [result, transfer] = await answer(data);
    scope.postMessage({ id: data.id, ok: true, result }, transfer);
  } catch (e) {
    scope.postMessage({ id: data.id, ok: false, error: packError(e) });
  }
}

let last = Promise.resolve();
scope.onmessage = ({ data }) => {
  last = last.then(() => reply(data));
};
