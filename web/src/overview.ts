// SPDX-License-Identifier: Apache-2.0 OR MIT
// overview.ts - bars, the picture of bytes, the folded tree; and, for paper, the first rows.

import type { Context } from './context.js';
import { tableLink } from './context.js';
import { el, on, svg } from './dom.js';
import { quoteGlob } from './glob.js';
import { tiles } from './header.js';
import { Shares, treemap } from './treemap.js';
import { branchesBelow, patternOf, root } from './tree.js';
import type { Branch } from './tree.js';
import { bytesText, countText, exactBytes, grouped, nameText, plural, shapeText, shareText, titleText } from './text.js';

interface Bar { label: string; value: number; total: number; text: string; title: string; colour: string; link: string }

function bars(title: string, rows: Bar[]): HTMLElement {
  const most = rows.reduce((max, { value }) => Math.max(max, value), 0);
  return el('section', { class: 'card' }, el('h2', {}, title), el('ul', { class: 'bars' }, ...rows.map((row) => {
    const fill = svg('svg', { class: 'bar', 'aria-hidden': 'true', preserveAspectRatio: 'none', viewBox: '0 0 1000 10' },
      svg('rect', { class: 'track', width: 1000, height: 10 }),
      svg('rect', { fill: `var(${row.colour})`, width: most > 0 ? Math.max(3, 1000 * row.value / most) : 0, height: 10 }));
    const line = [el('span', { class: 'name' }, el('bdi', {}, row.label)), el('span', { class: 'amount' }, row.text),
      el('span', { class: 'share' }, shareText(row.value, row.total)), fill];
    return el('li', { title: row.title }, row.link === '' ? el('span', { class: 'line' }, ...line) : el('a', { class: 'line', href: row.link }, ...line));
  })));
}

function dtypeBars(context: Context): HTMLElement {
  const { data } = context;
  const sums = data.summary.dtypes.map((_, dtype) => ({ dtype, bytes: 0, elements: 0, tensors: 0 }));
  for (const kind of data.kinds) {
    const sum = sums[kind.dtype];
    sum.bytes += kind.tensors * kind.bytes;
    sum.elements += kind.tensors * kind.elements;
    sum.tensors += kind.tensors;
  }
  const total = sums.reduce((all, { bytes }) => all + bytes, 0);
  const used = sums.filter(({ tensors }) => tensors > 0).sort((a, b) => b.bytes - a.bytes);
  return bars('By element type', used.slice(0, 16).map(({ dtype, bytes, elements, tensors }) => {
    const name = context.dtypeName(dtype);
    return {
      label: nameText(name, 30), value: bytes, total, text: bytesText(bytes), colour: context.dtypeColour(dtype),
      title: `${titleText(name)}: ${exactBytes(bytes)}, ${plural(elements, 'element')}, ${plural(tensors, 'tensor')}`,
      link: tableLink({ dtype: name }),
    };
  }));
}

function moduleBars(context: Context, shares: Shares): HTMLElement {
  const list = shares.modules();
  const total = shares.bytes;
  const rows: Bar[] = list.slice(0, 11).map((item) => ({
    label: nameText(item.path.replace(/[./]$/, ''), 44), value: item.bytes, total, text: bytesText(item.bytes), colour: context.dtypeColour(item.dtype),
    title: `${titleText(item.path)}: ${exactBytes(item.bytes)}, ${plural(item.elements, 'element')}, ${plural(item.tensors, 'tensor')}`,
    link: tableLink({ filter: item.pattern }),
  }));
  if (list.length > 11) {
    const bytes = total - rows.reduce((all, { value }) => all + value, 0);
    rows.push({ label: 'others', value: bytes, total, text: bytesText(bytes), colour: '--c7', title: exactBytes(bytes), link: '' });
  }
  return bars('By module', rows);
}

const TOLD = ['architectures', 'model_type', 'hidden_size', 'n_embd', 'd_model', 'intermediate_size', 'moe_intermediate_size', 'num_hidden_layers', 'n_layer',
  'num_attention_heads', 'n_head', 'num_key_value_heads', 'head_dim', 'n_routed_experts', 'num_local_experts', 'num_experts', 'num_experts_per_tok',
  'vocab_size', 'max_position_embeddings', 'rope_theta', 'torch_dtype', 'dtype'];

