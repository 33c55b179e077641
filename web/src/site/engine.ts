// SPDX-License-Identifier: Apache-2.0 OR MIT
// engine.ts - one model in safetensors-report.wasm: what the first view needs, then what check says, then single
// tensors. Knows nothing of workers.

import type { Finding } from '../data.js';
import type { Columns } from '../embedded.js';
import { MemoryFile, TableMount, type Mount } from 'wasm/host.js';
import { Native } from 'wasm/native.js';
import { findingsOf, formatName, scanModel, withOptions } from 'wasm/reader.js';
import type { Finding as Said, OpenOptions, ScanReport } from 'wasm/types.js';

/** The summary as `safetensors report` writes it, and its columns as they are worked with. */
export interface Page { json: string; columns: Columns; format: string; findings: Finding[] }

/** Entries of a tensor as in the sections stats and heat; empty: there is none. */
export interface Entries { stats: Uint8Array<ArrayBuffer>; heat: Uint8Array<ArrayBuffer> }

/** A header may be this long: ten times what the reference reads, which is a finding. */
export const MOST_HEADER = 1_000_000_000;
const REFERENCE_HEADER = 100_000_000;

/** Values of a tensor that is too large to be read as a whole: docs/report.md. */
export const SAMPLE = 65536;

/** Of columns, that are taken over at once. */
const ROWS = 1 << 16;

const OPTIONS: OpenOptions = { maxHeaderBytes: MOST_HEADER, incomplete: true, allowOpaque: true };

const LEVELS = { harmless: 'note', unknown: 'unknown', dangerous: 'dangerous' } as const;

function said(from: string, f: Said): Finding {
  const text = f.subject === '' ? f.message : `${f.subject}: ${f.message}`;
  return {
    from, level: f.kind === 'left_out' ? 'warning' : LEVELS[f.verdict], text: text.slice(0, 1000),
    ...(f.offset === null ? {} : { offset: f.offset }),
  };
}

/** What a scan says, as `report` writes it: the verdict, then why. */
export function scanned({ verdict, findings }: ScanReport): Finding[] {
  const text = { harmless: 'harmless', unknown: 'unknown: nobody vouches for all of it', dangerous: 'dangerous' }[verdict];
  return [{ from: 'scan', level: verdict === 'harmless' ? 'ok' : verdict, text }, ...findings.slice(0, 1000).map((f) => said('scan', f))];
}

/** safetensors-scan.wasm about one file. */
export function scan(module: WebAssembly.Module, mount: Mount, path: string): Finding[] {
  return scanned(scanModel(new Native(module), mount, path, {}));
}

export class Engine {
  private page = 0;
  private model = 0;
  private readonly native: Native;

  constructor(module: WebAssembly.Module, mount: Mount) {
    this.native = new Native(module);
    this.native.mount = mount;
  }

  /** Where the text of a header of so many bytes will lie: to be filled before `open`. undefined: there is no room. */
  headerRoom(bytes: number): ((offset: number, size: number) => Uint8Array) | undefined {
    const at = this.native.address('header_room', bytes);
    return at === 0 ? undefined : (offset, size) => this.native.slice(at + offset, size);
  }

  /** beside: config.json and README.md may be looked for. */
  open(path: string, name: string, beside: boolean): void {
    const n = this.native;
    this.model = this.opened(path);
    this.headerRoom(0);
    this.page = n.withText(path, (text) => n.withText(name, (title) =>
      n.address('page_open', this.model, text, title, beside ? 1 : 0)));
  }

  private columns(): Columns {
    const n = this.native;
    const count = n.call('count', this.model);
    const numbers = (): Uint32Array<ArrayBuffer> => new Uint32Array(count);
    const out = {
      names: n.copyOut(...this.parts()[1]) as Uint8Array<ArrayBuffer>,
      offsets: new Float64Array(count), ids: numbers(), starts: numbers(), kindIds: numbers(), fileIds: numbers(),
    };
    const arrays = [out.offsets, out.ids, out.starts, out.kindIds, out.fileIds];
    n.with(24 * ROWS, (at) => {
      const begins = [0, 8, 12, 16, 20].map((bytes) => at + bytes * ROWS);
      let rows = 0;
      for (let done = 0; (rows = n.call('page_columns', this.page, ROWS, ...begins)) > 0; done += rows) {
        arrays.forEach(({ buffer, BYTES_PER_ELEMENT: size }, k) => new Uint8Array(buffer, size * done).set(n.slice(begins[k], size * rows)));
      }
    });
    return out;
  }

