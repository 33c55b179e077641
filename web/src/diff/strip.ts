// SPDX-License-Identifier: Apache-2.0 OR MIT
// strip.ts - how far tensors moved by module and layer: names are rows, without the first of their numbers that varies,
// and its values are columns. What has no such number is a row of its own.

import type { Context } from '../context.js';
import { tableLink } from '../context.js';
import { el, on, svg } from '../dom.js';
import { quoteGlob } from '../glob.js';
import { heatColour } from '../palette.js';
import { grouped, nameText, plural, rangesText, shorten, titleText, wholeName } from '../text.js';
import type { DiffData } from './data.js';
import { ADDED, CHANGE_TEXTS, NAME, REMOVED, SAME, TYPE, VALUES } from './data.js';
import { movedText } from './words.js';

/** Tensors of one module in one layer, or in several. */
export interface Cell { tensors: number; changed: number; /** The largest. */ moved: number; tensor: number; /** Which changes there are, as bits. */ changes: number }
export interface Row { template: number; label: string; cells: (Cell | undefined)[]; changed: number; tensors: number }
/** columns: the values of the number that each stands for; [] where names have none. */
export interface Block { prefix: string; hole: number; columns: number[][]; rows: Row[]; tensors: number }

const MOST_COLUMNS = 160;

interface Part { hole: number; prefix: string; templates: number[]; low: number; high: number }

/** Templates by what comes before the number that is the layer. */
function parts(data: DiffData): { stacks: Part[]; single: number[] } {
  const { order, first } = data.names.byTemplate();
  const { templates } = data.names;
  const low = templates.map((one) => Array<number>(one.length - 1).fill(Infinity));
  const high = templates.map((one) => Array<number>(one.length - 1).fill(-1));
  const numbers: number[] = [];
  templates.forEach((one, t) => {
    const holes = Math.min(one.length - 1, 8);
    for (let k = first[t]; k < first[t + 1]; k++) {
      data.names.numbers(order[k], numbers, holes);
      for (let h = 0; h < holes; h++) {
        low[t][h] = Math.min(low[t][h], numbers[h]);
        high[t][h] = Math.max(high[t][h], numbers[h]);
      }
    }
  });
  const stacks: Part[] = [];
  const single: number[] = [];
  let left: { hole: number; prefix: string; templates: number[] }[] = [{ hole: 0, prefix: '', templates: templates.map((_, t) => t).filter((t) => first[t + 1] > first[t]) }];
  while (left.length > 0) {
    const next: typeof left = [];
    for (const one of left) {
      const groups = new Map<string, Part>();
      for (const t of one.templates) {
        if (one.hole >= Math.min(templates[t].length - 1, 8)) {
          single.push(t);
          continue;
        }
        const prefix = one.prefix + templates[t][one.hole];
        const group = groups.get(prefix) ?? { hole: one.hole, prefix, templates: [], low: Infinity, high: -1 };
        group.templates.push(t);
        group.low = Math.min(group.low, low[t][one.hole]);
        group.high = Math.max(group.high, high[t][one.hole]);
        groups.set(prefix, group);
      }
      for (const group of groups.values()) {
        const deeper = group.templates.some((t) => high[t].slice(group.hole + 1, 8).some((most, k) => most > low[t][group.hole + 1 + k]));
        if (group.high > group.low) {
          stacks.push(group);
        } else if (!deeper) {
          single.push(...group.templates);
        } else {
          next.push({ hole: group.hole + 1, prefix: group.prefix + String(group.low), templates: group.templates });
        }
      }
    }
    left = next;
  }
  return { stacks, single };
}

function add(data: DiffData, row: Row, column: number, i: number): void {
  const change = data.change(i);
  const cell = row.cells[column] ??= { tensors: 0, changed: 0, moved: NaN, tensor: i, changes: 0 };
  cell.tensors++;
  cell.changes |= 1 << change;
  if (data.newName(i) !== undefined) {
    cell.changes |= 1 << NAME;
  }
  row.tensors++;
  if (change !== SAME) {
    cell.changed++;
    row.changed++;
    const moved = data.moved[i];
    if (change !== REMOVED && change !== ADDED && Number.isFinite(moved) && !(cell.moved >= moved)) {
      cell.moved = moved;
      cell.tensor = i;
    }
  }
}

