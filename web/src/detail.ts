// SPDX-License-Identifier: Apache-2.0 OR MIT
// detail.ts - all that is known of one tensor.

import type { Context } from './context.js';
import type { Heat, Stats } from './data.js';
import { canvas, el, on, svg } from './dom.js';
import { heatColour } from './palette.js';
import { dtypeChip } from './overview.js';
import { bytesText, countText, exactBytes, grouped, nameText, plural, shapeText, shareText, titleText, valueText, visible, wholeName } from './text.js';

export const facts = (...rows: ([string, Node | string, string?] | undefined)[]): HTMLElement => el('dl', { class: 'facts' },
  ...rows.filter((row) => row !== undefined).flatMap(([name, value, title]) => [el('dt', {}, name), el('dd', { title }, value)]));

/** The largest power of two that divides the offset, up to a page. */
const alignment = (offset: number): number => {
  let n = 4096;
  while (n > 1 && offset % n !== 0) {
    n /= 2;
  }
  return n;
};

const W = 400, H = 128, LEFT = 4, BOTTOM = 20;

function histogram(stats: Stats): HTMLElement | undefined {
  const { histogram: bins } = stats;
  if (bins === undefined) {
    return undefined;
  }
  const { width, counts } = bins;
  const low = Number.isFinite(bins.low) ? bins.low : stats.min; // as with the largest ones below
  const total = counts.reduce((sum, n) => sum + n, 0);
  const most = Math.max(...counts, 1);
  const beyond = bins.low + width * counts.length;
  const high = Number.isFinite(beyond) ? beyond : stats.max; // the largest numbers have no number twice their size
  const edge = (k: number): number => low * (1 - k / counts.length) + high * (k / counts.length);
  const span = W - 2 * LEFT;
  const x = (value: number): number => LEFT + (high > low ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0.5) * span;
  const holder = el('div', { class: 'histogram' });
  const draw = (logarithmic: boolean): void => {
    const height = (n: number): number => (n === 0 ? 0 : Math.max(1, (H - BOTTOM - 4) * (logarithmic ? Math.log1p(n) / Math.log1p(most) : n / most)));
    const step = span / counts.length;
    const nodes = counts.map((n, k) => svg('g', {},
      svg('title', {}, `${valueText(edge(k))} to ${valueText(edge(k + 1))}: ${grouped(n)} (${shareText(n, total)})`),
      svg('rect', { class: 'hover', x: LEFT + k * step, y: 0, width: step, height: H - BOTTOM }),
      svg('rect', { class: 'bin', x: (LEFT + k * step + 0.4).toFixed(2), y: (H - BOTTOM - height(n)).toFixed(2), width: Math.max(0.5, step - 0.8).toFixed(2), height: height(n).toFixed(2) })));
    const axis: SVGElement[] = [svg('line', { class: 'axis', x1: LEFT, x2: W - LEFT, y1: H - BOTTOM, y2: H - BOTTOM })];
    const mark = (value: number, text: string, anchor: string, kind: string): void => {
      axis.push(svg('line', { class: kind, x1: x(value), x2: x(value), y1: kind === 'zero' ? 0 : H - BOTTOM, y2: H - BOTTOM + 4 }),
        svg('text', { x: x(value), y: H - 4, 'text-anchor': anchor }, text));
    };
    mark(low, valueText(low), 'start', 'tick');
    if (high > low) {
      mark(high, valueText(high), 'end', 'tick');
      if (low < 0 && high > 0) {
        const share = -low / 2 / (high / 2 - low / 2);
        axis.push(svg('line', { class: 'zero', x1: x(0), x2: x(0), y1: 0, y2: H - BOTTOM + 4 }));
        if (share > 0.18 && share < 0.82) {
          axis.push(svg('text', { x: x(0), y: H - 4, 'text-anchor': 'middle' }, '0'));
        }
      }
    }
    holder.replaceChildren(svg('svg', { viewBox: `0 0 ${W} ${H}`, role: 'img',
      'aria-label': `Histogram of ${plural(total, 'value')} from ${valueText(low)} to ${valueText(high)}` }, ...nodes, ...axis));
  };
  draw(false);
  const box = on(el('input', { type: 'checkbox' }), { change: () => draw(box.checked) });
  return el('section', {}, el('h3', {}, 'Histogram', el('label', { class: 'switch' }, box, 'logarithmic')), holder);
}

/** What is said of finite values is said of one at least. */
function hasFinite(stats: Stats): boolean {
  return stats.n - stats.nan - stats.positiveInfinity - stats.negativeInfinity > 0;
}

