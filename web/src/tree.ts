// SPDX-License-Identifier: Apache-2.0 OR MIT
// tree.ts - names as a tree of their parts between dots and slashes. Numbered parts whose content has the same
// structure are one branch: layers 0…31 are shown once, 32 times.

import type { ModelData } from './data.js';
import { rangesText } from './text.js';

/** A part of names, with holes where numbers are: what templates have in common up to there. */
export interface Node {
  /** Text around the holes of this part, a separator behind it included: one more than there are holes. */
  pieces: string[];
  /** How many numbers come before this part. */
  before: number;
  templates: number[];
  /** Where the names go on: part of the template, and place in it. */
  part: number;
  at: number;
  /** What follows, once somebody asked. */
  below: Node[] | undefined;
}

/** Tensors and what they take. */
export interface Sums { tensors: number; bytes: number; elements: number; dtypes: Set<number> }

/** One line of the tree: a node, the numbers that stand for all like it, and how often there is such a one. */
export interface Branch extends Sums {
  node: Node;
  label: string;
  /** Tensors of the line above that stand for all like them; undefined: all there are. */
  within: Own | undefined;
  /** The numbers of this part, from `node.before` on. */
  value: number[];
  times: number;
  /** A tensor's line: the tensor that stands for all. -1: it has lines below it. */
  tensor: number;
  /** Where they lie in `within`, or in all by template, with others between them: template, from, to. */
  spans: number[];
  /** Those alone, once somebody asked. */
  own?: Own;
}

/** Tensors by template. */
type Own = Map<number, Uint32Array>;
const NONE = new Uint32Array(0);
type Above = Pick<Branch, 'node' | 'within' | 'value' | 'spans' | 'times' | 'own'>;

const SEPARATORS = /[./]/g;

/** The parts that follow a node: each template goes on with one of them. */
export function nodesBelow(data: ModelData, node: Node): Node[] {
  if (node.below !== undefined) {
    return node.below;
  }
  const found = new Map<string, Node>();
  for (const t of node.templates) {
    const parts = data.names.templates[t];
    let { part, at } = node;
    if (part === parts.length - 1 && at === parts[part].length && node.pieces.length > 0) {
      continue; // it ends here
    }
    const pieces: string[] = [];
    for (;;) {
      SEPARATORS.lastIndex = at;
      const separator = SEPARATORS.exec(parts[part]);
      const end = separator === null ? parts[part].length : separator.index + 1;
      pieces.push(parts[part].slice(at, end));
      at = end;
      if (separator !== null || part === parts.length - 1) {
        break;
      }
      part++;
      at = 0;
    }
    const key = pieces.length === 1 ? `0${pieces[0]}` : `${pieces.map((piece) => piece.length).join()}:${pieces.join('')}`;
    const below = found.get(key);
    if (below === undefined) {
      found.set(key, { pieces, before: node.part, templates: [t], part, at, below: undefined });
    } else {
      below.templates.push(t);
    }
  }
  node.below = [...found.values()];
  return node.below;
}

const roots = new WeakMap<ModelData, Node>();

export function rootNode(data: ModelData): Node {
  const root = roots.get(data) ?? { pieces: [], before: 0, templates: data.names.templates.map((_, t) => t), part: 0, at: 0, below: undefined };
  roots.set(data, root);
  return root;
}

/** Does the template end at this node? */
export const ends = (data: ModelData, node: Node, template: number): boolean => {
  const parts = data.names.templates[template];
  return node.part === parts.length - 1 && node.at === parts[node.part].length;
};

interface Group extends Sums { low: number; high: number; tensor: number; value: number[]; spans: number[] }

const mix = (a: number, b: number): number => {
  let h = Math.imul(a ^ (b | 0), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) | 0;
};

