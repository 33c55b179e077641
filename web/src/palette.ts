// SPDX-License-Identifier: Apache-2.0 OR MIT
// palette.ts - colours of element types, and the scale of heat maps; web/README.md says where they are from.

import type { ModelData } from './data.js';

/** The style has --c0 to --c7: eight colours of Okabe and Ito that colour-blind people tell apart, and grey. */
export const SLOTS = 8;

/** For each element type its colour: the one with the most bytes has the first; from the eighth on they are grey. */
export function dtypeSlots(data: ModelData): Uint8Array {
  const bytes = dtypeBytes(data);
  const slots = new Uint8Array(bytes.length);
  [...bytes.keys()].sort((a, b) => bytes[b] - bytes[a]).forEach((dtype, rank) => {
    slots[dtype] = Math.min(rank, SLOTS - 1);
  });
  return slots;
}

export function dtypeBytes(data: ModelData): Float64Array {
  const out = new Float64Array(data.summary.dtypes.length);
  for (const kind of data.kinds) {
    out[kind.dtype] += kind.tensors * kind.bytes;
  }
  return out;
}

// Cividis at nine places.
const CIVIDIS = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116],
  [195, 179, 105], [254, 232, 56]];

/** The colour of a share from 0 to 1. */
export function heatColour(share: number): [number, number, number] {
  const at = Math.min(Math.max(share, 0), 1) * (CIVIDIS.length - 1);
  const k = Math.min(Math.floor(at), CIVIDIS.length - 2);
  return [0, 1, 2].map((c) => Math.round(CIVIDIS[k][c] + (at - k) * (CIVIDIS[k + 1][c] - CIVIDIS[k][c]))) as [number, number, number];
}
