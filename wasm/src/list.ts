// SPDX-License-Identifier: Apache-2.0 OR MIT
// list.ts - all tensors of a model as columns: a million of them is a dozen arrays, not a million objects.

import type { TensorInfo } from './types.js';

/** What crosses from the module, or from a worker (all buffers are its own, and may be transferred). */
export interface Columns {
  /** UTF-8, one name behind the other. */
  nameBytes: Uint8Array;
  /** count + 1 positions in nameBytes. */
  nameStarts: Uint32Array;
  /** Per tensor an index of dtypeNames. */
  dtypes: Uint16Array;
  dtypeNames: string[];
  /** One shape behind the other. */
  dims: BigUint64Array;
  /** count + 1 positions in dims. */
  dimStarts: Uint32Array;
  nbytes: Float64Array;
  /** -1: not in one piece. */
  offsets: Float64Array;
  files: Uint32Array;
  elements: Float64Array;
}

/** Positions of names by their hash, open addressing; made at the first look-up. */
function buildTable(bytes: Uint8Array, starts: Uint32Array): Int32Array {
  const count = starts.length - 1;
  let room = 16;
  while (room < count * 2) {
    room *= 2;
  }
  const table = new Int32Array(room).fill(-1);
  for (let i = 0; i < count; i++) {
    let slot = hash(bytes, starts[i], starts[i + 1]) & (room - 1);
    while (table[slot] !== -1) {
      slot = (slot + 1) & (room - 1);
    }
    table[slot] = i;
  }
  return table;
}

/** FNV-1a with a last mix. */
function hash(bytes: Uint8Array, begin: number, end: number): number {
  let h = 0x811c9dc5;
  for (let i = begin; i < end; i++) {
    h = Math.imul(h ^ bytes[i], 0x01000193);
  }
  h = Math.imul(h ^ (h >>> 15), 0x2c1b3c6d);
  return (h ^ (h >>> 13)) >>> 0;
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
const encoder = new TextEncoder();

/** Tensors in the order of their files. The arrays are for reading: do not write to them. */
export class TensorList implements Iterable<TensorInfo> {
  readonly length: number;
  private table: Int32Array | null = null;

  constructor(readonly columns: Columns) {
    this.length = columns.nameStarts.length - 1;
  }

  /** Bytes of each tensor. */
  get nbytes(): Float64Array {
    return this.columns.nbytes;
  }

  /** Elements of each tensor. */
  get elements(): Float64Array {
    return this.columns.elements;
  }

  /** Where each begins in its file; -1 where it does not lie there in order and in one piece. */
  get offsets(): Float64Array {
    return this.columns.offsets;
  }

  /** Index of each tensor's file. */
  get files(): Uint32Array {
    return this.columns.files;
  }

  name(i: number): string {
    const { nameBytes, nameStarts } = this.columns;
    return decoder.decode(nameBytes.subarray(nameStarts[i], nameStarts[i + 1]));
  }

  dtype(i: number): string {
    return this.columns.dtypeNames[this.columns.dtypes[i]];
  }

  shape(i: number): number[] {
    return Array.from(this.exactShape(i), Number);
  }

  exactShape(i: number): BigUint64Array {
    const { dims, dimStarts } = this.columns;
    return dims.subarray(dimStarts[i], dimStarts[i + 1]);
  }

  at(i: number): TensorInfo {
    if (!(i >= 0 && i < this.length)) {
      throw new RangeError(`there is no tensor ${i}: the model has ${this.length}`);
    }
    const { nbytes, elements, offsets, files } = this.columns;
    return {
      index: i, name: this.name(i), dtype: this.dtype(i), shape: this.shape(i), elements: elements[i],
      nbytes: nbytes[i], offset: offsets[i] < 0 ? null : offsets[i], file: files[i],
    };
  }

  /** Position of the tensor of this name, or -1. */
  indexOf(name: string): number {
    const { nameBytes, nameStarts } = this.columns;
    this.table ??= buildTable(nameBytes, nameStarts);
    const wanted = encoder.encode(name);
    const mask = this.table.length - 1;
    for (let slot = hash(wanted, 0, wanted.length) & mask; this.table[slot] !== -1; slot = (slot + 1) & mask) {
      const i = this.table[slot];
      const begin = nameStarts[i];
      let same = nameStarts[i + 1] - begin === wanted.length;
      for (let k = 0; same && k < wanted.length; k++) {
        same = nameBytes[begin + k] === wanted[k];
      }
      if (same) {
        return i;
      }
    }
    return -1;
  }

  find(name: string): TensorInfo | undefined {
    const i = this.indexOf(name);
    return i < 0 ? undefined : this.at(i);
  }

  *[Symbol.iterator](): IterableIterator<TensorInfo> {
    for (let i = 0; i < this.length; i++) {
      yield this.at(i);
    }
  }
}

/** The buffers, to be transferred. */
export function buffersOf(c: Columns): ArrayBuffer[] {
  return [c.nameBytes, c.nameStarts, c.dtypes, c.dims, c.dimStarts, c.nbytes, c.offsets, c.files, c.elements]
    .map((a) => a.buffer as ArrayBuffer);
}
