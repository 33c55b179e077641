// SPDX-License-Identifier: Apache-2.0 OR MIT
// error.ts - one class of errors: a place and a sentence.

import type { ErrorFacts } from './types.js';

/**
 * What went wrong. `code` is a name of docs/errors.md ("SFT_E_JSON", "SFT_E_IO" ...), or "TRAP": the module
 * has stopped, and every model that it had open is gone.
 */
export class SafetensorsError extends Error {
  readonly code: string;
  /** The sentence without the place. */
  readonly reason: string;
  /** Where in the file, in bytes. */
  readonly offset: number | null;
  readonly tensor: string | null;

  constructor(facts: ErrorFacts, cause?: unknown) {
    const at = facts.offset === null ? '' : `at byte ${facts.offset}: `;
    const of = facts.tensor === null ? '' : `tensor "${facts.tensor}": `;
    const why = cause instanceof Error && cause.message !== '' ? ` (${cause.message})` : '';
    super(at + of + facts.reason + why, cause === undefined ? undefined : { cause });
    this.name = 'SafetensorsError';
    this.code = facts.code;
    this.reason = facts.reason;
    this.offset = facts.offset;
    this.tensor = facts.tensor;
  }
}

export function failure(code: string, reason: string, cause?: unknown): SafetensorsError {
  return new SafetensorsError({ code, reason, offset: null, tensor: null }, cause);
}

/** An error as data, for a message between threads, and back. */
export function packError(e: unknown): ErrorFacts & { cause: string } {
  if (e instanceof SafetensorsError) {
    return {
      code: e.code, reason: e.reason, offset: e.offset, tensor: e.tensor,
      cause: e.cause instanceof Error ? e.cause.message : '',
    };
  }
  const text = e instanceof Error ? e.message : String(e);
  return { code: 'SFT_E_INTERNAL', reason: text, offset: null, tensor: null, cause: '' };
}

export function unpackError(e: ErrorFacts & { cause: string }): SafetensorsError {
  return new SafetensorsError(e, e.cause === '' ? undefined : new Error(e.cause));
}
