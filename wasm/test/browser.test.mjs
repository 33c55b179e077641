// SPDX-License-Identifier: Apache-2.0 OR MIT
// browser.test.mjs - the package in headless Chromium: File objects, URLs, workers, and the same verdicts as in Node.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import * as node from '@libsafetensors/wasm';
import { openPage, skip } from './browser.mjs';
import { FIXTURES, PACKAGE, ROOT, read, scratch } from './helpers.mjs';

const BIG = node.saveSync({
  x: { shape: [1 << 10, 1 << 10], data: new Float32Array(1 << 20).map((_, i) => i) },
  h: { dtype: 'F16', shape: [3], data: new Uint16Array([0x3c00, 0xc000, 0x7c00]) },
}, { metadata: { format: 'pt' } });
const INDEX = new TextEncoder().encode(JSON.stringify({ weight_map: { x: 'big.safetensors', h: 'big.safetensors' } }));

test('files that a person chooses', { skip }, async (t) => {
  const { page, errors, elsewhere } = await openPage(t);
  const folder = scratch(t);
  writeFileSync(join(folder, 'big.safetensors'), BIG);
  writeFileSync(join(folder, 'model.safetensors.index.json'), INDEX);
  const choose = async (...paths) => {
    await page.setInputFiles('#files', paths);
    await page.evaluate(() => globalThis.shown);
    return page.textContent('#summary');
  };
  assert.equal(await choose(join(folder, 'big.safetensors')), 'safetensors: 2 tensors, 4,194,310 bytes');
  assert.equal(await choose(join(folder, 'big.safetensors'), join(folder, 'model.safetensors.index.json')),
    'safetensors: 2 tensors, 4,194,310 bytes');
  assert.deepEqual(await page.evaluate(async () => {
    const { data, shape } = await globalThis.model.read('x', { slice: '-1, ::-512' });
    const h = await globalThis.model.read('h', { dtype: 'F32' });
    return [[...data], shape, [...h.data].map(String), [...globalThis.model.metadata]];
  }), [[1048575, 1048063], [2], ['1', '-2', 'Infinity'], [['format', 'pt']]]);
  assert.match(await choose(join(FIXTURES, 'keras.h5')), /^hdf5: /);
  assert.match(await choose(join(FIXTURES, 'types.gguf')), /^gguf: /);
  assert.match(await choose(join(FIXTURES, 'tf-shards.index'), ...[0, 1, 2].map((i) => join(FIXTURES, `tf-shards.data-0000${i}-of-00003`))),
    /safetensors: |tf-bundle: |Error/);
  assert.match(await choose(join(FIXTURES, 'zip.pt')), /^torch-zip: /);
  const picture = join(PACKAGE, 'page.png');
  const png = await page.screenshot({ path: picture });
  assert.deepEqual([png.subarray(1, 4).toString(), png.readUInt32BE(16), png.readUInt32BE(20)], ['PNG', 900, 560]);
  t.diagnostic(`the page: ${picture}`);
  writeFileSync(join(folder, 'bad.safetensors'), BIG.subarray(0, 100));
  assert.match(await choose(join(folder, 'bad.safetensors')), /at byte/);
  assert.deepEqual(errors, []);
  assert.deepEqual(elsewhere, [], 'no request leaves');
});

test('URLs by ranges', { skip }, async (t) => {
  const table = { '/m/big.safetensors': BIG, '/m/model.safetensors.index.json': INDEX, '/short': BIG, '/error': BIG, '/none': BIG, '/shifted': BIG };
  const { page, log } = await openPage(t, (path) => table[path] ?? null,
    { faults: { '/short': 'short', '/error': 'error', '/none': 'no-ranges', '/shifted': 'shifted' } });
  const got = await page.evaluate(async () => {
    const model = await globalThis.sft.open('/m/model.safetensors.index.json');
    const { data } = await model.read('x', { slice: '1000, 1000:1002' });
    const all = await model.read('x');
    const caught = async (url) => globalThis.sft.open(url).then((m) => m.read('x')).then(() => 'no error', (e) => e.message);
    const none = await globalThis.sft.open('/none');
    return [[...data], all.data.length, await caught('/short'), await caught('/error'), await caught('/gone'),
      (await none.read('x', { slice: '0, 5' })).data[0], (await globalThis.sft.check('/m/big.safetensors')).valid,
      await caught('/shifted')];
  });
  assert.deepEqual(got.slice(0, 2), [[1025000, 1025001], 1 << 20]);
  assert.match(got[2], /bytes instead of/);
  assert.match(got[3], /500/);
  assert.match(got[4], /404/);
  assert.deepEqual(got.slice(5, 7), [5, true]);
  assert.match(got[7], /asked was/);
  const ranges = log.filter(([, path]) => path === '/m/big.safetensors');
  assert.ok(ranges.every(([, , range]) => range !== null), 'never the whole file');
});

test('in the page itself', { skip }, async (t) => {
  const { page } = await openPage(t);
  const got = await page.evaluate(async () => {
    const { sft } = globalThis;
    const early = (() => {
      try {
        sft.openSync(new Uint8Array(8));
        return 'no error';
      } catch (e) {
        return e.message;
      }
    })();
    await sft.init();
    const parts = await sft.saveParts({ a: { shape: [2, 2], data: new Float32Array([1, 2, 3, 4]) } }, { metadata: { k: 'v' } });
    const blob = new Blob(parts);
    const model = sft.openSync(await blob.arrayBuffer());
    const row = [...model.read('a', { slice: '1' }).data];
    model.close();
    const again = await sft.open(blob);
    const control = new AbortController();
    const stopped = await sft.open(blob, { signal: control.signal });
    control.abort();
    const why = await stopped.read('a').then(() => '', (e) => e.code);
    return [early, row, again.tensors.name(0), why, (await sft.check(new Uint8Array(3))).error.code,
      (await sft.scan(new TextEncoder().encode('cos\nsystem\n(S\'true\'\ntR.'))).verdict, await sft.version()];
  });
  assert.match(got[0], /init\(\)/);
  assert.deepEqual(got.slice(1, 6), [[3, 4], 'a', 'SFT_E_CANCELLED', 'SFT_E_TOO_SMALL', 'dangerous']);
});

test('bad files: the verdicts of Node', { skip }, async (t) => {
  const files = [];
  for (const folder of readdirSync(join(ROOT, 'fuzz/corpus'))) {
    for (const name of readdirSync(join(ROOT, 'fuzz/corpus', folder))) {
      files.push(join(ROOT, 'fuzz/corpus', folder, name));
    }
  }
  const { page } = await openPage(t, (path) => {
    const i = Number(/^\/bad\/(\d+)$/.exec(path)?.[1] ?? -1);
    return i >= 0 ? read(files[i]) : null;
  });
  const theirs = await page.evaluate(async (count) => {
    const { sft } = globalThis;
    await sft.init({ scan: true });
    const all = [];
    for (let i = 0; i < count; i++) {
      const bytes = new Uint8Array(await (await fetch(`/bad/${i}`)).arrayBuffer());
      all.push(JSON.stringify([sft.checkSync(bytes), sft.scanSync(bytes)]));
    }
    return all;
  }, files.length);
  const different = files.filter((file, i) => {
    const bytes = new Uint8Array(readFileSync(file));
    return JSON.stringify([node.checkSync(bytes), node.scanSync(bytes)]) !== theirs[i];
  });
  t.diagnostic(`${files.length} files, ${different.length} differ`);
  assert.deepEqual(different, []);
});
