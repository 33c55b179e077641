// SPDX-License-Identifier: Apache-2.0 OR MIT
// views.ts - the views of a page that shows what differs between two models.

import { Context } from '../context.js';
import { breakable, facts, panel } from '../detail.js';
import type { DetailActions } from '../detail.js';
import { el } from '../dom.js';
import { FEW, Many, valueNode } from '../metadata.js';
import { dtypeChip } from '../overview.js';
import type { Views } from '../shell.js';
import { columnsOf, Table } from '../table.js';
import type { Column } from '../table.js';
import { bytesText, exactBytes, grouped, nameText, plural, shapeText, shareText, shorten, titleText, valueText, visible } from '../text.js';
import type { DiffData, Entry, Measures } from './data.js';
import { ADDED, CHANGES, CHANGE_TEXTS, NAME, REMOVED, SAME, VALUES } from './data.js';
import { binsPicture, cosineText, overview } from './overview.js';
import { movedText, sentence } from './words.js';

/* ---------------------------------------------------------------- table */

function columns(context: Context, data: DiffData): Column[] {
  const known = columnsOf(context);
  const lazy = (value: (m: Measures, i: number) => number | undefined): (() => Float64Array) => {
    let made: Float64Array | undefined;
    return () => {
      made ??= Float64Array.from({ length: data.count }, (_, i) => {
        const measures = data.measures(i);
        return measures === undefined ? NaN : value(measures, i) ?? NaN;
      });
      return made;
    };
  };
  const measure = (key: string, label: string, width: number, rank: number, title: string, value: (m: Measures, i: number) => number | undefined, text: (v: number) => string): Column => ({
    key, label, width, number: true, rank, title,
    text: (i) => {
      const measures = data.measures(i);
      const v = measures === undefined ? undefined : value(measures, i);
      return v === undefined || Number.isNaN(v) ? '' : text(v);
    }, values: lazy(value),
  });
  const equalShare = (m: Measures, i: number): number => m.equal / Math.max(1, data.kind(i).elements);
  return [known[0],
    { key: 'change', label: 'Change', width: 140, number: false, rank: 92, title: 'What changed', text: (i) => CHANGE_TEXTS[data.change(i)] + (data.newName(i) !== undefined && data.change(i) !== NAME ? '\u2026' : ''), values: () => Float64Array.from(data.fileIds) },
    { key: 'moved', label: 'Moved by', width: 92, number: true, rank: 97, title: 'Norm of the change, relative to that of A', text: (i) => (data.change(i) === SAME || data.change(i) === NAME ? '' : Number.isFinite(data.moved[i]) ? movedText(data.moved[i]) : ''), values: () => data.moved },
    measure('cosine', 'Cosine', 104, 70, 'Cosine of A and B', (m) => m.numbers?.cosine, cosineText),
    measure('equal', 'Equal', 74, 66, 'Share of elements that are equal', equalShare, (v) => shareText(v, 1)),
    measure('max', 'Largest', 92, 60, 'Largest change of an element', (m) => m.numbers?.maxAbs, valueText),
    measure('ulp', 'ulp', 110, 50, 'Largest change in units in the last place', (m) => m.maxUlp, grouped),
    measure('rank', 'Rank', 56, 40, 'Rank of the change, where it is low', (m) => m.rank || undefined, String),
    ...known.filter(({ key }) => key === 'dtype' || key === 'shape' || key === 'elements').map((column) => ({ ...column, rank: { dtype: 65, shape: 55, elements: 20 }[column.key]! }))];
}

function makeTable(context: Context, data: DiffData): Table {
  const { tally } = data.diff;
  const n = (change: number): string => grouped(tally[CHANGES[change]] ?? 0);
  const changed = CHANGES.reduce((sum, change) => sum + (change === 'same' ? 0 : Number(tally[change] ?? 0)), 0);
  return new Table(context, {
    columns: columns(context, data), none: 'Most changed first', order: () => data.order(), group: 'change', groupName: (change) => CHANGE_TEXTS[change],
    choices: [{ value: '', label: `All changes (${grouped(changed)})`, group: -1 }, { value: 'all', label: 'All tensors', group: -1 },
      ...[VALUES, 3, ADDED, REMOVED, NAME, SAME].map((change) => ({ value: CHANGES[change], label: `${CHANGE_TEXTS[change]} (${n(change)})`, group: change }))],
    nameText: (i, most) => {
      const to = data.newName(i);
      const half = Math.floor((most - 3) / 2);
      return nameText(data.name(i), to === undefined ? most : half) + (to === undefined ? '' : ` \u2192 ${nameText(to, half)}`);
    },
  });
}

