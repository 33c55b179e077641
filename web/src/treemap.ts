// SPDX-License-Identifier: Apache-2.0 OR MIT
// treemap.ts - rectangles whose areas are bytes, as square as they come (Bruls, Huizing, van Wijk: Squarified Treemaps).

import type { ModelData } from './data.js';
import { MOST_JOINED, ends, leaves, nodesBelow, rootNode } from './tree.js';
import type { Leaf, Node } from './tree.js';

export interface Box { x: number; y: number; width: number; height: number }
/** A rectangle of the picture: a leaf, or a group with its title. */
export interface Tile extends Box, Item { group: boolean }

/** Boxes for weights that fall, in the order given. */
export function squarify(weights: number[], box: Box): Box[] {
  const out: Box[] = [];
  let { x, y, width, height } = box;
  let left = weights.reduce((sum, w) => sum + w, 0);
  for (let k = 0; k < weights.length;) {
    const side = Math.min(width, height);
    const perWeight = left > 0 ? width * height / left : 0;
    let sum = 0;
    let end = k;
    let worst = Infinity;
    for (; end < weights.length; end++) {
      const next = sum + weights[end];
      const thick = next * perWeight / side;
      const long = weights[k] * perWeight / thick;
      const short = weights[end] * perWeight / thick;
      const ratio = Math.max(thick / short, long / thick, short > 0 ? thick / short : Infinity, thick / long);
      if (end > k && !(ratio <= worst)) {
        break;
      }
      worst = ratio;
      sum = next;
    }
    const thick = side > 0 ? sum * perWeight / side : 0;
    let at = 0;
    for (; k < end; k++) {
      const length = sum > 0 ? weights[k] / sum * side : 0;
      out.push(width >= height ? { x, y: y + at, width: thick, height: length } : { x: x + at, y, width: length, height: thick });
      at += length;
    }
    if (width >= height) {
      x += thick;
      width -= thick;
    } else {
      y += thick;
      height -= thick;
    }
    left -= sum;
  }
  return out;
}

/** All of a folded branch, or of a leaf's names of one element type (-2: of several). */
export interface Item {
  node: Node; leaf: boolean; path: string; label: string; pattern: string;
  bytes: number; tensors: number; elements: number; dtype: number;
}

const TITLE = 16;
const MOST_TILES = 400;

/** The folded names of a model with what they take. */
export class Shares {
  private readonly leaves: { list: Leaf[]; first: Int32Array };
  /** Of the whole model. */
  readonly bytes: number;

  constructor(private readonly data: ModelData, private readonly quote: (text: string) => string) {
    this.leaves = leaves(data);
    this.bytes = this.leaves.list.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  private ofTemplate(template: number): Leaf[] {
    const out: Leaf[] = [];
    for (let k = this.leaves.first[template]; k >= 0; k = this.leaves.list[k].next) {
      out.push(this.leaves.list[k]);
    }
    return out.reverse();
  }

  /** The nodes with the most bytes, as many as a picture can have. */
  private largest(nodes: Node[]): Node[] {
    if (nodes.length <= MOST_TILES) {
      return nodes;
    }
    const bytes = new Map(nodes.map((node) => [node, node.templates.reduce((sum, t) => sum + this.ofTemplate(t).reduce((all, leaf) => all + leaf.bytes, 0), 0)]));
    return [...nodes].sort((a, b) => bytes.get(b)! - bytes.get(a)!).slice(0, MOST_TILES);
  }

  root(): Item {
    return {
      node: rootNode(this.data), leaf: false, path: '', label: '', pattern: '*', bytes: 0, tensors: 0, elements: 0, dtype: -1,
    };
  }

  /** What lies below, the largest first; what has no bytes is left out, and what is too much for a picture. */
  below(above: Item): Item[] {
    const { data } = this;
    const out: Item[] = [];
    for (const node of this.largest(nodesBelow(data, above.node))) {
      const label = node.pieces.join('*');
      const parts = data.names.templates[node.templates[0]];
      const pattern = parts.slice(0, node.part).map((part) => `${this.quote(part)}*`).join('')
        + this.quote(parts[node.part].slice(0, node.at));
      const known = { label, path: above.path + label };
      const group: Item = {
        ...known, node: { ...node, templates: [], below: undefined }, leaf: false, bytes: 0, tensors: 0, elements: 0, dtype: -1, pattern: `${pattern}*`,
      };
      for (const t of node.templates) {
        const end = ends(data, node, t);
        if (!end) {
          group.node.templates.push(t);
        }
        for (const leaf of this.ofTemplate(t)) {
          if (end) {
            out.push({ ...known, ...leaf, node, leaf: true, pattern });
          } else {
            group.bytes += leaf.bytes;
            group.tensors += leaf.tensors;
            group.elements += leaf.elements;
            group.dtype = group.dtype === -1 || group.dtype === leaf.dtype ? leaf.dtype : -2;
          }
        }
      }
      if (group.tensors > 0) {
        out.push(group);
      }
    }
    return out.filter((item) => item.bytes > 0).sort((a, b) => b.bytes - a.bytes);
  }

  /** Down to where names part. */
  opened(item: Item): { item: Item; below: Item[] } {
    let { label } = item;
    let one = item;
    let below = this.below(one);
    for (let k = 0; k < MOST_JOINED && below.length === 1 && !below[0].leaf; k++) {
      [one] = below;
      label += one.label;
      below = this.below(one);
    }
    if (below.length === 1 && below[0].leaf) {
      return { item: { ...below[0], label: label + below[0].label }, below: [] };
    }
    return { item: { ...one, label }, below };
  }

  /** Some ten parts of the model: the largest is parted again and again. */
  modules(): Item[] {
    const start = this.opened(this.root());
    const list = start.below.length > 0 ? start.below : start.item.leaf ? [start.item] : [];
    const total = list.reduce((sum, item) => sum + item.bytes, 0);
    for (let k = 0; k < list.length && list.length < 12;) {
      const { item, below } = list[k].leaf ? { item: list[k], below: [] } : this.opened(list[k]);
      const modules = below.some(({ leaf }) => !leaf); // not weights and biases of one
      if (modules && below.length < 12 && item.bytes > total / 4) {
        list.splice(k, 1, ...below);
        list.sort((a, b) => b.bytes - a.bytes);
        k = 0;
      } else {
        list[k] = item;
        k++;
      }
    }
    return list;
  }
}

/** The picture of a model: groups of names with what is in them, until rectangles are too small to be told apart. */
export function treemap(shares: Shares, box: Box): Tile[] {
  const tiles: Tile[] = [];

  function place(list: Item[], into: Box, depth: number): void {
    const total = list.reduce((sum, item) => sum + item.bytes, 0);
    const least = 12 * total / (into.width * into.height);
    const shown = list.filter((item, k) => k === 0 || item.bytes >= least).slice(0, MOST_TILES);
    const boxes = squarify(shown.map((item) => item.bytes), into);
    shown.forEach((candidate, k) => {
      const cell = boxes[k];
      const { item, below } = candidate.leaf ? { item: candidate, below: [] } : shares.opened(candidate);
      const open = below.length > 1 && cell.width > 40 && cell.height > 36 && depth < 6 && tiles.length < MOST_TILES;
      tiles.push({ ...item, ...cell, group: open });
      if (open) {
        place(below, { x: cell.x + 3, y: cell.y + TITLE, width: cell.width - 6, height: cell.height - TITLE - 3 }, depth + 1);
      }
    });
  }

  const { item, below } = shares.opened(shares.root());
  if (item.leaf || below.length > 0) {
    place(below.length > 0 ? below : [item], box, 0);
  }
  return tiles;
}
