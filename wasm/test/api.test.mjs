// SPDX-License-Identifier: Apache-2.0 OR MIT
// api.test.mjs - every function of the package, in Node.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import * as sft from '@libsafetensors/wasm';
import { FIXTURES, fileOf, read, scratch, serve } from './helpers.mjs';

const THREE = {
  b: { shape: [2, 3], data: new Float32Array([1, 2, 3, 4, 5, 6]) },
  a: { dtype: 'BF16', shape: [2], data: new Uint16Array([0x3f80, 0xc000]) },
  'ä/𝄞': { dtype: 'I64', shape: [], data: new BigInt64Array([-7n]) },
};

const thrown = (code, pattern) => (e) => {
  assert.ok(e instanceof sft.SafetensorsError, String(e));
  assert.equal(e.code, code, e.message);
  assert.match(e.message, pattern);
  return true;
};

test('save, open and read bytes', async (t) => {
  const bytes = sft.saveSync(THREE, { metadata: { z: '1', a: 'é' } });
  assert.deepEqual(await sft.save(THREE, { metadata: new Map([['z', '1'], ['a', 'é']]) }), bytes);
  const parts = await sft.saveParts(THREE, { metadata: { z: '1', a: 'é' } });
  assert.deepEqual(new Uint8Array(await new Blob(parts).arrayBuffer()), bytes);
  assert.equal(parts[2].buffer, THREE.b.data.buffer, 'the bytes of a tensor are not copied');

  for (const model of [sft.openSync(bytes), await sft.open(bytes), await sft.open(new Blob([bytes]))]) {
    t.after(() => model.close());
    assert.equal(model.format, 'safetensors');
    assert.deepEqual(model.metadata, new Map([['a', 'é'], ['z', '1']]));
    assert.equal(model.tensors.length, 3);
    assert.deepEqual([...model.tensors].map((x) => [x.name, x.dtype, x.shape, x.nbytes, x.elements, x.file]), [
      ['ä/𝄞', 'I64', [], 8, 1, 0], ['b', 'F32', [2, 3], 24, 6, 0], ['a', 'BF16', [2], 4, 2, 0]]);
    const header = model.files[0].headerBytes;
    assert.deepEqual([...model.tensors.offsets], [8 + header, 16 + header, 40 + header]);
    assert.equal(model.tensors.indexOf('b'), 1);
    assert.equal(model.tensors.indexOf('c'), -1);
    assert.equal(model.tensors.find('c'), undefined);
    assert.deepEqual((await model.read('b')).data, THREE.b.data);
    assert.deepEqual(await model.read('a', { dtype: 'F32' }),
      { name: 'a', dtype: 'F32', shape: [2], data: new Float32Array([1, -2]) });
    assert.deepEqual((await model.read('ä/𝄞')).data, new BigInt64Array([-7n]));
    assert.deepEqual(await model.read(1, { slice: '::-1, 1:' }),
      { name: 'b', dtype: 'F32', shape: [2, 2], data: new Float32Array([5, 6, 2, 3]) });
    assert.deepEqual((await model.read('b', { slice: [[null, null, -1], [1, null]] })).data, new Float32Array([5, 6, 2, 3]));
    assert.deepEqual(await model.read('b', { slice: ['...', -1], dtype: 'I8' }),
      { name: 'b', dtype: 'I8', shape: [2], data: new Int8Array([3, 6]) });
    assert.deepEqual((await model.read('b', { slice: [null, 0] })).shape, [2]);
  }
});

test('many at once', async (t) => {
  const model = await sft.open(sft.saveSync(THREE));
  t.after(() => model.close());
  const [x, y] = await model.readMany(['a', 'b'], { dtype: 'F64' });
  assert.deepEqual([...x.data], [1, -2]);
  assert.deepEqual([...y.data], [1, 2, 3, 4, 5, 6]);
  assert.equal(model.metadata.size, 0);
  assert.equal(model.files[0].metadata, null);
});

