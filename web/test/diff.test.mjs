// SPDX-License-Identifier: Apache-2.0 OR MIT
// diff.test.mjs - pages of two models: what is read of them and said, in Node; and in headless Chromium what they show,
// addresses, keys, hostile texts, paper. Nothing is asked for, refused by the policy, or said on the console.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import test from 'node:test';
import { ROOT, TEMPLATE, openReport, picture, skip, startBrowser } from './browser.mjs';
import { CHANGES, DiffPayload, HOSTILE_NAMES, readTemplate, tunedDiff, wrap } from './payload.mjs';

const template = readTemplate(TEMPLATE);
const load = (name) => import(join(ROOT, 'obj', name));
const [{ DiffData }, { blocks, labelText, MovedScale }, { sentence, movedText }, { fromBase64 }, { cosineText }] = await Promise.all(
  ['diff/data.js', 'diff/strip.js', 'diff/words.js', 'embedded.js', 'diff/overview.js'].map(load));

/** The data of a page, as the page reads them. */
function dataOf(html) {
  const [, json, base64] = /id="sft-diff">([^]*?)<\/script>\s*<script[^>]*id="sft-columns">([^]*?)<\/script>/.exec(html);
  return new DiffData(JSON.parse(json), fromBase64(base64.trim()));
}

/* ---------------------------------------------------------------- data */

test('rows are read as they were written', () => {
  const p = tunedDiff(12);
  const data = dataOf(p.page(template));
  assert.equal(data.count, p.rows.length);
  p.rows.forEach((row, i) => {
    const { name, change = 'same', dtype = 'F32', shape, to = {}, measures: m } = row;
    assert.deepEqual([data.name(i), CHANGES[data.change(i)], data.newName(i)], [name, change, to.name]);
    assert.deepEqual([data.summary.dtypes[data.kind(i).dtype].name, data.kind(i).shape], [dtype, shape]);
    assert.equal(data.summary.dtypes[data.otherKind(i).dtype].name, to.dtype ?? dtype);
    const got = data.measures(i);
    assert.equal(got === undefined, m === undefined);
    if (m !== undefined) {
      assert.ok(Math.abs(data.moved[i] - m.relative) <= 1e-6 * m.relative);
      assert.deepEqual([got.equal, got.maxUlp, got.cast, got.rank], [m.equal, m.maxUlp, m.cast, m.rank]);
      assert.deepEqual([got.numbers.relative, got.numbers.cosine, got.numbers.maxAbs, got.numbers.normA, got.numbers.bins.exponent], [m.relative, m.cosine, m.maxAbs, 20, -20]);
      assert.deepEqual(got.numbers.bins.counts, m.counts);
    }
    assert.equal(data.find(name), i);
  });
  assert.equal(data.name(data.find('head.2.weight')), 'lm_head.weight');
  assert.equal(data.find('nowhere'), -1);
  const order = [...data.order()].map((i) => [CHANGES[data.change(i)], data.moved[i]]);
  assert.deepEqual(order.slice(0, 2).map(([change]) => change), ['removed', 'added']);
  const moved = order.slice(2).filter(([change]) => change !== 'same' && change !== 'name').map(([, by]) => by);
  assert.deepEqual(moved, [...moved].sort((a, b) => b - a));
  assert.equal(order.at(-1)[0], 'same');
  assert.equal(order.findIndex(([change]) => change === 'name') + 1, order.findIndex(([change]) => change === 'same'));
});

test('what was left out, what has no numbers, what is infinite', () => {
  const p = new DiffPayload();
  p.add({ name: 'a.1', change: 'values', measures: { relative: 0.5, left: true } });
  p.add({ name: 'a.2', change: 'values', measures: { relative: 0.25, equal: 3 } });
  p.add({ name: 'a.3', change: 'values', measures: { relative: Infinity, cosine: NaN, maxAbs: 3, exponent: 1, counts: [4] } });
  p.add({ name: 'a.4', change: 'values' });
  p.add({ name: 'a.5', change: 'type', to: { shape: [2, 2] } });
  const data = dataOf(p.page(template));
  assert.equal(data.measures(0), undefined);
  assert.deepEqual([data.measures(1).equal, data.measures(1).numbers], [3, undefined]);
  assert.deepEqual([data.measures(2).numbers.relative, data.measures(2).numbers.bins], [Infinity, { exponent: 1, counts: [4] }]);
  assert.deepEqual([...data.moved], [0.5, 0.25, Infinity, NaN, Infinity]);
  assert.deepEqual([...data.order()], [2, 4, 0, 1, 3]);
  for (const broken of [{ schema: 9 }, { kind: 'report' }, { columns: { count: 99, sections: [] } }, { columns: { count: 1, sections: [{ name: 'names', offset: 0, bytes: 1e9 }] } }]) {
    assert.throws(() => dataOf(new DiffPayload(broken).add({ name: 'a' }).page(template)), /page/);
  }
});

