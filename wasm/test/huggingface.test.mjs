// SPDX-License-Identifier: Apache-2.0 OR MIT
// huggingface.test.mjs - the same header as the parser of @huggingface/hub sees, on valid files.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import * as sft from '@libsafetensors/wasm';
import { FIXTURES, ROOT, read } from './helpers.mjs';

/** What their functions ask of a hub, answered from a table of files. */
function hub(files) {
  return async (url, init = {}) => {
    const path = decodeURIComponent(new URL(url).pathname).split('/resolve/main/')[1];
    const bytes = files.get(path);
    if (bytes === undefined) {
      return new Response('', { status: 404, headers: { 'X-Error-Code': 'EntryNotFound' } });
    }
    const headers = { 'ETag': '"x"', 'Content-Length': String(bytes.length), 'Accept-Ranges': 'bytes' };
    const range = /^bytes=(\d+)-(\d+)$/.exec(new Headers(init.headers).get('Range') ?? '');
    if (range === null) {
      return new Response(init.method === 'HEAD' ? null : bytes, { status: 200, headers });
    }
    const begin = Number(range[1]);
    const end = Math.min(Number(range[2]) + 1, bytes.length);
    return new Response(bytes.subarray(begin, end), { status: 206, headers: {
      ...headers, 'Content-Length': String(end - begin), 'Content-Range': `bytes ${begin}-${end - 1}/${bytes.length}` } });
  };
}

async function theirs(bytes) {
  const { parseSafetensorsMetadata } = await import('@huggingface/hub');
  const { header } = await parseSafetensorsMetadata({
    repo: 'a/b', path: 'model.safetensors', fetch: hub(new Map([['model.safetensors', bytes]])),
  });
  return header;
}

function compare(model, header) {
  const { __metadata__: metadata, ...tensors } = header;
  const base = model.files[0].dataOffset;
  assert.deepEqual(Object.fromEntries(model.metadata), metadata ?? {});
  assert.equal(model.tensors.length, Object.keys(tensors).length);
  for (const x of model.tensors) {
    const { dtype, shape, data_offsets: [begin, end] } = tensors[x.name];
    assert.deepEqual([x.dtype, x.shape, x.offset, x.nbytes], [dtype, shape, base + begin, end - begin], x.name);
  }
}

test('headers as @huggingface/hub reads them', async (t) => {
  const arrays = [new Float32Array(6), new Uint8Array(6), new BigInt64Array(6), new Int16Array(6), new Float64Array(6)];
  const files = Array.from({ length: 200 }, (_, i) => sft.saveSync(
    new Map(Array.from({ length: 1 + i % 7 }, (__, k) => [`layer.${k}.w"\\ é𝄞${i}`, { shape: k % 2 === 0 ? [2, 3] : [6], data: arrays[(i + k) % 5] }])),
    { metadata: i % 3 === 0 ? { i: `${i}`, 'ключ': '値' } : null }));
  for (const folder of ['tests/peers', 'tests/cli', 'tests/checkpoint']) {
    for (const name of readdirSync(join(ROOT, folder), { recursive: true })) {
      if (String(name).endsWith('.safetensors')) {
        files.push(read(ROOT, folder, String(name)));
      }
    }
  }
  let compared = 0;
  for (const bytes of files) {
    if (sft.checkSync(bytes).valid) {
      const model = sft.openSync(bytes);
      compare(model, await theirs(bytes));
      model.close();
      compared++;
    }
  }
  t.diagnostic(`${compared} files are the same`);
  assert.ok(compared >= 200 && FIXTURES !== '');
});
