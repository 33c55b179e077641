// SPDX-License-Identifier: Apache-2.0 OR MIT
// dom.ts - elements of text and attributes. Nothing in the page is ever made of markup.

type Child = Node | string | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined>;
type Handlers = { [K in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[K]) => void };

function fill(node: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? '' : String(value));
    }
  }
  node.append(...children.filter((child): child is Node | string => child !== undefined && child !== false));
}

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  fill(node, attributes, children);
  return node;
}

export function svg(tag: string, attributes: Attributes = {}, ...children: Child[]): SVGElement {
  const node = document.createElementNS('http://www.w3.org/2000/svg', tag);
  fill(node, attributes, children);
  return node;
}

export function on<T extends HTMLElement>(node: T, handlers: Handlers): T {
  for (const [name, handler] of Object.entries(handlers)) {
    node.addEventListener(name, handler as EventListener);
  }
  return node;
}

/** A colour of the style, as canvases want it. */
export function colour(name: string): string {
  const probe = el('i');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

/** A canvas whose pixels are those of the screen, and its context in units of the style. */
export function canvas(width: number, height: number, node = document.createElement('canvas')): [HTMLCanvasElement, CanvasRenderingContext2D] {
  const scale = Math.min(devicePixelRatio || 1, 3);
  node.width = Math.round(width * scale);
  node.height = Math.round(height * scale);
  node.style.width = `${width}px`;
  node.style.height = `${height}px`;
  const context = node.getContext('2d')!;
  context.scale(scale, scale);
  context.direction = 'ltr';
  return [node, context];
}
