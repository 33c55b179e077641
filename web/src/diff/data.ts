// SPDX-License-Identifier: Apache-2.0 OR MIT
// data.ts - the differences of two models that `safetensors diff --report` wrote into this page: a row for each pair, as
// tensors of a model are, so that names, filters and tables work on them; and what was measured of each.

import type { Big, Dtype, Heat, Kind, ModelData, Stats, Summary } from '../data.js';
import { kindsOf, Sections, takeFrom } from '../embedded.js';
import { Names, Reader } from '../names.js';
import { sortStable } from '../order.js';

export interface Bins { exponent: number; counts: number[] }
export interface Model { format: string; files: Big; tensors: Big; elements: Big; bytes: Big }
/** null: not a number. */
export interface Overall {
  tensors: number; moved: number; elements?: number; equal?: number; not_finite?: number; relative?: number | null; cosine?: number | null;
  max_abs?: number | null; max_ulp?: Big; histogram?: Bins;
}
export interface Entry { key: string; a: string | null; b: string | null; a_cut?: Big; b_cut?: Big }

/** docs/report.md names the members. */
export interface DiffSummary {
  schema: number; kind: string; tool?: string; a: string; b: string; same: boolean; change: string; reason: string;
  models: [Model, Model]; tally: Record<string, Big>; renamed: Big; overall: Overall; rank?: number;
  metadata_changes: Big; metadata: Entry[]; states?: Entry[];
  dtypes: Dtype[]; kinds: [number, Big, Big[]][]; templates: string[][];
  columns: { count: number; sections: { name: string; offset: number; bytes: number }[] };
  left_out?: string[];
}

/** In the order of their numbers. */
export const CHANGES = ['same', 'removed', 'added', 'type', 'values', 'name'] as const;
export const SAME = 0, REMOVED = 1, ADDED = 2, TYPE = 3, VALUES = 4, NAME = 5;
export const CHANGE_TEXTS = ['unchanged', 'removed', 'added', 'other type or shape', 'other values', 'renamed'];

export interface Measures {
  equal: number; notFinite: number; maxUlp: number | undefined; cast: boolean | undefined;
  /** undefined: it was not looked for; 0: none that is low. */
  rank: number | undefined;
  numbers: { normA: number; normB: number; norm: number; relative: number; cosine: number; maxAbs: number; bins: Bins } | undefined;
}

const LEAST = -48; // exponent of the first bin
const RENAMED = 8, MEASURED = 16, OTHER_KIND = 32;

export class DiffData implements ModelData {
  readonly summary: Summary;
  readonly count: number;
  readonly kinds: Kind[];
  readonly names: Names;
  readonly kindIds: Uint32Array;
  /** What changed. */
  readonly fileIds: Uint32Array;
  readonly offsets: Float64Array;
  readonly hasStats = false;
  /** How far it moved; infinite: it has nothing to be measured with; 0: not at all. */
  readonly moved: Float64Array;
  private readonly otherKinds: Uint32Array;
  private readonly otherNames: Names;
  private readonly otherAt = new Map<number, number>();
  private readonly measuresAt: Uint32Array;
  private readonly sections: Sections;

  constructor(readonly diff: DiffSummary, columns: Uint8Array) {
    if (diff.schema !== 1 || diff.kind !== 'diff') {
      throw new Error(`this page shows differences of schema 1, and these are of schema ${String(diff.schema)}`);
    }
    const count = diff.columns.count;
    this.sections = new Sections(diff.columns.sections, columns, count, ['names', 'marks', 'kinds']);
    this.count = count;
    this.summary = {
      schema: 1, kind: 'diff', files: [], metadata: [], totals: { tensors: count, parameters: 0, bytes: 0 }, dtypes: diff.dtypes,
      kinds: diff.kinds, templates: diff.templates,
    };
    this.kinds = kindsOf(diff.kinds);
    this.names = new Names(diff.templates, this.sections.of('names'), count);
    this.kindIds = new Uint32Array(count);
    this.otherKinds = new Uint32Array(count);
    this.fileIds = new Uint32Array(count);
    this.offsets = new Float64Array(count);
    this.moved = new Float64Array(count);
    this.measuresAt = new Uint32Array(count);
    this.readRows();
    this.otherNames = new Names(diff.templates, this.sections.of('others'), this.otherAt.size);
  }