/** What config.json says of the model, as far as it is known what it means. */
function configCard(context: Context): HTMLElement | undefined {
  let config: unknown;
  try {
    config = JSON.parse(context.data.summary.config ?? 'null');
  } catch {
    return undefined;
  }
  if (typeof config !== 'object' || config === null) {
    return undefined;
  }
  const known = new Map<string, unknown>(Object.entries(config));
  const rows = TOLD.flatMap((key) => {
    const value = known.get(key);
    const text = typeof value === 'string' || typeof value === 'number' ? String(value)
      : Array.isArray(value) && value.every((one) => typeof one === 'string') ? value.join(', ') : '';
    return text === '' ? [] : [el('dt', {}, key), el('dd', {}, nameText(text, 80))];
  });
  return rows.length === 0 ? undefined : el('section', { class: 'card config' }, el('h2', {}, el('a', { href: '#/metadata' }, 'config.json')),
    el('dl', { class: 'facts' }, ...rows.slice(0, 28)));
}

/* ---------------------------------------------------------------- the picture of bytes */

function treemapCard(context: Context, shares: Shares): HTMLElement {
  const holder = el('div', { class: 'treemap' });
  const used = [...context.slots.keys()].sort((a, b) => context.slots[a] - context.slots[b]);
  const legend = el('p', { class: 'legend' }, ...used.slice(0, 8).map((dtype) => el('span', {},
    svg('svg', { viewBox: '0 0 10 10', 'aria-hidden': 'true' }, svg('rect', { width: 10, height: 10, rx: 2, fill: `var(${context.dtypeColour(dtype)})` })),
    nameText(context.dtypeName(dtype), 20))));
  let drawn = 700; // for paper, where nothing was on a screen
  holder.append(picture(context, shares, drawn, 420));
  new ResizeObserver(() => {
    const width = Math.floor(holder.clientWidth);
    if (width > 0 && width !== drawn) {
      drawn = width;
      holder.replaceChildren(picture(context, shares, width, width < 600 ? 360 : 420));
    }
  }).observe(holder);
  return el('section', { class: 'card' }, el('h2', {}, 'Where the bytes are'), holder, legend);
}

function picture(context: Context, shares: Shares, width: number, height: number): SVGElement {
  const nodes: SVGElement[] = [];
  for (const tile of treemap(shares, { x: 0, y: 0, width, height })) {
    const w = Math.max(0, tile.width - 1);
    const h = Math.max(0, tile.height - 1);
    const slot = tile.group ? 'group' : `s${tile.dtype >= 0 ? context.slots[tile.dtype] : 7}`;
    const room = Math.floor((w - 8) / 7);
    const texts: SVGElement[] = [];
    if (room >= 3 && h >= 15) {
      texts.push(svg('text', { x: tile.x + 4, y: tile.y + 12 }, nameText(tile.label.replace(/[./]$/, ''), room)));
      const size = bytesText(tile.bytes);
      if (!tile.group && h >= 30 && size.length <= room) {
        texts.push(svg('text', { class: 'size', x: tile.x + 4, y: tile.y + 25 }, size));
      }
    }
    nodes.push(svg('a', { href: tableLink({ filter: tile.pattern }), class: slot, tabindex: tile.group || w * h > 2000 ? 0 : -1 },
      svg('title', {}, `${titleText(tile.path)}\n${plural(tile.tensors, 'tensor')}, ${exactBytes(tile.bytes)}, ${plural(tile.elements, 'element')}`),
      svg('rect', { x: tile.x.toFixed(1), y: tile.y.toFixed(1), width: w.toFixed(1), height: h.toFixed(1), rx: Math.min(3, w / 4, h / 4).toFixed(1) }),
      ...texts));
  }
  return svg('svg', { width, height, viewBox: `0 0 ${width} ${height}`, role: 'group', 'aria-label': 'Rectangles whose areas are bytes' }, ...nodes);
}

/* ---------------------------------------------------------------- tree */

const LINES = 200;

export class Tree {
  readonly element = on(el('ul', { class: 'tree', role: 'tree', 'aria-label': 'Names, numbered parts of the same structure folded' }), {
    keydown: (event) => this.key(event),
  });

  constructor(private readonly context: Context) {}

  /** The first lines; a single one is opened. */
  start(): void {
    this.lines(this.element, branchesBelow(this.context.data, root(this.context.data)), 1);
    const first = [...this.element.children] as HTMLElement[];
    for (const line of first.length <= 3 ? first : []) {
      this.open(line, true);
    }
    this.element.querySelector('li')?.setAttribute('tabindex', '0');
  }

  private readonly branches = new WeakMap<Element, { branch: Branch; level: number }>();