test('the strip has every tensor once, by module and layer', () => {
  const data = dataOf(tunedDiff(12).page(template));
  const all = blocks(data);
  assert.deepEqual(all.map(({ prefix, columns, rows }) => [prefix, columns.length, rows.length]), [['model.layers.', 13, 8], ['', 1, 4]]);
  assert.deepEqual(all[0].rows.map(({ label }) => label), ['self_attn.q_proj.weight', 'self_attn.k_proj.weight', 'self_attn.v_proj.weight', 'self_attn.o_proj.weight',
    'mlp.gate_proj.weight', 'mlp.up_proj.weight', 'mlp.down_proj.weight', 'input_layernorm.weight']);
  const seen = all.flatMap(({ rows }) => rows.flatMap(({ cells }) => cells.filter((cell) => cell !== undefined)));
  assert.equal(seen.reduce((sum, { tensors }) => sum + tensors, 0), data.count);
  assert.equal(seen.reduce((sum, { changed }) => sum + changed, 0), [...data.fileIds].filter((change) => change !== 0).length);
  const [, k] = all[0].rows;
  assert.deepEqual([k.cells[3].changes, k.cells[12].changes, data.name(k.cells[12].tensor)], [2, 4, 'model.layers.12.self_attn.k_proj.weight']);
  assert.ok(Math.abs(k.cells[5].moved - data.moved[data.find('model.layers.5.self_attn.k_proj.weight')]) < 1e-12);
  const scale = new MovedScale(all);
  assert.deepEqual([scale.share(scale.high), scale.share(scale.low)], [1, 0]);
});

test('layers of experts, of stacks within stacks, of nothing that varies, and of many', () => {
  const p = new DiffPayload();
  for (let l = 0; l < 300; l++) {
    for (let e = 0; e < 4; e++) {
      p.add({ name: `m.0.layers.${l}.experts.${e}.up.weight`, ...(l === 7 && e > 1 ? { change: 'values', measures: { relative: e / 100, cosine: 1 } } : {}) });
    }
  }
  for (const stack of ['encoder', 'decoder']) {
    for (let l = 0; l < 3; l++) {
      p.add({ name: `${stack}.block.${l}.layer.0.w` }).add({ name: `${stack}.block.${l}.layer.1.w` });
    }
  }
  p.add({ name: 'only.5.w' }).add({ name: 'w' });
  const data = dataOf(p.page(template));
  const all = blocks(data);
  assert.deepEqual(all.map(({ prefix, columns, rows, tensors }) => [prefix, columns.length, rows.length, tensors]), [['m.0.layers.', 150, 1, 1200], ['encoder.block.', 3, 1, 6], ['decoder.block.', 3, 1, 6], ['', 1, 2, 2]]);
  assert.deepEqual(all[0].columns[3], [6, 7]);
  const cell = all[0].rows[0].cells[3];
  assert.deepEqual([cell.tensors, cell.changed, data.name(cell.tensor)], [8, 2, 'm.0.layers.7.experts.3.up.weight']);
  assert.equal(all[0].rows[0].label, 'experts.*.up.weight');
  assert.deepEqual([labelText('self_attn.q_proj.weight', 40), labelText('self_attn.q_proj.weight', 18), labelText('self_attn.q_proj.weight', 10)], ['self_attn.q_proj.weight', 'self_attn.q_proj', '\u2026tn.q_proj']);
});

