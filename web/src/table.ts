// SPDX-License-Identifier: Apache-2.0 OR MIT
// table.ts - all tensors as rows: sorted by any column, filtered, however many there are.

import type { Context, Route } from './context.js';
import { tableLink } from './context.js';
import { el, on } from './dom.js';
import { keep, NO_FILTER, select } from './filter.js';
import type { Filter } from './filter.js';
import { List } from './list.js';
import { sortStable } from './order.js';
import type { ModelData, StatKey } from './data.js';
import { bytesText, grouped, nameText, plural, shapeText, shareText, titleText, valueText } from './text.js';

export interface Column {
  key: string;
  label: string;
  /** Pixels; the name takes what is left. */
  width: number;
  number: boolean;
  title: string;
  /** Columns of a lower rank go first where there is no room. */
  rank: number;
  text: (i: number) => string;
  /** Values to sort by; undefined: the order of names. */
  values: (() => Float64Array) | undefined;
}

function perTensor(data: ModelData, value: (i: number) => number): Float64Array {
  const out = new Float64Array(data.count);
  for (let i = 0; i < out.length; i++) {
    out[i] = value(i);
  }
  return out;
}

/** Numbers that sort texts as texts. */
function ranked(texts: string[]): number[] {
  const sorted = [...new Set(texts)].sort();
  const ranks = new Map(sorted.map((text, rank) => [text, rank]));
  return texts.map((text) => ranks.get(text)!);
}

/** Numbers that sort shapes: by their first dimension, then the second ... */
function rankedShapes(data: ModelData): Float64Array {
  const order = [...data.kinds.keys()].sort((a, b) => {
    const x = data.kinds[a].shape;
    const y = data.kinds[b].shape;
    for (let d = 0; d < Math.min(x.length, y.length); d++) {
      if (Number(x[d]) !== Number(y[d])) {
        return Number(x[d]) - Number(y[d]);
      }
    }
    return x.length - y.length;
  });
  const ranks = new Float64Array(data.kinds.length);
  order.forEach((id, k) => {
    const same = k > 0 && String(data.kinds[id].shape) === String(data.kinds[order[k - 1]].shape);
    ranks[id] = same ? ranks[order[k - 1]] : k;
  });
  return ranks;
}

/** What a table of these tensors has beside the filter. */
export interface TableOptions {
  columns: Column[];
  /** The order without a column, and what it is called. */
  none: string;
  order?: () => Uint32Array;
  /** Of the names of groups (`fileIds`) in addresses, and for people. */
  group: string;
  groupName: (group: number) => string;
  /** Groups to choose from: what addresses call them, and their labels. The first one is "", and hides group 0; the second, "all". */
  choices?: { value: string; label: string; group: number }[];
  /** Names as rows show them; undefined: as they are. */
  nameText?: (i: number, most: number) => string;
}

export function columnsOf(context: Context): Column[] {
  const { data } = context;
  const fact = (key: string, label: string, width: number, number: boolean, rank: number, title: string,
    text: (i: number) => string, values: Column['values']): Column => ({ key, label, width, number, rank, title, text, values });
  const out = [
    fact('name', 'Name', 0, false, 99, 'Numbers in names by their value', (i) => data.name(i), undefined),
    fact('dtype', 'Type', 84, false, 90, 'Element type', (i) => nameText(context.dtypeName(data.kind(i).dtype), 11),
      () => {
        const ranks = ranked(data.summary.dtypes.map(({ name }) => name));
        return perTensor(data, (i) => ranks[data.kinds[data.kindIds[i]].dtype]);
      }),
    fact('shape', 'Shape', 150, false, 80, 'By dimension', (i) => nameText(shapeText(data.kind(i).shape), 22),
      () => {
        const ranks = rankedShapes(data);
        return perTensor(data, (i) => ranks[data.kindIds[i]]);
      }),
    fact('bytes', 'Size', 84, true, 85, 'Bytes', (i) => bytesText(data.kind(i).bytes), () => perTensor(data, (i) => data.kinds[data.kindIds[i]].bytes)),
    fact('elements', 'Elements', 112, true, 40, 'Number of elements', (i) => grouped(data.kind(i).elements),
      () => perTensor(data, (i) => data.kinds[data.kindIds[i]].elements)),
  ];
  if (data.summary.files.length > 1) {
    out.push(fact('file', 'File', 150, false, 20, 'File', (i) => nameText(context.fileName(data.fileIds[i]), 21), () => Float64Array.from(data.fileIds)));
  }
  out.push(fact('offset', 'Offset', 118, true, 15, 'Where it begins in its file', (i) => grouped(data.offsets[i]), () => data.offsets));
  if (data.hasStats) {
    const stat = (key: StatKey, label: string, rank: number, title: string): Column => fact(key, label, 92, true, rank, title,
      (i) => {
        const value = data.column(key)[i];
        return Number.isNaN(value) ? '' : key === 'zero' || key === 'nan' || key === 'inf' ? shareText(value, 1) : valueText(value);
      }, () => data.column(key));
    out.push(stat('min', 'Min', 63, 'Smallest finite value'), stat('max', 'Max', 62, 'Largest finite value'), stat('mean', 'Mean', 60, 'Mean of finite values'),
      stat('std', 'Std', 61, 'Standard deviation of finite values'), stat('norm', 'Norm', 25, 'Euclidean norm'), stat('zero', 'Zeros', 30, 'Share of zeros'),
      stat('nan', 'NaN', 24, 'Share of NaN'), stat('inf', 'Inf', 23, 'Share of infinities'));
  }
  return out;
}