/** All tensors: the blocks with the most of them first, that of names without numbers last. */
export function blocks(data: DiffData): Block[] {
  const { order, first } = data.names.byTemplate();
  const { templates } = data.names;
  const { stacks, single } = parts(data);
  const out: Block[] = stacks.map((stack) => {
    const values = new Set<number>();
    const numbers: number[] = [];
    for (const t of stack.templates) {
      for (let k = first[t]; k < first[t + 1]; k++) {
        data.names.numbers(order[k], numbers, stack.hole + 1);
        values.add(numbers[stack.hole]);
      }
    }
    const sorted = [...values].sort((a, b) => a - b);
    const each = Math.ceil(sorted.length / MOST_COLUMNS);
    const columnOf = new Map(sorted.map((value, k) => [value, Math.floor(k / each)]));
    const columns = Array.from({ length: Math.ceil(sorted.length / each) }, (_, k) => sorted.slice(k * each, (k + 1) * each));
    const rows = [...stack.templates].sort((s, t) => order[first[s]] - order[first[t]]).map((t) => {
      const label = templates[t].slice(stack.hole + 1).join('*').replace(/^[./]/, '');
      const row: Row = { template: t, label, cells: Array(columns.length).fill(undefined), changed: 0, tensors: 0 };
      for (let k = first[t]; k < first[t + 1]; k++) {
        data.names.numbers(order[k], numbers, stack.hole + 1);
        add(data, row, columnOf.get(numbers[stack.hole])!, order[k]);
      }
      return row;
    });
    return { prefix: stack.prefix, hole: stack.hole, columns, rows, tensors: rows.reduce((sum, { tensors }) => sum + tensors, 0) };
  });
  out.sort((a, b) => b.tensors - a.tensors);
  if (single.length > 0) {
    const rows = single.sort((s, t) => order[first[s]] - order[first[t]]).flatMap((t) => Array.from(order.subarray(first[t], first[t + 1]), (i) => {
      const row: Row = { template: t, label: data.name(i), cells: [undefined], changed: 0, tensors: 0 };
      add(data, row, 0, i);
      return row;
    }));
    out.push({ prefix: '', hole: -1, columns: [[]], rows, tensors: rows.length });
  }
  return out;
}

/* ---------------------------------------------------------------- the picture */

/** Where a measure lies between the smallest (at most a quarter of the largest, at least its thousandth) and the largest, by their logarithms. */
export class MovedScale {
  low = Infinity;
  high = 0;
  /** There are smaller ones than `low`, which have its colour. */
  readonly cut: boolean;
  constructor(all: Block[]) {
    for (const { rows } of all) {
      for (const { cells } of rows) {
        for (const cell of cells) {
          if (cell !== undefined && cell.moved > 0) {
            this.low = Math.min(this.low, cell.moved);
            this.high = Math.max(this.high, cell.moved);
          }
        }
      }
    }
    // What hardly differs has hardly another colour, and one that hardly moved takes no colours from all others.
    this.cut = this.low < this.high / 1000;
    this.low = Math.max(Math.min(this.low, this.high / 4), this.high / 1000);
  }

  share(moved: number): number {
    return this.high > this.low ? Math.max(0, Math.log(moved / this.low) / Math.log(this.high / this.low)) : 0.5;
  }

  colour(moved: number): string {
    return `rgb(${heatColour(this.share(moved)).join()})`;
  }
}

const HEIGHT = 17, MOST_ROWS = 40, MOST_BLOCKS = 8, TOP = 18;

/** It changed, from zeros, say, and nothing says how far. */
const unmeasured = (cell: Cell): boolean => (cell.changes >> VALUES & 1) === 1 && !(cell.moved > 0);

/** Marks that need no colour: a dot where nothing says how far it moved, a cross for what is gone, a plus for what is new, a corner for another type, a line for a new name. */
function marks(cell: Cell, x: number, y: number, w: number, h: number): SVGElement[] {
  const has = (change: number): boolean => (cell.changes >> change & 1) === 1;
  const path = (d: string, kind: string): SVGElement => svg('path', { d, class: kind });
  const r = Math.min(3.5, w / 2 - 0.5);
  const cx = x + w / 2;
  const cy = y + h / 2;
  return [
    ...(unmeasured(cell) ? [svg('circle', { cx, cy, r: Math.max(0.5, r - 1), class: 'dot' })] : []),
    ...(has(REMOVED) ? [path(`M${cx - r} ${cy - r}l${2 * r} ${2 * r}M${cx - r} ${cy + r}l${2 * r} ${-2 * r}`, 'gone')] : []),
    ...(has(ADDED) ? [path(`M${cx - r} ${cy}h${2 * r}M${cx} ${cy - r}v${2 * r}`, 'new')] : []),
    ...(has(TYPE) ? [path(`M${x + w} ${y}v${Math.min(7, w)}l${-Math.min(7, w)} ${-Math.min(7, w)}z`, 'type')] : []),
    ...(has(NAME) ? [path(`M${x + 1} ${y + h - 1.5}h${w - 2}`, 'renamed')] : []),
  ];
}

