// SPDX-License-Identifier: Apache-2.0 OR MIT
// browser.ts - the package in a page. Models are opened in workers of their own; what is in memory can be opened
// here, after init().

import { askIn, openIn, type Given, type Model, type StartWorker } from './client.js';
import { failure } from './error.js';
import { here } from './locate.js';
import { operandOf } from './operand.js';
import type { SyncModel } from './reader.js';
import type { Reply } from './serve.js';
import { Here, onlyAsync, type Kind } from './sync.js';
import type {
  CheckReport, OpenOptions, RemoteOptions, SaveOptions, ScanReport, Source, TensorsToSave,
} from './types.js';

export { SafetensorsError } from './error.js';
export { TensorList, type Columns } from './list.js';
export { Model } from './client.js';
export { SyncModel } from './reader.js';
export type * from './types.js';

export interface Setup {
  /** The module: its URL, its bytes or compiled; default: safetensors.wasm of this package. */
  wasm?: string | URL | BufferSource | WebAssembly.Module;
  /** The one for scan(), which is fetched when that is called first; default: safetensors-scan.wasm. */
  scanWasm?: string | URL | BufferSource | WebAssembly.Module;
  /** Makes a worker that runs "@libsafetensors/wasm/worker"; default: browser-worker.js beside this file. */
  worker?: () => Worker;
}

let setup: Setup = {};
let loading: { [kind in Kind]?: Promise<WebAssembly.Module> } = {};
let loaded: { [kind in Kind]?: WebAssembly.Module } = {};

/** Where the parts lie, if not beside this file: before the first call of anything else. */
export function configure(parts: Setup): void {
  setup = parts;
  loading = {};
  loaded = {};
}

async function compile(kind: Kind): Promise<WebAssembly.Module> {
  const wasm: unknown = kind === 'scan' ? setup.scanWasm : setup.wasm;
  if (wasm instanceof WebAssembly.Module) {
    return wasm;
  }
  if (wasm instanceof ArrayBuffer || ArrayBuffer.isView(wasm)) {
    return WebAssembly.compile(wasm as BufferSource);
  }
  // with the names written out, so that bundlers see them
  const beside = kind === 'scan' ? new URL('../safetensors-scan.wasm', import.meta.url)
    : new URL('../safetensors.wasm', import.meta.url);
  const reply = await fetch((wasm as string | URL | undefined) ?? beside);
  if (!reply.ok) {
    throw failure('SFT_E_IO', `cannot load the WebAssembly module: the server answered ${reply.status}`);
  }
  // not compileStreaming: it insists on a MIME type that not every server knows
  return WebAssembly.compile(await reply.arrayBuffer());
}

async function load(kind: Kind): Promise<WebAssembly.Module> {
  const module = await (loading[kind] ??= compile(kind).catch((e) => {
    delete loading[kind]; // to be tried again
    throw e;
  }));
  return loaded[kind] = module;
}

/** Loads the module for the functions that end in Sync; { scan: true }: for scanSync, too. The others do so by themselves. */
export async function init(what: { scan?: boolean } = {}): Promise<void> {
  await Promise.all([load('plain'), what.scan === true ? load('scan') : undefined]);
}

const startWorker: StartWorker = (onReply, onEnd) => {
  const worker = setup.worker?.() ?? new Worker(new URL('./browser-worker.js', import.meta.url), { type: 'module' });
  worker.onmessage = (event: MessageEvent<Reply>) => onReply(event.data);
  worker.onerror = (event) => onEnd(failure('SFT_E_INTERNAL', `the worker failed: ${event.message ?? 'it cannot be loaded'}`));
  return { post: (request) => worker.postMessage(request), busy: () => undefined, end: () => worker.terminate() };
};

async function given(source: Source, options: OpenOptions & RemoteOptions, kind: Kind = 'plain'): Promise<Given> {
  const operand = operandOf(source, options, new URL(globalThis.document?.baseURI ?? globalThis.location?.href ?? here).href);
  return { operand, options, module: await load(kind) };
}

/** Opens a model: of bytes, a File, the files of a model, or a URL. */
export async function open(source: Source, options: OpenOptions & RemoteOptions = {}): Promise<Model> {
  return openIn(startWorker, await given(source, options));
}

/** Is it what it says it is? If not: which byte, which tensor, and why. */
export async function check(source: Source, options: OpenOptions & RemoteOptions = {}): Promise<CheckReport> {
  return askIn(startWorker, await given(source, options), 'check');
}

/** Would loading it run code? Nothing of the file is executed. */
export async function scan(source: Source, options: OpenOptions & RemoteOptions = {}): Promise<ScanReport> {
  return askIn(startWorker, await given(source, options, 'scan'), 'scan');
}

const local = new Here(
  (kind) => loaded[kind] ?? onlyAsync(`a program that has not called init(${kind === 'scan' ? '{ scan: true }' : ''}) yet`),
  {
    blob: () => onlyAsync('a Blob'),
    range: () => onlyAsync('a URL'),
    path: () => onlyAsync('a path'),
  },
  () => globalThis.location?.href ?? here,
);

/** Bytes in memory, opened in this thread. Call init() before. */
export const openSync = (source: Source, options?: OpenOptions): SyncModel => local.open(source, options);
export const checkSync = (source: Source, options?: OpenOptions): CheckReport => local.check(source, options);
export const scanSync = (source: Source, options?: OpenOptions): ScanReport => local.scan(source, options);

/** A safetensors file. */
export async function save(tensors: TensorsToSave, options?: SaveOptions): Promise<Uint8Array> {
  await init();
  return local.save(tensors, options);
}

/** The same as its parts, of which only the first is new: for new Blob(parts). */
export async function saveParts(tensors: TensorsToSave, options?: SaveOptions): Promise<Uint8Array[]> {
  await init();
  return local.parts(tensors, options);
}

export const saveSync = (tensors: TensorsToSave, options?: SaveOptions): Uint8Array => local.save(tensors, options);

/** Version of the library in the module. */
export async function version(): Promise<string> {
  await init();
  return local.version();
}