test('a sentence for each kind of change', () => {
  const of = (change, more = {}) => sentence(dataOf(new DiffPayload({ change, ...more }).add({ name: 'a', change: 'values' }).add({ name: 'b', change: 'added' }).page(template)).diff);
  assert.equal(of('fine-tuned'), 'tuned is probably base, fine-tuned: 1 of 1 tensor moved, by 0.3 % of their norm; 1 added.');
  assert.equal(of('merged-lora', { rank: 8 }), 'tuned is probably base with a LoRA of rank 8 merged in: 1 of 1 tensor moved, by 0.3 % of their norm; 1 added.');
  assert.equal(of('none', { same: true }), 'tuned is the same as base.');
  assert.match(of('metadata'), /only metadata differ/);
  assert.match(of('renamed', { renamed: 2 }), /under other names: 2 tensors are called otherwise/);
  assert.match(of('cast', { tally: { type: 3 }, overall: { tensors: 3, moved: 0 } }), /in other element types: 3 of 3 tensors were cast\./);
  assert.match(of('quantized'), /^tuned is probably base, quantised; 1 added\.$/);
  assert.equal(of('pruned'), 'tuned is base, pruned: in 1 of 1 tensor values are 0 now, and all others are the same; 1 added.');
  assert.equal(of('zero-signs'), 'tuned has the numbers of base: in 1 of 1 tensor only the signs of zeros are others; 1 added.');
  assert.match(of('other'), /^tuned is not base tuned, cast or quantised/);
  assert.deepEqual([0.0321, 1, 0, 1e-9, 12.3456, Infinity].map(movedText), ['3.21 %', '100 %', '0 %', '1e\u22127 %', '1230 %', '\u221e']);
  assert.deepEqual([1, 0.5, 0.99951234, 0.99999999912, -1, 0].map(cosineText), ['1', '0.5', '0.999512', '0.99999999912', '\u22121', '0']);
});

/* ---------------------------------------------------------------- Chromium */

const shown = (page) => page.waitForFunction(() => /tensor/.test(document.querySelector('.tableview .status')?.textContent ?? ''));
const names = (page) => page.evaluate(() => [...document.querySelectorAll('.tableview .row:not([hidden])')]
  .sort((a, b) => a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex')).map((row) => row.querySelector('.name').textContent));

async function go(page, hash) {
  await page.evaluate((to) => {
    const status = document.querySelector('.tableview .status');
    if (status !== null) {
      status.textContent = '';
    }
    location.hash = to;
  }, hash);
  await shown(page);
}

test('two models, light and dark, wide and narrow', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const html = tunedDiff().page(template);
  for (const [size, [width, height]] of Object.entries({ wide: [1280, 860], narrow: [360, 740] })) {
    for (const dark of [false, true]) {
      const { page, quiet } = await openReport(browser, html, { width, height, dark });
      const label = `diff-${size}-${dark ? 'dark' : 'light'}`;
      await page.waitForSelector('.strip svg a');
      await page.waitForTimeout(100);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing sticks out');
      await picture(page, `${label}-overview`, { fullPage: true });
      await go(page, '#/table');
      await picture(page, `${label}-table`);
      await page.evaluate(() => { location.hash = '#/tensor/model.layers.12.mlp.up_proj.weight'; });
      await page.waitForSelector('.detail .histogram svg');
      await picture(page, `${label}-tensor`);
      await page.evaluate(() => { location.hash = '#/metadata'; });
      await page.waitForSelector('.view.shown[data-view=metadata]');
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'metadata');
      await picture(page, `${label}-metadata`, { fullPage: true });
      assert.deepEqual(await quiet(), []);
      await page.close();
    }
  }
});

