// SPDX-License-Identifier: Apache-2.0 OR MIT
// node-worker.ts - a worker of Node: files by fs, URLs by fetch in the thread that started it, which this one
// waits for.

import { parentPort, receiveMessageOnPort, workerData, type MessagePort } from 'node:worker_threads';
import { HostError, type FetchRange, type RangeReply } from './host.js';
import { nodeMount } from './node-places.js';
import { makeServer, type Request } from './serve.js';

const { port, bell } = workerData as { port: MessagePort; bell: Int32Array };

const range = (headers: { [name: string]: string }): FetchRange => (url, begin, end) => {
  Atomics.store(bell, 0, 0);
  port.postMessage({ url, begin, end, headers });
  Atomics.wait(bell, 0, 0);
  const reply = receiveMessageOnPort(port)?.message as RangeReply | { failed: string };
  if ('failed' in reply) {
    throw new HostError('EIO', `cannot fetch ${url}: ${reply.failed}`);
  }
  return reply;
};

const serve = makeServer({
  blob: () => { throw new HostError('ENOTSUP', 'a Blob comes as its bytes'); },
  range,
  path: () => nodeMount,
}, (reply, transfer) => parentPort!.postMessage(reply, transfer));

parentPort!.on('message', (request: Request) => serve(request));