test('what is wrong has a place', async () => {
  const broken = fileOf('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}', 4);
  const report = sft.checkSync(broken);
  assert.equal(report.valid, false);
  assert.equal(report.error.code, 'SFT_E_SIZE');
  assert.equal(report.error.tensor, 'a');
  assert.equal(typeof report.error.offset, 'number');
  assert.deepEqual(await sft.check(broken), report);
  assert.throws(() => sft.openSync(broken), thrown('SFT_E_SIZE', /at byte \d+: tensor "a": /));
  await assert.rejects(sft.open(broken), thrown('SFT_E_SIZE', /tensor "a"/));
  assert.deepEqual(sft.checkSync(sft.saveSync(THREE)),
    { valid: true, error: null, format: 'safetensors', tensors: 3, problems: [] });
  const strict = fileOf('{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}', 1);
  assert.equal(sft.checkSync(strict, { strict: true }).valid, false);
});

test('mistakes of the caller', async (t) => {
  const model = sft.openSync(sft.saveSync(THREE));
  assert.throws(() => model.read('nobody'), thrown('SFT_E_NOT_FOUND', /nobody/));
  assert.throws(() => model.read(3), thrown('SFT_E_NOT_FOUND', /3/));
  assert.throws(() => model.read(-1), thrown('SFT_E_NOT_FOUND', /-1/));
  assert.throws(() => model.read('b', { slice: '5' }), thrown('SFT_E_RANGE', /5/));
  assert.throws(() => model.read('b', { slice: '1:2:0' }), thrown('SFT_E_ARG', /step/));
  assert.throws(() => model.read('b', { slice: [0.5] }), thrown('SFT_E_ARG', /0.5/));
  assert.throws(() => model.read('b', { slice: '0,0,0' }), thrown('SFT_E_ARG', /./));
  assert.throws(() => model.read('b', { dtype: 'float32' }), thrown('SFT_E_DTYPE', /float32/));
  assert.throws(() => model.tensors.at(3), RangeError);
  model.close();
  model.close();
  assert.throws(() => model.read('b'), thrown('SFT_E_STATE', /closed/));
  assert.throws(() => sft.openSync('/nowhere/at/all'), thrown('SFT_E_IO', /no such file/));
  assert.throws(() => sft.openSync('http://127.0.0.1/x'), thrown('SFT_E_UNSUPPORTED', /open\(\)/));
  assert.throws(() => sft.openSync(7), thrown('SFT_E_ARG', /nothing that can be opened/));
  assert.throws(() => sft.openSync(new Uint8Array(9), { maxHeaderBytes: -1 }), thrown('SFT_E_ARG', /maxHeaderBytes/));
  const away = await sft.open(sft.saveSync(THREE));
  away.close();
  await assert.rejects(away.read('b'), thrown('SFT_E_STATE', /closed/));
  await assert.rejects(sft.open(sft.saveSync(THREE), { signal: AbortSignal.abort() }), thrown('SFT_E_CANCELLED', /./));
  const control = new AbortController();
  const stopped = await sft.open(sft.saveSync(THREE), { signal: control.signal });
  control.abort();
  await assert.rejects(stopped.read('b'), thrown('SFT_E_CANCELLED', /./));

  const save = (tensors, options) => () => sft.saveSync(tensors, options);
  assert.throws(save({ a: { shape: [3], data: new Float32Array(2) } }), thrown('SFT_E_ARG', /./));
  assert.throws(save({ a: { shape: [1.5], data: new Float32Array(2) } }), thrown('SFT_E_SHAPE', /1.5/));
  assert.throws(save({ '\ud800': { shape: [2], data: new Float32Array(2) } }), thrown('SFT_E_ARG', /surrogate/));
  assert.throws(save({ a: { shape: [2], data: new DataView(new ArrayBuffer(2)) } }), thrown('SFT_E_ARG', /dtype/));
  assert.throws(save({ __metadata__: { shape: [1], data: new Float32Array(1) } }), thrown('SFT_E_ARG', /__metadata__/));
  assert.throws(save({}, { alignment: 7 }), thrown('SFT_E_ARG', /./));
});

test('saved as the reference saves', () => {
  assert.equal(new TextDecoder().decode(sft.saveSync({}).subarray(8)).trim(), '{}');
  assert.match(new TextDecoder().decode(sft.saveSync({}, { metadata: {} })), /"__metadata__":\{\}/);
  const aligned = sft.openSync(sft.saveSync(THREE, { alignment: 4096, declaredOrder: true }));
  assert.equal(aligned.files[0].dataOffset, 4096);
  assert.deepEqual([...aligned.tensors].map((x) => x.name), ['b', 'a', 'ä/𝄞']);
  aligned.close();
});

