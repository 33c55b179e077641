// SPDX-License-Identifier: Apache-2.0 OR MIT
// metadata.ts - metadata of the files, and config.json.

import type { Context } from './context.js';
import type { MetadataRow } from './data.js';
import { el, on } from './dom.js';
import { List } from './list.js';
import { grouped, nameText, plural, setOut, shorten, titleText, visible } from './text.js';

export const FEW = 100;
const SHORT = 20_000;

/** A value as it is, or as JSON set out; the rest of a long one on request. */
export function valueNode(value: string, cut: number | undefined): HTMLElement {
  const all = setOut(value, SHORT + 1);
  const long = all.length > SHORT;
  const text = visible(long ? all.slice(0, SHORT).replace(/[\ud800-\udbff]$/, '') : all, true);
  const pre = el('pre', {}, long ? `${text}\u2026` : text);
  const more = long && on(el('button', { type: 'button' }, `Show all ${grouped(value.length)} characters`), {
    click: (event) => {
      pre.textContent = visible(setOut(value), true);
      (event.target as Element).remove();
    },
  });
  return el('div', { class: 'value' }, pre, more, cut !== undefined && cut > 0 && el('p', { class: 'left-out' }, `${grouped(cut)} more bytes are not in this report.`));
}

function few(context: Context, rows: MetadataRow[]): HTMLElement {
  const files = new Set(rows.map(({ file }) => file)).size > 1;
  return el('dl', { class: 'metadata' }, ...rows.flatMap((row) => [
    el('dt', { title: titleText(row.key) }, el('bdi', {}, nameText(row.key, 200)), files && el('small', {}, nameText(context.fileName(row.file), 60))),
    el('dd', {}, valueNode(row.value, row.cut))]));
}

interface Cells { key: Text; value: Text }
interface Keyed { key: string }

/** A list of keys of any length, and a pane for the one that was chosen. */
export class Many<Row extends Keyed> {
  readonly element: HTMLElement;
  private rows: Row[];
  private readonly list: List<Cells>;
  private readonly pane = el('div', { class: 'pane' }, el('p', { class: 'empty' }, 'Choose a key to see its value.'));
  private readonly status = el('span', { class: 'status', role: 'status' });

  constructor(private readonly all: Row[], value: (row: Row) => string, shown: (row: Row) => Node[]) {
    this.rows = all;
    this.list = new List<Cells>({
      label: 'Metadata', role: 'grid', rowRole: 'row',
      make: (element) => {
        const cells = { key: document.createTextNode(''), value: document.createTextNode('') };
        element.append(el('span', { role: 'gridcell', class: 'name' }, cells.key), el('span', { role: 'gridcell', class: 'plain' }, cells.value));
        return cells;
      },
      fill: (cells, index) => {
        cells.key.data = nameText(this.rows[index].key, 60);
        cells.value.data = nameText(value(this.rows[index]), 120);
      },
      open: (index) => {
        const row = this.rows[index];
        this.pane.replaceChildren(el('h3', { title: titleText(row.key) }, el('bdi', {}, nameText(row.key, 400))), ...shown(row));
      },
    });
    const input = on(el('input', { type: 'search', placeholder: 'Filter: part of a key', 'aria-label': 'Filter keys', spellcheck: 'false' }), {
      input: () => {
        const needle = input.value.toLowerCase();
        this.rows = needle === '' ? all : all.filter(({ key }) => key.toLowerCase().includes(needle));
        this.show();
      },
    });
    this.element = el('div', { class: 'many' }, el('div', { class: 'tools' }, input, this.status), this.list.host, this.pane);
    this.show();
  }

  private show(): void {
    this.status.textContent = this.rows.length === this.all.length ? plural(this.all.length, 'key') : `${grouped(this.rows.length)} of ${plural(this.all.length, 'key')}`;
    this.list.active = -1;
    this.list.setRows(this.rows.length, 28);
    this.list.show(0, false);
  }
}

export function metadata(context: Context): HTMLElement {
  const { summary } = context.data;
  const rows = summary.metadata ?? [];
  const view = el('div', { class: 'metadataview' }, el('section', { class: 'card' }, el('h2', {}, 'Metadata'),
    rows.length === 0 ? el('p', { class: 'empty' }, 'The files of this model have no metadata.')
      : rows.length <= FEW ? few(context, rows) : new Many(rows, ({ value }) => value, (row) => [el('p', { class: 'about' }, nameText(context.fileName(row.file), 80)), valueNode(row.value, row.cut)]).element));
  if (summary.config !== undefined) {
    view.append(el('section', { class: 'card' }, el('h2', {}, 'config.json'), valueNode(summary.config, 0)));
  }
  if (summary.tool !== undefined) {
    view.append(el('p', { class: 'made' }, `Made by ${shorten(visible(summary.tool), 80)}.`));
  }
  return view;
}