function percentileTable(context: Context, stats: Stats): HTMLElement | undefined {
  const shares = context.data.summary.percentiles ?? [];
  if (shares.length === 0 || !hasFinite(stats) || stats.percentiles.every((value) => Number.isNaN(value))) {
    return undefined;
  }
  return el('section', {}, el('h3', {}, 'Percentiles'), el('dl', { class: 'percentiles' }, ...stats.percentiles.slice(0, shares.length).map((value, k) => el('div', {},
    el('dt', {}, shares[k] === 0.5 ? 'median' : `${String(+(100 * shares[k]).toFixed(4))} %`), el('dd', { title: String(value) }, valueText(value))))));
}

function heatMap(heat: Heat): HTMLElement {
  const size = heat.rows === 1 ? 12 : Math.max(6, Math.floor(352 / Math.max(heat.columns, heat.rows)));
  const width = Math.min(400, heat.columns * size);
  const height = heat.rows === 1 ? 24 : heat.rows * size;
  const [picture, context] = canvas(width, height);
  let most = 1;
  let least = 255;
  for (const cell of heat.cells) {
    most = Math.max(most, cell);
    least = Math.min(least, cell);
  }
  heat.cells.forEach((cell, k) => {
    const [r, g, b] = heatColour(cell / most);
    context.fillStyle = `rgb(${r}, ${g}, ${b})`;
    const column = k % heat.columns;
    const row = Math.floor(k / heat.columns);
    context.fillRect(column * width / heat.columns, row * height / heat.rows, width / heat.columns + 0.5, height / heat.rows + 0.5);
  });
  picture.setAttribute('role', 'img');
  picture.setAttribute('aria-label', `Mean magnitude of ${heat.rows} by ${heat.columns} parts of the tensor, from ${valueText(least * heat.scale / 255)} to ${valueText(most * heat.scale / 255)}`);
  const stops = Array.from({ length: 16 }, (_, k) => svg('rect', { x: 6 * k, width: 6.5, height: 8, fill: `rgb(${heatColour(k / 15).join()})` }));
  return el('section', {}, el('h3', {}, 'Mean magnitude'), picture, el('p', { class: 'scale' }, '0 ',
    svg('svg', { viewBox: '0 0 96 8', 'aria-hidden': 'true' }, ...stops), ` ${valueText(most * heat.scale / 255)}`,
    el('span', {}, `${heat.rows} \u00d7 ${heat.columns} parts; the first dimension goes down`)));
}

function statistics(stats: Stats, whole: number): HTMLElement {
  const odd = (name: string, n: number): [string, string] | undefined => (n > 0 ? [name, `${grouped(n)} (${shareText(n, stats.n)})`] : undefined);
  const finite = hasFinite(stats);
  const value = (name: string, of: number): [string, string, string] | undefined => (finite ? [name, valueText(of), String(of)] : undefined);
  return el('section', {}, el('h3', {}, 'Statistics', stats.sample && el('span', { class: 'pill' }, `of a sample of ${grouped(stats.n)}`)),
    stats.n === 0 ? el('p', {}, whole === 0 ? 'It has no elements.' : 'Nothing was counted.') : facts(
      value('Minimum', stats.min), value('Maximum', stats.max), value('Mean', stats.mean), value('Std. deviation', stats.std), value('Norm', stats.norm),
      ['Zeros', `${grouped(stats.zero)} (${shareText(stats.zero, stats.n)})`],
      ['Negative', `${grouped(stats.negative)} (${shareText(stats.negative, stats.n)})`],
      odd('NaN', stats.nan), odd('+\u221e', stats.positiveInfinity), odd('\u2212\u221e', stats.negativeInfinity)),
    !finite && stats.n > 0 && el('p', { class: 'warn' }, 'None of its values is a finite number.'));
}

function quantised(context: Context, i: number): HTMLElement | undefined {
  const q = context.quantisedOf(i);
  if (q === undefined) {
    return undefined;
  }
  const { data } = context;
  const one = data.summary.quantised![q];
  const { members } = one;
  return el('section', { class: 'inset' }, el('h3', {}, 'Part of a quantised weight'),
    facts(['Weight', el('bdi', {}, nameText(one.name, 200)), titleText(one.name)], ['Scheme', nameText(one.scheme, 60)],
      ['Shape', shapeText(one.shape)], ['Parameters', `${grouped(one.parameters)}`],
      ['Bits each', `${one.bits}`]),
    members.length > 1 && el('ul', { class: 'members' }, ...members.slice(0, 20).map((member) => el('li', {},
      el('a', { href: context.tensorLink(member), 'aria-current': member === i ? 'true' : undefined, title: titleText(data.name(member)) }, el('bdi', {}, nameText(data.name(member), 52))),
      ' ', dtypeChip(context, data.kind(member).dtype), ` ${shapeText(data.kind(member).shape)}`))));
}

