// SPDX-License-Identifier: Apache-2.0 OR MIT
// tool.test.mjs - reports that the tool writes (SFT_TOOL): what the page reads and shows is what `report --json` says.

import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { ROOT, TEMPLATE, openReport, picture, skip, startBrowser } from './browser.mjs';
import { HOSTILE_NAMES, random, readTemplate } from './payload.mjs';

const TOOL = process.env.SFT_TOOL ?? '';
const SOURCE = process.env.SFT_ROOT ?? join(ROOT, '../..');
const without = TOOL === '' ? 'there is no tool (build/safetensors)' : skip;
const { Embedded, fromBase64 } = await import(join(ROOT, 'obj/embedded.js'));
const { DiffData, CHANGES } = await import(join(ROOT, 'obj/diff/data.js'));

const run = (...args) => execFileSync(TOOL, ['report', ...args], { maxBuffer: 1 << 30, stdio: ['ignore', 'pipe', 'ignore'] });

/** A safetensors file of U8 tensors of these names. */
function fileOf(names, metadata) {
  const header = { __metadata__: metadata };
  names.forEach((name, k) => {
    Object.defineProperty(header, name, { value: { dtype: 'U8', shape: [2], data_offsets: [2 * k, 2 * k + 2] }, enumerable: true });
  });
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, Buffer.from(names.flatMap((_, k) => [k & 255, 7]))]);
}

