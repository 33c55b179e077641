// SPDX-License-Identifier: Apache-2.0 OR MIT
// glob.ts - the tool's patterns (sft_glob_match): * any characters, ? one, [a-z] one of a set, [!a-z] or [^a-z] one that is
// not in it, \x the character x itself. A [ that is never closed is itself. The whole name must fit.

type One = { any: true } | { code: number } | { ranges: [number, number][]; not: boolean };
type Element = One | '*';

function compileSet(codes: number[], at: number): [One, number] | undefined {
  let k = at;
  const not = codes[k] === 33 || codes[k] === 94; // ! ^
  if (not) {
    k++;
  }
  const ranges: [number, number][] = [];
  for (let first = true; k < codes.length; first = false) {
    const low = codes[k++];
    if (low === 93 && !first) { // ]
      return [{ ranges, not }, k];
    }
    let high = low;
    if (k + 1 < codes.length && codes[k] === 45 && codes[k + 1] !== 93) { // -
      high = codes[k + 1];
      k += 2;
    }
    ranges.push([low, high]);
  }
  return undefined;
}

function compile(pattern: string): Element[] {
  const codes = Array.from(pattern, (c) => c.codePointAt(0)!);
  const elements: Element[] = [];
  for (let k = 0; k < codes.length;) {
    const code = codes[k++];
    const set = code === 91 ? compileSet(codes, k) : undefined;
    if (code === 42) {
      if (elements[elements.length - 1] !== '*') {
        elements.push('*');
      }
    } else if (code === 63) {
      elements.push({ any: true });
    } else if (set !== undefined) {
      elements.push(set[0]);
      k = set[1];
    } else {
      elements.push({ code: code === 92 && k < codes.length ? codes[k++] : code });
    }
  }
  return elements;
}

function fits(one: One, code: number): boolean {
  if ('code' in one) {
    return one.code === code;
  }
  return 'any' in one || one.ranges.some(([low, high]) => code >= low && code <= high) !== one.not;
}

export const isGlob = (text: string): boolean => /[*?[\\]/.test(text);
export const quoteGlob = (text: string): string => text.replace(/[*?[\\]/g, '\\$&');

export interface Glob { (name: string): boolean; prefix: string }

/** A function that matches names. One place to go back to, the last star passed: at most name times pattern steps. What is behind
 * the last star of all can be in one place alone, at the end. */
export function glob(pattern: string): Glob {
  const elements = compile(pattern);
  let prefix = '';
  for (const one of elements) {
    if (one === '*' || !('code' in one)) {
      break;
    }
    prefix += String.fromCodePoint(one.code);
  }
  const last = elements.lastIndexOf('*');
  const behind = elements.length - 1 - last; // each is one character
  const placeOfLast = (name: string): number => {
    let n = name.length;
    for (let k = 0; k < behind && n >= 0; k++) {
      n -= n >= 2 && name.codePointAt(n - 2)! > 0xffff ? 2 : 1;
    }
    return n;
  };
  const match = (name: string): boolean => {
    let p = 0;
    let n = 0;
    let star = -1;
    let from = 0;
    while (n < name.length) {
      const one = elements[p];
      const code = name.codePointAt(n)!;
      if (one === '*' && p === last) {
        const place = placeOfLast(name);
        if (place < n) {
          return false;
        }
        p++;
        star = -1;
        n = place;
      } else if (one === '*') {
        star = ++p;
        from = n;
      } else if (one !== undefined && fits(one, code)) {
        p++;
        n += code > 0xffff ? 2 : 1;
      } else if (star >= 0) {
        from += name.codePointAt(from)! > 0xffff ? 2 : 1;
        p = star;
        n = from;
      } else {
        return false;
      }
    }
    while (elements[p] === '*') {
      p++;
    }
    return p === elements.length;
  };
  return Object.assign(match, { prefix });
}
