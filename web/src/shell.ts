// SPDX-License-Identifier: Apache-2.0 OR MIT
// shell.ts - a page of views beneath tabs, with a panel for one tensor: addresses, keys, light and dark.

import { parseRoute } from './context.js';
import type { DetailActions } from './detail.js';
import { el, on } from './dom.js';
import type { Table } from './table.js';
import { nameText, visible } from './text.js';

/** In a frame without an address of its own, as notebooks have it, where a link to a part of the page would lead out of it. */
const INSIDE = location.protocol === 'about:';

function stayInside(signal: AbortSignal): void {
  addEventListener('click', (event) => {
    const link = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
    if (link !== null) {
      event.preventDefault();
      location.hash = link.getAttribute('href')!;
    }
  }, { signal });
}

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

/* ---------------------------------------------------------------- the page */

/** What a page shows. The first view is that of #/; one is called table. */
export interface Views {
  title: string;
  tabs: { view: string; label: string; count: string }[];
  header: HTMLElement[];
  make: (view: string) => HTMLElement;
  /** Once its view was made. */
  table: () => Table;
  redraw: () => void;
  /** Tensors. */
  count: number;
  find: (name: string) => number;
  link: (i: number) => string;
  detail: (i: number, actions: DetailActions) => HTMLElement;
}

/** Views that are shown. */
export interface Shown {
  /** Others may be shown then. */
  end: () => void;
  /** More is known of the same: all is made anew but the table, in which somebody may be writing. */
  renew: (views: Views) => void;
}

/** Shows views in an element, with more buttons above them. */
export function show(page: HTMLElement, shown: Views, buttons: HTMLElement[] = []): Shown {
  let views = shown;
  const ended = new AbortController();
  const { signal } = ended;
  const made = new Map<string, HTMLElement>();
  const [{ view: first }] = views.tabs;
  let current = first;
  let beneath = '#/';
  let opened = -1;
  const side = el('div', { class: 'side' });
  const tabs = views.tabs.map(({ view, label, count }) => el('a', { href: view === first ? '#/' : `#/${view}`, 'data-view': view }, label,
    count !== '' && el('small', {}, count)));

  function renew(next: Views): void {
    views.header[0].before(...next.header);
    views.header.forEach((node) => node.remove());
    next.tabs.forEach(({ label, count }, k) => tabs[k].replaceChildren(label, ...(count !== '' ? [el('small', {}, count)] : [])));
    const { table } = views;
    views = made.has('table') ? { ...next, table } : next;
    for (const [view, place] of [...made].filter(([one]) => one !== 'table')) {
      place.remove();
      made.delete(view);
    }
    showView(current);
  }
  const main = el('main', {});
  page.replaceChildren(
    el('header', {}, el('div', { class: 'top' }, el('nav', { 'aria-label': 'Views' }, ...tabs), ...buttons, themeButton(() => views.redraw(), signal)), ...views.header),
    el('div', { class: 'columns' }, main, side));

  function showView(view: string): void {
    current = view;
    if (!made.has(view)) {
      let element: HTMLElement;
      const place = el('div', { class: 'view', 'data-view': view });
      made.set(view, place);
      main.append(place);
      place.classList.add('shown');
      try {
        element = views.make(view);
      } catch (error) {
        element = failure('This view cannot be shown', error);
      }
      place.append(element);
    }
    made.forEach((place, of) => {
      place.classList.toggle('shown', of === view);
    });
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
    const panel = views.detail(i, { close, step });
    side.replaceChildren(panel);
    panel.scrollTop = old;
    if (current === 'table') {
      views.table().reveal(i);
    }
  }

  function close(): void {
    location.hash = beneath;
    if (current === 'table') {
      views.table().focus();
    }
  }

  function step(by: number): void {
    const to = current === 'table' ? views.table().beside(opened, by) : opened + by;
    if (to >= 0 && to < views.count) {
      const link = views.link(to);
      if (INSIDE) {
        location.hash = link;
      } else {
        location.replace(link);
      }
    }
  }

  function route(): void {
    const at = parseRoute(location.hash);
    if (at.view === 'tensor' || at.view === 'at') {
      const i = at.view === 'at' ? Number(at.rest) : views.find(at.rest);
      if (made.size === 0) { // a link from elsewhere
        beneath = '#/table';
        showView('table');
        views.table().route(parseRoute(beneath));
      }
      if (Number.isInteger(i) && i >= 0 && i < views.count) {
        open(i);
      } else {
        open(-1);
        side.replaceChildren(el('aside', { class: 'detail', role: 'alert' }, el('p', {}, 'There is no tensor of this name here: ', el('bdi', {}, nameText(at.rest, 200)))));
        document.body.classList.add('opened');
      }
      return;
    }
    const view = views.tabs.some((tab) => tab.view === at.view) ? at.view : first;
    beneath = location.hash === '' ? '#/' : location.hash;
    showView(view);
    open(-1);
    if (view === 'table') {
      views.table().route(at);
    }
  }

  if (INSIDE) {
    stayInside(signal);
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
      views.table().focusFilter();
    }
  }, { signal });
  addEventListener('beforeprint', () => { // paper has the first view, whatever is shown
    const view = current;
    showView(first);
    showView(view);
  }, { signal });
  document.title = views.title;
  route();
  return { end: () => ended.abort('ended'), renew }; // an error would keep what called this
}

export function failure(what: string, error: unknown): HTMLElement {
  return el('p', { class: 'broken', role: 'alert' }, `${what}: ${visible(error instanceof Error ? error.message : String(error))}`);
}
