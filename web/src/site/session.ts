// SPDX-License-Identifier: Apache-2.0 OR MIT
// session.ts - the page's side of the worker. Ending it is ending the model, whatever it is doing.

import { unpackError } from 'wasm/error.js';
import type { Reply, Question } from './worker.js';

type Waiting = { resolve: (value: never) => void; reject: (why: Error) => void; progress: ((bytes: number) => void) | undefined };

interface Policies { createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): { createScriptURL(url: string): string } }
const policies = (globalThis as unknown as { trustedTypes?: Policies }).trustedTypes;
let script: string | undefined;
/** Once: a policy of the server may forbid it, and forbids a second one of this name. */
const workerScript = (): string => (script ??= policies?.createPolicy('sft-worker', { createScriptURL: () => 'worker.js' }).createScriptURL('') ?? 'worker.js');

export class Ended extends Error {}

export class Session {
  /** It has, or had, a model. */
  used = false;
  private readonly waiting = new Map<number, Waiting>();
  private next = 1;
  private ended: Error | undefined;
  private state: 'holds' | 'to be renewed' | 'renewed' = 'holds';
  private worker: Worker | undefined = this.begun();

  private begun(): Worker | undefined {
    let worker: Worker;
    try {
      worker = new Worker(workerScript());
    } catch (e) { // of a page that is opened as a file (load() says what that needs), or by a policy of the server
      this.ended = new Error(`the reader cannot be started: ${(e as Error).message}`);
      return undefined;
    }
    worker.onmessage = ({ data }: MessageEvent<Reply>) => {
      const waiting = this.waiting.get(data.id);
      if ('read' in data) {
        waiting?.progress?.(data.read);
        return;
      }
      this.waiting.delete(data.id);
      if (data.ok) {
        waiting?.resolve(data.result as never);
      } else {
        waiting?.reject(unpackError(data.error));
      }
      this.renewed();
    };
    worker.onerror = (event) => {
      const why = new Error(`the reader cannot be started: ${event.message ?? 'worker.js cannot be loaded'}`);
      if (this.state === 'renewed') {
        this.dropped(why);
      } else {
        this.end(why);
      }
    };
    return worker;
  }

  /** What the worker has open is not needed any more. Its memory never shrinks: as soon as nobody waits for it another takes its place. */
  renew(): void {
    this.state = 'to be renewed';
    this.renewed();
  }

  private renewed(): void {
    if (this.state === 'to be renewed' && this.waiting.size === 0 && this.ended === undefined) {
      this.worker?.terminate();
      this.worker = this.begun(); // now, while the server is there
      this.state = 'renewed';
    }
  }

  ask<T>(question: Question, progress?: (bytes: number) => void): Promise<T> {
    return this.ended !== undefined ? Promise.reject(this.ended) : new Promise<T>((resolve, reject) => {
      const worker = this.worker ??= this.begun();
      if (worker === undefined) {
        reject(this.ended!);
        return;
      }
      const id = this.next++;
      this.waiting.set(id, { resolve, reject, progress });
      worker.postMessage({ ...question, id });
    });
  }

  end(why: Error = new Ended('the model is closed')): void {
    if (this.ended === undefined) {
      this.ended = why;
      this.dropped(why);
    }
  }

  private dropped(why: Error): void {
    this.worker?.terminate();
    this.worker = undefined;
    this.waiting.forEach(({ reject }) => reject(why));
    this.waiting.clear();
  }
}

/** The module of a name beside the page. */
export async function load(name: string): Promise<WebAssembly.Module> {
  let reply: Response;
  try {
    reply = await fetch(name);
  } catch {
    throw new Error(location.protocol === 'file:' ? 'this page must come from a web server: a browser gives a page that is opened as a file nothing else of its folder'
      : `${name} cannot be loaded`);
  }
  if (!reply.ok) {
    throw new Error(`${name} cannot be loaded: the server answered ${reply.status}`);
  }
  return WebAssembly.compile(await reply.arrayBuffer()); // whatever type the server gives it
}