test('paths, a directory of shards, an index, links', async (t) => {
  const folder = scratch(t);
  const one = sft.saveSync({ x: { shape: [2], data: new Uint8Array([1, 2]) } });
  const two = sft.saveSync({ y: { shape: [2], data: new Uint8Array([3, 4]) } });
  const index = { metadata: { total_size: 4 }, weight_map: { x: 'one.safetensors', y: 'two.safetensors' } };
  writeFileSync(join(folder, 'one.safetensors'), one);
  writeFileSync(join(folder, 'two.safetensors'), two);
  const files = { 'one.safetensors': one, 'two.safetensors': new Blob([two]) };
  const text = new TextEncoder().encode(JSON.stringify(index));
  const models = [sft.openSync(folder), await sft.open(folder), await sft.open(files),
    await sft.open({ ...files, 'model.safetensors.index.json': text }),
    await sft.open(Object.entries(files).map(([name, x]) => new File([x], name)))];
  writeFileSync(join(folder, 'model.safetensors.index.json'), text);
  models.push(sft.openSync(join(folder, 'model.safetensors.index.json')), sft.openSync(folder),
    sft.openSync(folder, { path: 'model.safetensors.index.json' }));
  for (const model of models) {
    assert.deepEqual([...model.tensors].map((x) => [x.name, x.file]), [['x', 0], ['y', 1]]);
    assert.deepEqual((await model.read('y')).data, new Uint8Array([3, 4]));
    model.close();
  }
  await assert.rejects(sft.open({ 'one.safetensors': one, 'm.index.json': text }), thrown('SFT_E_SHARD_MISSING', /two/));
  const report = await sft.check({ 'one.safetensors': one, 'm.index.json': text });
  assert.ok(report.problems.some((p) => p.kind === 'missing_file'), JSON.stringify(report));

  const outside = join(folder, 'outside');
  mkdirSync(join(folder, 'inner'));
  mkdirSync(outside);
  writeFileSync(join(outside, 'two.safetensors'), two);
  cpSync(join(folder, 'one.safetensors'), join(folder, 'inner/one.safetensors'));
  symlinkSync(join(outside, 'two.safetensors'), join(folder, 'inner/two.safetensors'));
  writeFileSync(join(folder, 'inner/model.safetensors.index.json'), text);
  assert.throws(() => sft.openSync(join(folder, 'inner')), thrown('SFT_E_PATH', /leads out/));
  const up = { weight_map: { x: '../one.safetensors' } };
  await assert.rejects(sft.open({ 'm.safetensors.index.json': new TextEncoder().encode(JSON.stringify(up)) }),
    thrown('SFT_E_PATH', /./));
});

