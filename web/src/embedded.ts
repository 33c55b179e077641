// SPDX-License-Identifier: Apache-2.0 OR MIT
// embedded.ts - the model that `safetensors report` wrote into this page: one JSON text and columns in base64.

import { STAT_KEYS } from './data.js';
import type { Heat, Kind, ModelData, StatKey, Stats, Summary } from './data.js';
import { Names, Reader } from './names.js';

export function fromBase64(text: string): Uint8Array {
  const known = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array }).fromBase64;
  if (known !== undefined) {
    return known(text);
  }
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) {
    bytes[i] = binary.charCodeAt(i);
  }
  return bytes;
}

const COUNTS = 6, FLOATS = 5, PERCENTILES = 9;

/** The columns of a page by name; one that is not there has no bytes. */
export class Sections {
  private readonly known = new Map<string, Uint8Array>();

  /** least: those that have a byte for each of `count` entries at least. */
  constructor(list: { name: string; offset: number; bytes: number }[], columns: Uint8Array, count: number, least: string[]) {
    for (const { name, offset, bytes } of list) {
      if (!(offset >= 0 && bytes >= 0 && offset + bytes <= columns.length)) {
        throw new Error(`section ${name} of this page lies outside of its data`);
      }
      this.known.set(name, columns.subarray(offset, offset + bytes));
    }
    for (const name of least) {
      if (this.of(name).length < count) {
        throw new Error(`section ${name} of this page has fewer than ${count} entries`);
      }
    }
  }

  of(name: string): Uint8Array {
    return this.known.get(name) ?? new Uint8Array(0);
  }
}

export const kindsOf = (kinds: Summary['kinds']): Kind[] => kinds.map(([dtype, bytes, shape]) => ({
  dtype, bytes: Number(bytes), shape, tensors: 0, elements: shape.reduce<number>((product, d) => product * Number(d), 1),
}));

/** Columns that need not be read: the names' bytes, and of each tensor what `Embedded` and `Names` have of it. */
export interface Columns {
  names: Uint8Array<ArrayBuffer>;
  ids: Uint32Array<ArrayBuffer>;
  starts: Uint32Array<ArrayBuffer>;
  kindIds: Uint32Array<ArrayBuffer>;
  fileIds: Uint32Array<ArrayBuffer>;
  offsets: Float64Array<ArrayBuffer>;
}

export class Embedded implements ModelData {
  readonly count: number;
  readonly kinds: Kind[];
  readonly names: Names;
  readonly kindIds: Uint32Array;
  readonly fileIds: Uint32Array;
  readonly offsets: Float64Array;
  readonly hasStats: boolean;
  private readonly sections: Sections;
  private readonly statsAt: Uint32Array | undefined;
  private readonly heatAt: Uint32Array | undefined;
  private values: Record<StatKey, Float64Array> | undefined;

  /** columns: sections as in a page, or what they say. */
  constructor(readonly summary: Summary, columns: Uint8Array | Columns) {
    if (summary.schema !== 1) {
      throw new Error(`this page shows reports of schema 1, and this one is of schema ${String(summary.schema)}`);
    }
    const count = summary.columns?.count ?? 0;
    const ready = columns instanceof Uint8Array ? undefined : columns;
    this.sections = columns instanceof Uint8Array ? new Sections(summary.columns?.sections ?? [], columns, count, ['names', 'kinds', 'places'])
      : new Sections([], new Uint8Array(0), 0, []);
    this.count = count;
    for (const one of summary.quantised ?? []) {
      one.members = one.members.filter((member) => Number.isInteger(member) && member >= 0 && member < count);
    }
    this.kinds = kindsOf(summary.kinds);
    this.names = new Names(summary.templates, ready?.names ?? this.sections.of('names'), count, ready);
    this.kindIds = ready?.kindIds ?? new Uint32Array(count);
    this.fileIds = ready?.fileIds ?? new Uint32Array(count);
    this.offsets = ready?.offsets ?? new Float64Array(count);
    if (ready === undefined) {
      this.readKinds();
      this.readPlaces();
    }
    const counts = new Uint32Array(this.kinds.length);
    for (const id of this.kindIds) {
      counts[id]++;
    }
    this.kinds.forEach((kind, id) => { kind.tensors = counts[id]; });
    this.statsAt = this.flags('stats', skipStats);
    this.heatAt = this.flags('heat', skipHeat);
    this.hasStats = this.statsAt?.some((at) => at > 0) ?? false;
  }

  private readKinds(): void {
    const bytes = this.sections.of('kinds');
    const reader = new Reader(bytes);
    for (let i = 0; i < this.count; i++) {
      let id = bytes[reader.at]; // mostly one byte
      if (id < 128) {
        reader.at++;
      } else {
        id = reader.number();
      }
      if (!(id < this.kinds.length)) {
        throw new Error(`tensor ${i} is of kind ${id}, and there are ${this.kinds.length}`);
      }
      this.kindIds[i] = id;
    }
  }

  private readPlaces(): void {
    const bytes = this.sections.of('places');
    const reader = new Reader(bytes);
    let before = -1;
    let end = 0;
    for (let i = 0; i < this.count; i++) {
      let file = bytes[reader.at]; // both are mostly one byte
      if (file < 128) {
        reader.at++;
      } else {
        file = reader.number();
      }
      let zigzag = bytes[reader.at];
      if (zigzag < 128) {
        reader.at++;
      } else {
        zigzag = reader.number();
      }
      const step = zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
      const offset = file === before ? end + step : step;
      this.fileIds[i] = file;
      this.offsets[i] = offset;
      before = file;
      end = offset + this.kinds[this.kindIds[i]].bytes;
    }
  }