const ROW = 28, TALL_ROW = 50, NARROW = 620;

interface RowCells { cells: { node: Text; element: HTMLElement }[] }

export class Table {
  readonly element: HTMLElement;
  private readonly all: Column[];
  private shown: Column[] = [];
  private readonly list: List<RowCells>;
  private readonly head = el('div', { class: 'head', role: 'row', 'aria-rowindex': 1 });
  private readonly status = el('span', { class: 'status', role: 'status' });
  private readonly chips = el('span', { class: 'chips' });
  private readonly input: HTMLInputElement;
  private readonly sorter: HTMLSelectElement;
  private readonly chooser: HTMLSelectElement | undefined;
  private filter: Filter = NO_FILTER;
  private sort = '';
  private down = false;
  private rows: Uint32Array;
  private selected: Uint8Array | undefined;
  private run = 0;
  private charWidth = 7.5;
  private nameChars = 40;
  private typing = 0;
  private wanted = -1;

  constructor(private readonly context: Context, private readonly options: TableOptions) {
    const { data } = context;
    this.all = options.columns;
    this.rows = Uint32Array.from({ length: 0 });
    this.input = on(el('input', {
      type: 'search', id: 'filter', placeholder: 'Filter: part of a name, or with * ? [a-z]', spellcheck: 'false',
      autocomplete: 'off', 'aria-label': 'Filter by name', 'aria-keyshortcuts': '/',
    }), {
      input: () => {
        clearTimeout(this.typing);
        this.typing = setTimeout(() => this.go({ ...this.filter, text: this.input.value }), data.count > 50_000 ? 150 : 30) as unknown as number;
      },
      keydown: (event) => {
        if (event.key === 'Enter' || event.key === 'ArrowDown') {
          event.preventDefault();
          this.list.host.focus();
        } else if (event.key === 'Escape') {
          event.stopPropagation();
          if (this.input.value === '') {
            this.list.host.focus();
          } else {
            this.input.value = '';
            this.go({ ...this.filter, text: '' });
          }
        }
      },
    });
    this.sorter = on(el('select', { class: 'sorter', 'aria-label': 'Sort by' }, el('option', { value: '' }, options.none),
      ...this.all.flatMap(({ key, label }) => [el('option', { value: key }, `${label} \u2191`), el('option', { value: `-${key}` }, `${label} \u2193`)])), {
      change: () => this.go(this.filter, this.sorter.value),
    });
    this.list = new List<RowCells>({
      label: 'Tensors', role: 'grid', rowRole: 'row', head: this.head,
      make: (element) => this.makeRow(element),
      fill: (row, index) => this.fillRow(row, index),
      open: (index) => {
        location.hash = context.tensorLink(this.rows[index]);
      },
    });
    const { choices } = options;
    this.chooser = choices && on(el('select', { class: 'chooser', 'aria-label': 'Show' }, ...choices.map(({ value, label }) => el('option', { value }, label))), {
      change: () => this.go({ ...this.filter, ...this.groupOf(this.chooser!.value) }),
    });
    this.element = el('div', { class: 'tableview' },
      el('div', { class: 'tools' }, this.input, this.chooser, this.sorter, this.chips, this.status), this.list.host);
    new ResizeObserver(() => this.layout()).observe(this.list.host);
    on(this.list.host, { pointerover: (event) => this.entitle(event.target as Element) });
  }

  /** The whole name where the pointer is. */
  private entitle(target: Element): void {
    const cell = target.closest<HTMLElement>('.row > .name');
    const index = Number(cell?.parentElement?.getAttribute('aria-rowindex') ?? 0) - 2;
    if (cell !== null && index >= 0 && index < this.rows.length) {
      cell.title = titleText(this.context.data.name(this.rows[index]));
    }
  }

  /** Keys act on the rows. */
  focus(): void {
    this.list.host.focus({ preventScroll: true });
  }

