// SPDX-License-Identifier: Apache-2.0 OR MIT
// header.ts - what a model is at a glance, and what was found.

import type { Context } from './context.js';
import { el } from './dom.js';
import { bytesText, countText, exactBytes, grouped, nameText, plural, titleText } from './text.js';

const LEVELS = ['dangerous', 'error', 'warning', 'unknown', 'ok', 'note'];
const MARKS: Record<string, string> = { dangerous: '\u2716', error: '\u2716', warning: '\u25b2', unknown: '?', note: 'i', ok: '\u2713' };

export const levelOf = (level: string): string => (LEVELS.includes(level) ? level : 'unknown');
export const levelRank = (level: string): number => LEVELS.indexOf(levelOf(level));

export function levelMark(level: string): HTMLElement {
  const known = levelOf(level);
  return el('span', { class: `level ${known}` }, el('span', { class: 'mark', 'aria-hidden': 'true' }, MARKS[known]), known);
}

export function tile(name: string, value: Node | string, more: string, title = ''): HTMLElement {
  return el('div', { class: 'tile', title: title || undefined }, el('dt', {}, name), el('dd', {}, value, more !== '' && el('small', {}, more)));
}

export function tiles(context: Context): HTMLElement {
  const { summary, count } = context.data;
  const { totals } = summary;
  const logical = totals.logical_parameters;
  const quantised = logical !== undefined && String(logical) !== String(totals.parameters);
  const shown = quantised ? logical : totals.parameters;
  return el('dl', { class: 'tiles' },
    tile('Parameters', countText(shown), quantised ? `of ${countText(totals.parameters)} stored elements` : '', grouped(shown)),
    tile('Size', bytesText(totals.bytes), '', exactBytes(totals.bytes)),
    tile('Tensors', grouped(totals.tensors ?? count), totals.aliases !== undefined && Number(totals.aliases) > 0 ? plural(totals.aliases, 'alias', 'aliases') : ''),
    tile('Element types', String(new Set(context.data.kinds.filter(({ tensors }) => tensors > 0).map(({ dtype }) => dtype)).size),
      summary.dtypes.slice(0, 4).map(({ name }) => nameText(name, 12)).join(', ') + (summary.dtypes.length > 4 ? ' \u2026' : '')),
    tile('Files', grouped(summary.files.length), ''));
}

function banner(context: Context): HTMLElement | undefined {
  const findings = context.data.summary.findings ?? [];
  if (findings.length === 0) {
    return undefined;
  }
  const counts = new Map<string, number>();
  for (const { level } of findings) {
    counts.set(levelOf(level), (counts.get(levelOf(level)) ?? 0) + 1);
  }
  const worst = LEVELS.find((level) => counts.has(level))!;
  const first = findings.find(({ level }) => levelOf(level) === worst)!;
  const more = LEVELS.filter((level) => counts.has(level)).map((level) => `${grouped(counts.get(level)!)} ${level}`).join(', ');
  const link = el('a', { class: `banner ${worst}`, href: '#/findings' },
    levelMark(worst), el('span', { class: 'text' }, nameText(first.text, 240)), findings.length > 1 && el('span', { class: 'count' }, more));
  return el('div', { role: worst === 'ok' || worst === 'note' ? undefined : 'alert' }, link);
}

export function header(context: Context): HTMLElement[] {
  const { summary } = context.data;
  const name = summary.name ?? '';
  const about = [summary.format, summary.license !== undefined && summary.license !== '' ? `licence ${summary.license}` : undefined]
    .filter((text) => text !== undefined).map((text) => el('span', { class: 'pill' }, nameText(text!, 80)));
  return [
    el('div', { class: 'title' }, el('h1', { title: titleText(name) }, el('bdi', {}, nameText(name, 120) || 'a model without a name')), ...about),
    ...[banner(context)].filter((node) => node !== undefined),
    ...(summary.left_out ?? []).slice(0, 20).map((text) => el('p', { class: 'left-out' }, nameText(text, 400))),
  ];
}
