// SPDX-License-Identifier: Apache-2.0 OR MIT
// list.ts - a list of any length of which only the visible rows exist. Browsers limit how high an element may be, so
// long lists lie in a lower one: short steps move by as much, long ones (the scroll bar) to the same share of the list.

import { el, on } from './dom.js';

const MOST_PIXELS = 8_000_000;

/** From where the scroll bar is to what is shown; all in pixels. */
export class Scale {
  height = 0;
  top = 0;
  private last = 0;
  constructor(public total = 0, public view = 0) {
    this.set(total, view);
  }

  set(total: number, view: number): void {
    this.total = total;
    this.view = view;
    this.height = Math.min(total, Math.max(MOST_PIXELS, 2 * view));
    this.top = Math.min(this.top, this.most);
  }

  get most(): number {
    return Math.max(0, this.total - this.view);
  }

  /** The scroll bar came to `scrolled`. */
  scrolled(scrolled: number): void {
    const range = this.height - this.view;
    const step = scrolled - this.last;
    this.last = scrolled;
    if (this.height === this.total || scrolled <= 0 || scrolled >= range) {
      this.top = scrolled <= 0 ? 0 : scrolled >= range ? this.most : scrolled;
    } else if (Math.abs(step) < this.view) {
      this.top = Math.min(Math.max(this.top + step, 0), this.most);
    } else {
      this.top = scrolled / range * this.most;
    }
  }

  /** Where the scroll bar belongs. */
  bar(): number {
    const range = this.height - this.view;
    if (this.height === this.total || this.top <= 0 || this.top >= this.most) {
      return this.top <= 0 ? 0 : Math.min(this.top, range);
    }
    return Math.min(Math.max(Math.round(this.top / this.most * range), 1), range - 1);
  }

  /** The scroll bar was moved there by us. */
  moved(scrolled: number): void {
    this.last = scrolled;
  }
}

export interface ListOptions<Row> {
  label: string;
  role: string;
  rowRole: string;
  /** A row of titles, which stays in sight. */
  head?: HTMLElement;
  make: (element: HTMLElement) => Row;
  fill: (row: Row, index: number, element: HTMLElement) => void;
  open?: (index: number) => void;
}

export class List<Row> {
  readonly host: HTMLElement;
  active = -1;
  private count = 0;
  private rowHeight = 28;
  private readonly space: HTMLElement;
  private readonly frame: HTMLElement;
  private readonly layer: HTMLElement;
  private readonly scale = new Scale();
  private slots: { element: HTMLElement; row: Row; index: number }[] = [];
  private base = 0;
  private settle = 0;
  private static numbers = 0;
  private readonly id = `list${List.numbers++}`;

  constructor(private readonly options: ListOptions<Row>) {
    this.layer = el('div', { class: 'layer', role: 'presentation' });
    this.frame = el('div', { class: 'frame', role: 'presentation' }, this.layer);
    this.space = el('div', { class: 'space', role: 'presentation' }, this.frame);
    this.host = on(el('div', { class: 'list', tabindex: 0, role: options.role, 'aria-label': options.label }, options.head, this.space), {
      scroll: () => this.scrolled(),
      keydown: (event) => this.key(event),
      click: (event) => this.clicked(event),
    });
    new ResizeObserver(() => this.resize()).observe(this.host);
  }

  setRows(count: number, rowHeight: number): void {
    this.count = count;
    this.host.setAttribute('aria-rowcount', String(count + this.before));
    if (rowHeight !== this.rowHeight) {
      this.rowHeight = rowHeight;
      this.drop();
    }
    this.active = Math.min(this.active, count - 1);
    this.resize();
    this.refresh();
  }

  /** Rows are made anew: their columns changed. */
  drop(): void {
    this.slots = [];
    this.layer.replaceChildren();
  }

  refresh(): void {
    for (const slot of this.slots) {
      slot.index = -1;
    }
    this.draw();
  }

  show(index: number, activate = true): void {
    if (activate) {
      this.active = index;
    }
    const { scale } = this;
    const top = index * this.rowHeight;
    if (top < scale.top) {
      scale.top = top;
    } else if (top + this.rowHeight > scale.top + scale.view) {
      scale.top = Math.min(scale.most, top + this.rowHeight - scale.view);
    }
    this.moveBar();
    this.refresh();
  }