  private readRows(): void {
    const marks = this.sections.of('marks');
    const kinds = new Reader(this.sections.of('kinds'));
    const moved = this.sections.of('moved');
    const floats = new DataView(moved.buffer, moved.byteOffset, moved.byteLength);
    const measures = new Reader(this.sections.of('measures'));
    let at = 0;
    const kind = (i: number): number => {
      const id = kinds.number();
      if (!(id < this.kinds.length)) {
        throw new Error(`tensor ${i} is of kind ${id}, and there are ${this.kinds.length}`);
      }
      return id;
    };
    for (let i = 0; i < this.count; i++) {
      const mark = marks[i];
      const change = mark & 7;
      if (change >= CHANGES.length) {
        throw new Error(`tensor ${i} has change ${change}`);
      }
      this.fileIds[i] = change;
      this.kindIds[i] = kind(i);
      this.kinds[this.kindIds[i]].tensors++;
      this.otherKinds[i] = mark & OTHER_KIND ? kind(i) : this.kindIds[i];
      if (mark & RENAMED) {
        this.otherAt.set(i, this.otherAt.size);
      }
      this.moved[i] = change === SAME || change === NAME ? 0 : change === VALUES ? NaN : Infinity;
      if (mark & MEASURED) {
        this.moved[i] = floats.getFloat32(at, true);
        at += 4;
        if (measures.byte() !== 0) {
          this.measuresAt[i] = measures.at;
          this.readMeasures(measures);
        }
      }
    }
  }

  /** From behind the first byte of an entry. */
  private readMeasures(reader: Reader): Measures {
    const form = reader.bytes[reader.at - 1];
    const equal = reader.number();
    const notFinite = reader.number();
    const hasUlp = reader.byte() === 1;
    const ulp = reader.number();
    const cast = reader.byte();
    const rank = reader.number();
    const out: Measures = { equal, notFinite, maxUlp: hasUlp ? ulp : undefined, cast: cast === 0 ? undefined : cast === 2, rank: rank > 0 ? rank - 1 : undefined, numbers: undefined };
    if (form === 2) {
      const { at } = reader;
      reader.skip(48);
      const view = new DataView(reader.bytes.buffer, reader.bytes.byteOffset + at, 48);
      const [normA, normB, norm, relative, cosine, maxAbs] = [0, 8, 16, 24, 32, 40].map((k) => view.getFloat64(k, true));
      const exponent = reader.byte() + LEAST;
      const counts: number[] = [];
      for (let left = reader.byte(); left > 0; left--) {
        counts.push(reader.number());
      }
      out.numbers = { normA, normB, norm, relative, cosine, maxAbs, bins: { exponent, counts } };
    }
    return out;
  }

  measures(i: number): Measures | undefined {
    const at = this.measuresAt[i];
    return at === 0 ? undefined : this.readMeasures(new Reader(this.sections.of('measures'), at));
  }

  change(i: number): number {
    return this.fileIds[i];
  }

  /** What B calls a tensor that A calls otherwise. */
  newName(i: number): string | undefined {
    const at = this.otherAt.get(i);
    return at === undefined ? undefined : this.otherNames.name(at);
  }

  /** Of B. */
  otherKind(i: number): Kind {
    return this.kinds[this.otherKinds[i]];
  }

  /** A tensor of that name in A or B; -1: none. */
  find(name: string): number {
    const found = this.names.find(name);
    if (found >= 0 || this.otherAt.size === 0) {
      return found;
    }
    const other = this.otherNames.find(name);
    return [...this.otherAt].find(([, at]) => at === other)?.[0] ?? -1;
  }

  private byChange: Uint32Array | undefined;
  /** Rows, the most changed first; what did not change is last. */
  order(): Uint32Array {
    if (this.byChange === undefined) {
      const key = new Float64Array(this.count);
      for (let i = 0; i < this.count; i++) {
        const change = this.fileIds[i];
        key[i] = change === SAME ? -2 : change === NAME ? -1 : this.moved[i];
      }
      this.byChange = sortStable(Uint32Array.from({ length: this.count }, (_, i) => i), key, true);
    }
    return this.byChange;
  }

  name(i: number): string {
    return this.names.name(i);
  }

  kind(i: number): Kind {
    return this.kinds[this.kindIds[i]];
  }

  place(): { file: number; offset: number } {
    return { file: 0, offset: 0 };
  }

  stats(): Stats | undefined {
    return undefined;
  }

  heat(): Heat | undefined {
    return undefined;
  }

  column(): Float64Array {
    return this.moved;
  }
}

/** The differences in this page; undefined: it has none. */
export function diffFromPage(page: Document): DiffData | undefined {
  return takeFrom(page, 'sft-diff', (object, columns) => new DiffData(object as DiffSummary, columns));
}
