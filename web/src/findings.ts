// SPDX-License-Identifier: Apache-2.0 OR MIT
// findings.ts - what check, scan and the reading of the files said, the worst first.

import type { Context } from './context.js';
import type { Finding } from './data.js';
import { el, on } from './dom.js';
import { levelMark, levelOf, levelRank } from './header.js';
import { grouped, nameText, titleText, visible } from './text.js';

const PER_PAGE = 500;

function where(context: Context, finding: Finding): (Node | string)[] {
  const out: (Node | string)[] = [el('span', { class: 'pill' }, nameText(finding.from, 20))];
  if (finding.file !== undefined) {
    const name = typeof finding.file === 'number' ? context.fileName(finding.file) : finding.file;
    out.push(' ', el('bdi', { title: titleText(name) }, nameText(name, 80)));
  }
  if (finding.offset !== undefined) {
    out.push(` at byte ${grouped(finding.offset)}`);
  }
  if (finding.tensor !== undefined) {
    const i = typeof finding.tensor === 'number' ? finding.tensor : context.data.names.find(finding.tensor);
    const name = typeof finding.tensor === 'number' && i >= 0 && i < context.data.count ? context.data.name(i) : String(finding.tensor);
    out.push(' ', i >= 0 && i < context.data.count ? el('a', { href: context.tensorLink(i), title: titleText(name) }, el('bdi', {}, nameText(name, 80))) : el('bdi', {}, nameText(name, 80)));
  }
  return out;
}

export function findings(context: Context): HTMLElement {
  const list = [...context.data.summary.findings ?? []].sort((a, b) => levelRank(a.level) - levelRank(b.level));
  const items = el('ul', { class: 'findings' });
  let shown = 0;
  const more = (): void => {
    for (const finding of list.slice(shown, shown + PER_PAGE)) {
      const text = visible(finding.text, true);
      items.append(el('li', { class: levelOf(finding.level) }, levelMark(finding.level),
        el('div', {}, el('p', { class: 'text' }, text.length > 4000 ? `${text.slice(0, 4000)}\u2026` : text), el('p', { class: 'about' }, ...where(context, finding)))));
    }
    shown += PER_PAGE;
    next.hidden = shown >= list.length;
    next.textContent = `${grouped(list.length - shown)} more`;
  };
  const next = on(el('button', { type: 'button' }), { click: more });
  more();
  const left = context.data.summary.left_out ?? [];
  return el('div', { class: 'findingsview' }, el('section', { class: 'card' }, el('h2', {}, 'Findings'),
    list.length === 0 ? el('p', { class: 'empty' }, 'Nothing was found.') : items, next),
    left.length > 0 && el('section', { class: 'card' }, el('h2', {}, 'Left out'), el('ul', {}, ...left.slice(0, 200).map((text) => el('li', {}, nameText(text, 2000))))));
}
