// SPDX-License-Identifier: Apache-2.0 OR MIT
// text.ts - numbers and names as text. Whatever the language of the browser is, the same text.

import type { Big } from './data.js';

// Controls, formats (bidi, zero width, tags), surrogates, private and unassigned ones, separators other than a blank, what Unicode
// calls ignorable (fillers, variation selectors), and the Braille pattern that is blank.
const ODD = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u2800\p{Default_Ignorable_Code_Point}]/gu;
const SHORT: Record<string, string> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

const escape = (c: string): string => SHORT[c] ?? `\\u{${c.codePointAt(0)!.toString(16)}}`;

const ASCII = /^[\0-\x7f]*$/;

const changes = (text: string): boolean => text !== text.normalize('NFC');

/** A text that is not composed (Unicode's NFC) looks like one that is: what differs is written out. */
function composed(text: string): string {
  if (ASCII.test(text) || !changes(text)) {
    return text;
  }
  const all = [...text];
  return all.map((c, k) => (!ASCII.test(c) && (/\p{M}/u.test(c) || changes(c) || changes((all[k - 1] ?? '') + c)) ? escape(c) : c)).join('');
}

/** The text with characters that cannot be seen, or that change how others are shown, as \u{202e}. lines: not \n and \t. */
export function visible(text: string, lines = false): string {
  return text.replace(ODD, lines ? (c) => (c === '\n' || c === '\t' ? c : escape(c)) : escape);
}

/** At most `most` characters: the beginning, an ellipsis and the end. */
export function shorten(text: string, most: number): string {
  if (text.length <= most) {
    return text;
  }
  const head = Math.max(1, Math.ceil((most - 1) / 2));
  const tail = Math.max(0, most - 1 - head);
  let begin = text.slice(0, head);
  let end = tail > 0 ? text.slice(-tail) : '';
  if (/[\ud800-\udbff]$/.test(begin)) { // not half a character
    begin = begin.slice(0, -1);
  }
  if (/^[\udc00-\udfff]/.test(end)) {
    end = end.slice(1);
  }
  return `${begin}\u2026${end}`;
}

/** A name for one line: at most `most` characters, all of them visible, blanks at its ends too. Names of any length cost the same. */
export function nameText(name: string, most: number): string {
  return shorten(wholeName(name.length > 4 * most ? shorten(name, 4 * most) : name), most);
}

/** All of it. */
export function wholeName(name: string): string {
  return visible(composed(name)).replace(/^ +| +$/g, (blanks) => '\\u{20}'.repeat(blanks.length));
}

/** A name for a tooltip. */
export const titleText = (name: string): string => nameText(name, 1000);

/** 1234567 as 1,234,567. */
export function grouped(value: Big): string {
  return String(value).replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

function scaled(value: Big, step: number, units: string[]): string {
  let n = Number(value);
  let k = 0;
  while (k + 1 < units.length && n >= step * (1 - 0.0005)) {
    n /= step;
    k++;
  }
  return `${k === 0 ? grouped(n) : n < 9.995 ? n.toFixed(2) : n < 99.95 ? n.toFixed(1) : n.toFixed(0)}${units[k]}`;
}

/** 6738415616 as 6.74 B. */
export const countText = (value: Big): string => scaled(value, 1000, ['', ' K', ' M', ' B', ' T', ' Q']);
/** As the tool says it: 12.6 GiB. */
export const bytesText = (value: Big): string => scaled(value, 1024, [' B', ' KiB', ' MiB', ' GiB', ' TiB', ' PiB', ' EiB']);
export const exactBytes = (value: Big): string => `${grouped(value)} byte${String(value) === '1' ? '' : 's'}`;
export const plural = (n: Big, one: string, many = `${one}s`): string => `${grouped(n)} ${String(n) === '1' ? one : many}`;

/** A measured value: four digits that count. */
export function valueText(value: number): string {
  if (Number.isNaN(value)) {
    return 'NaN';
  }
  if (!Number.isFinite(value)) {
    return value > 0 ? '\u221e' : '\u2212\u221e';
  }
  const size = Math.abs(value);
  let text: string;
  if (value === 0) {
    text = '0';
  } else if (Number.isInteger(value) && size < 1e6) {
    text = String(size);
  } else if (size >= 1e6 || size < 1e-3) {
    text = size.toExponential(3).replace(/\.?0+e/, 'e').replace('e+', 'e').replace('e-', 'e\u2212');
  } else {
    text = size.toPrecision(4);
    text = text.includes('.') ? text.replace(/\.?0+$/, '') : text;
  }
  return value < 0 ? `\u2212${text}` : text;
}

export function shareText(part: number, whole: number): string {
  if (part === 0 || whole === 0) {
    return '0 %';
  }
  const share = 100 * part / whole;
  return share < 0.01 ? '< 0.01 %' : share >= 99.95 && part < whole ? '> 99.9 %' : `${share === 100 ? '100' : share >= 10 ? share.toFixed(1) : share.toFixed(2)} %`;
}

export function shapeText(shape: Big[]): string {
  const shown = shape.length > 12 ? [...shape.slice(0, 10), '\u2026', shape[shape.length - 1]] : shape;
  return `[${shown.join(', ')}]`;
}

/** JSON with its values set out, each as it was written; or the text as it is. Once there are so many characters, the rest is left out. */
export function setOut(text: string, most = Infinity): string {
  const first = text.trimStart()[0];
  if ((first !== '{' && first !== '[') || text.length > 1 << 20) {
    return text;
  }
  try {
    JSON.parse(text);
  } catch {
    return text; // it only looked like it
  }
  let out = '';
  let depth = 0;
  const line = (): string => `\n${'  '.repeat(Math.min(depth, 20))}`;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|[^\s{}[\],:"]+/gs)) {
    if (token === '{' || token === '[') {
      depth++;
      out += token + line();
    } else if (token === '}' || token === ']') {
      depth--;
      out += line() + token;
    } else {
      out += token === ',' ? token + line() : token === ':' ? ': ' : token;
    }
    if (depth > 100) {
      return text; // brackets in brackets: nearly all of it would be blanks
    }
    if (out.length >= most) {
      break;
    }
  }
  return out;
}

/** 0, 1, 2, 5 as 0…2, 5. */
export function rangesText(sorted: number[], most = 4): string {
  const runs: string[] = [];
  for (let k = 0; k < sorted.length;) {
    let end = k;
    while (end + 1 < sorted.length && sorted[end + 1] === sorted[end] + 1) {
      end++;
    }
    runs.push(end === k ? String(sorted[k]) : end === k + 1 ? `${sorted[k]}, ${sorted[end]}` : `${sorted[k]}\u2026${sorted[end]}`);
    k = end + 1;
  }
  return runs.length <= most ? runs.join(', ') : `${runs.slice(0, most - 1).join(', ')}, \u2026 ${runs[runs.length - 1]}`;
}
