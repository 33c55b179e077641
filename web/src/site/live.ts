// SPDX-License-Identifier: Apache-2.0 OR MIT
// live.ts - a model that a worker has open: its columns are here, statistics are counted when a tensor is looked at.

import type { Heat, Kind, ModelData, StatKey, Stats, Summary } from '../data.js';
import { readHeat, readStats, type Embedded } from '../embedded.js';
import type { Names } from '../names.js';
import type { Entries } from './engine.js';

/** Asks for the entries of a tensor of so many bytes. */
export type AskTensor = (index: number, nbytes: number) => Promise<Entries>;

const MOST_KEPT = 200;

export class Live implements ModelData {
  readonly count: number;
  readonly kinds: Kind[];
  readonly names: Names;
  readonly kindIds: Uint32Array;
  readonly fileIds: Uint32Array;
  readonly offsets: Float64Array;
  readonly hasStats = false;
  private readonly kept = new Map<number, Promise<Entries | undefined>>();
  private busy: Promise<unknown> | undefined;
  private wanted = -1;

  constructor(readonly summary: Summary, private readonly columns: Embedded, private readonly ask: AskTensor) {
    ({ count: this.count, kinds: this.kinds, names: this.names, kindIds: this.kindIds, fileIds: this.fileIds, offsets: this.offsets } = columns);
    summary.statistics = 'sample'; // of each tensor, when it is asked for
  }

  name(i: number): string {
    return this.columns.name(i);
  }

  kind(i: number): Kind {
    return this.columns.kind(i);
  }

  place(i: number): { file: number; offset: number } {
    return this.columns.place(i);
  }

  /** One after the other; who was passed over while another was counted is left out. */
  private async countOne(i: number): Promise<Entries | undefined> {
    while (this.busy !== undefined) {
      await this.busy.catch(() => undefined);
    }
    if (this.wanted !== i) {
      this.kept.delete(i);
      return undefined;
    }
    const asked = this.ask(i, this.kind(i).bytes);
    this.busy = asked;
    try {
      return await asked;
    } catch (e) {
      this.kept.delete(i); // to be tried again
      throw e;
    } finally {
      this.busy = undefined;
    }
  }

  private entries(i: number): Promise<Entries | undefined> {
    this.wanted = i; // also of one that waits: it was passed over, and is looked at again
    let known = this.kept.get(i);
    if (known === undefined) {
      known = this.countOne(i);
      this.kept.set(i, known);
      if (this.kept.size > MOST_KEPT) {
        this.kept.delete(this.kept.keys().next().value!);
      }
    }
    return known;
  }

  async stats(i: number): Promise<Stats | undefined> {
    const stats = (await this.entries(i))?.stats;
    return stats === undefined || stats.length === 0 ? undefined : readStats(stats, 1);
  }

  async heat(i: number): Promise<Heat | undefined> {
    const heat = (await this.entries(i))?.heat;
    return heat === undefined || heat.length === 0 ? undefined : readHeat(heat, 1);
  }

  column(key: StatKey): Float64Array {
    return this.columns.column(key);
  }
}
