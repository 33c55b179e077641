// SPDX-License-Identifier: Apache-2.0 OR MIT
// words.ts - what happened to a model, in a sentence; measures as text.

import { grouped, nameText, plural, valueText } from '../text.js';
import type { DiffSummary } from './data.js';

/** A share of the norm: 0.3 %. */
export function movedText(moved: number): string {
  if (!Number.isFinite(moved)) {
    return moved > 0 ? '\u221e' : '';
  }
  const percent = 100 * moved;
  return `${percent >= 1e6 || (percent > 0 && percent < 1e-4) ? valueText(percent) : String(+percent.toPrecision(3))} %`;
}

const and = (parts: string[]): string => (parts.length < 2 ? parts.join('') : `${parts.slice(0, -1).join(', ')} and ${parts[parts.length - 1]}`);
const count = (n: unknown): number => Number(n ?? 0);

/** "B is probably A, fine-tuned: 226 of 291 tensors moved, by 0.3 % of their norm; 1 added." */
export function sentence(diff: DiffSummary): string {
  const { overall, tally } = diff;
  const a = nameText(diff.a, 60) || 'A';
  const b = nameText(diff.b, 60) || 'B';
  const renamed = count(diff.renamed);
  const by = overall.relative === undefined || overall.relative === null ? '' : `, by ${movedText(overall.relative)} of their norm`;
  const moved = `${grouped(overall.moved)} of ${plural(overall.tensors, 'tensor')} moved${by}`;
  const others = [...(count(tally.removed) > 0 ? [`${grouped(tally.removed)} removed`] : []), ...(count(tally.added) > 0 ? [`${grouped(tally.added)} added`] : []),
    ...(renamed > 0 && diff.change !== 'renamed' ? [`${grouped(renamed)} renamed`] : [])];
  const odd = count(overall.not_finite);
  const more = `${others.length > 0 ? `; ${and(others)}` : ''}${odd > 0 ? `; ${plural(odd, 'value')} ${odd === 1 ? 'is' : 'are'} not finite and not measured` : ''}`;
  switch (diff.change) {
    case 'none': return diff.same ? `${b} is the same as ${a}.` : `The tensors of ${b} are those of ${a}; what differs lies beside them.`;
    case 'metadata': return `${b} has the tensors of ${a}: only metadata differ.`;
    case 'renamed': return `${b} has the values of ${a} under other names: ${plural(renamed, 'tensor')} ${renamed === 1 ? 'is' : 'are'} called otherwise.`;
    case 'zero-signs': return `${b} has the numbers of ${a}: in ${grouped(overall.moved)} of ${plural(overall.tensors, 'tensor')} only the signs of zeros are others${more}.`;
    case 'cast': return `${b} is ${a} in ${count(tally.type) === 1 ? 'another element type' : 'other element types'}: ${grouped(tally.type)} of ${plural(overall.tensors, 'tensor')} ${count(tally.type) === 1 ? 'was' : 'were'} cast${more}.`;
    case 'quantized': return `${b} is probably ${a}, quantised${more}.`;
    case 'pruned': return `${b} is ${a}, pruned: in ${grouped(overall.moved)} of ${plural(overall.tensors, 'tensor')} values are 0 now, and all others are the same${more}.`;
    case 'merged-lora': return `${b} is probably ${a} with a LoRA${diff.rank === undefined ? '' : ` of rank ${diff.rank}`} merged in: ${moved}${more}.`;
    case 'fine-tuned': return `${b} is probably ${a}, fine-tuned: ${moved}${more}.`;
    default: return `${b} is not ${a} tuned, cast or quantised, as far as can be told: ${count(overall.moved) > 0 ? moved : `${grouped(tally.type)} of ${plural(overall.tensors, 'tensor')} have another type or shape`}${more}.`;
  }
}