/** The tensors with the numbers of a branch and of all above it; undefined: all of its templates. */
function ownOf(data: ModelData, branch: Above): Own | undefined {
  const { node, value, within, spans } = branch;
  if (value.length === 0) {
    return within;
  }
  if (branch.own === undefined) {
    const { order } = data.names.byTemplate();
    const numbers: number[] = [];
    const wanted = node.before + value.length;
    branch.own = new Map();
    for (let k = 0; k < spans.length; k += 3) {
      const [t, from, to] = spans.slice(k, k + 3);
      branch.own.set(t, (within === undefined ? order : within.get(t)!).subarray(from, to).filter((i) => {
        data.names.numbers(i, numbers, wanted);
        return value.every((number, h) => numbers[node.before + h] === number);
      }));
    }
  }
  return branch.own;
}

/** What lies below a node as a sum that does not depend on the order: template, kind, numbers behind. */
const sums = new Int32Array(2);
const those: number[] = [];
const these: number[] = [];

/** Where in a list of tensors of a template those end that have the kind and the numbers of a node as the first; `sums` is their sum. */
function runEnd(data: ModelData, node: Node, t: number, list: Uint32Array, from: number, end: number): number {
  const { names, kindIds } = data;
  const { before } = node;
  const behind = before + node.pieces.length - 1;
  const wanted = behind > before ? names.templates[t].length - 1 : 0; // else all are of one group
  const kind = kindIds[list[from]];
  const start = mix(t + 1, kind);
  let low = 0;
  let high = 0;
  names.numbers(list[from], those, behind);
  let k = from;
  scan: for (; k < end && kindIds[list[k]] === kind; k++) {
    if (wanted > 0) {
      names.numbers(list[k], these, wanted);
      for (let h = before; h < behind; h++) {
        if (these[h] !== those[h]) {
          break scan;
        }
      }
      let a = start;
      for (let h = behind; h < wanted; h++) {
        const number = these[h];
        a = mix((a + 0x9e3779b9) | 0, number);
        if (number > 0xffffffff) {
          a = mix(a, number / 0x100000000);
        }
      }
      low = (low + a) | 0;
      high = (high + Math.imul(a ^ (a >>> 15), 0x27d4eb2f)) | 0;
    }
  }
  sums[0] = low;
  sums[1] = high;
  return k;
}

/** The tensors of a node, by the numbers of its holes: one group where it has none. own: those it is about, if not all. */
function groups(data: ModelData, node: Node, own: Own | undefined): Group[] {
  const { names, kinds, kindIds } = data;
  const { order, first } = names.byTemplate();
  const { before } = node;
  const behind = before + node.pieces.length - 1;
  const found = new Map<number | string, Group>();
  const numbers: number[] = [];
  for (const t of node.templates) {
    const list = own === undefined ? order : own.get(t) ?? NONE;
    const end = own === undefined ? first[t + 1] : list.length;
    let k = own === undefined ? first[t] : 0;
    while (k < end) {
      const from = k;
      const tensor = list[from];
      k = runEnd(data, node, t, list, from, end);
      names.numbers(tensor, numbers, behind);
      const key = behind === before + 1 ? numbers[before] : numbers.slice(before, behind).join();
      let group = found.get(key);
      if (group === undefined) {
        group = { tensors: 0, bytes: 0, elements: 0, dtypes: new Set(), low: 0, high: 0, tensor, value: numbers.slice(before, behind), spans: [] };
        found.set(key, group);
      }
      const kind = kinds[kindIds[tensor]];
      group.tensors += k - from;
      group.bytes += (k - from) * kind.bytes;
      group.elements += (k - from) * kind.elements;
      group.dtypes.add(kind.dtype);
      group.low = (group.low + sums[0]) | 0;
      group.high = (group.high + sums[1]) | 0;
      const { spans } = group;
      if (spans[spans.length - 3] !== t) {
        spans.push(t, from, k);
      }
      spans[spans.length - 1] = k;
    }
  }
  return [...found.values()];
}

function label(node: Node, members: Group[]): string {
  if (node.pieces.length === 1) {
    return node.pieces[0];
  }
  let out = node.pieces[0];
  for (let h = 0; h + 1 < node.pieces.length; h++) {
    const values = [...new Set(members.map((group) => group.value[h]))].sort((a, b) => a - b);
    out += rangesText(values) + node.pieces[h + 1];
  }
  return out;
}

