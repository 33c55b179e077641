// SPDX-License-Identifier: Apache-2.0 OR MIT
// overview.ts - counts, the strip, the largest changes, and how far all values moved.

import type { Context } from '../context.js';
import { tableLink } from '../context.js';
import { el, svg } from '../dom.js';
import { tile } from '../header.js';
import { bytesText, countText, exactBytes, grouped, nameText, plural, shareText, titleText, valueText } from '../text.js';
import type { Bins, DiffData } from './data.js';
import { ADDED, CHANGES, CHANGE_TEXTS, NAME, REMOVED, SAME, TYPE, VALUES } from './data.js';
import { stripCard } from './strip.js';
import { movedText } from './words.js';

const LARGEST = 10;

function tiles(data: DiffData): HTMLElement {
  const { tally, overall, renamed, models, metadata_changes: metadata } = data.diff;
  const n = (change: number): string => grouped(tally[CHANGES[change]] ?? 0);
  const link = (change: number, text: string): HTMLElement => el('a', { href: tableLink({ change: CHANGES[change] }) }, text);
  const also = Number(renamed) - Number(tally.name ?? 0);
  return el('dl', { class: 'tiles' },
    tile('Other values', link(VALUES, n(VALUES)), `of ${plural(overall.tensors, 'tensor')} in both`),
    tile('Type or shape', link(TYPE, n(TYPE)), ''),
    tile('Added', link(ADDED, n(ADDED)), ''), tile('Removed', link(REMOVED, n(REMOVED)), ''),
    tile('Renamed', link(NAME, grouped(renamed)), also > 0 ? `${grouped(also)} with other values` : ''),
    tile('Unchanged', link(SAME, n(SAME)), ''),
    tile('Metadata', el('a', { href: '#/metadata' }, grouped(metadata)), 'keys that differ'),
    tile('Size', bytesText(models[1].bytes), String(models[0].bytes) === String(models[1].bytes) ? 'as before' : `was ${bytesText(models[0].bytes)}`, exactBytes(models[1].bytes)));
}

const W = 400, H = 128, LEFT = 4, BOTTOM = 20;
const power = (exponent: number): string => `2${[...String(exponent)].map((c) => '\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b'['0123456789-'.indexOf(c)]).join('')}`;

/** Values by how far they moved: each bar is twice as far as the one before. */
export function binsPicture({ exponent, counts }: Bins): HTMLElement | undefined {
  if (counts.length === 0) {
    return undefined;
  }
  const most = Math.max(...counts, 1);
  const total = counts.reduce((sum, one) => sum + one, 0);
  const step = (W - 2 * LEFT) / Math.max(counts.length, 8);
  const from = LEFT + (W - 2 * LEFT - step * counts.length) / 2;
  const nodes = counts.map((n, k) => {
    const height = n === 0 ? 0 : Math.max(1, (H - BOTTOM - 4) * n / most);
    return svg('g', {}, svg('title', {}, `${power(exponent + k)} to ${power(exponent + k + 1)}: ${grouped(n)} (${shareText(n, total)})`),
      svg('rect', { class: 'hover', x: from + k * step, y: 0, width: step, height: H - BOTTOM }),
      svg('rect', { class: 'bin', x: (from + k * step + 0.4).toFixed(2), y: (H - BOTTOM - height).toFixed(2), width: Math.max(0.5, step - 0.8).toFixed(2), height: height.toFixed(2) }));
  });
  const mark = (k: number, anchor: string): SVGElement => svg('text', { x: from + k * step, y: H - 4, 'text-anchor': anchor }, power(exponent + k));
  return el('div', { class: 'histogram' }, svg('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': `Histogram of the changes of ${plural(total, 'value')}, from ${power(exponent)} to ${power(exponent + counts.length)}` },
    ...nodes, svg('line', { class: 'axis', x1: from, x2: from + step * counts.length, y1: H - BOTTOM, y2: H - BOTTOM }), mark(0, 'start'), mark(counts.length, 'end')));
}