function cellText(data: DiffData, cell: Cell): string {
  if (cell.tensors === 1) {
    const change = data.change(cell.tensor);
    const to = data.newName(cell.tensor);
    return CHANGE_TEXTS[change] + (cell.moved > 0 ? `, moved by ${movedText(cell.moved)}` : '') + (to !== undefined ? `, now ${nameText(to, 200)}` : '');
  }
  return `${grouped(cell.changed)} of ${plural(cell.tensors, 'tensor')} changed${cell.moved > 0 ? `, the most by ${movedText(cell.moved)}` : ''}`;
}

function linkOf(context: Context, data: DiffData, block: Block, row: Row, column: number): string {
  const cell = row.cells[column]!;
  if (cell.tensors === 1) {
    return context.tensorLink(cell.tensor);
  }
  const numbers = block.columns[column];
  const behind = data.names.templates[row.template].slice(block.hole + 1).map(quoteGlob).join('*');
  return tableLink({ filter: quoteGlob(block.prefix) + (numbers.length === 1 ? String(numbers[0]) : '*') + behind, change: 'all' });
}

/** As much of a label as there is room for: its end says more than its beginning, but for `.weight`. */
export function labelText(label: string, most: number): string {
  const text = wholeName(label.length > 400 ? `\u2026${label.slice(-400)}` : label);
  const short = text.length > most ? text.replace(/\.weight$/, '') : text;
  return short.length > most ? `\u2026${short.slice(1 - most)}` : short;
}

function picture(context: Context, data: DiffData, block: Block, scale: MovedScale, width: number): SVGElement {
  const rows = shownRows(block);
  const labels = Math.round(Math.min(width < 600 ? 0.36 * width : 0.34 * width, 300));
  const n = block.columns.length;
  const step = Math.min((width - labels - 2) / n, block.hole < 0 ? 44 : 30);
  const gap = step > 5 ? 1 : step > 3 ? 0.5 : 0;
  const chars = Math.max(4, Math.floor((labels - 8) / 6.65));
  const top = block.hole < 0 ? 2 : TOP;
  const nodes: SVGElement[] = [];
  const every = [1, 2, 4, 5, 8, 10, 16, 20, 25, 32, 50, 64, 100].find((k) => k * step >= 26) ?? 128;
  for (let k = 0; k < n && block.hole >= 0; k += every) {
    nodes.push(svg('text', { x: labels + (k + 0.5) * step, y: top - 6, 'text-anchor': 'middle' }, shorten(String(block.columns[k][0]), 5)));
  }
  rows.forEach((row, r) => {
    const y = top + r * HEIGHT;
    nodes.push(svg('text', { class: 'label', x: labels - 6, y: y + 12, 'text-anchor': 'end' }, svg('title', {}, titleText(row.label)), labelText(row.label, chars)));
    row.cells.forEach((cell, k) => {
      if (cell === undefined) {
        return;
      }
      const x = labels + k * step;
      const w = Math.max(1, step - gap);
      const h = HEIGHT - 1;
      const plain = cell.changed === 0 ? 'unmoved' : 'odd';
      const where = block.hole < 0 ? titleText(row.label) : `${rangesText(block.columns[k])} ${titleText(row.label)}`;
      nodes.push(svg('a', { href: linkOf(context, data, block, row, k), 'aria-label': `${where}: ${cellText(data, cell)}`, tabindex: -1, 'data-row': r, 'data-column': k },
        svg('title', {}, `${where}: ${cellText(data, cell)}`),
        svg('rect', { x: x.toFixed(2), y, width: w.toFixed(2), height: h, class: cell.moved > 0 ? undefined : plain, fill: cell.moved > 0 ? scale.colour(cell.moved) : undefined }),
        ...marks(cell, x, y, w, h)));
    });
  });
  const height = top + rows.length * HEIGHT;
  return svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': `Modules of ${titleText(block.prefix) || 'tensors without layers'}, by layer` }, ...nodes);
}

