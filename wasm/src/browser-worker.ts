// SPDX-License-Identifier: Apache-2.0 OR MIT
// browser-worker.ts - a worker of a page.

import { BlobFile, range } from './browser-places.js';
import { HostError } from './host.js';
import { makeServer, type Request } from './serve.js';

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<Request>) => void;
  postMessage(message: unknown, transfer: Transferable[]): void;
};

const serve = makeServer({
  blob: (blob) => new BlobFile(blob),
  range,
  path: () => { throw new HostError('ENOTSUP', 'there are no paths in a browser'); },
}, (reply, transfer) => scope.postMessage(reply, transfer));

scope.onmessage = (event) => serve(event.data);