  /** Where the entry of each tensor begins, behind its flag; 0: it has none. undefined: nobody has. */
  private flags(name: string, skip: (reader: Reader) => void): Uint32Array | undefined {
    const bytes = this.sections.of(name);
    if (bytes.length === 0) {
      return undefined;
    }
    const at = new Uint32Array(this.count);
    const reader = new Reader(bytes);
    for (let i = 0; i < this.count; i++) {
      if (reader.byte() !== 0) {
        at[i] = reader.at;
        skip(reader);
      }
    }
    return at;
  }

  name(i: number): string {
    return this.names.name(i);
  }

  kind(i: number): Kind {
    return this.kinds[this.kindIds[i]];
  }

  place(i: number): { file: number; offset: number } {
    return { file: this.fileIds[i], offset: this.offsets[i] };
  }

  stats(i: number): Stats | undefined {
    const at = this.statsAt?.[i] ?? 0;
    if (at === 0) {
      return undefined;
    }
    return readStats(this.sections.of('stats'), at);
  }

  heat(i: number): Heat | undefined {
    const at = this.heatAt?.[i] ?? 0;
    if (at === 0) {
      return undefined;
    }
    return readHeat(this.sections.of('heat'), at);
  }

  column(key: StatKey): Float64Array {
    if (this.values === undefined) {
      const make = (): Float64Array => new Float64Array(this.count).fill(NaN);
      this.values = Object.fromEntries(STAT_KEYS.map((name) => [name, make()])) as Record<StatKey, Float64Array>;
      for (let i = 0; i < this.count; i++) {
        const s = this.statsAt?.[i] ? this.stats(i) : undefined;
        if (s !== undefined) {
          const share = (part: number): number => (s.n > 0 ? part / s.n : 0);
          const finite = s.n > s.nan + s.positiveInfinity + s.negativeInfinity;
          this.values.min[i] = finite ? s.min : NaN;
          this.values.max[i] = finite ? s.max : NaN;
          this.values.mean[i] = finite ? s.mean : NaN;
          this.values.std[i] = finite ? s.std : NaN;
          this.values.norm[i] = finite ? s.norm : NaN;
          this.values.zero[i] = share(s.zero);
          this.values.nan[i] = share(s.nan);
          this.values.inf[i] = share(s.positiveInfinity + s.negativeInfinity);
        }
      }
    }
    return this.values[key];
  }
}

/** The entry of a tensor, behind its flag. */
export function readStats(bytes: Uint8Array, at: number): Stats {
  const reader = new Reader(bytes, at);
  const [n, nan, positiveInfinity, negativeInfinity, zero, negative] = Array.from({ length: COUNTS }, () => reader.number());
  const view = new DataView(bytes.buffer, bytes.byteOffset + reader.at, 8 * FLOATS + 4 * PERCENTILES + 16);
  const [min, max, mean, std, norm] = Array.from({ length: FLOATS }, (_, k) => view.getFloat64(8 * k, true));
  const percentiles = Array.from({ length: PERCENTILES }, (_, k) => view.getFloat32(8 * FLOATS + 4 * k, true));
  const behind = 8 * FLOATS + 4 * PERCENTILES;
  const low = view.getFloat64(behind, true);
  const width = view.getFloat64(behind + 8, true);
  reader.skip(view.byteLength);
  const counts = Array.from({ length: reader.byte() }, () => reader.number());
  return {
    sample: bytes[at - 1] === 2, n, nan, positiveInfinity, negativeInfinity, zero, negative, min, max, mean, std, norm,
    percentiles, histogram: counts.length > 0 ? { low, width, counts } : undefined,
  };
}

export function readHeat(bytes: Uint8Array, at: number): Heat {
  const rows = bytes[at];
  const columns = bytes[at + 1];
  const scale = new DataView(bytes.buffer, bytes.byteOffset + at + 2, 4).getFloat32(0, true);
  return { rows, columns, scale, cells: bytes.subarray(at + 6, at + 6 + rows * columns) };
}

function skipStats(reader: Reader): void {
  for (let k = 0; k < COUNTS; k++) {
    reader.number();
  }
  reader.skip(8 * FLOATS + 4 * PERCENTILES + 16);
  for (let bins = reader.byte(); bins > 0; bins--) {
    reader.number();
  }
}

function skipHeat(reader: Reader): void {
  const rows = reader.byte();
  const columns = reader.byte();
  reader.skip(4 + rows * columns);
}

/** What was written into this page as the element `id`, with the columns; undefined: nothing was. What was read is not kept twice. */
export function takeFrom<T>(page: Document, id: string, read: (object: unknown, columns: Uint8Array) => T): T | undefined {
  const object = page.getElementById(id);
  if (object === null) {
    return undefined;
  }
  const columns = page.getElementById('sft-columns');
  const taken = read(JSON.parse(object.textContent ?? ''), fromBase64((columns?.textContent ?? '').trim()));
  object.remove();
  columns?.remove();
  return taken;
}

/** The model of this page; undefined where no data were written into it. */
export function fromPage(page: Document): ModelData | undefined {
  return takeFrom(page, 'sft-summary', (object, columns) => new Embedded(object as Summary, columns));
}
