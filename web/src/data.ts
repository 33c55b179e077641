// SPDX-License-Identifier: Apache-2.0 OR MIT
// data.ts - what the page shows: the interface between a model, wherever it comes from, and the views.

import type { Names } from './names.js';

/** A count; as text where it is 2^53 or more. */
export type Big = number | string;

export interface FileRow { name: string; bytes: Big; header_bytes?: Big; data_offset?: Big; tensors?: number }
export interface MetadataRow { file: number; key: string; value: string; cut?: number }
export interface Dtype { name: string; block_elements: number; block_bytes: number; kind: string }
export interface Quantised { name: string; scheme: string; shape: Big[]; parameters: Big; bits: number; members: number[] }
export interface Finding {
  from: string; level: string; text: string; file?: number | string; tensor?: number | string; offset?: Big;
}

/** What is known of the model as a whole; docs of the members: web/README.md. */
export interface Summary {
  schema: number;
  kind: string;
  tool?: string;
  name?: string;
  format?: string;
  files: FileRow[];
  metadata: MetadataRow[];
  totals: { tensors: Big; parameters: Big; bytes: Big; aliases?: Big; logical_parameters?: Big };
  config?: string;
  license?: string;
  dtypes: Dtype[];
  kinds: [number, Big, Big[]][];
  templates: string[][];
  columns?: { count: number; sections: { name: string; offset: number; bytes: number }[] };
  statistics?: string;
  percentiles?: number[];
  quantised?: Quantised[];
  findings?: Finding[];
  left_out?: string[];
  aliases?: [number, string][];
}

/** What tensors have in common: element type, bytes and shape. */
export interface Kind { dtype: number; bytes: number; shape: Big[]; elements: number; /** How many are so. */ tensors: number }

export interface Histogram { low: number; width: number; counts: number[] }

export interface Stats {
  sample: boolean;
  n: number; nan: number; positiveInfinity: number; negativeInfinity: number; zero: number; negative: number;
  min: number; max: number; mean: number; std: number; norm: number;
  percentiles: number[];
  histogram: Histogram | undefined;
}

/** Mean magnitudes of the cells of a tensor, row by row. */
export interface Heat { rows: number; columns: number; scale: number; cells: Uint8Array }

export const STAT_KEYS = ['min', 'max', 'mean', 'std', 'norm', 'zero', 'nan', 'inf'] as const;
export type StatKey = typeof STAT_KEYS[number];

/**
 * A model. Tensors are numbered by file, then by place. Work over all tensors takes the columns; what one tensor is, the
 * functions. zero, nan and inf are shares of the elements in column(), NaN where nothing is known.
 */
export interface ModelData {
  readonly summary: Summary;
  readonly count: number;
  readonly kinds: Kind[];
  readonly names: Names;
  readonly kindIds: Uint32Array;
  readonly fileIds: Uint32Array;
  readonly offsets: Float64Array;
  readonly hasStats: boolean;
  name(i: number): string;
  kind(i: number): Kind;
  place(i: number): { file: number; offset: number };
  stats(i: number): Stats | undefined | Promise<Stats | undefined>;
  heat(i: number): Heat | undefined | Promise<Heat | undefined>;
  column(key: StatKey): Float64Array;
}