  private get before(): number {
    return this.options.head === undefined ? 0 : 1;
  }

  private resize(): void {
    const top = this.options.head?.offsetHeight ?? 0;
    const view = Math.max(0, this.host.clientHeight - top);
    this.frame.style.top = `${top}px`;
    this.scale.set(this.count * this.rowHeight, view);
    this.space.style.height = `${this.scale.height}px`;
    this.frame.style.height = `${Math.min(view, this.scale.height)}px`;
    this.moveBar();
    this.draw();
  }

  private moveBar(): void {
    const bar = this.scale.bar();
    if (Math.abs(bar - this.host.scrollTop) >= 1) {
      this.host.scrollTop = bar;
    }
    this.scale.moved(this.host.scrollTop);
  }

  private scrolled(): void {
    this.scale.scrolled(this.host.scrollTop);
    this.draw();
    clearTimeout(this.settle);
    this.settle = setTimeout(() => this.moveBar(), 250) as unknown as number;
  }

  private draw(): void {
    const { scale, rowHeight } = this;
    const first = Math.floor(scale.top / rowHeight);
    const wanted = Math.ceil(scale.view / rowHeight) + 1;
    while (this.slots.length < wanted) {
      const element = el('div', { class: 'row', role: this.options.rowRole, id: `${this.id}-${this.slots.length}` });
      element.style.height = `${rowHeight}px`;
      this.slots.push({ element, row: this.options.make(element), index: -1 });
      this.layer.append(element);
      for (const slot of this.slots) {
        slot.index = -1; // rows go to slots by their number of slots
      }
    }
    const far = Math.abs(scale.top - this.base) > 500_000;
    if (far) {
      this.base = first * rowHeight;
    }
    const n = this.slots.length;
    for (let k = 0; k < n; k++) {
      const index = first + k;
      const slot = this.slots[index % n];
      if (index < this.count ? slot.index !== index || far : slot.index !== -2) {
        this.place(slot, index);
      }
    }
    this.layer.style.transform = `translateY(${Math.round(this.base - scale.top)}px)`;
    this.mark();
  }

  private place(slot: { element: HTMLElement; row: Row; index: number }, index: number): void {
    const { element } = slot;
    if (index >= this.count) {
      slot.index = -2;
      element.hidden = true;
      return;
    }
    element.hidden = false;
    element.style.transform = `translateY(${index * this.rowHeight - this.base}px)`;
    if (slot.index !== index) {
      slot.index = index;
      element.setAttribute('aria-rowindex', String(index + 1 + this.before));
      this.options.fill(slot.row, index, element);
    }
  }

  private mark(): void {
    let id = '';
    for (const { element, index } of this.slots) {
      const active = index === this.active && index >= 0;
      if (element.classList.contains('active') !== active) {
        element.classList.toggle('active', active);
        element.setAttribute('aria-selected', String(active));
      }
      id = active ? element.id : id;
    }
    if ((this.host.getAttribute('aria-activedescendant') ?? '') !== id) {
      this.host.setAttribute('aria-activedescendant', id);
    }
  }

  private clicked(event: MouseEvent): void {
    const element = (event.target as Element).closest('.row');
    const slot = this.slots.find((candidate) => candidate.element === element);
    if (slot !== undefined && slot.index >= 0 && String(getSelection() ?? '') === '') {
      this.active = slot.index;
      this.mark();
      this.options.open?.(slot.index);
    }
  }

  private key(event: KeyboardEvent): void {
    if (event.target !== this.host || event.altKey || event.ctrlKey || event.metaKey || this.count === 0) {
      return;
    }
    const page = Math.max(1, Math.floor(this.scale.view / this.rowHeight) - 1);
    const from = this.active < 0 ? Math.floor(this.scale.top / this.rowHeight) - 1 : this.active;
    const to: Record<string, number> = {
      ArrowDown: from + 1, ArrowUp: from - 1, PageDown: from + page, PageUp: from - page, Home: 0, End: this.count - 1,
    };
    if (event.key in to) {
      event.preventDefault();
      this.show(Math.min(Math.max(to[event.key], 0), this.count - 1));
    } else if (event.key === 'Enter' && this.active >= 0) {
      event.preventDefault();
      this.options.open?.(this.active);
    }
  }
}