  focusFilter(): void {
    this.input.focus();
    this.input.select();
  }

  /** The tensor before (-1) or after (1) one in the order shown; -1: there is none. */
  beside(i: number, step: number): number {
    const at = this.rows.indexOf(i);
    const to = at < 0 ? -1 : at + step;
    return to >= 0 && to < this.rows.length ? this.rows[to] : -1;
  }

  /** Marks the row of a tensor, now or when there are rows. */
  reveal(i: number): void {
    const at = this.rows.indexOf(i);
    this.wanted = at < 0 && this.selected === undefined ? i : -1;
    if (at >= 0) {
      this.list.show(at);
    }
  }

  /** What the address asks for. */
  route({ query }: Route): void {
    const filter: Filter = { text: query.get('filter') ?? '', dtype: query.get('dtype') ?? '', ...this.groupOf(query.get(this.options.group) ?? '') };
    const sort = query.get('sort') ?? '';
    this.down = sort.startsWith('-');
    this.sort = this.all.some(({ key }) => key === sort.replace(/^-/, '')) ? sort.replace(/^-/, '') : '';
    this.sorter.value = this.sort === '' ? '' : sort;
    if (document.activeElement !== this.input) {
      this.input.value = filter.text;
    }
    const same = this.selected !== undefined && filter.text === this.filter.text && filter.dtype === this.filter.dtype && filter.file === this.filter.file
      && filter.hidden === this.filter.hidden;
    this.filter = filter;
    this.layout();
    this.showChips();
    if (same) {
      this.arrange();
    } else {
      void this.look();
    }
  }

  /** What an address says of groups, as a filter has it, and back. */
  private groupOf(text: string): Pick<Filter, 'file' | 'hidden'> {
    const { choices } = this.options;
    if (choices === undefined) {
      return { file: /^\d+$/.test(text) ? Number(text) : -1, hidden: undefined };
    }
    const file = choices.find(({ value }) => value === text)?.group ?? -1;
    return { file, hidden: file < 0 && text !== choices[1].value ? 0 : undefined };
  }

  private groupText({ file, hidden }: Filter): string {
    const { choices } = this.options;
    return choices === undefined ? (file < 0 ? '' : String(file))
      : file < 0 ? choices[hidden === 0 ? 0 : 1].value : choices.find(({ group }) => group === file)?.value ?? '';
  }

  private address(filter: Filter, sort: string): string {
    return tableLink({ filter: filter.text, dtype: filter.dtype, [this.options.group]: this.groupText(filter), sort });
  }

  private go(filter: Filter, sort = this.sort === '' ? '' : `${this.down ? '-' : ''}${this.sort}`): void {
    const hash = this.address(filter, sort);
    try {
      history.replaceState(null, '', hash);
      dispatchEvent(new HashChangeEvent('hashchange'));
    } catch {
      location.hash = hash; // where a page may not
    }
  }

  private showChips(): void {
    const { dtype, file } = this.filter;
    const chip = (text: string, without: Filter): HTMLElement => on(el('button', { type: 'button', class: 'chip', title: 'Show all again' },
      nameText(text, 40), el('span', { 'aria-hidden': 'true' }, ' \u00d7')), { click: () => this.go(without) });
    this.chips.replaceChildren(...(dtype !== '' ? [chip(dtype, { ...this.filter, dtype: '' })] : []),
      ...(file >= 0 && this.chooser === undefined ? [chip(this.options.groupName(file), { ...this.filter, file: -1 })] : []));
    if (this.chooser !== undefined) {
      this.chooser.value = this.groupText(this.filter);
    }
  }

  private async look(): Promise<void> {
    const run = ++this.run;
    const selected = await select(this.context.data, this.filter, (share) => {
      if (run === this.run) {
        this.status.textContent = `${Math.floor(100 * share)} % looked at`;
      }
      return run === this.run;
    });
    if (selected !== undefined && run === this.run) {
      this.selected = selected;
      this.list.active = -1;
      this.arrange(true);
    }
  }

  /** All rows in order, those that are selected. */
  private arrange(top = false): void {
    const { data } = this.context;
    const column = this.all.find(({ key }) => key === this.sort);
    let order: Uint32Array;
    if (column === undefined) {
      order = this.stored();
    } else if (column.values === undefined) {
      order = this.down ? data.names.order().slice().reverse() : data.names.order();
    } else {
      order = sortStable(this.stored(), column.values(), this.down);
    }
    this.rows = keep(order, this.selected!);
    const n = this.rows.length;
    let bytes = 0;
    for (const i of this.rows) {
      bytes += data.kinds[data.kindIds[i]].bytes;
    }
    this.status.textContent = n === data.count ? plural(n, 'tensor') : `${grouped(n)} of ${plural(data.count, 'tensor')}, ${bytesText(bytes)}`;
    this.layout();
    this.list.setRows(n, this.rowHeight());
    if (top) {
      this.list.show(0, false);
    }
    if (this.wanted >= 0) {
      this.reveal(this.wanted);
    }
    this.element.dataset.rows = String(n);
  }