function* partsBelow(data: ModelData, above: Above): Generator<Branch> {
  const own = ownOf(data, above);
  for (const node of nodesBelow(data, above.node)) {
    // A template that ends here is a line of its own, beside one for those that go on.
    const ending = node.templates.filter((t) => ends(data, node, t));
    const going = node.templates.filter((t) => !ends(data, node, t));
    for (const [templates, leaf] of [[ending, true], [going, false]] as const) {
      const like = new Map<string, Group[]>();
      const part: Node = { ...node, templates: [...templates], below: undefined };
      for (const group of templates.length > 0 ? groups(data, part, own) : []) {
        const key = `${group.low},${group.high},${group.tensors}`;
        const known = like.get(key);
        if (known === undefined) {
          like.set(key, [group]);
        } else {
          known.push(group);
        }
      }
      for (const members of like.values()) {
        const [one] = members;
        const times = above.times * members.length;
        yield {
          node: part, label: label(part, members), times, tensor: leaf ? one.tensor : -1, dtypes: one.dtypes,
          within: own, value: one.value, spans: one.spans, tensors: one.tensors * times, bytes: one.bytes * times, elements: one.elements * times,
        };
      }
    }
  }
}

const MOST_TO_JOIN = 200_000;
/** A line stands for at most so many parts of names. */
export const MOST_JOINED = 100;

/** The lines below one, made as they are asked for; a line with one below it is one with it. */
export function* branchesBelow(data: ModelData, above: Above): Generator<Branch> {
  for (const branch of partsBelow(data, above)) {
    yield joined(data, branch);
  }
}

function joined(data: ModelData, branch: Branch): Branch {
  let one = branch;
  for (let k = 0; k < MOST_JOINED && one.tensor < 0 && one.tensors / one.times <= MOST_TO_JOIN && nodesBelow(data, one.node).length === 1; k++) {
    const below = [...partsBelow(data, one)];
    if (below.length !== 1) {
      break;
    }
    one = { ...below[0], label: one.label + below[0].label };
  }
  return one;
}

export const root = (data: ModelData): Above => ({ node: rootNode(data), within: undefined, value: [], spans: [], times: 1 });

/** A pattern for all names of a branch; more may fit where other numbers have another structure. */
export function patternOf(data: ModelData, branch: Branch, quote: (text: string) => string): string {
  const parts = data.names.templates[branch.node.templates[0]];
  const { part, at } = branch.node;
  let out = '';
  for (let k = 0; k < part; k++) {
    out += `${quote(parts[k])}*`;
  }
  return out + quote(parts[part].slice(0, at)) + (branch.tensor < 0 ? '*' : '');
}

/* ---------------------------------------------------------------- all tensors of a template and an element type */

/** Bytes by template and element type, for pictures; next: another of the same template in the list, or -1. */
export interface Leaf { template: number; dtype: number; tensors: number; bytes: number; elements: number; next: number }

/** A list, and for each template where in it it begins (-1: it has no tensors). */
export function leaves(data: ModelData): { list: Leaf[]; first: Int32Array } {
  const list: Leaf[] = [];
  const first = new Int32Array(data.names.templates.length).fill(-1);
  for (let i = 0; i < data.count; i++) {
    const { dtype, bytes, elements } = data.kinds[data.kindIds[i]];
    const template = data.names.ids[i];
    let k = first[template];
    while (k >= 0 && list[k].dtype !== dtype) {
      k = list[k].next;
    }
    if (k < 0) {
      k = list.length;
      list.push({ template, dtype, tensors: 0, bytes: 0, elements: 0, next: first[template] });
      first[template] = k;
    }
    const leaf = list[k];
    leaf.tensors++;
    leaf.bytes += bytes;
    leaf.elements += elements;
  }
  return { list, first };
}