function models(t) {
  const folder = mkdtempSync(join(tmpdir(), 'sft-web-tool-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const hostile = join(folder, 'hostile.safetensors');
  writeFileSync(hostile, fileOf(HOSTILE_NAMES.filter((name) => name !== '__metadata__'), { '</script><script>globalThis.broken=1</script>': '\u202e\u0000<!--' }));
  const many = join(folder, 'many.safetensors');
  writeFileSync(many, fileOf(Array.from({ length: 20_000 }, (_, k) => `layers.${k % 50}.experts.${Math.floor(k / 50)}.weight`), {}));
  const fixture = (name) => join(SOURCE, 'tests/import/fixtures', name);
  return [join(SOURCE, 'examples/model'), fixture('types.gguf'), fixture('zip.pt'), fixture('keras.h5'), fixture('onnx-raw.onnx'), fixture('numpy.npz'), hostile, many];
}

test('what Unicode calls ignorable reaches no terminal', { skip: TOOL === '' && without }, (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sft-web-tool-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const hidden = /[\p{DI}\p{Cc}\p{Zl}\p{Zp}\u2800]/u;
  const names = Array.from({ length: 0x110000 }, (_, code) => code).filter((code) => !(code >= 0xd800 && code < 0xe000)).map((code) => String.fromCodePoint(code)).filter((c) => hidden.test(c));
  assert.ok(names.length > 4200);
  const model = join(folder, 'names.safetensors');
  writeFileSync(model, fileOf(names.map((c) => `a${c}b`), { k: names.join('') }));
  for (const args of [['ls', model], ['ls', '-l', model], ['show', '-a', model], ['meta', model], ['diff', model, join(SOURCE, 'examples/model')], ['check', '--strict', model]]) {
    const { stdout, stderr } = spawnSync(TOOL, args, { maxBuffer: 1 << 30 });
    assert.ok(stdout.length > 0);
    assert.deepEqual([...(stdout.toString() + stderr.toString()).replaceAll('\n', '')].filter((c) => hidden.test(c)), [], args[0]);
  }
});

/** The data of a report in the template of these sources. */
function pageOf(report) {
  const [, data] = /(<script type="application\/json" id="sft-summary">[^]*?<\/script>\s*<script type="application\/octet-stream" id="sft-columns">[^]*?<\/script>)/.exec(report);
  return readTemplate(TEMPLATE).split('<!-- sft:data -->').join(data);
}

test('what the tool writes is read as it says itself', { skip: without }, (t) => {
  let tensors = 0;
  for (const model of models(t)) {
    const said = JSON.parse(run(model, '--json'));
    const html = run(model, '-o', '-').toString();
    const [, json, base64] = /id="sft-summary">([^]*?)<\/script>\s*<script[^>]*id="sft-columns">([^]*?)<\/script>/.exec(html);
    const read = new Embedded(JSON.parse(json), fromBase64(base64.trim()));
    assert.equal(read.count, said.tensors.length);
    said.tensors.forEach((tensor, i) => {
      const kind = read.kind(i);
      assert.deepEqual([read.name(i), read.summary.dtypes[kind.dtype].name, kind.shape.map(Number)], [tensor.name, tensor.dtype, tensor.shape.map(Number)]);
      const s = read.stats(i);
      assert.equal(s === undefined, tensor.statistics === null);
      if (s !== undefined) {
        const want = tensor.statistics;
        assert.deepEqual([s.n, s.nan, s.positiveInfinity, s.negativeInfinity, s.zero, s.negative, !s.sample],
          [want.count, want.nan, want.positive_inf, want.negative_inf, want.zero, want.negative, want.exact].map((v) => (typeof v === 'string' ? Number(v) : v)));
        for (const key of ['min', 'max', 'mean', 'std', 'norm']) {
          assert.ok(want[key] === null ? !(s[key] > 0 || s[key] < 0) : s[key] === want[key] || Math.abs(s[key] - want[key]) <= 1e-15 * Math.abs(want[key]), `${tensor.name} ${key}: ${s[key]}, ${want[key]}`);
        }
        assert.deepEqual(s.histogram?.counts ?? [], want.histogram?.counts ?? []);
      }
    });
    tensors += read.count;
  }
  t.diagnostic(`${tensors} tensors`);
  assert.ok(tensors > 20_000);
});

test('what the tool writes is shown', { skip: without }, async (t) => {
  const browser = await startBrowser(t);
  for (const model of models(t)) {
    const said = JSON.parse(run(model, '--json'));
    const { page, quiet } = await openReport(browser, pageOf(run(model, '-o', '-').toString()));
    assert.equal(await page.$('.broken'), null, model);
    assert.equal(await page.$eval('nav [data-view=table] small', (one) => one.textContent), said.tensors.length.toLocaleString('en'));
    const i = Math.min(3, said.tensors.length - 1);
    await page.evaluate((to) => { location.hash = `#/at/${to}`; }, i);
    await page.waitForSelector('.detail .facts');
    const titles = await page.$$eval('.detail dt', (all) => Object.fromEntries(all.map((dt) => [dt.textContent, dt.nextElementSibling.title])));
    const want = said.tensors[i].statistics;
    if (want !== null && want.min !== null) {
      assert.deepEqual([Number(titles.Minimum), Number(titles.Maximum)], [want.min, want.max]);
    }
    for (const view of ['table', 'files', 'metadata', 'findings', '']) {
      await page.evaluate((to) => { location.hash = `#/${to}`; }, view);
      await page.waitForSelector(`.view.shown[data-view=${view || 'overview'}]`);
      assert.equal(await page.$('.broken'), null, `${model} ${view}`);
    }
    await picture(page, `tool-${model.split('/').pop()}`, { fullPage: true });
    assert.deepEqual(await page.evaluate(() => globalThis.broken), undefined);
    assert.deepEqual(await quiet(), [], model);
    await page.close();
  }
});

/* ---------------------------------------------------------------- two models */

/** Numbers of layers: B has noise in all but the first, a bit in a norm, a rename, another type, one more and one less. */
function twoModels(t) {
  const folder = mkdtempSync(join(tmpdir(), 'sft-web-diff-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const next = random(5);
  const write = (name, tensors, metadata) => {
    const header = { __metadata__: metadata };
    const parts = [];
    let at = 0;
    for (const [tensor, [dtype, shape, data]] of Object.entries(tensors)) {
      Object.defineProperty(header, tensor, { value: { dtype, shape, data_offsets: [at, at + data.length] }, enumerable: true });
      parts.push(data);
      at += data.length;
    }
    const text = Buffer.from(JSON.stringify(header));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length));
    writeFileSync(join(folder, name), Buffer.concat([length, text, ...parts]));
    return join(folder, name);
  };
  const floats = (values) => Buffer.from(Float32Array.from(values).buffer);
  const base = {};
  const tuned = {};
  for (let l = 0; l < 12; l++) {
    for (const m of ['attn.q_proj', 'attn.v_proj', 'mlp.up_proj']) {
      const values = Array.from({ length: 1024 }, () => next() - 0.5);
      base[`layers.${l}.${m}.weight`] = ['F32', [32, 32], floats(values)];
      tuned[`layers.${l}.${m}.weight`] = ['F32', [32, 32], floats(l === 0 ? values : values.map((v) => v + 0.002 * l * (next() - 0.5)))];
    }
    base[`layers.${l}.norm.weight`] = tuned[`layers.${l}.norm.weight`] = ['F32', [32], floats(Array(32).fill(1))];
  }
  const bit = Buffer.from(base['layers.5.norm.weight'][2]);
  bit[16] ^= 1;
  tuned['layers.5.norm.weight'] = ['F32', [32], bit];
  base['old.</script>'] = tuned['new.<b>'] = ['U8', [4], Buffer.from('abcd')];
  base.gone = ['U8', [1], Buffer.from('g')];
  tuned.more = ['I64', [1], Buffer.alloc(8)];
  tuned['layers.3.attn.q_proj.weight'] = ['F32', [16, 64], base['layers.3.attn.q_proj.weight'][2]];
  HOSTILE_NAMES.slice(0, 40).forEach((name, k) => {
    base[`${name} `] = ['U8', [1], Buffer.from([k])];
    tuned[`${name} `] = ['U8', [1], Buffer.from([k % 3 ? k : k + 1])];
  });
  return [write('base.safetensors', base, { format: 'pt', step: '1' }), write('tuned.safetensors', tuned, { format: 'pt', step: '2', '</script>': '<!--' })];
}

const compare = (...args) => spawnSync(TOOL, ['diff', ...args], { maxBuffer: 1 << 30 }).stdout;

test('what diff writes is read as it says itself, and shown', { skip: without }, async (t) => {
  const [a, b] = twoModels(t);
  const said = JSON.parse(compare(a, b, '--stat', '--json'));
  const html = compare(a, b, '--report', '-').toString();
  const data = /(<script type="application\/json" id="sft-diff">([^]*?)<\/script>\s*<script[^>]*id="sft-columns">([^]*?)<\/script>)/.exec(html);
  const read = new DiffData(JSON.parse(data[2]), fromBase64(data[3].trim()));
  const changed = [...Array(read.count).keys()].filter((i) => CHANGES[read.change(i)] !== 'same');
  assert.equal(read.count - changed.length, said.same_tensors);
  assert.equal(changed.length, said.tensors.length);
  said.tensors.forEach((want, k) => {
    const i = changed[k];
    assert.deepEqual([read.name(i), CHANGES[read.change(i)], read.newName(i)], [want.name, want.change, want.new_name]);
    const m = read.measures(i);
    assert.equal(m === undefined, want.measures === undefined);
    if (m !== undefined) {
      const w = want.measures;
      assert.deepEqual([m.equal, m.notFinite, m.maxUlp, m.numbers.bins], [w.equal, w.not_finite, w.max_ulp, w.histogram]);
      for (const [key, mine] of Object.entries({ relative: 'relative', cosine: 'cosine', max_abs: 'maxAbs', norm_a: 'normA', norm_b: 'normB', norm_change: 'norm' })) {
        assert.ok(w[key] === null ? !Number.isFinite(m.numbers[mine]) : Math.abs(m.numbers[mine] - w[key]) <= 1e-15 * Math.abs(w[key]), `${want.name} ${key}`);
      }
    }
  });
  const browser = await startBrowser(t);
  const page1 = readTemplate(TEMPLATE).split('<!-- sft:data -->').join(data[1]);
  for (const dark of [false, true]) {
    const { page, quiet } = await openReport(browser, page1, { dark });
    assert.match(await page.textContent('h1'), /^tuned\.safetensors is probably base\.safetensors, fine-tuned: \d+ of \d+ tensors moved/);
    assert.equal(await page.textContent('[data-view=table] small'), String(said.tensors.length));
    await page.waitForSelector('.strip svg a');
    await picture(page, `tool-diff-${dark ? 'dark' : 'light'}`, { fullPage: true });
    const bit = said.tensors.find(({ name }) => name === 'layers.5.norm.weight');
    assert.equal(bit.measures.max_ulp, 1);
    await page.evaluate(() => { location.hash = '#/tensor/layers.5.norm.weight'; });
    await page.waitForSelector('.detail .facts');
    assert.match(await page.textContent('.detail'), /Equal elements31 of 32.*or 1 ulp/);
    await page.evaluate(() => { location.hash = '#/metadata'; });
    await page.waitForSelector('.metadata');
    assert.match(await page.textContent('.metadata'), /stepchangedA1B2/);
    assert.deepEqual(await page.evaluate(() => globalThis.broken), undefined);
    assert.deepEqual(await quiet(), []);
    await page.close();
  }
});
