// SPDX-License-Identifier: Apache-2.0 OR MIT
// browser-worker.ts - a worker of a page: File objects by FileReaderSync, URLs by synchronous XMLHttpRequest.

import { BlockFile, HostError, type FetchRange, type Stat } from './host.js';
import { makeServer, type Request } from './serve.js';

declare const FileReaderSync: { new (): { readAsArrayBuffer(blob: Blob): ArrayBuffer } };
const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<Request>) => void;
  postMessage(message: unknown, transfer: Transferable[]): void;
};

class BlobFile extends BlockFile {
  private readonly reader = new FileReaderSync();

  constructor(private readonly blob: Blob) {
    super();
  }

  override stat(): Stat {
    return { size: this.blob.size, kind: 'file' };
  }

  protected override fetch(offset: number, size: number): Uint8Array {
    return new Uint8Array(this.reader.readAsArrayBuffer(this.blob.slice(offset, offset + size)));
  }
}

function totalOf(request: XMLHttpRequest): number | null {
  const total = /^bytes (?:\d+-\d+|\*)\/(\d+)$/.exec(request.getResponseHeader('Content-Range') ?? '')?.[1];
  return total === undefined ? null : Number(total);
}

const range = (headers: { [name: string]: string }): FetchRange => (url, begin, end) => {
  const request = new XMLHttpRequest();
  request.open('GET', url, false);
  request.responseType = 'arraybuffer';
  for (const [name, value] of Object.entries(headers)) {
    request.setRequestHeader(name, value);
  }
  request.setRequestHeader('Range', `bytes=${begin}-${end - 1}`);
  try {
    request.send();
  } catch (e) {
    throw new HostError('EIO', `cannot fetch ${url}`, e);
  }
  return {
    status: request.status,
    body: new Uint8Array((request.response as ArrayBuffer | null) ?? new ArrayBuffer(0)),
    total: totalOf(request),
    version: request.getResponseHeader('ETag') ?? request.getResponseHeader('Last-Modified'),
  };
};

const serve = makeServer({
  blob: (blob) => new BlobFile(blob),
  range,
  path: () => { throw new HostError('ENOTSUP', 'there are no paths in a browser'); },
}, (reply, transfer) => scope.postMessage(reply, transfer));

scope.onmessage = (event) => serve(event.data);