function largest(context: Context, data: DiffData): HTMLElement | undefined {
  const rows: HTMLElement[] = [];
  let most = 0;
  const chosen: number[] = [];
  for (const i of data.order()) {
    if (data.change(i) === SAME || data.change(i) === NAME || chosen.length === LARGEST) {
      break;
    }
    if (Number.isFinite(data.moved[i]) && data.moved[i] > 0) {
      chosen.push(i);
      most = Math.max(most, data.moved[i]);
    }
  }
  for (const i of chosen) {
    const measures = data.measures(i)?.numbers;
    const fill = svg('svg', { class: 'bar', 'aria-hidden': 'true', preserveAspectRatio: 'none', viewBox: '0 0 1000 10' },
      svg('rect', { class: 'track', width: 1000, height: 10 }), svg('rect', { fill: 'var(--c0)', width: Math.max(3, 1000 * data.moved[i] / most), height: 10 }));
    rows.push(el('li', { title: titleText(data.name(i)) }, el('a', { class: 'line', href: context.tensorLink(i) },
      el('span', { class: 'name' }, el('bdi', {}, nameText(data.name(i), 60))), el('span', { class: 'amount' }, movedText(data.moved[i])),
      el('span', { class: 'share', title: 'cosine' }, measures === undefined || Number.isNaN(measures.cosine) ? '' : `cos ${cosineText(measures.cosine)}`), fill)));
  }
  return rows.length === 0 ? undefined : el('section', { class: 'card' }, el('h2', {}, rows.length === 1 ? 'The largest change' : `The ${rows.length} largest changes`), el('ul', { class: 'bars moved' }, ...rows));
}

/** Close to one the digits count that differ from it. */
export const cosineText = (cosine: number): string => (cosine === 1 ? '1' : cosine > 0.999 && cosine < 1 ? String(+cosine.toFixed(Math.min(15, 2 - Math.floor(Math.log10(1 - cosine))))) : valueText(+cosine.toFixed(4)));

function howFar(data: DiffData): HTMLElement | undefined {
  const { overall } = data.diff;
  if (overall.histogram === undefined || overall.elements === undefined) {
    return undefined;
  }
  const { elements, equal = 0, relative, cosine, max_abs: maxAbs, max_ulp: maxUlp, not_finite: odd = 0 } = overall;
  const row = (name: string, value: string): HTMLElement[] => [el('dt', {}, name), el('dd', {}, value)];
  return el('section', { class: 'card' }, el('h2', {}, 'How far values moved'), el('dl', { class: 'facts' },
    ...row('Values', `${countText(elements)} in ${overall.moved > 0 ? 'tensors that moved' : 'tensors that were cast'}`),
    ...row('Equal', `${grouped(equal)} (${shareText(equal, elements)})`),
    ...(relative === null || relative === undefined ? [] : row('Norm of change', `${movedText(relative)} of A's`)),
    ...(cosine === null || cosine === undefined ? [] : row('Cosine', cosineText(cosine))),
    ...(maxAbs === null || maxAbs === undefined ? [] : row('Largest', valueText(maxAbs) + (maxUlp === undefined ? '' : `, or ${grouped(maxUlp)} ulp`))),
    ...(odd > 0 ? row('Not finite', grouped(odd)) : [])), binsPicture(overall.histogram) ?? el('p', { class: 'empty' }, 'No value moved.'));
}

function paper(data: DiffData): HTMLElement {
  const rows = [...data.order().subarray(0, 40)].filter((i) => data.change(i) !== SAME).map((i) => el('tr', {}, el('td', {}, el('bdi', {}, nameText(data.name(i), 80))),
    el('td', {}, CHANGE_TEXTS[data.change(i)]), el('td', { class: 'number' }, data.moved[i] > 0 && data.measures(i) !== undefined ? movedText(data.moved[i]) : '')));
  return el('section', { class: 'card paper' }, el('h2', {}, 'The most changed tensors'), el('table', {}, el('tbody', {}, ...rows)));
}

export function overview(context: Context, data: DiffData): HTMLElement {
  const strip = el('div', {});
  const pair = [largest(context, data), howFar(data)].filter((card) => card !== undefined);
  if (data.count > 200_000) {
    requestAnimationFrame(() => setTimeout(() => strip.replaceWith(stripCard(context, data)))); // after the first picture
  } else if (data.count > 0) {
    strip.replaceChildren(stripCard(context, data));
  }
  return el('div', { class: 'overview' }, tiles(data), strip, el('div', { class: pair.length === 2 ? 'pair' : '' }, ...pair), paper(data));
}
