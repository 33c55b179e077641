// SPDX-License-Identifier: Apache-2.0 OR MIT
// alone.ts - a tensor of safetensors files, as a file of its own: its statistics need nothing else of the model.

import { plainPath } from 'wasm/host.js';
import type { ModelData } from '../data.js';

/** By the number of the file; undefined: one of the model's is not there. folder: what paths of the model's files begin with. */
export function filesOf(data: ModelData, folder: string, files: [string, Blob][]): { path: string; blob: Blob }[] | undefined {
  const known = new Map(files.map(([name, blob]) => [plainPath(name), blob]));
  const found = data.summary.files.map(({ name }) => ({ path: folder + name, blob: known.get(plainPath(folder + name)) }));
  return found.every((one): one is { path: string; blob: Blob } => one.blob !== undefined) ? found : undefined;
}

/** Nothing is read or copied: a browser makes such a file of parts of others. */
export function alone(data: ModelData, i: number, file: Blob): Blob {
  const { dtype, shape, bytes } = data.kind(i);
  const { offset } = data.place(i);
  const text = `{${JSON.stringify(data.name(i))}:{"dtype":${JSON.stringify(data.summary.dtypes[dtype].name)},"shape":[${shape.join()}],"data_offsets":[0,${bytes}]}}`;
  const header = new TextEncoder().encode(text);
  const length = new Uint8Array(8);
  new DataView(length.buffer).setUint32(0, header.length, true);
  return new Blob([length, header, file.slice(offset, offset + bytes)]);
}
