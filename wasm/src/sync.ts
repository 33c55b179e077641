// SPDX-License-Identifier: Apache-2.0 OR MIT
// sync.ts - the module in the calling thread, made again when it has stopped.

import { failure } from './error.js';
import { Native } from './native.js';
import { operandOf, pathOf, mountOf, type Places } from './operand.js';
import { checkModel, joinParts, openModel, saveParts, scanModel, type SyncModel } from './reader.js';
import type { CheckReport, OpenOptions, SaveOptions, ScanReport, Source, TensorsToSave } from './types.js';

/** Which module: the one that scans opens no models. */
export type Kind = 'plain' | 'scan';

export class Here {
  private readonly natives: { [kind in Kind]: Native | null } = { plain: null, scan: null };

  constructor(
    private readonly module: (kind: Kind) => WebAssembly.Module,
    private readonly places: Places,
    private readonly base: () => string | null,
  ) {}

  private get(kind: Kind = 'plain'): Native {
    let native = this.natives[kind];
    if (native === null || !native.alive) {
      native = this.natives[kind] = new Native(this.module(kind));
    }
    return native;
  }

  private run<T>(
    what: (n: Native, mount: ReturnType<typeof mountOf>, path: string, o: OpenOptions) => T, source: Source, o: OpenOptions,
    kind: Kind = 'plain',
  ): T {
    const operand = operandOf(source, o, this.base());
    return what(this.get(kind), mountOf(operand, this.places), pathOf(operand, o), o);
  }

  open(source: Source, o: OpenOptions = {}): SyncModel {
    return this.run(openModel, source, o);
  }

  check(source: Source, o: OpenOptions = {}): CheckReport {
    return this.run(checkModel, source, o);
  }

  scan(source: Source, o: OpenOptions = {}): ScanReport {
    return this.run(scanModel, source, o, 'scan');
  }

  parts(tensors: TensorsToSave, o: SaveOptions = {}): Uint8Array[] {
    return saveParts(this.get(), tensors, o);
  }

  save(tensors: TensorsToSave, o: SaveOptions = {}): Uint8Array {
    return joinParts(this.parts(tensors, o));
  }

  version(): string {
    const n = this.get();
    return n.text(n.address('version'));
  }
}

export function onlyAsync(what: string): never {
  throw failure('SFT_E_UNSUPPORTED', `${what} needs open(), check() or scan(), which use a worker`);
}