  private asStored: Uint32Array | undefined;
  private stored(): Uint32Array {
    this.asStored ??= this.options.order?.() ?? Uint32Array.from({ length: this.context.data.count }, (_, i) => i);
    return this.asStored;
  }

  private rowHeight(): number {
    return this.element.classList.contains('narrow') ? TALL_ROW : ROW;
  }

  /** The columns that have room. */
  private layout(): void {
    const width = this.list.host.clientWidth;
    if (width === 0) {
      return;
    }
    const narrow = width < NARROW;
    const sorted = (column: Column): number => (column.key === this.sort ? 95 : column.rank);
    let room = width - Math.min(Math.max(240, 0.34 * width), 420); // names first
    const fitting = new Set(['name']);
    for (const column of [...this.all].sort((a, b) => sorted(b) - sorted(a))) {
      if (column.key !== 'name' && (narrow ? fitting.size < 4 : column.width <= room)) {
        room -= column.width;
        fitting.add(column.key);
      }
    }
    const shown = this.all.filter(({ key }) => fitting.has(key));
    const flipped = narrow !== this.element.classList.contains('narrow');
    const template = shown.map(({ width: w }) => (w === 0 ? 'minmax(0, 1fr)' : `${w}px`)).join(' ');
    if (flipped || shown.map(({ key }) => key).join() !== this.shown.map(({ key }) => key).join()) {
      this.shown = shown;
      this.element.classList.toggle('narrow', narrow);
      this.element.style.setProperty('--columns', template);
      this.showHead(); // its height counts
      this.list.drop();
      this.list.setRows(this.rows.length, this.rowHeight());
    }
    this.charWidth = this.measure();
    const nameWidth = narrow ? width - 24 : width - shown.reduce((sum, { width: w }) => sum + w, 0) - 20;
    const chars = Math.max(8, Math.floor(nameWidth / this.charWidth));
    if (chars !== this.nameChars) {
      this.nameChars = chars;
      this.list.refresh();
    }
    this.showHead();
  }

  private measure(): number {
    const context = document.createElement('canvas').getContext('2d')!;
    const style = getComputedStyle(this.list.host);
    context.font = `${style.fontSize} ${style.getPropertyValue('--mono')}`;
    return context.measureText('0000000000').width / 10 || 7.5;
  }

  private showHead(): void {
    this.head.replaceChildren(...this.shown.map((column) => {
      const here = column.key === this.sort;
      const next = here ? (this.down ? '' : `-${column.key}`) : column.number ? `-${column.key}` : column.key;
      const after = here && column.number ? (this.down ? column.key : '') : next;
      return el('span', { role: 'columnheader', class: column.number ? 'number' : undefined, 'aria-sort': here ? (this.down ? 'descending' : 'ascending') : 'none' },
        on(el('button', { type: 'button', title: column.title, 'data-key': column.key }, column.label,
          el('span', { class: 'arrow', 'aria-hidden': 'true' }, here ? (this.down ? '\u2193' : '\u2191') : '')), {
          click: () => this.go(this.filter, after),
        }));
    }));
  }

  private makeRow(element: HTMLElement): RowCells {
    const cells = this.shown.map((column) => {
      const node = document.createTextNode('');
      const cell = el('span', { role: 'gridcell', class: `${column.key === 'name' ? 'name' : column.number ? 'number' : 'plain'}` }, node);
      return { node, element: cell };
    });
    if (!this.element.classList.contains('narrow')) { // placed here, once: a grid in each row takes longer
      let right = 0;
      for (let k = cells.length - 1; k >= 0; k--) {
        const { style } = cells[k].element;
        const { width } = this.shown[k];
        style.right = `${right}px`;
        if (width > 0) {
          style.width = `${width}px`;
        } else {
          style.left = '0';
        }
        right += width;
      }
    }
    element.append(...cells.map((cell) => cell.element));
    return { cells };
  }

  private fillRow(row: RowCells, index: number): void {
    const i = this.rows[index];
    this.shown.forEach((column, k) => {
      const { node } = row.cells[k];
      const text = column.key === 'name' ? this.options.nameText?.(i, this.nameChars) ?? nameText(this.context.data.name(i), this.nameChars) : column.text(i);
      if (node.data !== text) {
        node.data = text;
      }
    });
  }
}

