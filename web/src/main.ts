// SPDX-License-Identifier: Apache-2.0 OR MIT
// main.ts - the page: reads its model, shows the view that the address names.

import { Context, parseRoute } from './context.js';
import type { ModelData } from './data.js';
import { detail } from './detail.js';
import { el, on } from './dom.js';
import { fromPage } from './embedded.js';
import { Files } from './files.js';
import { findings } from './findings.js';
import { header } from './header.js';
import { metadata } from './metadata.js';
import { overview } from './overview.js';
import { Table } from './table.js';
import { grouped, nameText, visible } from './text.js';

const VIEWS = ['overview', 'table', 'files', 'metadata', 'findings'] as const;
type View = typeof VIEWS[number];
const LABELS: Record<View, string> = { overview: 'Overview', table: 'Tensors', files: 'Files', metadata: 'Metadata', findings: 'Findings' };

/* ---------------------------------------------------------------- light and dark */

const THEMES = ['auto', 'light', 'dark'];
const THEME_MARKS = ['\u25d0', '\u2600', '\u263e'];

export function themeButton(changed: () => void, signal?: AbortSignal): HTMLElement {
  let theme = 'auto';
  try {
    theme = localStorage.getItem('sft-theme') ?? 'auto';
  } catch {
    // a page without a place to keep it
  }
  const button = on(el('button', { type: 'button', class: 'icon', id: 'theme' }), {
    click: () => show(THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]),
  });
  const show = (next: string): void => {
    theme = THEMES.includes(next) ? next : 'auto';
    document.documentElement.dataset.theme = theme;
    const label = `Colours: ${theme === 'auto' ? 'as the system' : theme}`;
    button.textContent = THEME_MARKS[THEMES.indexOf(theme)];
    button.setAttribute('aria-label', label);
    button.title = label;
    try {
      localStorage.setItem('sft-theme', theme);
    } catch {
      // see above
    }
    changed();
  };
  show(theme);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed, { signal });
  return button;
}

/* ---------------------------------------------------------------- the page of a model */

/** Shows a model in an element, with more buttons above it. What it gives ends it: another may be shown then. */
export function show(page: HTMLElement, data: ModelData, buttons: HTMLElement[] = []): () => void {
  const ended = new AbortController();
  const { signal } = ended;
  const context = new Context(data);
  const made = new Map<View, HTMLElement>();
  const places = new Map<View, HTMLElement>();
  let table: Table | undefined;
  let files: Files | undefined;
  let current: View = 'overview';
  let beneath = '#/';
  let opened = -1;
  const side = el('div', { class: 'side' });

  function make(view: View): HTMLElement {
    switch (view) {
      case 'overview': return overview(context);
      case 'table':
        table = new Table(context);
        return table.element;
      case 'files':
        files = new Files(context);
        return files.element;
      case 'metadata': return metadata(context);
      case 'findings': return findings(context);
    }
  }

  const found = (data.summary.findings ?? []).length;
  const tabs = VIEWS.map((view) => el('a', { href: view === 'overview' ? '#/' : `#/${view}`, 'data-view': view }, LABELS[view],
    view === 'table' ? el('small', {}, grouped(data.count)) : view === 'findings' && found > 0 ? el('small', {}, grouped(found)) : undefined));
  const main = el('main', {});
  page.replaceChildren(
    el('header', {}, el('div', { class: 'top' }, el('nav', { 'aria-label': 'Views' }, ...tabs), ...buttons, themeButton(() => files?.redraw(), signal)), ...header(context)),
    el('div', { class: 'columns' }, main, side));

  function showView(view: View): void {
    current = view;
    let place = places.get(view);
    if (place === undefined) {
      place = el('div', { class: 'view', 'data-view': view });
      places.set(view, place);
      main.append(place);
    }
    places.forEach((other, of) => {
      other.classList.toggle('shown', of === view);
    });
    if (!made.has(view)) {
      let element: HTMLElement;
      try {
        element = make(view);
      } catch (error) {
        element = failure('This view cannot be shown', error);
      }
      made.set(view, element);
      place.append(element);
    }
    document.body.dataset.view = view;
    for (const tab of tabs) {
      if (tab.dataset.view === view) {
        tab.setAttribute('aria-current', 'page');
      } else {
        tab.removeAttribute('aria-current');
      }
    }
  }

  function open(i: number): void {
    opened = i;
    document.body.classList.toggle('opened', i >= 0);
    if (i < 0) {
      side.replaceChildren();
      return;
    }
    const old = side.firstElementChild?.scrollTop ?? 0;
    const panel = detail(context, i, { close, step });
    side.replaceChildren(panel);
    panel.scrollTop = old;
    if (current === 'table') {
      table?.reveal(i);
    }
  }

  function close(): void {
    location.hash = beneath;
    if (current === 'table') {
      table?.focus();
    }
  }

  function step(by: number): void {
    const to = current === 'table' ? table?.beside(opened, by) ?? -1 : opened + by;
    if (to >= 0 && to < data.count) {
      location.replace(context.tensorLink(to));
    }
  }

  function route(): void {
    const at = parseRoute(location.hash);
    if (at.view === 'tensor' || at.view === 'at') {
      const i = at.view === 'at' ? Number(at.rest) : data.names.find(at.rest);
      if (places.size === 0) { // a link from elsewhere
        beneath = '#/table';
        showView('table');
        table!.route(parseRoute(beneath));
      }
      if (Number.isInteger(i) && i >= 0 && i < data.count) {
        open(i);
      } else {
        open(-1);
        side.replaceChildren(el('aside', { class: 'detail', role: 'alert' }, el('p', {}, 'There is no tensor of this name here: ', el('bdi', {}, nameText(at.rest, 200)))));
        document.body.classList.add('opened');
      }
      return;
    }
    const view = VIEWS.find((known) => known === at.view) ?? 'overview';
    beneath = location.hash === '' ? '#/' : location.hash;
    showView(view);
    open(-1);
    if (view === 'table') {
      table!.route(at);
    }
  }

  addEventListener('hashchange', route, { signal });
  addEventListener('keydown', (event) => {
    const typing = event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement;
    if (event.key === 'Escape' && document.body.classList.contains('opened')) {
      close();
    } else if (event.key === '/' && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      if (current !== 'table') {
        location.hash = '#/table';
        route();
      }
      table!.focusFilter();
    }
  }, { signal });
  addEventListener('beforeprint', () => { // paper has the overview, whatever is shown
    const view = current;
    showView('overview');
    showView(view);
  }, { signal });
  document.title = `${nameText(data.summary.name ?? 'model', 80)} \u2013 safetensors report`;
  route();
  return () => ended.abort('ended'); // an error would keep what called this
}

export function failure(what: string, error: unknown): HTMLElement {
  return el('p', { class: 'broken', role: 'alert' }, `${what}: ${visible(error instanceof Error ? error.message : String(error))}`);
}

/** The page of a report. */
export function start(): void {
  const page = document.getElementById('page')!;
  try {
    const data = fromPage(document);
    if (data === undefined) {
      page.replaceChildren(el('p', { class: 'empty' }, 'This page shows models: `safetensors report MODEL -o report.html` writes one into it.'));
    } else {
      show(page, data);
    }
    document.body.dataset.ready = 'true';
  } catch (error) {
    page.replaceChildren(failure('This report cannot be shown', error));
  }
}