test('URLs by ranges', async (t) => {
  const big = sft.saveSync({ x: { shape: [1 << 20], data: new Float32Array(1 << 20).map((_, i) => i) } });
  const index = new TextEncoder().encode(JSON.stringify({ weight_map: { x: 'a b.safetensors' } }));
  const table = {
    '/m/a b.safetensors': big, '/m/model.safetensors.index.json': index, '/m/zip.pt': read(FIXTURES, 'zip.pt'),
    '/none': big, '/short': big, '/error': big, '/changing': big, '/shifted': big, '/unsaid': big, '/refused': big,
  };
  const { base, log } = await serve(t, (path) => table[path] ?? null,
    { faults: { '/none': 'no-ranges', '/short': 'short', '/error': 'error', '/changing': 'changing', '/shifted': 'shifted', '/unsaid': 'unsaid', '/refused': 'refused' } });
  const model = await sft.open(`${base}/m/a%20b.safetensors`, { headers: { Authorization: 'Bearer x' } });
  assert.deepEqual((await model.read('x', { slice: '1000000:1000002' })).data, new Float32Array([1e6, 1e6 + 1]));
  model.close();
  assert.ok(log.every(([, , range, auth]) => range !== null && auth === 'Bearer x'), JSON.stringify(log));
  assert.ok(log.length <= 3, 'few requests for the header and one block');
  const sharded = await sft.open(new URL(`${base}/m/`));
  assert.equal((await sharded.read('x', { slice: '5' })).data[0], 5);
  sharded.close();
  const torch = await sft.open(`${base}/m/zip.pt`);
  assert.equal(torch.format, 'torch-zip');
  torch.close();
  const whole = await sft.open(`${base}/none`);
  assert.equal((await whole.read('x', { slice: '7' })).data[0], 7);
  whole.close();
  await assert.rejects(sft.open(`${base}/refused`), thrown('SFT_E_IO', /416/));
  await assert.rejects(sft.open(`${base}/nothing`), thrown('SFT_E_IO', /404/));
  await assert.rejects(sft.open(`${base}/error`), thrown('SFT_E_IO', /500/));
  const short = await sft.open(`${base}/short`);
  await assert.rejects(short.read('x'), thrown('SFT_E_IO', /bytes instead of/));
  short.close();
  const changing = await sft.open(`${base}/changing`);
  await assert.rejects(changing.read('x'), thrown('SFT_E_IO', /changed/));
  changing.close();
  for (const [fault, message] of [['shifted', /sent bytes \d+-\d+, asked was \d+-\d+/], ['unsaid', /does not tell which bytes/]]) {
    const other = await sft.open(`${base}/${fault}`);
    await assert.rejects(other.read('x'), thrown('SFT_E_IO', message));
    other.close();
  }
  await assert.rejects(sft.open('http://127.0.0.1:9/x'), thrown('SFT_E_IO', /./));
  assert.equal((await sft.check(`${base}/m/a%20b.safetensors`)).valid, true);
  assert.equal((await sft.scan(`${base}/m/zip.pt`)).verdict, 'harmless');
});

test('other formats are the same list', async () => {
  const formats = {
    'zip.pt': 'torch-zip', 'legacy.pt': 'torch-legacy', 'types.gguf': 'gguf', 'numpy.npz': 'npz', 'onnx-raw.onnx': 'onnx',
    'numpy-big-fortran.npy': 'npy', 'flax-small.msgpack': 'flax', 'keras.h5': 'hdf5', 'keras.keras': 'keras',
    'tflite.tflite': 'tflite', 'mindspore.ckpt': 'mindspore', 'tf-keras.index': 'tf-bundle', 'paddle2.pdparams': 'pickle',
    'joblib-zlib.joblib': 'joblib', 'joblib-xz.joblib': 'joblib', 'joblib-bz2.joblib': 'joblib', 'onnx-external.onnx': 'onnx',
  };
  for (const [name, format] of Object.entries(formats)) {
    const model = sft.openSync(join(FIXTURES, name), { allowOpaque: true });
    assert.equal(model.format, format, name);
    assert.ok(model.tensors.length > 0, name);
    for (const x of model.tensors) {
      const { data, shape } = model.read(x.index);
      assert.equal(data.byteLength, x.nbytes, `${name}: ${x.name}`);
      assert.deepEqual(shape, x.shape);
    }
    model.close();
  }
});

test('scan says what would run', async () => {
  const pickle = new TextEncoder().encode('cos\nsystem\n(S\'true\'\ntR.');
  const report = sft.scanSync(pickle);
  assert.equal(report.verdict, 'dangerous');
  assert.ok(report.findings.some((f) => f.subject === 'os.system' && f.offset === 0), JSON.stringify(report));
  assert.deepEqual(await sft.scan(pickle), report);
  assert.equal(sft.scanSync(sft.saveSync(THREE)).verdict, 'harmless');
});

test('no digests are recorded', () => {
  const model = sft.openSync(sft.saveSync(THREE));
  assert.throws(() => model.verify(), thrown('SFT_E_NOT_FOUND', /digest/));
  model.close();
});

test('require() gives the same', () => {
  const cjs = createRequire(import.meta.url)('@libsafetensors/wasm');
  assert.deepEqual(Object.keys(cjs).filter((k) => k !== '__esModule').sort(), Object.keys(sft).sort());
  assert.deepEqual(cjs.saveSync(THREE), sft.saveSync(THREE));
});

test('the version', async () => {
  assert.match(await sft.version(), /^\d+\.\d+\.\d+$/);
});