  /** What the first view needs. To be called once. */
  first(): Page {
    const n = this.native;
    const report = n.address('report', this.model);
    const page = {
      json: n.textOf(...this.parts()[0]), columns: this.columns(),
      format: report === 0 ? 'safetensors' : formatName(n, n.call('report_format', report), 0),
      findings: [...(report === 0 ? [] : findingsOf(n, report).slice(0, 1000).map((f) => said('reader', f))), ...this.large()],
    };
    return page;
  }

  /** The summary again, with quantised weights and what check says. Nothing of the columns has changed. */
  look(): string {
    if (this.native.call('page_look', this.page) === 0) {
      throw this.native.error();
    }
    const json = this.native.textOf(...this.parts()[0]);
    this.native.call('page_forget', this.page);
    return json;
  }

  /** most: bytes of a tensor that is read as a whole. */
  tensor(i: number, nbytes: number, most: number): Entries {
    return this.entries((out) => this.native.call('page_tensor', this.page, i, nbytes > most ? SAMPLE : 0, out));
  }

  /** The same of the only tensor of a file, whatever else is open. */
  alone(mount: Mount, path: string, nbytes: number, most: number): Entries {
    const n = this.native;
    n.mount = mount;
    const model = this.opened(path);
    try {
      return this.entries((out) => n.call('first_tensor', model, nbytes > most ? SAMPLE : 0, out));
    } finally {
      n.call('close', model);
    }
  }

  private opened(path: string): number {
    const n = this.native;
    const model = n.withText(path, (text) => withOptions(n, OPTIONS, false, (at) => n.address('open_anyway', text, at)));
    if (model === 0) {
      throw n.error();
    }
    return model;
  }

  private entries(count: (out: number) => number): Entries {
    const n = this.native;
    return n.with(16, (out) => {
      if (count(out) === 0) {
        throw n.error();
      }
      const copy = (at: number): Uint8Array<ArrayBuffer> => n.copyOut(n.u32(at), n.u32(at + 4)) as Uint8Array<ArrayBuffer>;
      return { stats: copy(out), heat: copy(out + 8) };
    });
  }

  private parts(): [number, number][] {
    const n = this.native;
    return n.with(16, (out) => {
      n.call('page_parts', this.page, out);
      return Array.from({ length: 2 }, (_, k): [number, number] => [n.u32(out + 8 * k), n.u32(out + 8 * k + 4)]);
    });
  }

  private large(): Finding[] {
    const n = this.native;
    const found: Finding[] = [];
    const files = n.address('file_count', this.model);
    for (let i = 0; i < files && found.length < 100; i++) {
      const at = n.address('file', this.model, i);
      const bytes = Number(n.memory().getBigUint64(at + 16, true));
      if (bytes > REFERENCE_HEADER) {
        found.push({ from: 'check', level: 'warning', text: `${n.text(n.u32(at))}: the header is ${bytes} bytes: the reference reads at most ${REFERENCE_HEADER}` });
      }
    }
    return found;
  }
}

/** Opens a model of nothing, so that the engine has compiled what a large one runs through before that comes. */
export function warm(module: WebAssembly.Module): void {
  const parts = Array.from({ length: 20_000 }, (_, i) =>
    `"layers.${i % 60}.experts.${Math.floor(i / 60)}.${i % 2 === 0 ? 'up' : 'down'}_proj.weight":{"dtype":"BF16","shape":[1,0],"data_offsets":[0,0]}`);
  const text = new TextEncoder().encode(`{${parts.join(',')}}`.padEnd(3 << 19));
  const file = new Uint8Array(8 + text.length);
  new DataView(file.buffer).setUint32(0, text.length, true);
  file.set(text, 8);
  const mount = new TableMount();
  mount.add('warm', new MemoryFile(file));
  const engine = new Engine(module, mount);
  engine.open('warm', '', false);
  engine.first();
  engine.look();
}