export interface DetailActions { close: () => void; step: (by: number) => void }

/** The panel itself: its buttons, and a name. */
export function panel(name: string, actions: DetailActions, ...children: Node[]): HTMLElement {
  const button = (text: string, label: string, act: () => void): HTMLElement => on(el('button', { type: 'button', class: 'icon', 'aria-label': label, title: label }, text), { click: act });
  return el('aside', { class: 'detail', tabindex: -1, 'aria-label': 'Tensor' },
    el('div', { class: 'bar' }, button('\u2191', 'The one before', () => actions.step(-1)), button('\u2193', 'The next one', () => actions.step(1)),
      el('span', { class: 'room' }), button('\u00d7', 'Close', actions.close)),
    el('h2', { class: 'tensor-name' }, el('bdi', {}, breakable(name))), ...children);
}

/** The panel of a tensor. */
export function detail(context: Context, i: number, actions: DetailActions): HTMLElement {
  const { data } = context;
  const name = data.name(i);
  const kind = data.kind(i);
  const { file, offset } = data.place(i);
  const dtype = data.summary.dtypes[kind.dtype];
  const start = Number(data.summary.files[file]?.data_offset ?? NaN);
  const aliases = (data.summary.aliases ?? []).filter(([of]) => of === i).map(([, alias]) => nameText(alias, 200));
  const rest = el('div', {});
  const shown = panel(name, actions,
    facts(['Element type', dtypeChip(context, kind.dtype)], ['Shape', shapeText(kind.shape)],
      ['Elements', `${grouped(kind.elements)}${kind.elements >= 10_000 ? ` (${countText(kind.elements)})` : ''}`],
      ['Size', `${bytesText(kind.bytes)}${kind.bytes >= 1024 ? ` (${exactBytes(kind.bytes)})` : ''}`],
      dtype.block_elements > 1 ? ['Blocks', `${plural(dtype.block_elements, 'element')} in ${exactBytes(dtype.block_bytes)}`] : undefined,
      ['File', el('bdi', {}, nameText(context.fileName(file), 60)), titleText(context.fileName(file))],
      ['Offset', `${grouped(offset)}${Number.isNaN(start) ? '' : ` (${grouped(offset - start)} in the data)`}`],
      ['Alignment', `${alignment(offset)}${alignment(offset) === 4096 ? ' or more' : ''}`],
      aliases.length > 0 ? ['Also named', aliases.slice(0, 20).join(', ')] : undefined),
    ...[quantised(context, i)].filter((node) => node !== undefined), rest);
  const values = async (): Promise<void> => {
    const asked = [data.stats(i), data.heat(i)] as const;
    if (asked[0] instanceof Promise) {
      rest.append(el('p', { class: 'empty', role: 'status' }, 'Its values are being counted \u2026'));
    }
    const [stats, heat] = await Promise.all(asked);
    rest.replaceChildren();
    if (stats === undefined) {
      rest.append(el('p', { class: 'empty' }, data.summary.statistics === 'none' ? 'This report was made without statistics.' : 'There are no statistics of this tensor.'));
    } else {
      rest.append(...[statistics(stats, kind.elements), histogram(stats), percentileTable(context, stats)].filter((node) => node !== undefined));
    }
    if (heat !== undefined && heat.cells.length > 0 && (stats === undefined || hasFinite(stats))) {
      rest.append(heatMap(heat));
    }
  };
  values().catch((error) => {
    rest.replaceChildren(el('p', { class: 'warn', role: 'alert' }, `Its values cannot be read: ${visible(error instanceof Error ? error.message : String(error))}`));
  });
  return shown;
}

const MOST_SHOWN = 2000;

/** A whole name that may break behind its dots and slashes; one that is longer than a screen is shortened. */
export function breakable(name: string): DocumentFragment {
  const out = document.createDocumentFragment();
  for (const part of (name.length > MOST_SHOWN ? nameText(name, MOST_SHOWN) : wholeName(name)).split(/(?<=[./])/)) {
    out.append(part, el('wbr'));
  }
  if (name.length > MOST_SHOWN) {
    out.append(el('small', {}, ` (${grouped(name.length)} characters)`));
  }
  return out;
}
