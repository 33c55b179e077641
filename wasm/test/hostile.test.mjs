// SPDX-License-Identifier: Apache-2.0 OR MIT
// hostile.test.mjs - numbers of 64 bits in an address space of 32, memory that runs out, a module that stops: always
// an error that says so, and what comes after works.

import assert from 'node:assert/strict';
import test from 'node:test';
import * as sft from '@libsafetensors/wasm';
import { Native } from '../dist/esm/native.js';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { TableMount } from '../dist/esm/host.js';
import { openModel } from '../dist/esm/reader.js';
import { fileOf, PACKAGE } from './helpers.mjs';

const code = (wanted) => (e) => e instanceof sft.SafetensorsError && (assert.equal(e.code, wanted, e.message), true);

/** A file of any size that is nowhere: a header, then zeros. */
function sparse(header, size) {
  const head = fileOf(header);
  const file = {
    stat: () => ({ size: head.length + size, kind: 'file' }),
    read: (offset, dst) => {
      const n = Math.min(dst.length, head.length + size - offset);
      dst.fill(0, 0, n);
      if (offset < head.length) {
        dst.set(head.subarray(offset, offset + n));
      }
      return n;
    },
    close: () => undefined,
  };
  const mount = new TableMount();
  mount.add('sparse', file);
  return mount;
}

const module = new WebAssembly.Module(readFileSync(join(PACKAGE, 'dist/safetensors.wasm')));

test('tensors beyond 4 GiB', () => {
  const native = new Native(module);
  const elements = 3 * 2 ** 40;
  const header = JSON.stringify({ a: { dtype: 'F32', shape: [2 ** 20, 3 * 2 ** 20], data_offsets: [0, 4 * elements] } });
  const model = openModel(native, sparse(header, 4 * elements), 'sparse', {});
  assert.equal(model.tensors.nbytes[0], 12 * 2 ** 40);
  assert.equal(model.tensors.elements[0], elements);
  assert.deepEqual(model.read('a', { slice: '-1, -2:' }).data, new Float32Array(2));
  assert.equal(model.read('a', { slice: '::-262144, ::1048576' }).data.length, 12);
  assert.throws(() => model.read('a'), code('SFT_E_NOMEM'));
  assert.throws(() => model.read('a', { dtype: 'F64' }), code('SFT_E_NOMEM'));
  model.close();
});

test('more than one chunk', () => {
  const native = new Native(module);
  const n = 3 * 2 ** 20 * 4;
  const header = JSON.stringify({ a: { dtype: 'U8', shape: [4, 3 * 2 ** 20], data_offsets: [0, n] } });
  const bytes = new Uint8Array(fileOf(header, n));
  const begin = bytes.length - n;
  const mount = new TableMount();
  mount.add('m', { stat: () => ({ size: bytes.length, kind: 'file' }), close: () => undefined,
    read: (at, dst) => { const part = bytes.subarray(at, at + dst.length); dst.set(part); return part.length; } });
  const model = openModel(native, mount, 'm', {});
  const all = model.read('a', { dtype: 'F32' }).data;
  assert.equal(all.length, n);
  assert.ok(all.every((x, i) => x === bytes[begin + i]));
  const turned = model.read('a', { slice: '::-1, ::-1', dtype: 'F64' }).data;
  assert.ok(turned.every((x, i) => x === bytes[begin + n - 1 - i]));
  model.close();
});

test('headers that lie about their length', () => {
  for (const length of [2n ** 31n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n + 1n, 2n ** 63n, 2n ** 64n - 1n]) {
    const bytes = new Uint8Array(64);
    new DataView(bytes.buffer).setBigUint64(0, length, true);
    const report = sft.checkSync(bytes, { maxHeaderBytes: 2 ** 32 - 1 });
    assert.equal(report.valid, false);
    // 2^31 is how an LZMA file begins, which is said
    assert.ok(['SFT_E_HEADER_PAST_END', 'SFT_E_HEADER_TOO_LARGE', 'SFT_E_FORMAT'].includes(report.error.code), report.error.code);
  }
});