  /** So many lines, and a button for the next ones. */
  private lines(into: HTMLElement, branches: Iterator<Branch>, level: number, from?: Branch): void {
    let branch = from ?? branches.next().value as Branch | undefined;
    for (let k = 0; k < LINES && branch !== undefined; k++) {
      into.append(this.line(branch, level));
      branch = branches.next().value as Branch | undefined;
    }
    if (branch !== undefined) {
      const more = el('li', { class: 'more', role: 'none' }, on(el('button', { type: 'button' }, 'More'), {
        click: () => {
          more.remove();
          this.lines(into, branches, level, branch);
        },
      }));
      into.append(more);
    }
  }

  private line(branch: Branch, level: number): HTMLElement {
    const { context } = this;
    const leaf = branch.tensor >= 0;
    const dtypes = [...branch.dtypes].slice(0, 3);
    const about = leaf ? shapeText(context.data.kind(branch.tensor).shape) : plural(branch.tensors, 'tensor');
    const element = el('li', { role: 'treeitem', tabindex: -1, 'aria-level': level, 'aria-expanded': leaf ? undefined : 'false' },
      el('div', { class: 'line' },
        el('span', { class: 'twist', 'aria-hidden': 'true' }),
        el('span', { class: 'name', title: titleText(branch.label) }, el('bdi', {}, nameText(branch.label.replace(/[./]$/, ''), 70))),
        branch.times > 1 && el('span', { class: 'times' }, `\u00d7 ${grouped(branch.times)}`),
        el('span', { class: 'about' }, about),
        el('span', { class: 'types' }, ...dtypes.map((dtype) => dtypeChip(context, dtype)), branch.dtypes.size > 3 && '\u2026'),
        el('span', { class: 'bytes', title: `${exactBytes(branch.bytes)}, ${plural(branch.elements, 'element')}` }, bytesText(branch.bytes))));
    this.branches.set(element, { branch, level });
    on(element.firstElementChild as HTMLElement, {
      click: () => {
        this.focus(element);
        this.activate(element);
      },
    });
    return element;
  }

  private activate(element: HTMLElement): void {
    const { branch } = this.branches.get(element)!;
    if (branch.tensor < 0) {
      this.open(element, element.getAttribute('aria-expanded') !== 'true');
    } else {
      location.hash = branch.times === 1 ? this.context.tensorLink(branch.tensor)
        : tableLink({ filter: patternOf(this.context.data, branch, quoteGlob) });
    }
  }

  private open(element: HTMLElement, wanted: boolean): void {
    const { branch, level } = this.branches.get(element)!;
    if (branch.tensor >= 0) {
      return;
    }
    element.setAttribute('aria-expanded', String(wanted));
    element.querySelector(':scope > ul')?.remove();
    if (wanted) {
      const list = el('ul', { role: 'group' });
      this.lines(list, branchesBelow(this.context.data, branch), level + 1);
      element.append(list);
    }
  }

  private focus(element: HTMLElement): void {
    for (const other of this.element.querySelectorAll('li[tabindex="0"]')) {
      other.setAttribute('tabindex', '-1');
    }
    element.setAttribute('tabindex', '0');
    element.focus();
  }

  private key(event: KeyboardEvent): void {
    const here = (event.target as Element).closest<HTMLElement>('li[role=treeitem]');
    if (here === null || event.altKey || event.ctrlKey || event.metaKey) {
      return;
    }
    const all = [...this.element.querySelectorAll<HTMLElement>('li[role=treeitem]')];
    const at = all.indexOf(here);
    const open = here.getAttribute('aria-expanded');
    let to: HTMLElement | null | undefined;
    switch (event.key) {
      case 'ArrowDown': to = all[at + 1]; break;
      case 'ArrowUp': to = all[at - 1]; break;
      case 'Home': [to] = all; break;
      case 'End': to = all[all.length - 1]; break;
      case 'ArrowRight':
        if (open === 'false') {
          this.open(here, true);
        } else if (open === 'true') {
          to = here.querySelector<HTMLElement>(':scope > ul > li');
        }
        break;
      case 'ArrowLeft':
        if (open === 'true') {
          this.open(here, false);
        } else {
          to = here.parentElement?.closest<HTMLElement>('li[role=treeitem]');
        }
        break;
      case 'Enter': case ' ': this.activate(here); break;
      default: return;
    }
    event.preventDefault();
    if (to instanceof HTMLElement) {
      this.focus(to);
    }
  }
}

