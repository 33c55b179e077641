// SPDX-License-Identifier: Apache-2.0 OR MIT
// siteunit.test.mjs - what of the site needs no browser: addresses, which of the chosen files is the model, findings.

import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { ROOT } from './browser.mjs';
import { writeMany, writeModel } from './models.mjs';

const { addressOf, find, IN_DIRECTORY, MOST_WHOLE } = await import(join(ROOT, 'obj/site/address.js'));
const { choose, halves } = await import(join(ROOT, 'obj/site/choice.js'));
const { Engine, scanned } = await import(join(ROOT, 'obj/site/engine.js'));
const { alone, filesOf } = await import(join(ROOT, 'obj/site/alone.js'));
const { Embedded } = await import(join(ROOT, 'obj/embedded.js'));
const { Live } = await import(join(ROOT, 'obj/site/live.js'));

test('addresses', () => {
  const hub = 'https://huggingface.co';
  const directory = (base) => IN_DIRECTORY.map((name) => base + name);
  for (const [text, urls, name] of [
    ['org/name', directory(`${hub}/org/name/resolve/main/`), 'org/name'],
    [' org/name@v1.0 ', directory(`${hub}/org/name/resolve/v1.0/`), 'org/name'],
    ['deepseek-ai/DeepSeek-V3.1', directory(`${hub}/deepseek-ai/DeepSeek-V3.1/resolve/main/`), 'deepseek-ai/DeepSeek-V3.1'],
    ['hf://org/name', directory(`${hub}/org/name/resolve/main/`), 'org/name'],
    ['org/name/unet', directory(`${hub}/org/name/resolve/main/unet/`), 'org/name'],
    ['org/name/model.Q4.gguf', [`${hub}/org/name/resolve/main/model.Q4.gguf`], 'model.Q4.gguf'],
    [`${hub}/gpt2`, directory(`${hub}/gpt2/resolve/main/`), 'gpt2'],
    [`${hub}/org/name/`, directory(`${hub}/org/name/resolve/main/`), 'org/name'],
    [`${hub}/org/name/tree/refs%2Fpr%2F1/vae`, directory(`${hub}/org/name/resolve/refs%2Fpr%2F1/vae/`), 'org/name'],
    [`${hub}/org/name/blob/main/a%20b.safetensors`, [`${hub}/org/name/resolve/main/a%20b.safetensors`], 'a b.safetensors'],
    [`${hub}/org/name/resolve/main/x.safetensors?download=true`, [`${hub}/org/name/resolve/main/x.safetensors`], 'x.safetensors'],
    ['https://example.org/a/b.safetensors?key=1#x', ['https://example.org/a/b.safetensors?key=1'], 'b.safetensors'],
    ['http://example.org:8080/a/', directory('http://example.org:8080/a/'), 'a'],
    ['https://huggingface.co:4430/a/b.gguf', ['https://huggingface.co:4430/a/b.gguf'], 'b.gguf'],
  ]) {
    const address = addressOf(text);
    assert.deepEqual([address.urls, address.name], [urls, name], text);
    assert.equal(address.beside, urls.length > 1, text);
  }
  assert.equal(addressOf('https://example.org/m/model.safetensors.index.json').beside, true);
  for (const text of ['', 'name', 'javascript:alert(1)', 'file:///etc/passwd', 'data:text/plain,x', 'https://', 'example.org/model.safetensors', '../..', 'org/../x', `${hub}/datasets/a/b`,
    'a b/c', 'org/<script>', '/home/a/model.safetensors', '//host/share/m.gguf', '/org/name', 'https://user:word@example.org/m.safetensors']) {
    assert.throws(() => addressOf(text), /^Error: .*[.]|^Error: .*https:\/\//, text);
  }
});

test('what a server answers', async () => {
  const real = globalThis.fetch;
  const asked = [];
  const answers = (...all) => {
    globalThis.fetch = async (url, { headers }) => {
      asked.push([url, headers.Range]);
      const answer = all.shift();
      if (answer instanceof Error) {
        throw answer;
      }
      return new Response(null, answer);
    };
  };
  const address = { urls: ['https://x.org/a.safetensors', 'https://x.org/b.safetensors'], name: 'a', beside: false };
  const { signal } = new AbortController();
  const part = { status: 206, headers: { 'Content-Range': 'bytes 0-0/5' } };
  try {
    answers(part);
    assert.deepEqual(await find(address, signal), { url: address.urls[0], beside: false });
    answers({ status: 404 }, part);
    assert.deepEqual(await find(address, signal), { url: address.urls[1], beside: false });
    assert.ok(asked.every(([, range]) => range === 'bytes=0-0'));
    for (const [answer, says] of [
      [{ status: 401 }, /private or gated/], [{ status: 500 }, /answered 500/], [{ status: 206 }, /Content-Range/], [new TypeError('x'), /did not answer/],
      [{ status: 200, headers: { 'Content-Length': String(MOST_WHOLE + 1) } }, /whole files alone.*33,554,433 bytes.*Nothing was read/], [{ status: 200 }, /a length that it does not tell/],
    ]) {
      answers(answer, { status: 404 });
      await assert.rejects(find(address, signal), says);
    }
    answers({ status: 403 }, part); // of what is missing, where nothing may be listed
    assert.equal((await find(address, signal)).url, address.urls[1]);
    answers({ status: 200, headers: { 'Content-Length': '5' } });
    assert.deepEqual(await find(address, signal), { url: address.urls[0], beside: false });
    answers({ status: 404 }, { status: 410 });
    await assert.rejects(find(address, signal), /None of these is at this address: a\.safetensors, b\.safetensors/);
  } finally {
    globalThis.fetch = real;
  }
});

test('which of the files is the model', () => {
  const of = (...names) => choose(names.map((name) => [name, {}]));
  assert.deepEqual(of('a.gguf'), { files: [['a.gguf', {}]], path: 'a.gguf', name: 'a.gguf' });
  const shards = of('m/model-00001-of-00002.safetensors', 'm/model-00002-of-00002.safetensors', 'm/model.safetensors.index.json', 'm/config.json', 'm/.git/x.safetensors');
  assert.deepEqual([shards.path, shards.name, shards.files.length, shards.files[0][0]], ['model.safetensors.index.json', 'm', 4, 'model-00001-of-00002.safetensors']);
  assert.equal(of('m/model.safetensors.index.json', 'm/pytorch_model.bin.index.json', 'm/a').path, 'model.safetensors.index.json');
  assert.equal(of('m/model.safetensors', 'm/config.json', 'm/tokenizer.json').path, 'model.safetensors');
  assert.equal(of('a.safetensors', 'b.safetensors').path, '.');
  const deep = of('m/snapshots/1/model.safetensors', 'm/snapshots/1/config.json', 'm/snapshots/1/onnx/a.onnx', 'm/.cache/a');
  assert.deepEqual([deep.path, deep.name, deep.files.map(([name]) => name)], ['model.safetensors', 'm', ['model.safetensors', 'config.json', 'onnx/a.onnx']]);
  assert.deepEqual([of('m/a/x.gguf').path, of('m/a/x.gguf').name], ['x.gguf', 'm']);
  assert.equal(of('m/a/x.safetensors', 'm/ab/y.safetensors').path, '.');
  assert.throws(() => of('m/.git/a'), /no files/);
  assert.deepEqual([of('.hidden/a.safetensors', '.hidden/.b').path, of('.a.safetensors').path, of('.DS_Store', 'a.gguf').path], ['a.safetensors', '.a.safetensors', 'a.gguf'],
    'what somebody took by its name');
  assert.equal(halves(['a-00001-of-00003.safetensors', 'a-00003-of-00003.safetensors'], '.')[0].text, 'by their names these are 2 of 3 parts of a model: the others are not here');
  assert.deepEqual(halves(['a-00001-of-00002.gguf', 'a-00002-of-00002.gguf'], '.'), []);
  assert.deepEqual(halves(['a-00001-of-00003.safetensors'], 'model.safetensors.index.json'), []);
});

test('a scan as findings', () => {
  assert.deepEqual(scanned({ verdict: 'dangerous', findings: [{ kind: 'global', verdict: 'dangerous', rule: 'r', subject: 'os.system', message: 'runs a command', offset: 7, count: 1 }] }),
    [{ from: 'scan', level: 'dangerous', text: 'dangerous' }, { from: 'scan', level: 'dangerous', text: 'os.system: runs a command', offset: 7 }]);
});

const MODULE = join(process.env.SFT_SITE ?? '', 'safetensors.wasm');

test('columns that the module gives are what the file has', { skip: existsSync(MODULE) ? false : 'there is no site' }, async (t) => {
  const made = mkdtempSync(join(tmpdir(), 'sft-unit-'));
  t.after(() => rmSync(made, { recursive: true, force: true }));
  const module = await WebAssembly.compile(readFileSync(MODULE));
  const odd = ['plain', 'a.0', 'a.00', 'a.7.b.123456789012345', 'a.1234567890123456', '3', '', 'x'.repeat(300), ...Array.from({ length: 300 }, (_, k) => `${String.fromCharCode(97 + k % 26).repeat(1 + k / 26)}.${k}.w`)];
  const files = [writeModel(join(made, 'odd.safetensors'), odd.map((name, k) => ({ name, dtype: k % 2 === 0 ? 'U8' : 'I8', shape: [k % 140], data: Buffer.alloc(k % 140) }))),
    writeMany(join(made, 'many.safetensors'), 140_000), writeModel(join(made, 'none.safetensors'), [])];
  for (const path of files) {
    const bytes = readFileSync(path);
    const stat = () => ({ size: bytes.length, kind: 'file' });
    const file = { stat, read: (at, to) => bytes.copy(to, 0, at), close() {} };
    const engine = new Engine(module, { open: () => file, stat, list: () => [], real: (name) => `/${name}` });
    engine.open('m.safetensors', 'm', false);
    const page = engine.first();
    const model = new Embedded(JSON.parse(page.json), page.columns);
    const begin = 8 + Number(bytes.readBigUInt64LE());
    const want = Object.entries(JSON.parse(bytes.toString('utf8', 8, begin))).map(([name, one]) => [name, one.dtype, one.shape, begin + one.data_offsets[0]]);
    const got = Array.from({ length: model.count }, (_, i) => [model.name(i), model.summary.dtypes[model.kind(i).dtype].name, model.kind(i).shape, model.place(i).offset]);
    const sort = (rows) => rows.sort((a, b) => a[3] - b[3] || (a[0] < b[0] ? -1 : 1));
    assert.deepEqual(sort(got), sort(want));
    assert.equal(model.kinds.reduce((sum, { tensors }) => sum + tensors, 0), want.length);
  }
});

test('a tensor as a file of its own', async () => {
  const data = {
    summary: { files: [{ name: 'a.safetensors' }, { name: 'sub/b.safetensors' }], dtypes: [{ name: 'F4' }] },
    name: () => '\u202e"\u00e9', kind: () => ({ dtype: 0, shape: [4, '3'], bytes: 6 }), place: () => ({ file: 1, offset: 3 }),
  };
  const b = new Blob(['012345678901']);
  const files = filesOf(data, 'm/', [['m/a.safetensors', new Blob([])], ['./m//sub/b.safetensors', b], ['m/x', b]]);
  assert.deepEqual(files.map(({ path }) => path), ['m/a.safetensors', 'm/sub/b.safetensors']);
  assert.equal(files[1].blob, b);
  assert.equal(filesOf(data, '', [['a.safetensors', b]]), undefined, 'a part is not there');
  const bytes = Buffer.from(await alone(data, 7, b).arrayBuffer());
  const length = Number(bytes.readBigUInt64LE());
  assert.deepEqual(JSON.parse(bytes.toString('utf8', 8, 8 + length)), { '\u202e"\u00e9': { dtype: 'F4', shape: [4, 3], data_offsets: [0, 6] } });
  assert.equal(bytes.toString('utf8', 8 + length), '345678');
});

test('who steps through tensors waits for the last one alone', async () => {
  const asked = [];
  const waiting = [];
  const columns = { count: 9, kinds: [], kind: () => ({ bytes: 8 }) };
  const live = new Live({ files: [] }, columns, (i) => {
    asked.push(i);
    return new Promise((resolve) => { waiting.push(() => resolve({ stats: new Uint8Array(0), heat: new Uint8Array([1, 1, 1, 0, 0, 128, 63, 9]) })); });
  });
  const seen = [0, 1, 2, 3].map((i) => live.heat(i));
  await new Promise((resolve) => { setTimeout(resolve); });
  assert.deepEqual(asked, [0]);
  waiting[0]();
  await seen[0];
  await new Promise((resolve) => { setTimeout(resolve); });
  assert.deepEqual(asked, [0, 3]);
  waiting[1]();
  assert.deepEqual((await Promise.all(seen)).map((heat) => heat?.cells[0]), [9, undefined, undefined, 9]);
  const again = live.heat(1);
  await new Promise((resolve) => { setTimeout(resolve); });
  waiting[2]();
  assert.equal((await again).cells[0], 9);
});

test('who comes back to a tensor that was passed over waits for that one', async () => {
  const asked = [];
  const live = new Live({ files: [] }, { count: 9, kinds: [], kind: () => ({ bytes: 8 }) }, async (i) => {
    asked.push(i);
    await new Promise((resolve) => { setTimeout(resolve, 5); });
    return { stats: new Uint8Array(0), heat: new Uint8Array([1, 1, 1, 0, 0, 128, 63, i]) };
  });
  const [a, b, c, again] = await Promise.all([0, 1, 2, 1].map((i) => live.heat(i)));
  assert.deepEqual([a, b, c, again].map((heat) => heat?.cells[0]), [0, 1, undefined, 1]);
  assert.deepEqual(asked, [0, 1]);
});

test('no markup is made of text, and nothing runs from text', () => {
  for (const name of readdirSync(join(ROOT, 'src/site')).filter((one) => one.endsWith('.ts'))) {
    const code = readFileSync(join(ROOT, 'src/site', name), 'utf8').replace(/\/\/[^\n]*/g, '');
    assert.doesNotMatch(code, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|window\.open/, name);
  }
});
