// SPDX-License-Identifier: Apache-2.0 OR MIT
// serve.ts - the worker's side: one instance of the module, one model, requests one after the other.

import { failure, packError } from './error.js';
import { buffersOf } from './list.js';
import { Native } from './native.js';
import { mountOf, pathOf, type Operand, type Places } from './operand.js';
import { checkModel, openModel, scanModel, type SyncModel } from './reader.js';
import type { OpenOptions, ReadOptions } from './types.js';

export type Request =
  | { id: number; op: 'open'; operand: Operand; options: OpenOptions; module: WebAssembly.Module }
  | { id: number; op: 'check' | 'scan'; operand: Operand; options: OpenOptions; module: WebAssembly.Module }
  | { id: number; op: 'read'; which: (string | number)[]; options: ReadOptions }
  | { id: number; op: 'verify' };

export type Reply =
  | { id: number; ok: true; result: unknown }
  | { id: number; ok: false; error: ReturnType<typeof packError> };

export function makeServer(places: Places, post: (reply: Reply, transfer: ArrayBuffer[]) => void):
  (request: Request) => void {
  let model: SyncModel | null = null;

  const run = (r: Request): [unknown, ArrayBuffer[]] => {
    if (r.op === 'open' || r.op === 'check' || r.op === 'scan') {
      const native = new Native(r.module);
      const mount = mountOf(r.operand, places);
      const path = pathOf(r.operand, r.options);
      if (r.op !== 'open') {
        return [(r.op === 'check' ? checkModel : scanModel)(native, mount, path, r.options), []];
      }
      model = openModel(native, mount, path, r.options);
      const { columns } = model.tensors;
      return [{ facts: model.facts(), columns }, buffersOf(columns)];
    }
    if (model === null) {
      throw failure('SFT_E_STATE', 'no model is open');
    }
    if (r.op === 'read') {
      const tensors = r.which.map((which) => model!.read(which, r.options));
      return [tensors, tensors.map((t) => t.data.buffer as ArrayBuffer)];
    }
    return [model.verify(), []];
  };

  return (request) => {
    try {
      const [result, transfer] = run(request);
      post({ id: request.id, ok: true, result }, transfer);
    } catch (e) {
      post({ id: request.id, ok: false, error: packError(e) }, []);
    }
  };
}
