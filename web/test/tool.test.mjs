// SPDX-License-Identifier: Apache-2.0 OR MIT
// tool.test.mjs - reports that the tool writes (SFT_TOOL): what the page reads and shows is what `report --json` says.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { ROOT, TEMPLATE, openReport, picture, skip, startBrowser } from './browser.mjs';
import { HOSTILE_NAMES, readTemplate } from './payload.mjs';

const TOOL = process.env.SFT_TOOL ?? '';
const SOURCE = process.env.SFT_ROOT ?? join(ROOT, '../..');
const without = TOOL === '' ? 'there is no tool (build/safetensors)' : skip;
const { Embedded, fromBase64 } = await import(join(ROOT, 'obj/embedded.js'));

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