/* ---------------------------------------------------------------- a tensor */

function measured(data: DiffData, i: number, m: Measures): Node[] {
  const { elements } = data.kind(i);
  const { numbers } = m;
  return [el('section', {}, el('h3', {}, 'How far it moved'), facts(
    ['Equal elements', `${grouped(m.equal)} of ${grouped(elements)} (${shareText(m.equal, elements)})`],
    numbers && ['Norm of change', `${valueText(numbers.norm)} (${movedText(numbers.relative)} of A's)`, String(numbers.norm)],
    numbers && ['Norms', `${valueText(numbers.normA)} in A, ${valueText(numbers.normB)} in B`],
    numbers && ['Cosine', Number.isNaN(numbers.cosine) ? 'of a zero: none' : cosineText(numbers.cosine), String(numbers.cosine)],
    numbers && ['Largest change', valueText(numbers.maxAbs) + (m.maxUlp === undefined ? '' : `, or ${grouped(m.maxUlp)} ulp`), String(numbers.maxAbs)],
    m.notFinite > 0 ? ['Not finite', `${grouped(m.notFinite)} (in A or B; not part of the norms)`] : undefined,
    m.cast === undefined ? undefined : ['Cast', m.cast ? 'every value is what casting gives' : 'not what casting alone gives'],
    m.rank === undefined ? undefined : ['Rank of change', m.rank === 0 ? 'none that is low' : `${m.rank}, as a merged LoRA leaves it`])),
  ...[numbers && binsPicture(numbers.bins)].filter((node) => node !== undefined).map((node) => el('section', {}, el('h3', {}, 'Changes by powers of two'), node,
    el('p', { class: 'about' }, 'Elements by |B \u2212 A|; those that are equal are not among them.')))];
}

function detail(context: Context, data: DiffData, i: number, actions: DetailActions): HTMLElement {
  const change = data.change(i);
  const kind = data.kind(i);
  const other = data.otherKind(i);
  const to = data.newName(i);
  const both = (name: string, a: Node | string, b: Node | string, differ: boolean): [string, Node | string] => {
    const value = el('span', {}, a, ...(differ ? [' \u2192 ', b] : []));
    return [name, value];
  };
  const measures = data.measures(i);
  const unmeasured = change === SAME ? 'Its bytes are the same in both.' : change === NAME ? 'It has the same bytes under another name.' : change === ADDED ? `Only ${nameText(data.diff.b, 60) || 'B'} has it.`
    : change === REMOVED ? `Only ${nameText(data.diff.a, 60) || 'A'} has it.` : change === VALUES ? 'Its measures had no room in this page.' : 'The two cannot be compared as numbers, or had no room in this page.';
  return panel(data.name(i), actions, facts(
    ['Change', CHANGE_TEXTS[change]],
    to === undefined ? undefined : ['New name', el('bdi', { class: 'name' }, breakable(to)), titleText(to)],
    both('Element type', dtypeChip(context, kind.dtype), dtypeChip(context, other.dtype), kind.dtype !== other.dtype),
    both('Shape', shapeText(kind.shape), shapeText(other.shape), shapeText(kind.shape) !== shapeText(other.shape)),
    ['Elements', grouped(kind.elements)],
    both('Size', kind.bytes >= 1024 ? `${bytesText(kind.bytes)} (${exactBytes(kind.bytes)})` : exactBytes(kind.bytes), bytesText(other.bytes), kind.bytes !== other.bytes)),
  ...(measures === undefined ? [el('p', { class: 'empty' }, unmeasured)] : measured(data, i, measures)));
}

/* ---------------------------------------------------------------- metadata */

