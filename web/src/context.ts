// SPDX-License-Identifier: Apache-2.0 OR MIT
// context.ts - what all views share: the model, its colours, and where the page is.

import type { ModelData } from './data.js';
import { dtypeSlots } from './palette.js';

/** Names longer than this are linked by number. */
const MOST_LINKED = 1000;

const encode = (text: string): string => {
  try {
    return encodeURIComponent(text);
  } catch {
    return ''; // half a character
  }
};

export class Context {
  readonly slots: Uint8Array;
  private quantised: Map<number, number> | undefined;
  constructor(readonly data: ModelData) {
    this.slots = dtypeSlots(data);
  }

  dtypeName(dtype: number): string {
    return this.data.summary.dtypes[dtype].name;
  }

  dtypeColour(dtype: number): string {
    return `--c${dtype >= 0 ? this.slots[dtype] : 7}`;
  }

  fileName(file: number): string {
    return this.data.summary.files[file]?.name ?? `file ${file}`;
  }

  tensorLink(i: number): string {
    const name = this.data.name(i);
    const text = name.length <= MOST_LINKED ? encode(name) : '';
    return text === '' ? `#/at/${i}` : `#/tensor/${text}`;
  }

  /** Which quantised weight a tensor is a part of; undefined: of none. */
  quantisedOf(i: number): number | undefined {
    if (this.quantised === undefined) {
      this.quantised = new Map();
      this.data.summary.quantised?.forEach(({ members }, q) => members.forEach((member) => this.quantised!.set(member, q)));
    }
    return this.quantised.get(i);
  }
}

/** #/table?filter=... as its parts. */
export interface Route { view: string; rest: string; query: URLSearchParams }

export function parseRoute(hash: string): Route {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const slash = path.indexOf('/');
  let rest = slash < 0 ? '' : path.slice(slash + 1);
  try {
    rest = decodeURIComponent(rest);
  } catch {
    // as it is
  }
  return { view: slash < 0 ? path : path.slice(0, slash), rest, query: new URLSearchParams(query) };
}

export function tableLink(query: Record<string, string>): string {
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== '')).toString();
  return text === '' ? '#/table' : `#/table?${text}`;
}
