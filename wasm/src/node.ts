// SPDX-License-Identifier: Apache-2.0 OR MIT
// node.ts - the package in Node: paths, URLs, bytes. Functions that end in Sync work in this thread and need no
// init(); the others use workers.

import * as fs from 'node:fs';
import { MessageChannel, Worker } from 'node:worker_threads';
import { askIn, openIn, type Given, type Model, type StartWorker } from './client.js';
import { failure } from './error.js';
import type { RangeReply } from './host.js';
import { here } from './locate.js';
import { nodeMount } from './node-places.js';
import { operandOf, type Operand } from './operand.js';
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

const compiled: { [kind in Kind]?: WebAssembly.Module } = {};

function wasm(kind: Kind): WebAssembly.Module {
  const name = kind === 'scan' ? '../safetensors-scan.wasm' : '../safetensors.wasm';
  return compiled[kind] ??= new WebAssembly.Module(fs.readFileSync(new URL(name, here)));
}

/** The same names as in a browser. Nothing needs it here. */
export async function init(): Promise<void> {
  wasm('plain');
}

/** A body that is longer came from a server without ranges: it is not fetched whole. */
const WHOLE_MAX = 2 ** 30;

interface Wanted {
  url: string;
  begin: number;
  end: number;
  headers: { [name: string]: string };
}

async function fetchRange(w: Wanted): Promise<RangeReply> {
  const reply = await fetch(w.url, { headers: { ...w.headers, 'Range': `bytes=${w.begin}-${w.end - 1}`, 'Accept-Encoding': 'identity' } });
  const most = reply.status === 206 ? w.end - w.begin : WHOLE_MAX;
  if (Number(reply.headers.get('Content-Length') ?? 0) > most) {
    await reply.body?.cancel();
    throw new Error('the server does not know ranges, and the file is large');
  }
  return {
    status: reply.status,
    body: new Uint8Array(await reply.arrayBuffer()),
    range: reply.headers.get('Content-Range'),
    version: reply.headers.get('ETag') ?? reply.headers.get('Last-Modified'),
  };
}

const startWorker: StartWorker = (onReply, onEnd) => {
  const { port1, port2 } = new MessageChannel();
  const bell = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL('./node-worker.js', here), { workerData: { port: port2, bell }, transferList: [port2] });
  port1.on('message', (wanted: Wanted) => {
    const answer = (reply: RangeReply | { failed: string }, transfer: ArrayBuffer[]): void => {
      port1.postMessage(reply, transfer);
      Atomics.store(bell, 0, 1);
      Atomics.notify(bell, 0);
    };
    fetchRange(wanted).then(
      (reply) => answer(reply, [reply.body.buffer as ArrayBuffer]),
      (e: Error) => answer({ failed: e.cause instanceof Error ? e.cause.message : e.message }, []),
    );
  });
  port1.unref();
  worker.unref();
  worker.on('message', (reply: Reply) => onReply(reply));
  worker.on('error', (e) => onEnd(failure('SFT_E_INTERNAL', 'the worker failed', e)));
  worker.on('exit', () => onEnd(failure('SFT_E_STATE', 'the worker has ended')));
  return {
    post: (request) => worker.postMessage(request),
    busy: (is) => { if (is) { worker.ref(); } else { worker.unref(); } },
    end: () => {
      port1.close();
      void worker.terminate();
    },
  };
};

/** Blobs as their bytes: a worker of Node cannot read one at once. */
async function readBlobs(operand: Operand): Promise<Operand> {
  if (operand.kind !== 'table') {
    return operand;
  }
  const files = await Promise.all(operand.files.map(async ([name, c]): Promise<[string, Uint8Array]> =>
    [name, c instanceof Uint8Array ? c : new Uint8Array(await c.arrayBuffer())]));
  return { kind: 'table', files };
}

async function given(source: Source, options: OpenOptions & RemoteOptions, kind: Kind = 'plain'): Promise<Given> {
  return { operand: await readBlobs(operandOf(source, options, null)), options, module: wasm(kind) };
}

/** Opens a model: of a path, a URL, bytes, or files by name. */
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
  wasm,
  { blob: () => onlyAsync('a Blob'), range: () => onlyAsync('a URL'), path: () => nodeMount },
  () => null,
);

/** A path, bytes, or files by name, opened in this thread. */
export const openSync = (source: Source, options?: OpenOptions): SyncModel => local.open(source, options);
export const checkSync = (source: Source, options?: OpenOptions): CheckReport => local.check(source, options);
export const scanSync = (source: Source, options?: OpenOptions): ScanReport => local.scan(source, options);
/** A safetensors file. */
export const saveSync = (tensors: TensorsToSave, options?: SaveOptions): Uint8Array => local.save(tensors, options);
export const save = async (tensors: TensorsToSave, options?: SaveOptions): Promise<Uint8Array> => local.save(tensors, options);
/** The same as its parts, of which only the first is new: for new Blob(parts), or to be written one by one. */
export const saveParts = async (tensors: TensorsToSave, options?: SaveOptions): Promise<Uint8Array[]> =>
  local.parts(tensors, options);
/** Version of the library in the module. */
export const version = async (): Promise<string> => local.version();
