// SPDX-License-Identifier: Apache-2.0 OR MIT
// browser-places.ts - what a worker of a page reads: File objects by FileReaderSync, URLs by synchronous XMLHttpRequest.

import { BlockFile, HostError, type FetchRange, type Stat } from './host.js';

declare const FileReaderSync: { new (): { readAsArrayBuffer(blob: Blob): ArrayBuffer } };

export class BlobFile extends BlockFile {
  private readonly reader = new FileReaderSync();

  constructor(protected readonly blob: Blob) {
    super();
  }

  override stat(): Stat {
    return { size: this.blob.size, kind: 'file' };
  }

  protected override fetch(offset: number, size: number): Uint8Array {
    return new Uint8Array(this.reader.readAsArrayBuffer(this.blob.slice(offset, offset + size)));
  }
}

export const range = (headers: { [name: string]: string }): FetchRange => (url, begin, end) => {
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
    range: request.getResponseHeader('Content-Range'),
    version: request.getResponseHeader('ETag') ?? request.getResponseHeader('Last-Modified'),
  };
};
