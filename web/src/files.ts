// SPDX-License-Identifier: Apache-2.0 OR MIT
// files.ts - files as strips: header, tensors in the colours of their types, gaps.

import type { Context } from './context.js';
import { tableLink } from './context.js';
import { canvas, colour, el, on, svg } from './dom.js';
import { SLOTS } from './palette.js';
import { bytesText, exactBytes, grouped, nameText, plural, titleText } from './text.js';

/** What a file holds, besides tensors: stretches that belong to none. */
export interface FileMap { first: number; last: number; dataStart: number; gaps: { offset: number; bytes: number }[]; gapBytes: number; gapCount: number }

const MOST_GAPS = 1000;

/** Tensors are numbered by file and place, so each file is one run of them. */
export function fileMaps(context: Context): FileMap[] {
  const { data } = context;
  const maps: FileMap[] = data.summary.files.map((file) => ({
    first: 0, last: 0, dataStart: Number(file.data_offset ?? NaN), gaps: [], gapBytes: 0, gapCount: 0,
  }));
  for (let i = 0; i < data.count;) {
    const file = data.fileIds[i];
    let k = i;
    while (k < data.count && data.fileIds[k] === file) {
      k++;
    }
    if (file < maps.length && maps[file].last === 0) {
      maps[file].first = i;
      maps[file].last = k;
    }
    i = k;
  }
  maps.forEach((map, f) => {
    const size = Number(data.summary.files[f].bytes);
    let end = Number.isNaN(map.dataStart) ? (map.first < map.last ? data.offsets[map.first] : 0) : map.dataStart;
    const gap = (upTo: number): void => {
      if (upTo > end) {
        map.gapBytes += upTo - end;
        map.gapCount++;
        if (map.gaps.length < MOST_GAPS) {
          map.gaps.push({ offset: end, bytes: upTo - end });
        }
      }
    };
    for (let i = map.first; i < map.last; i++) {
      gap(data.offsets[i]);
      end = Math.max(end, data.offsets[i] + data.kinds[data.kindIds[i]].bytes);
    }
    if (!Number.isNaN(map.dataStart)) {
      gap(size); // a container of another format ends with its own tables
    }
  });
  return maps;
}

/** Gaps that should not be: in a container of another format, what is in no tensor is the container. */
const marked = (map: FileMap): FileMap['gaps'] => (Number.isNaN(map.dataStart) ? [] : map.gaps);

const STRIP = 26;

/** For each pixel the slot with the most bytes: SLOTS is the header, SLOTS + 1 a gap. */
export function strip(context: Context, map: FileMap, size: number, width: number): Uint8Array {
  const { data } = context;
  const kinds = SLOTS + 2;
  const amounts = new Float64Array(width * kinds);
  const add = (from: number, to: number, slot: number): void => {
    const begin = Math.max(0, from / size * width);
    const end = Math.min(width, to / size * width);
    for (let x = Math.floor(begin); x < end; x++) {
      amounts[x * kinds + slot] += Math.min(end, x + 1) - Math.max(begin, x);
    }
  };
  if (size > 0) {
    add(0, Number.isNaN(map.dataStart) ? 0 : map.dataStart, SLOTS);
    for (let i = map.first; i < map.last; i++) {
      const kind = data.kinds[data.kindIds[i]];
      add(data.offsets[i], data.offsets[i] + kind.bytes, context.slots[kind.dtype]);
    }
  }
  const out = new Uint8Array(width);
  for (let x = 0; x < width; x++) {
    let most = 0.05;
    out[x] = SLOTS + 1;
    for (let slot = 0; slot < kinds; slot++) {
      if (amounts[x * kinds + slot] > most) {
        most = amounts[x * kinds + slot];
        out[x] = slot;
      }
    }
  }
  return out;
}

class Strip {
  readonly element: HTMLElement;
  private readonly picture = el('canvas', {});
  private readonly hint = el('p', { class: 'hint' });
  private drawn = '';

  constructor(private readonly context: Context, private readonly map: FileMap, private readonly file: number) {
    const { name, bytes, tensors } = context.data.summary.files[file];
    const { header_bytes: header } = context.data.summary.files[file];
    const count = tensors ?? map.last - map.first;
    this.element = el('li', { class: 'file' },
      el('div', { class: 'line' }, el('a', { class: 'name', href: tableLink({ file: String(file) }), title: titleText(name) }, el('bdi', {}, nameText(name, 70))),
        el('span', { class: 'number', title: exactBytes(bytes) }, bytesText(bytes))),
      this.picture,
      el('p', { class: 'about' }, [plural(count, 'tensor'), header !== undefined ? `header ${bytesText(header)}` : '',
        map.gapCount > 0 ? `${plural(map.gapCount, 'stretch', 'stretches')} of ${bytesText(map.gapBytes)} in no tensor` : ''].filter((text) => text !== '').join(', ')),
      map.gapCount > 0 && el('details', {}, el('summary', {}, 'Where'), el('ul', {}, ...map.gaps.slice(0, 50).map((gap) => el('li', {}, `${exactBytes(gap.bytes)} at ${grouped(gap.offset)}`)),
        map.gapCount > 50 && el('li', {}, `and ${grouped(map.gapCount - 50)} more`))),
      this.hint);
    this.picture.setAttribute('role', 'img');
    this.picture.setAttribute('aria-label', `Map of the file: ${plural(count, 'tensor')}, ${plural(map.gapCount, 'gap')}`);
    on(this.picture, {
      pointermove: (event) => {
        const i = this.at(event.offsetX);
        this.hint.textContent = i < 0 ? this.between(event.offsetX) : `${nameText(context.data.name(i), 90)}, ${bytesText(context.data.kind(i).bytes)} at ${grouped(context.data.offsets[i])}`;
      },
      pointerleave: () => {
        this.hint.textContent = '';
      },
      click: (event) => {
        const i = this.at(event.offsetX);
        if (i >= 0) {
          location.hash = context.tensorLink(i);
        }
      },
    });
  }