test('what the page says, and where its links lead', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const { page, quiet } = await openReport(browser, tunedDiff().page(template));
  assert.equal(await page.title(), 'base \u2192 tuned \u2013 safetensors diff');
  assert.equal(await page.textContent('h1'), 'tuned is probably base, fine-tuned: 224 of 259 tensors moved, by 0.3 % of their norm; 1 removed, 1 added and 2 renamed.');
  assert.deepEqual(await page.$$eval('.tile', (all) => all.map((one) => [one.querySelector('dt').textContent, one.querySelector('dd').firstChild.textContent])), [['Other values', '224'], ['Type or shape', '1'],
    ['Added', '1'], ['Removed', '1'], ['Renamed', '2'], ['Unchanged', '33'], ['Metadata', '3'], ['Size', '3.91 KiB']]);
  assert.equal(await page.textContent('.left-out'), 'Left out: measures of 3 of 9 tensors, the least changed ones.');
  assert.equal(await page.$$eval('.bars.moved li', (all) => all.length), 10);
  const first = await page.getAttribute('.bars.moved a', 'href');
  assert.match(first, /^#\/tensor\/model\.layers\.\d+\.self_attn\.v_proj\.weight$/);
  assert.equal(await page.$$eval('.strip svg a', (all) => all.length), 32 * 8 + 1 + 4);
  assert.match(await page.textContent('.legend.changes'), /moved by .* %.* %unchangedaddedremovedother type or shaperenamed/);
  assert.equal(await page.$$eval('.strip a[tabindex="0"]', (all) => all.length), 2);
  await page.focus('.strip a[tabindex="0"]');
  for (const key of ['ArrowDown', 'ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowRight', 'ArrowLeft', 'ArrowUp', 'ArrowUp']) {
    await page.keyboard.press(key);
  }
  assert.match(await page.evaluate(() => document.activeElement.getAttribute('aria-label')), /^3 self_attn\.q_proj\.weight: other values, moved by /);
  await page.keyboard.press('Enter');
  await page.waitForSelector('.detail .facts');
  assert.equal(await page.evaluate(() => location.hash), '#/tensor/model.layers.3.self_attn.q_proj.weight');
  await page.keyboard.press('Escape');
  await page.evaluate(() => document.querySelector('.strip a[href$="layers.9.mlp.down_proj.weight"]').dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true })));
  await page.waitForSelector('.detail .facts');
  assert.equal(await page.evaluate(() => location.hash), '#/tensor/model.layers.9.mlp.down_proj.weight');
  assert.match(await page.textContent('.detail'), /Rank of change8, as a merged LoRA leaves it/);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.querySelector('.detail') === null);
  assert.equal(await page.evaluate(() => location.hash), '#/');
  for (const [hash, want] of [['#/tensor/head.2.weight', /New namehead\.2\.weight/], ['#/tensor/model.layers.7.mlp.up_proj.weight', /Element typeBF16 \u2192 F8_E4M3.*Size86\.0 MiB \(90,177,536 bytes\) \u2192 43\.0 MiB.*Castevery value is what casting gives/],
    ['#/tensor/model.layers.3.self_attn.k_proj.weight', /removed.*Only base has it/], ['#/tensor/old.bias', /the same bytes under another name/], ['#/tensor/model.norm.weight', /Its bytes are the same in both/]]) {
    await page.evaluate((to) => { location.hash = to; }, hash);
    await page.waitForFunction((source) => new RegExp(source).test(document.querySelector('.detail')?.textContent ?? ''), want.source);
  }
  await page.evaluate(() => { location.hash = '#/metadata'; });
  await page.waitForSelector('.metadata');
  assert.match(await page.textContent('.metadataview'), /stepchangedA1000B2000goneremovedAxBnot therenewaddedAnot thereB\{\s+"lr": 1e-5\s+\}17 more bytes are not in this report.*State of the runs/);
  assert.deepEqual(await quiet(), []);
});