/** Arrow keys go from cell to cell; one of them can be reached by the tabulator. */
function keys(holder: HTMLElement): void {
  const step: Record<string, [number, number]> = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  on(holder, {
    keydown: (event) => {
      const here = (event.target as Element).closest('a');
      const by = step[event.key];
      if (here === null || by === undefined || event.altKey || event.ctrlKey || event.metaKey) {
        return;
      }
      event.preventDefault();
      const all = [...holder.querySelectorAll('a')];
      const at = (a: Element): [number, number] => [Number(a.getAttribute('data-row')), Number(a.getAttribute('data-column'))];
      const [row, column] = at(here);
      // The nearest cell on that side, those of the same row or column first.
      const far = ([r, k]: [number, number]): number => {
        const along = (r - row) * by[0] + (k - column) * by[1];
        const across = Math.abs((r - row) * by[1]) + Math.abs((k - column) * by[0]);
        return along > 0 ? along + 1000 * across : Infinity;
      };
      let to = here;
      let least = Infinity;
      for (const a of all) {
        const distance = far(at(a));
        if (distance < least) {
          least = distance;
          to = a;
        }
      }
      here.setAttribute('tabindex', '-1');
      to.setAttribute('tabindex', '0');
      to.focus();
    },
  });
}

/** The rows that changed if there are too many. */
function shownRows({ rows }: Block): Row[] {
  if (rows.length <= MOST_ROWS) {
    return rows;
  }
  const kept = new Set([...rows].sort((a, b) => Number(b.changed > 0) - Number(a.changed > 0)).slice(0, MOST_ROWS));
  return rows.filter((row) => kept.has(row));
}

function legend(all: Block[], scale: MovedScale): HTMLElement {
  const seen = all.reduce((bits, { rows }) => rows.reduce((more, { cells }) => cells.reduce((some, cell) => some | (cell?.changes ?? 0), more), bits), 0);
  const sample = (change: number, text: string): HTMLElement | false => (seen >> change & 1) === 1 && el('span', {},
    svg('svg', { viewBox: '0 0 14 14', class: 'sample', 'aria-hidden': 'true' },
      svg('rect', { width: 14, height: 14, class: change === SAME ? 'unmoved' : 'odd' }),
      ...marks({ tensors: 1, changed: 1, moved: 0, tensor: 0, changes: 1 << change }, 0, 0, 14, 14)), text);
  const stops = Array.from({ length: 16 }, (_, k) => svg('rect', { x: 6 * k, width: 6.5, height: 8, fill: `rgb(${heatColour(k / 15).join()})` }));
  return el('p', { class: 'legend changes' },
    scale.high > 0 && el('span', { class: 'scale' }, 'moved by ', `${scale.cut ? '\u2264 ' : ''}${movedText(scale.low)} `,
      svg('svg', { viewBox: '0 0 96 8', class: 'stops', 'aria-hidden': 'true' }, ...stops), ` ${movedText(scale.high)}`),
    sample(SAME, 'unchanged'), sample(ADDED, 'added'), sample(REMOVED, 'removed'), sample(TYPE, 'other type or shape'), sample(NAME, 'renamed'),
    all.some(({ rows }) => rows.some(({ cells }) => cells.some((cell) => cell !== undefined && unmeasured(cell)))) && sample(VALUES, 'other values, not measured'));
}

export function stripCard(context: Context, data: DiffData): HTMLElement {
  const all = blocks(data);
  const scale = new MovedScale(all);
  const shown = all.filter(({ hole }) => hole >= 0).slice(0, MOST_BLOCKS).concat(all.filter(({ hole }) => hole < 0));
  const card = el('section', { class: 'card heatstrip' }, el('h2', {}, 'By module and layer'), legend(all, scale), ...shown.map((block) => {
    const holder = el('div', { class: 'strip' });
    let drawn = 0;
    const draw = (width: number): void => {
      if (width > 0 && width !== drawn) {
        drawn = width;
        holder.replaceChildren(picture(context, data, block, scale, width));
        holder.querySelector('a')?.setAttribute('tabindex', '0');
      }
    };
    keys(holder);
    draw(700); // for paper, where nothing was on a screen
    new ResizeObserver(() => draw(Math.floor(holder.clientWidth))).observe(holder);
    const hidden = block.rows.length - shownRows(block).length;
    return el('div', {}, el('h3', {}, el('bdi', { class: 'name', title: titleText(block.prefix) }, block.hole < 0 ? (shown.length > 1 ? 'without layers' : 'tensors') : nameText(block.prefix.replace(/[./]$/, ''), 60) || 'numbers'),
      el('small', {}, plural(block.tensors, 'tensor'))), holder,
    hidden > 0 && el('p', { class: 'about' }, `${plural(hidden, 'more row')}${block.rows.filter(({ changed }) => changed > 0).length <= MOST_ROWS ? ', none of which changed' : ''}.`));
  }));
  if (all.length > shown.length) {
    card.append(el('p', { class: 'about' }, `${plural(all.length - shown.length, 'more group')} of names.`));
  }
  return card;
}