test('shapes and offsets of 64 bits', () => {
  const max = '18446744073709551615';
  const cases = {
    SFT_E_OVERFLOW: `{"a":{"dtype":"F32","shape":[${max},${max}],"data_offsets":[0,4]}}`,
    SFT_E_COVERAGE: `{"a":{"dtype":"U8","shape":[4294967296],"data_offsets":[0,4294967296]}}`,
  };
  for (const [wanted, header] of Object.entries(cases)) {
    const { error } = sft.checkSync(fileOf(header));
    assert.equal(error.code, wanted, error.reason);
  }
  const model = sft.openSync(fileOf(`{"a":{"dtype":"U8","shape":[0,${max}],"data_offsets":[0,0]}}`));
  assert.deepEqual(model.tensors.exactShape(0), new BigUint64Array([0n, 2n ** 64n - 1n]));
  assert.equal(model.tensors.elements[0], 0);
  assert.equal(model.read('a').data.length, 0);
  model.close();
});

test('memory that runs out is an error, and the module goes on', () => {
  const native = new Native(module);
  const size = 3.9 * 2 ** 30;
  const mount = sparse('x'.repeat(100), size); // no JSON; the length is set beyond what can be had
  mount.add('huge', { ...mount.open('sparse'), read: (at, dst) => {
    dst.fill(0x20);
    if (at === 0) {
      new DataView(dst.buffer, dst.byteOffset).setBigUint64(0, BigInt(Math.floor(size) - 8), true);
    }
    return dst.length;
  }, stat: () => ({ size: Math.floor(size), kind: 'file' }) });
  assert.throws(() => openModel(native, mount, 'huge', { maxHeaderBytes: 2 ** 32 - 1 }),
    (e) => (assert.ok(['SFT_E_NOMEM', 'SFT_E_LIMIT', 'SFT_E_JSON'].includes(e.code), e.message), true));
  assert.ok(native.alive);
  const small = sparse('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', 4);
  assert.equal(openModel(native, small, 'sparse', {}).read('a').data.length, 4);
});

test('what a host throws reaches the caller, and the module goes on', () => {
  const native = new Native(module);
  const mount = new TableMount();
  let fail = false;
  const bytes = fileOf('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', 4);
  mount.add('x', { stat: () => ({ size: bytes.length, kind: 'file' }), close: () => undefined, read: (at, dst) => {
    if (fail) {
      throw new Error('the cable was pulled');
    }
    const part = bytes.subarray(at, at + dst.length);
    dst.set(part);
    return part.length;
  } });
  const model = openModel(native, mount, 'x', {});
  fail = true;
  assert.throws(() => model.read('a', { slice: '1:' }), /the cable was pulled/);
  assert.throws(() => model.read('a'), /the cable was pulled/);
  fail = false;
  assert.deepEqual(model.read('a').data, new Uint8Array([0, 1, 2, 3]));
});

test('a module that stops says so ever after', () => {
  const native = new Native(module);
  const model = openModel(native, sparse('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}', 4), 'sparse', {});
  assert.throws(() => native.call('tensor', 0xfffffff0, 0), code('TRAP'));
  assert.equal(native.alive, false);
  assert.throws(() => model.read('a'), code('TRAP'));
  assert.throws(() => model.tensors, code('TRAP'));
  model.close();
});

test('names that want to be something else', () => {
  const names = ['__proto__', 'constructor', 'toString', 'a\u0000b', '\ufeffbom', '\u202e', '', 'x'.repeat(100000), '<script>'];
  const tensors = new Map(names.map((name) => [name, { shape: [1], data: new Uint8Array([name.length & 255]) }]));
  const bytes = sft.saveSync(tensors, { metadata: new Map([['__proto__', 'x'], ['\ufeff', '\u0000']]) });
  const model = sft.openSync(bytes);
  for (const name of names) {
    assert.equal(model.tensors.find(name).name, name);
    assert.equal(model.read(name).data[0], name.length & 255);
  }
  assert.deepEqual([...model.metadata.keys()].sort(), ['__proto__', '\ufeff']);
  model.close();
});

test('a hundred thousand metadata keys and tensors', () => {
  const metadata = new Map(Array.from({ length: 100000 }, (_, i) => [`key.${i}`, `${i}`]));
  const tensors = new Map(Array.from({ length: 100000 }, (_, i) => [`t.${i}`, { shape: [0], data: new Uint8Array(0) }]));
  const model = sft.openSync(sft.saveSync(tensors, { metadata }));
  assert.equal(model.metadata.size, 100000);
  assert.equal(model.metadata.get('key.99999'), '99999');
  assert.equal(model.tensors.length, 100000);
  assert.ok(model.tensors.indexOf('t.99999') >= 0);
  model.close();
});
