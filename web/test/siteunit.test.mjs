// SPDX-License-Identifier: Apache-2.0 OR MIT
// siteunit.test.mjs - what of the site needs no browser: addresses, which of the chosen files is the model, findings.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { ROOT } from './browser.mjs';

const { addressOf, find, IN_DIRECTORY, MOST_WHOLE } = await import(join(ROOT, 'obj/site/address.js'));
const { choose, halves } = await import(join(ROOT, 'obj/site/choice.js'));
const { scanned } = await import(join(ROOT, 'obj/site/engine.js'));
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
    'a b/c', 'org/<script>']) {
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
    assert.equal(await find(address, signal), address.urls[0]);
    answers({ status: 404 }, part);
    assert.equal(await find(address, signal), address.urls[1]);
    assert.ok(asked.every(([, range]) => range === 'bytes=0-0'));
    for (const [answer, says] of [
      [{ status: 401 }, /private or gated/], [{ status: 500 }, /answered 500/], [{ status: 206 }, /Content-Range/], [new TypeError('x'), /did not answer/],
      [{ status: 200, headers: { 'Content-Length': String(MOST_WHOLE + 1) } }, /whole files alone.*33,554,433 bytes.*Nothing was read/], [{ status: 200 }, /a length that it does not tell/],
    ]) {
      answers(answer);
      await assert.rejects(find(address, signal), says);
    }
    answers({ status: 200, headers: { 'Content-Length': '5' } });
    assert.equal(await find(address, signal), address.urls[0]);
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
  assert.throws(() => of('.git/a'), /no files/);
  assert.equal(halves(['a-00001-of-00003.safetensors', 'a-00003-of-00003.safetensors'], '.')[0].text, 'by their names these are 2 of 3 parts of a model: the others are not here');
  assert.deepEqual(halves(['a-00001-of-00002.gguf', 'a-00002-of-00002.gguf'], '.'), []);
  assert.deepEqual(halves(['a-00001-of-00003.safetensors'], 'model.safetensors.index.json'), []);
});

test('a scan as findings', () => {
  assert.deepEqual(scanned({ verdict: 'dangerous', findings: [{ kind: 'global', verdict: 'dangerous', rule: 'r', subject: 'os.system', message: 'runs a command', offset: 7, count: 1 }] }),
    [{ from: 'scan', level: 'dangerous', text: 'dangerous' }, { from: 'scan', level: 'dangerous', text: 'os.system: runs a command', offset: 7 }]);
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

test('no markup is made of text, and nothing runs from text', () => {
  for (const name of readdirSync(join(ROOT, 'src/site')).filter((one) => one.endsWith('.ts'))) {
    const code = readFileSync(join(ROOT, 'src/site', name), 'utf8').replace(/\/\/[^\n]*/g, '');
    assert.doesNotMatch(code, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|DOMParser|srcdoc|window\.open/, name);
  }
});
