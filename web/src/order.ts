// SPDX-License-Identifier: Apache-2.0 OR MIT
// order.ts - a million rows sorted by a column in a few passes: a stable radix sort of 16 bits at a time.

const BUCKETS = 65536;

/** The same for keys that are whole numbers from 0 to 65,535, as ranks and most numbers in names are: one pass. */
function sortSmall(order: Uint32Array, key: Float64Array, down: boolean): Uint32Array | undefined {
  for (const row of order) {
    const value = key[row];
    if (!(value >= 0 && value < BUCKETS && Math.floor(value) === value)) {
      return undefined;
    }
  }
  const next = new Uint32Array(BUCKETS + 1);
  for (const row of order) {
    next[(down ? BUCKETS - 1 - key[row] : key[row]) + 1]++;
  }
  for (let d = 0; d < BUCKETS; d++) {
    next[d + 1] += next[d];
  }
  const out = new Uint32Array(order.length);
  for (const row of order) {
    out[next[down ? BUCKETS - 1 - key[row] : key[row]]++] = row;
  }
  return out;
}

/**
 * The rows of `order`, sorted by key[row] (one key for each row there is), or against it; rows with equal keys stay as
 * they were, and those without one (NaN) come last either way.
 */
export function sortStable(order: Uint32Array, key: Float64Array, down = false): Uint32Array {
  const n = order.length;
  if (n < 2000) {
    return order.slice().sort((a, b) => { // this sort is stable, too
      const x = key[a];
      const y = key[b];
      return x < y ? (down ? 1 : -1) : x > y ? (down ? -1 : 1) : Number(x !== x) - Number(y !== y);
    });
  }
  const small = sortSmall(order, key, down);
  if (small !== undefined) {
    return small;
  }
  const float = new Float64Array(1);
  const bits = new Uint32Array(float.buffer);
  const low = new Uint32Array(n);
  const high = new Uint32Array(n);
  let lowest = 0;
  for (let k = 0; k < n; k++) { // Numbers as whole numbers of the same order
    float[0] = key[order[k]] + 0; // -0 becomes 0
    let a = bits[0];
    let b = bits[1];
    if (float[0] !== float[0]) {
      a = 0xffffffff;
      b = 0xffffffff;
    } else {
      if (b >>> 31 !== 0) {
        a = ~a >>> 0;
        b = ~b >>> 0;
      } else {
        b = (b | 0x80000000) >>> 0;
      }
      if (down) {
        a = ~a >>> 0;
        b = ~b >>> 0;
      }
    }
    low[k] = a;
    high[k] = b;
    lowest |= a ^ low[0];
  }
  // Positions rather than rows are moved, as the keys lie by position.
  let position = new Uint32Array(n);
  for (let k = 0; k < n; k++) {
    position[k] = k;
  }
  let spare = new Uint32Array(n);
  const counts = new Uint32Array(65537);
  for (let pass = 0; pass < 4; pass++) {
    if (pass < 2 && lowest === 0) {
      continue; // nothing differs there
    }
    const digits = pass < 2 ? low : high;
    const shift = pass % 2 === 0 ? 0 : 16;
    counts.fill(0);
    for (let k = 0; k < n; k++) {
      counts[((digits[k] >>> shift) & 0xffff) + 1]++;
    }
    if (n === 0 || counts[((digits[0] >>> shift) & 0xffff) + 1] === n) {
      continue;
    }
    for (let d = 0; d < 65536; d++) {
      counts[d + 1] += counts[d];
    }
    for (let k = 0; k < n; k++) {
      const p = position[k];
      spare[counts[(digits[p] >>> shift) & 0xffff]++] = p;
    }
    [position, spare] = [spare, position];
  }
  const out = new Uint32Array(n);
  for (let k = 0; k < n; k++) {
    out[k] = order[position[k]];
  }
  return out;
}