test('the table: choices, orders, filters, keys', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const p = tunedDiff();
  const data = dataOf(p.page(template));
  const { page, quiet } = await openReport(browser, p.page(template), { hash: '#/table', width: 1500 });
  await shown(page);
  const all = [...Array(data.count).keys()];
  const rowText = (i) => (data.newName(i) === undefined ? data.name(i) : `${data.name(i)} \u2192 ${data.newName(i)}`);
  const cases = {
    '': [...data.order()].filter((i) => data.change(i) !== 0), 'change=all': [...data.order()], 'change=same': all.filter((i) => data.change(i) === 0),
    'change=type': all.filter((i) => CHANGES[data.change(i)] === 'type'), 'change=added': all.filter((i) => CHANGES[data.change(i)] === 'added'),
    'change=name': all.filter((i) => CHANGES[data.change(i)] === 'name'),
    'filter=*.v_proj.*&change=all': [...data.order()].filter((i) => /\.v_proj\./.test(data.name(i))), 'filter=mlp&sort=moved': all.filter((i) => /mlp/.test(data.name(i))).sort((a, b) => data.moved[a] - data.moved[b]),
    'sort=-ulp': all.filter((i) => data.change(i) !== 0).sort((a, b) => (data.measures(b)?.maxUlp ?? -1) - (data.measures(a)?.maxUlp ?? -1)),
    'sort=cosine&change=values': all.filter((i) => CHANGES[data.change(i)] === 'values').sort((a, b) => data.measures(a).numbers.cosine - data.measures(b).numbers.cosine),
  };
  for (const [query, want] of Object.entries(cases)) {
    await go(page, `#/table?${query}`);
    const got = await names(page);
    const keys = query.includes('ulp') ? 8 : got.length;
    assert.deepEqual(got.slice(0, keys), want.map(rowText).slice(0, keys), query);
    assert.match(await page.textContent('.tableview .status'), new RegExp(`^${want.length} `), query);
    assert.equal(await page.$eval('.chooser', (one) => one.value), new URLSearchParams(query).get('change') ?? '');
  }
  await page.selectOption('.chooser', 'removed');
  await page.waitForFunction(() => document.querySelector('.tableview .status').textContent.startsWith('1 of'));
  assert.equal(await page.evaluate(() => new URLSearchParams(location.hash.split('?')[1]).get('change')), 'removed');
  await go(page, '#/table');
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'filter');
  await page.keyboard.type('q_proj');
  await page.waitForFunction(() => document.querySelector('.tableview .status').textContent.startsWith('32 of'));
  await page.keyboard.press('Enter');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.tensor-name');
  const name = await page.textContent('.tensor-name');
  await page.click('.detail [aria-label="The next one"]');
  await page.waitForFunction((before) => document.querySelector('.tensor-name').textContent !== before, name);
  assert.match(await page.textContent('.tensor-name'), /q_proj/);
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.querySelector('.detail') === null);
  for (const hash of ['#/tensor/none', '#/at/99999', '#/at/-1', '#/nowhere', '#/table?sort=nothing&change=none', '#/files', '#/tensor/%E0%A4%A']) {
    const other = await openReport(browser, undefined, { hash });
    assert.deepEqual(await other.quiet(), [], hash);
    assert.equal(await other.page.$('.tensor-name'), null);
    assert.equal(await other.page.$('.broken'), null, hash);
    await other.page.close();
  }
  assert.deepEqual(await quiet(), []);
});

function hostileDiff() {
  const [script, image] = HOSTILE_NAMES;
  const p = new DiffPayload({
    a: script, b: '\u202e</title>', change: '<b>', reason: image, tool: '<i>', left_out: [script, HOSTILE_NAMES[7]], metadata_changes: HOSTILE_NAMES.length,
    metadata: HOSTILE_NAMES.map((key, k) => ({ key, a: k % 3 === 0 ? null : key, b: k % 3 === 1 ? null : key })), states: [{ key: script, a: image, b: script }],
  });
  HOSTILE_NAMES.forEach((name, k) => p.add({
    name, change: CHANGES[k % 6], shape: [[], [0], [2, 3]][k % 3], to: k % 6 === 5 || k % 6 === 4 ? { name: HOSTILE_NAMES[(k + 1) % HOSTILE_NAMES.length] } : {},
    measures: [undefined, undefined, undefined, undefined, { relative: [NaN, Infinity, 1e-300, 0][k % 4], cosine: [NaN, -1, 1][k % 3], maxAbs: Infinity, counts: k % 2 ? [] : [0, 0], maxUlp: 2 ** 52, equal: 0 }, undefined][k % 6],
  }));
  return p;
}

test('hostile names and texts are text', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const { page, quiet } = await openReport(browser, hostileDiff().page(template));
  await page.waitForSelector('.strip svg a');
  await picture(page, 'diff-hostile', { fullPage: true });
  const odd = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ue000-\uf8ff\uffff]/;
  const untidy = () => page.evaluate((source) => {
    const walk = document.createTreeWalker(document.getElementById('page'), NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    const found = [];
    for (let node = walk.currentNode; node !== null; node = walk.nextNode()) {
      const texts = node.nodeType === 3 ? [node.data] : [...node.attributes].filter(({ name }) => name !== 'href').map(({ value }) => value);
      found.push(...texts.filter((one) => new RegExp(source).test(one)));
    }
    return found;
  }, odd.source);
  for (const view of ['', 'table?change=all', 'metadata']) {
    await page.evaluate((to) => { location.hash = `#/${to}`; }, view);
    await page.waitForSelector(`.view.shown[data-view=${view.split('?')[0] || 'overview'}]`);
    await page.waitForTimeout(80);
    assert.deepEqual(await untidy(), [], view);
    assert.equal(await page.$('.broken'), null, view);
  }
  for (let i = 0; i < HOSTILE_NAMES.length; i++) {
    await page.evaluate((to) => { location.hash = to; }, `#/at/${i}`);
    await page.waitForFunction((k) => location.hash === `#/at/${k}` && document.querySelector('.tensor-name') !== null, i);
    assert.deepEqual(await untidy(), [], `tensor ${i}`);
  }
  assert.doesNotMatch(await page.title(), odd);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  assert.deepEqual(await page.evaluate(() => [globalThis.broken, document.querySelectorAll('script').length, document.querySelectorAll('img, iframe, i, object, embed').length]), [undefined, 1, 0]);
  assert.ok(await page.$$eval('a', (all) => all.every((a) => (a.getAttribute('href') ?? '').startsWith('#/'))), 'no link leads out');
  assert.deepEqual(await quiet(), []);
});