const side = (name: string, value: string | null, cut: unknown): HTMLElement => el('div', { class: 'side-by-side' }, el('small', {}, name),
  value === null ? el('p', { class: 'empty' }, 'not there') : valueNode(value, Number(cut ?? 0)));
const sides = (entry: Entry): HTMLElement => el('div', { class: 'sides' }, side('A', entry.a, entry.a_cut), side('B', entry.b, entry.b_cut));
const word = (entry: Entry): string => (entry.a === null ? 'added' : entry.b === null ? 'removed' : 'changed');

function entries(title: string, list: Entry[], none: string): HTMLElement {
  return el('section', { class: 'card' }, el('h2', {}, title), list.length === 0 ? el('p', { class: 'empty' }, none)
    : list.length > FEW ? new Many(list, (entry) => `${word(entry)}: ${entry.b ?? entry.a ?? ''}`, (entry) => [el('p', { class: 'about' }, word(entry)), sides(entry)]).element
      : el('dl', { class: 'metadata' }, ...list.flatMap((entry) => [el('dt', { title: titleText(entry.key) }, el('bdi', {}, nameText(entry.key, 200)), el('small', {}, word(entry))), el('dd', {}, sides(entry))])));
}

function metadata(data: DiffData): HTMLElement {
  const { diff } = data;
  return el('div', { class: 'metadataview' }, entries('Metadata that differ', diff.metadata, Number(diff.metadata_changes) > 0 ? 'They had no room in this page.' : 'Both have the same metadata.'),
    diff.states !== undefined && entries('State of the runs', diff.states, 'Both steps have the same state.'),
    diff.tool !== undefined && el('p', { class: 'made' }, `Made by ${shorten(visible(diff.tool), 80)}.`));
}

/* ---------------------------------------------------------------- the page */

function header(data: DiffData): HTMLElement[] {
  const { diff } = data;
  const line = (letter: string, name: string, k: 0 | 1): HTMLElement => {
    const model = diff.models[k];
    return el('p', { class: 'which' }, el('b', {}, letter), el('bdi', { class: 'name', title: titleText(name) }, nameText(name, 120)), el('span', { class: 'pill' }, nameText(model.format, 30)),
      el('small', {}, `${plural(model.tensors, 'tensor')}, ${bytesText(model.bytes)}${Number(model.files) > 1 ? `, ${plural(model.files, 'file')}` : ''}`));
  };
  return [el('div', { class: 'title diff' }, el('h1', {}, sentence(diff))),
    el('p', { class: 'reason' }, diff.reason !== '' && `${visible(diff.change)}: ${nameText(diff.reason, 400)}.`),
    el('div', { class: 'models' }, line('A', diff.a, 0), line('B', diff.b, 1)),
    ...(diff.left_out ?? []).slice(0, 20).map((text) => el('p', { class: 'left-out' }, `Left out: ${nameText(text, 400)}.`))];
}

export function diffViews(data: DiffData): Views {
  const context = new Context(data);
  let table: Table | undefined;
  const make: Record<string, () => HTMLElement> = {
    overview: () => overview(context, data),
    table: () => {
      table = makeTable(context, data);
      return table.element;
    },
    metadata: () => metadata(data),
  };
  const changed = CHANGES.reduce((sum, change) => sum + (change === 'same' ? 0 : Number(data.diff.tally[change] ?? 0)), 0);
  const keys = Number(data.diff.metadata_changes) + (data.diff.states?.length ?? 0);
  return {
    title: `${nameText(data.diff.a, 40)} \u2192 ${nameText(data.diff.b, 40)} \u2013 safetensors diff`,
    tabs: [{ view: 'overview', label: 'Overview', count: '' }, { view: 'table', label: 'Changes', count: grouped(changed) }, { view: 'metadata', label: 'Metadata', count: keys > 0 ? grouped(keys) : '' }],
    header: header(data), make: (view) => make[view](), table: () => table!, redraw: () => undefined, count: data.count,
    find: (name) => data.find(name), link: (i) => context.tensorLink(i), detail: (i, actions) => detail(context, data, i, actions),
  };
}
