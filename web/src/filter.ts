// SPDX-License-Identifier: Apache-2.0 OR MIT
// filter.ts - which tensors a text, an element type and a file select. What templates alone decide costs nothing.

import type { ModelData } from './data.js';
import { glob, isGlob } from './glob.js';

/** text: a pattern where it has one of * ? [ \, else a part of the name in any case. file: -1: all but `hidden`. */
export interface Filter { text: string; dtype: string; file: number; hidden?: number }

export const NO_FILTER: Filter = { text: '', dtype: '', file: -1 };

const NO = 0, YES = 1, LOOK = 2;

/** What the text says of each template: all of its names, none, or those that test() finds. */
function decide(data: ModelData, text: string): { verdicts: Uint8Array; test: (name: string) => boolean } {
  const { templates } = data.names;
  if (isGlob(text)) {
    const test = glob(text);
    const verdicts = Uint8Array.from(templates, (parts) => {
      const begin = parts[0];
      return begin.startsWith(test.prefix) || test.prefix.startsWith(begin) ? LOOK : NO;
    });
    return { verdicts, test };
  }
  const needle = text.toLowerCase();
  // Only what has a digit can reach over a number.
  const rest = /[0-9]/.test(needle) ? LOOK : NO;
  const verdicts = Uint8Array.from(templates, (parts) => (
    parts.some((part) => part.toLowerCase().includes(needle)) ? YES : parts.length > 1 ? rest : NO));
  return { verdicts, test: (name) => name.toLowerCase().includes(needle) };
}

const SLICE_MS = 10;

function pause(): Promise<void> {
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => {
      channel.port1.close();
      resolve();
    };
    channel.port2.postMessage(0);
  });
}

/**
 * One byte for each tensor: 1 if the filter selects it. Where names must be looked at, it works in slices of 10 ms;
 * proceed(share) between them, false from it ends the work and gives undefined.
 */
export async function select(data: ModelData, filter: Filter, proceed: (share: number) => boolean): Promise<Uint8Array | undefined> {
  const { count, kinds, kindIds, fileIds, names } = data;
  const out = new Uint8Array(count);
  const { verdicts, test } = decide(data, filter.text);
  const wanted = Uint8Array.from(kinds, (kind) => (filter.dtype === '' || data.summary.dtypes[kind.dtype].name === filter.dtype ? 1 : 0));
  let until = performance.now() + SLICE_MS;
  let looked = 0; // characters, since the clock was looked at
  for (let i = 0; i < count; i++) {
    const verdict = verdicts[names.ids[i]];
    if (verdict !== NO && wanted[kindIds[i]] === 1 && (filter.file < 0 ? fileIds[i] !== filter.hidden : fileIds[i] === filter.file)) {
      const name = verdict === LOOK ? data.name(i) : '';
      out[i] = verdict === YES || test(name) ? 1 : 0;
      looked += name.length;
    }
    if ((i & 255) !== 255 && looked < 1 << 16) {
      continue;
    }
    looked = 0;
    if (performance.now() > until) {
      await pause();
      if (!proceed(i / count)) {
        return undefined;
      }
      until = performance.now() + SLICE_MS;
    }
  }
  return out;
}

/** The rows of `order` that are selected. */
export function keep(order: Uint32Array, selected: Uint8Array): Uint32Array {
  const out = new Uint32Array(order.length);
  let n = 0;
  for (const i of order) {
    out[n] = i;
    n += selected[i];
  }
  return out.slice(0, n);
}