export function dtypeChip(context: Context, dtype: number): HTMLElement {
  return el('span', { class: 'dtype' }, svg('svg', { viewBox: '0 0 8 8', 'aria-hidden': 'true' },
    svg('rect', { width: 8, height: 8, rx: 2, fill: `var(${context.dtypeColour(dtype)})` })), nameText(context.dtypeName(dtype), 20));
}

/* ---------------------------------------------------------------- quantised weights */

function quantisedCard(context: Context): HTMLElement | undefined {
  const list = context.data.summary.quantised ?? [];
  if (list.length === 0) {
    return undefined;
  }
  const schemes = new Map<string, { weights: number; parameters: number; bytes: number }>();
  for (const { scheme, parameters, members } of list) {
    const sum = schemes.get(scheme) ?? { weights: 0, parameters: 0, bytes: 0 };
    sum.weights++;
    sum.parameters += Number(parameters);
    sum.bytes += members.reduce((all, member) => all + context.data.kind(member).bytes, 0);
    schemes.set(scheme, sum);
  }
  const rows = [...schemes].slice(0, 30).map(([scheme, { weights, parameters, bytes }]) => el('tr', {}, el('th', { scope: 'row' }, nameText(scheme, 40)),
    el('td', { class: 'number' }, grouped(weights)), el('td', { class: 'number', title: grouped(parameters) }, countText(parameters)),
    el('td', { class: 'number', title: exactBytes(bytes) }, bytesText(bytes)),
    el('td', { class: 'number' }, parameters > 0 ? (8 * bytes / parameters).toFixed(2) : '')));
  const first = list.slice(0, 8).map((one) => el('tr', {},
    el('th', { scope: 'row', title: titleText(one.name) }, el('bdi', {}, one.members.length > 0
      ? el('a', { href: context.tensorLink(one.members[0]) }, nameText(one.name, 60)) : nameText(one.name, 60))),
    el('td', {}, shapeText(one.shape)), el('td', { class: 'number' }, countText(one.parameters)),
    el('td', { class: 'number' }, String(one.bits))));
  const head = (...names: string[]): HTMLElement => el('thead', {}, el('tr', {}, ...names.map((name, k) => el('th', { scope: 'col', class: k > 0 && name !== 'Shape' ? 'number' : undefined }, name))));
  return el('section', { class: 'card' }, el('h2', {}, 'Quantised weights'),
    el('div', { class: 'scroll' }, el('table', {}, head('Scheme', 'Weights', 'Parameters', 'Bytes', 'Bits each'), el('tbody', {}, ...rows))),
    el('h3', {}, list.length > first.length ? `The first ${first.length} of ${grouped(list.length)}` : 'Each'),
    el('div', { class: 'scroll' }, el('table', { class: 'quantised' }, head('Weight', 'Shape', 'Parameters', 'Bits'), el('tbody', {}, ...first))));
}

/* ---------------------------------------------------------------- for paper */

const PAPER_ROWS = 40;

function paper(context: Context): HTMLElement {
  const { data } = context;
  const rows: HTMLElement[] = [];
  for (let i = 0; i < Math.min(data.count, PAPER_ROWS); i++) {
    const kind = data.kind(i);
    rows.push(el('tr', {}, el('td', {}, el('bdi', {}, nameText(data.name(i), 80))), el('td', {}, nameText(context.dtypeName(kind.dtype), 20)),
      el('td', {}, shapeText(kind.shape)), el('td', { class: 'number' }, bytesText(kind.bytes))));
  }
  return el('section', { class: 'card paper' }, el('h2', {}, data.count > PAPER_ROWS ? `The first ${PAPER_ROWS} of ${grouped(data.count)} tensors` : 'Tensors'),
    el('table', {}, el('tbody', {}, ...rows)));
}

export function overview(context: Context): HTMLElement {
  const view = el('div', { class: 'overview' }, tiles(context));
  if (context.data.count === 0) {
    view.append(el('section', { class: 'card' }, el('p', { class: 'empty' }, 'This model has no tensors.')));
    return view;
  }
  const shares = new Shares(context.data, quoteGlob);
  const tree = new Tree(context);
  const config = configCard(context);
  view.append(el('div', { class: 'pair' }, el('div', {}, dtypeBars(context), ...(config === undefined ? [] : [config])), moduleBars(context, shares)), treemapCard(context, shares),
    ...[quantisedCard(context)].filter((card) => card !== undefined),
    el('section', { class: 'card' }, el('h2', {}, 'Names'), tree.element), paper(context));
  requestAnimationFrame(() => setTimeout(() => tree.start())); // after the first picture
  return view;
}