test('nothing to show, and what cannot be shown', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const none = await openReport(browser, new DiffPayload({ change: 'none', same: true, reason: 'nothing differs', overall: { tensors: 0, moved: 0 } }).page(template));
  assert.equal(await none.page.textContent('h1'), 'tuned is the same as base.');
  for (const view of ['table', 'metadata', '']) {
    await none.page.evaluate((to) => { location.hash = `#/${to}`; }, view);
    await none.page.waitForSelector(`.view.shown[data-view=${view || 'overview'}]`);
    assert.equal(await none.page.$('.broken'), null);
  }
  assert.deepEqual(await none.quiet(), []);
  for (const [json, base64] of [['{', ''], ['{"schema":1}', ''], ['[]', ''], ['null', ''], ['{"schema":1,"kind":"diff","columns":{"count":5,"sections":[]}}', ''], ['{"schema":9}', 'AAAA']]) {
    const bad = await openReport(browser, wrap(template, json, base64, 'sft-diff'));
    assert.match(await bad.page.textContent('.broken'), /^This report cannot be shown: ./);
    assert.deepEqual(await bad.quiet(), []);
    await bad.page.close();
  }
});

test('many keys; paper', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const metadata = Array.from({ length: 50_000 }, (_, k) => ({ key: `key ${k}`, a: `old ${k}`, b: k % 2 ? `new ${k}` : null }));
  const { page, quiet } = await openReport(browser, tunedDiff(80, { metadata, metadata_changes: 50_000 }).page(template), { hash: '#/metadata' });
  await page.waitForSelector('.many .row');
  assert.equal(await page.textContent('.many .status'), '50,000 keys');
  await page.click('.many .row[aria-rowindex="2"]');
  assert.deepEqual(await page.$$eval('.pane pre', (all) => all.map((one) => one.textContent)), ['old 1', 'new 1']);
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  await page.emulateMedia({ media: 'print' });
  await page.setViewportSize({ width: 760, height: 1000 });
  const seen = (selector) => page.$eval(selector, (one) => one.checkVisibility());
  assert.deepEqual([await seen('.tiles'), await seen('.strip svg'), await seen('.paper'), await seen('nav'), await seen('.many')], [true, true, true, false, false]);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await picture(page, 'diff-paper', { fullPage: true });
  assert.deepEqual(await quiet(), []);
});

test('1,290,000 tensors of two models: first view, strip, table', { skip, timeout: 600_000 }, async (t) => {
  const browser = await startBrowser(t);
  const p = new DiffPayload();
  for (let l = 0; l < 61; l++) {
    for (let e = 0; e < 7050; e++) {
      for (const m of ['gate', 'up', 'down']) {
        p.add({ name: `model.layers.${l}.mlp.experts.${e}.${m}_proj.weight`, ...(e % 5000 === l ? { change: 'values', measures: { relative: 1 / (2 + l), cosine: 0.9 } } : {}) });
      }
    }
  }
  const html = p.page(template);
  const { page, quiet } = await openReport(browser, html);
  await page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
  const paint = await page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime);
  await page.waitForSelector('.strip svg a', { timeout: 120_000 });
  const strip = await page.evaluate(() => performance.now());
  assert.equal(await page.$$eval('.strip svg a', (all) => all.length), 61 * 3);
  await page.evaluate(() => { location.hash = '#/table'; });
  await shown(page);
  assert.match(await page.textContent('.tableview .status'), /^366 of 1,290,150 tensors/);
  t.diagnostic(`${html.length} bytes; first paint ${Math.round(paint)} ms, strip ${Math.round(strip)} ms`);
  assert.deepEqual(await quiet(), []);
});
