// SPDX-License-Identifier: Apache-2.0 OR MIT
// client.ts - the caller's side of a worker: models whose reads are promises.

import { failure, unpackError } from './error.js';
import { type Columns, TensorList } from './list.js';
import type { Operand } from './operand.js';
import type { Reply, Request } from './serve.js';
import type {
  Alias, CheckReport, FileInfo, Finding, ModelFacts, OpenOptions, Problem, ReadOptions, RemoteOptions, ScanReport, Tensor,
  Verified,
} from './types.js';

/** A worker, of a browser or of Node. */
export interface Channel {
  post(request: Request): void;
  /** While answers are awaited the process must not end. */
  busy(is: boolean): void;
  end(): void;
}

export type StartWorker = (onReply: (reply: Reply) => void, onEnd: (why: Error) => void) => Channel;

type Waiting = { resolve: (value: never) => void; reject: (why: Error) => void };
/** A request without its number. */
type Question = Request extends infer R ? (R extends Request ? Omit<R, 'id'> : never) : never;

/** Requests by number, and what is to happen with their answers. */
export class Session {
  private readonly channel: Channel;
  private readonly waiting = new Map<number, Waiting>();
  private next = 1;
  private ended: Error | null = null;
  private readonly stop = (): void => this.end(failure('SFT_E_CANCELLED', 'cancelled'));

  constructor(start: StartWorker, private readonly signal?: AbortSignal) {
    if (signal?.aborted === true) {
      throw failure('SFT_E_CANCELLED', 'cancelled');
    }
    this.channel = start((reply) => this.onReply(reply), (why) => this.end(why));
    signal?.addEventListener('abort', this.stop);
  }

  private onReply(reply: Reply): void {
    const waiting = this.waiting.get(reply.id);
    this.waiting.delete(reply.id);
    this.channel.busy(this.waiting.size > 0);
    if (reply.ok) {
      waiting?.resolve(reply.result as never);
    } else {
      waiting?.reject(unpackError(reply.error));
    }
  }

  ask<T>(question: Question): Promise<T> {
    if (this.ended !== null) {
      return Promise.reject(this.ended);
    }
    return new Promise<T>((resolve, reject) => {
      const id = this.next++;
      this.waiting.set(id, { resolve, reject });
      this.channel.busy(true);
      try {
        this.channel.post({ ...question, id } as Request);
      } catch (e) {
        this.waiting.delete(id);
        reject(e as Error);
      }
    });
  }

  end(why: Error): void {
    if (this.ended === null) {
      this.ended = why;
      this.signal?.removeEventListener('abort', this.stop);
      this.channel.end();
      for (const waiting of this.waiting.values()) {
        waiting.reject(why);
      }
      this.waiting.clear();
    }
  }
}

const forgotten = typeof FinalizationRegistry === 'undefined' ? null
  : new FinalizationRegistry<Session>((session) => session.end(failure('SFT_E_STATE', 'the model is closed')));

/** A model that is open, in a worker of its own. Closing it gives back all its memory. */
export class Model implements ModelFacts {
  readonly format: string;
  readonly files: FileInfo[];
  readonly problems: Problem[];
  readonly findings: Finding[];
  readonly aliases: Alias[];
  readonly tensors: TensorList;

  /** @internal */
  constructor(private readonly session: Session, facts: ModelFacts, columns: Columns) {
    this.format = facts.format;
    this.files = facts.files;
    this.problems = facts.problems;
    this.findings = facts.findings;
    this.aliases = facts.aliases;
    this.tensors = new TensorList(columns);
    forgotten?.register(this, session, session);
  }

  /** Metadata of the first file. */
  get metadata(): Map<string, string> {
    return this.files[0]?.metadata ?? new Map();
  }

  /** A tensor, or a slice of one, by its name (or another name of it), or its index. */
  async read(which: string | number, options: ReadOptions = {}): Promise<Tensor> {
    return (await this.readMany([which], options))[0];
  }

  readMany(which: readonly (string | number)[], options: ReadOptions = {}): Promise<Tensor[]> {
    return this.session.ask({ op: 'read', which: [...which], options });
  }

  /** Compares tensors with the digests that are recorded in the file; an error if there are none. */
  verify(): Promise<Verified> {
    return this.session.ask({ op: 'verify' });
  }

  close(): void {
    forgotten?.unregister(this.session);
    this.session.end(failure('SFT_E_STATE', 'the model is closed'));
  }
}

export interface Given {
  operand: Operand;
  options: OpenOptions & RemoteOptions;
  module: WebAssembly.Module;
}

/** Options without what cannot cross to a worker. */
function plain(options: OpenOptions & RemoteOptions): OpenOptions {
  const { signal: _signal, headers: _headers, ...rest } = options;
  return rest;
}

export async function openIn(start: StartWorker, given: Given): Promise<Model> {
  const session = new Session(start, given.options.signal);
  try {
    const { operand, module } = given;
    const { facts, columns } = await session.ask<{ facts: ModelFacts; columns: Columns }>({
      op: 'open', operand, options: plain(given.options), module,
    });
    return new Model(session, facts, columns);
  } catch (e) {
    session.end(e as Error);
    throw e;
  }
}

export async function askIn<T extends CheckReport | ScanReport>(
  start: StartWorker, given: Given, op: 'check' | 'scan',
): Promise<T> {
  const session = new Session(start, given.options.signal);
  try {
    return await session.ask<T>({ op, operand: given.operand, options: plain(given.options), module: given.module });
  } finally {
    session.end(failure('SFT_E_STATE', 'done'));
  }
}
