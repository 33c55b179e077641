// SPDX-License-Identifier: Apache-2.0 OR MIT
// names.ts - the names of tensors as templates and numbers: a million names are a few templates and a run of bytes.
// A name is part0 number0 part1 number1 ... part_h; strings are made when they are asked for.

import { sortStable } from './order.js';

/** Reads unsigned LEB128 numbers, at most 2^53; beyond the end it throws. */
export class Reader {
  at: number;
  constructor(readonly bytes: Uint8Array, at = 0, readonly end = bytes.length) {
    this.at = at;
  }

  number(): number {
    let byte = this.byte();
    if (byte < 128) {
      return byte;
    }
    let value = byte & 127;
    let scale = 128;
    do {
      byte = this.byte();
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte >= 128 && scale < 2 ** 70); // ten bytes: 64 bits
    return value;
  }

  byte(): number {
    if (this.at >= this.end) {
      throw new Error('the data of this report end too early');
    }
    return this.bytes[this.at++];
  }

  skip(count: number): void {
    this.at += count;
    if (this.at > this.end) {
      throw new Error('the data of this report end too early');
    }
  }
}

/** Names are sorted by so many of their numbers. */
const MOST_NUMBERS = 64;

export class Names {
  /** Template of each tensor. */
  readonly ids: Uint32Array;
  /** Where the numbers of each tensor begin in the bytes. */
  private readonly starts: Uint32Array;
  private grouped: { order: Uint32Array; first: Uint32Array } | undefined;
  private sorted: Uint32Array | undefined;

  /** ready: what would be read. */
  constructor(readonly templates: string[][], private readonly bytes: Uint8Array, readonly count: number, ready?: { ids: Uint32Array; starts: Uint32Array }) {
    if (ready !== undefined) {
      ({ ids: this.ids, starts: this.starts } = ready);
      return;
    }
    this.ids = new Uint32Array(count);
    this.starts = new Uint32Array(count);
    const holes = Uint32Array.from(templates, (parts) => parts.length - 1);
    const reader = new Reader(bytes);
    for (let i = 0; i < count; i++) {
      let id = bytes[reader.at]; // mostly one byte
      if (id < 128) {
        reader.at++;
      } else {
        id = reader.number();
      }
      if (!(id < templates.length)) {
        throw new Error(`tensor ${i} has a name of template ${id}, and there are ${templates.length}`);
      }
      this.ids[i] = id;
      this.starts[i] = reader.at;
      for (let k = holes[id]; k > 0; k--) {
        while (reader.byte() >= 128);
      }
    }
  }

  parts(i: number): string[] {
    return this.templates[this.ids[i]];
  }

  /** The first `wanted` numbers of a tensor's name into `out`. */
  numbers(i: number, out: number[], wanted: number): void {
    const { bytes } = this;
    let at = this.starts[i];
    for (let k = 0; k < wanted; k++) {
      let byte = bytes[at++];
      let value = byte & 127;
      for (let scale = 128; byte >= 128; scale *= 128) {
        byte = bytes[at++];
        value += (byte & 127) * scale;
      }
      out[k] = value;
    }
  }

  private readonly scratch: number[] = [];
  name(i: number): string {
    const parts = this.templates[this.ids[i]];
    let text = parts[0];
    if (parts.length > 1) {
      this.numbers(i, this.scratch, parts.length - 1);
      for (let k = 1; k < parts.length; k++) {
        text += this.scratch[k - 1] + parts[k];
      }
    }
    return text;
  }

  /** Tensors by template: those of template t are order[first[t]] to order[first[t + 1]]. */
  byTemplate(): { order: Uint32Array; first: Uint32Array } {
    if (this.grouped === undefined) {
      const first = new Uint32Array(this.templates.length + 1);
      for (let i = 0; i < this.count; i++) {
        first[this.ids[i] + 1]++;
      }
      for (let t = 0; t < this.templates.length; t++) {
        first[t + 1] += first[t];
      }
      const next = first.slice();
      const order = new Uint32Array(this.count);
      for (let i = 0; i < this.count; i++) {
        order[next[this.ids[i]]++] = i;
      }
      this.grouped = { order, first };
    }
    return this.grouped;
  }

  /** The tensor of that name, or -1. */
  find(name: string): number {
    const { order, first } = this.byTemplate();
    for (let t = 0; t < this.templates.length; t++) {
      const parts = this.templates[t];
      if (name.startsWith(parts[0]) && name.endsWith(parts[parts.length - 1])) {
        for (let k = first[t]; k < first[t + 1]; k++) {
          if (this.name(order[k]) === name) {
            return order[k];
          }
        }
      }
    }
    return -1;
  }

  /**
   * All tensors by name, numbers by their value. Sorted from the last part to the first; a name joins when its own last
   * part is reached, so the work grows with what the names hold.
   */
  order(): Uint32Array {
    if (this.sorted !== undefined) {
      return this.sorted;
    }
    const { templates } = this;
    // A part that a number follows is compared with those of other names as if the number began with a 0.
    const text = (parts: string[], k: number): string => (k < parts.length - 1 ? `${parts[k]}0` : parts[k]);
    const ranks = new Map<string, number>();
    const heads = templates.map((parts) => parts.slice(0, MOST_NUMBERS + 1).map((_, k) => text(parts, k)));
    for (const head of heads) {
      for (const part of head) {
        ranks.set(part, 0);
      }
    }
    [...ranks.keys()].sort().forEach((part, rank) => ranks.set(part, rank));
    const ranked = heads.map((head) => Uint32Array.from(head, (part) => ranks.get(part)!));
    const { order: grouped, first } = this.byTemplate();
    const byHoles: number[][] = [];
    heads.forEach((head, t) => (byHoles[head.length - 1] ??= []).push(t));
    let current: Uint32Array = new Uint32Array(0);
    const key = new Float64Array(this.count);
    const numbers: number[] = [];
    for (let k = byHoles.length - 1; k >= 0; k--) {
      const joining = byHoles[k] ?? [];
      let more = 0;
      for (const t of joining) {
        more += first[t + 1] - first[t];
      }
      const next = new Uint32Array(more + current.length);
      let at = 0;
      for (const t of joining) {
        next.set(grouped.subarray(first[t], first[t + 1]), at);
        at += first[t + 1] - first[t];
      }
      next.set(current, at);
      for (const i of next) {
        key[i] = ranked[this.ids[i]][k];
      }
      current = sortStable(next, key);
      if (k > 0) {
        for (const i of current) {
          this.numbers(i, numbers, k);
          key[i] = numbers[k - 1];
        }
        current = sortStable(current, key);
      }
    }
    this.sorted = current;
    return current;
  }
}