  private offset(x: number): number {
    return x / this.picture.clientWidth * Number(this.context.data.summary.files[this.file].bytes);
  }

  private between(x: number): string {
    return this.offset(x) < this.map.dataStart ? 'header' : `in no tensor, at ${grouped(Math.floor(this.offset(x)))}`;
  }

  /** The tensor there, or -1. */
  private at(x: number): number {
    const { data } = this.context;
    const offset = this.offset(x);
    let low = this.map.first;
    let high = this.map.last;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (data.offsets[middle] <= offset) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    const i = low - 1;
    return i >= this.map.first && offset < data.offsets[i] + data.kind(i).bytes ? i : -1;
  }

  draw(width: number, colours: string[], key: string): void {
    if (width <= 0 || this.drawn === key) {
      return;
    }
    this.drawn = key;
    const size = Number(this.context.data.summary.files[this.file].bytes);
    const [, context] = canvas(width, STRIP, this.picture);
    const slots = strip(this.context, this.map, size, width);
    for (let x = 0; x < width;) {
      let end = x;
      while (end < width && slots[end] === slots[x]) {
        end++;
      }
      context.fillStyle = colours[slots[x]];
      context.fillRect(x, 0, end - x, STRIP - 6);
      x = end;
    }
    context.fillStyle = colours[SLOTS + 2];
    for (const gap of marked(this.map)) { // below, as most are thinner than a pixel
      const x = Math.min(width - 2, Math.floor(gap.offset / size * width));
      context.fillRect(x, STRIP - 5, Math.max(2, gap.bytes / size * width), 5);
    }
  }
}

const PER_PAGE = 100;

export class Files {
  readonly element: HTMLElement;
  private readonly strips: Strip[] = [];
  private readonly list = el('ul', { class: 'files' });
  private readonly seen = new Set<Strip>();
  private readonly watcher: IntersectionObserver;

  constructor(context: Context) {
    const maps = fileMaps(context);
    const byElement = new Map<Element, Strip>();
    this.watcher = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const one = byElement.get(target)!;
        if (isIntersecting) {
          this.seen.add(one);
        } else {
          this.seen.delete(one);
        }
      }
      this.redraw();
    }, { rootMargin: '200px' });
    const more = (): void => {
      const from = this.strips.length;
      for (let f = from; f < Math.min(maps.length, from + PER_PAGE); f++) {
        const one = new Strip(context, maps[f], f);
        this.strips.push(one);
        byElement.set(one.element, one);
        this.list.append(one.element);
        this.watcher.observe(one.element);
      }
      next.hidden = this.strips.length >= maps.length;
      next.textContent = `${grouped(maps.length - this.strips.length)} more`;
    };
    const next = on(el('button', { type: 'button' }), { click: more });
    const square = (fill: string, text: string): HTMLElement => el('span', {}, svg('svg', { viewBox: '0 0 10 10', 'aria-hidden': 'true' },
      svg('rect', { width: 10, height: 10, rx: 2, fill: `var(${fill})` })), text);
    const used = [...context.slots.keys()].sort((a, b) => context.slots[a] - context.slots[b]);
    this.element = el('div', { class: 'filesview' }, el('section', { class: 'card' },
      el('h2', {}, plural(maps.length, 'file')),
      el('p', { class: 'legend' }, ...(maps.some(({ dataStart }) => !Number.isNaN(dataStart)) ? [square('--head', 'header')] : []),
        ...used.slice(0, SLOTS).map((dtype) => square(context.dtypeColour(dtype), nameText(context.dtypeName(dtype), 20))),
        square('--gap', 'in no tensor'), ...(maps.some((map) => marked(map).length > 0) ? [square('--bad', 'where (below the strip)')] : [])),
      this.list, next));
    more();
    new ResizeObserver(() => this.redraw()).observe(this.list);
  }

  redraw(): void {
    const width = Math.floor(this.list.clientWidth);
    const names = [...Array.from({ length: SLOTS }, (_, k) => `--c${k}`), '--head', '--gap', '--bad'];
    const colours = names.map((name) => colour(name));
    const key = `${width} ${colours.join()} ${devicePixelRatio}`;
    for (const one of this.seen) {
      one.draw(width, colours, key);
    }
  }
}
