// SPDX-License-Identifier: Apache-2.0 OR MIT
// page.test.mjs - reports in headless Chromium, opened as files: what they show, keys, addresses, hostile text, paper.
// Each test asserts that nothing was asked for, refused by the policy, or said on the console.

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import test from 'node:test';
import { TEMPLATE, openReport, picture, skip, startBrowser } from './browser.mjs';
import { HOSTILE_NAMES, Payload, empty, experts, hostile, keys, quantised, random, readTemplate, seven, small, wrap } from './payload.mjs';

const template = readTemplate(TEMPLATE);
const SIZES = { wide: [1280, 860], narrow: [360, 740] };

const rowsShown = (page) => page.waitForFunction(() => {
  const status = document.querySelector('.tableview .status');
  return status !== null && /tensor/.test(status.textContent);
});

/** Goes to an address and waits until the table shows it. */
async function go(page, hash) {
  await page.evaluate((to) => {
    const status = document.querySelector('.tableview .status');
    if (status !== null) {
      status.textContent = '';
    }
    location.hash = to;
  }, hash);
  await rowsShown(page);
}

/** Names of the first rows, by their number. */
const visibleNames = (page) => page.evaluate(() => [...document.querySelectorAll('.tableview .row:not([hidden])')]
  .sort((a, b) => a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex')).map((row) => row.querySelector('.name').textContent));

test('three models, light and dark, wide and narrow', { skip }, async (t) => {
  const browser = await startBrowser(t);
  for (const [name, make] of Object.entries({ small, seven, quantised })) {
    const html = make().page(template);
    for (const [size, [width, height]] of Object.entries(SIZES)) {
      for (const dark of [false, true]) {
        const tensor = { small: 'h.3.attn.c_attn.weight', seven: 'model.layers.12.mlp.up_proj.weight', quantised: 'model.layers.2.mlp.up_proj.qweight' }[name];
        const { page, quiet } = await openReport(browser, html, { width, height, dark });
        await page.waitForSelector('.tree li');
        assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), 'nothing sticks out');
        const label = `${name}-${size}-${dark ? 'dark' : 'light'}`;
        await picture(page, `${label}-overview`, { fullPage: true });
        for (const view of ['table', 'files', 'metadata', 'findings']) {
          await page.evaluate((to) => { location.hash = to; }, `#/${view}`);
          await (view === 'table' ? rowsShown(page) : page.waitForSelector(`.view.shown[data-view=${view}]`));
          await page.waitForTimeout(100);
          assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), view);
          await picture(page, `${label}-${view}`);
        }
        await go(page, '#/table');
        await page.evaluate((to) => { location.hash = `#/tensor/${to}`; }, tensor);
        await page.waitForSelector('.detail .histogram svg');
        assert.equal(await page.textContent('.tensor-name'), tensor);
        assert.ok(await page.evaluate(() => {
          const row = document.querySelector('.row.active').getBoundingClientRect();
          const list = document.querySelector('.tableview .list').getBoundingClientRect();
          return row.top >= list.top && row.bottom <= list.bottom + 1;
        }), 'its row is in sight');
        await picture(page, `${label}-tensor`);
        assert.deepEqual(await quiet(), []);
        await page.close();
      }
    }
  }
});

test('what a page says of a model', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const { page, quiet } = await openReport(browser, quantised().page(template));
  assert.equal(await page.title(), 'Mistral-GPTQ \u2013 safetensors report');
  assert.deepEqual(await page.$$eval('.tile dd', (all) => all.map((one) => one.firstChild.textContent)), ['1.88 B', '1.09 GiB', '233', '2', '1']);
  assert.match(await page.textContent('.banner'), /warning.*index\.json names a tensor/);
  await page.evaluate(() => { location.hash = '#/tensor/model.layers.0.mlp.down_proj.qzeros'; });
  await page.waitForSelector('.inset');
  assert.match(await page.textContent('.inset'), /SchemeGPTQShape\[4096, 14336\]Parameters58,720,256Bits each4/);
  assert.equal(await page.$$eval('.members li', (all) => all.length), 4);
  await page.click('.members li:nth-child(3) a');
  await page.waitForFunction(() => /scales/.test(document.querySelector('.tensor-name').textContent));
  assert.deepEqual(await quiet(), []);
});

test('values of a tensor', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const p = new Payload({ statistics: 'full' });
  p.startFile('f.safetensors', 100);
  const counts = Array(64).fill(0).map((_, k) => k);
  p.add({
    name: 'a', dtype: 'F32', shape: [50, 100], stats: {
      n: 5000, nan: 3, positiveInfinity: 2, negativeInfinity: 1, zero: 500, negative: 2500, min: -1.25, max: 2.5, mean: 0.125, std: 0.5, norm: 77.5,
      percentiles: [-1.2, -1.1, -1, -0.5, 0.0625, 0.5, 1, 2, 2.25], low: -1.25, width: 3.75 / 64, counts,
    },
    heat: { rows: 2, columns: 2, scale: 1, cells: [0, 85, 170, 255] },
  });
  p.add({ name: 'b', dtype: 'F32', shape: [3], stats: { n: 3, nan: 3 } });
  p.add({ name: 'c', dtype: 'F32', shape: [0, 4], stats: { n: 0 } });
  const { page, quiet } = await openReport(browser, p.page(template), { hash: '#/tensor/a' });
  const facts = Object.fromEntries(await page.$$eval('.detail dl.facts > dt', (all) => all.map((dt) => [dt.textContent, dt.nextElementSibling.textContent])));
  assert.deepEqual(facts, {
    'Element type': 'F32', Shape: '[50, 100]', Elements: '5,000', Size: '19.5 KiB (20,000 bytes)', File: 'f.safetensors', Offset: '100 (0 in the data)', Alignment: '4',
    Minimum: '\u22121.25', Maximum: '2.5', Mean: '0.125', 'Std. deviation': '0.5', Norm: '77.5', Zeros: '500 (10.0 %)', Negative: '2,500 (50.0 %)', NaN: '3 (0.06 %)',
    '+\u221e': '2 (0.04 %)', '\u2212\u221e': '1 (0.02 %)',
  });
  assert.deepEqual(await page.$$eval('.percentiles div', (all) => all.map((one) => one.textContent)).then((all) => [all.length, all[0], all[4]]), [9, '0.1 %\u22121.2', 'median0.0625']);
  assert.equal(await page.$$eval('.histogram .bin', (all) => all.length), 64);
  const heights = () => page.$$eval('.histogram .bin', (all) => all.map((bin) => Number(bin.getAttribute('height'))));
  const plain = await heights();
  assert.ok(Math.abs(plain[32] / plain[63] - 32 / 63) < 0.02, 'heights are counts');
  await page.click('.switch input');
  assert.ok((await heights())[2] > 2 * plain[2], 'the logarithmic one');
  const zero = await page.$eval('.histogram .zero', (line) => Number(line.getAttribute('x1')));
  assert.ok(Math.abs(zero - (4 + 392 / 3)) < 0.01, `zero at ${zero}`);
  const pixel = await page.$eval('.detail canvas', (canvas) => [...canvas.getContext('2d').getImageData(canvas.width - 5, canvas.height - 5, 1, 1).data]);
  assert.deepEqual(pixel, [254, 232, 56, 255]);
  await page.evaluate(() => { location.hash = '#/tensor/b'; });
  await page.waitForSelector('.detail .warn');
  assert.match(await page.textContent('.detail'), /NaN3 \(100 %\)None of its values is a finite number/);
  await page.evaluate(() => { location.hash = '#/tensor/c'; });
  await page.waitForFunction(() => /It has no elements/.test(document.querySelector('.detail').textContent));
  assert.deepEqual(await quiet(), []);
});

test('sorting and filtering give what a plain program gives', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const p = new Payload({ statistics: 'full' });
  const rows = [];
  const next = random(21);
  for (let f = 0; f < 2; f++) {
    p.startFile(`f${f}.safetensors`, 64);
    for (let k = 0; k < 700; k++) {
      const stats = next() < 0.7 ? { n: 8, zero: Math.floor(8 * next()), min: Math.round(100 * (next() - 0.5)), max: 60, mean: 1, std: 1, norm: 5 * next() } : undefined;
      const row = { name: `l.${Math.floor(next() * 40)}.e.${k}.${'wxyz'[Math.floor(next() * 4)]}${f}`, dtype: ['F32', 'BF16', 'U8'][Math.floor(next() * 3)], shape: [1 + Math.floor(next() * 6), 1 + Math.floor(next() * 300)], stats };
      p.add(row);
      rows.push({ ...row, file: f, offset: p.places.end, i: rows.length, elements: row.shape[0] * row.shape[1] });
    }
  }
  const { page, quiet } = await openReport(browser, p.page(template), { hash: '#/table', width: 1400 });
  await rowsShown(page);
  const bytes = (row) => row.elements * { F32: 4, BF16: 2, U8: 1 }[row.dtype];
  const names = new Intl.Collator('en', { numeric: true });
  const keys = {
    name: (a, b) => names.compare(a.name, b.name), dtype: (a, b) => (a.dtype < b.dtype ? -1 : Number(a.dtype > b.dtype)), bytes: (a, b) => bytes(a) - bytes(b),
    elements: (a, b) => a.elements - b.elements, shape: (a, b) => a.shape[0] - b.shape[0] || a.shape[1] - b.shape[1], file: (a, b) => a.file - b.file,
    min: (a, b) => a.stats.min - b.stats.min, norm: (a, b) => a.stats.norm - b.stats.norm, zero: (a, b) => a.stats.zero - b.stats.zero,
  };
  const fits = { '': () => true, 'e.7': (row) => row.name.includes('e.7'), 'L.3.': (row) => row.name.includes('l.3.'), '*.[xy]1': (row) => /\.[xy]1$/.test(row.name), 'l.?.e.*0.w*': (row) => /^l\.[^]\.e\..*0\.w/.test(row.name) };
  for (const [key, compare] of Object.entries(keys)) {
    for (const down of [false, true]) {
      for (const filter of Object.keys(fits)) {
        for (const dtype of ['', 'BF16']) {
          await go(page, `#/table?filter=${encodeURIComponent(filter)}&dtype=${dtype}&sort=${down ? '-' : ''}${key}`);
          const stat = ['min', 'norm', 'zero'].includes(key);
          const want = rows.filter((row) => fits[filter](row) && (dtype === '' || row.dtype === dtype)).sort((a, b) => {
            const missing = stat ? Number(a.stats === undefined) - Number(b.stats === undefined) : 0;
            const both = !stat || (a.stats !== undefined && b.stats !== undefined);
            return missing || (both ? (down ? -1 : 1) * compare(a, b) : 0) || (a.i - b.i) * (down && key === 'name' ? -1 : 1);
          });
          const got = await visibleNames(page);
          assert.deepEqual(got, want.slice(0, got.length).map((row) => row.name), `${key} ${down} ${filter} ${dtype}`);
          assert.ok(got.length >= Math.min(15, want.length));
          assert.match(await page.textContent('.tableview .status'), new RegExp(`^${want.length === 1400 ? '1,400 tensors' : want.length.toLocaleString('en')}`));
        }
      }
    }
  }
  assert.deepEqual(await quiet(), []);
});

test('keys and addresses', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const { page, quiet } = await openReport(browser, seven().page(template), { hash: '#/table?sort=name' });
  await rowsShown(page);
  const active = () => page.evaluate(() => {
    const row = document.getElementById(document.querySelector('.tableview .list').getAttribute('aria-activedescendant'));
    return row === null ? '' : `${row.getAttribute('aria-rowindex')} ${row.querySelector('.name').textContent}`;
  });
  await page.focus('.tableview .list');
  await page.keyboard.press('ArrowDown');
  assert.equal(await active(), '2 lm_head.weight');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  assert.equal(await active(), '4 model.layers.0.input_layernorm.weight');
  await page.keyboard.press('End');
  assert.equal(await active(), '324 model.norm.weight');
  await page.keyboard.press('PageUp');
  const page1 = Number((await active()).split(' ')[0]);
  assert.ok(page1 < 324 && page1 > 290, String(page1));
  await page.keyboard.press('Home');
  await page.keyboard.press('ArrowUp');
  assert.equal(await active(), '2 lm_head.weight');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.detail');
  assert.equal(await page.evaluate(() => location.hash), '#/tensor/lm_head.weight');
  await page.click('.detail [aria-label="The next one"]');
  await page.waitForFunction(() => document.querySelector('.tensor-name').textContent === 'model.embed_tokens.weight');
  assert.equal(await active(), '3 model.embed_tokens.weight');
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => location.hash), '#/table?sort=name');
  await page.waitForFunction(() => document.querySelector('.detail') === null);
  await page.keyboard.press('/');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'filter');
  await page.keyboard.type('*.3.*q_proj*');
  await page.waitForFunction(() => document.querySelector('.tableview .status').textContent.startsWith('1 of 323'));
  assert.equal(await page.evaluate(() => location.hash), '#/table?filter=*.3.*q_proj*&sort=name');
  await page.keyboard.press('Enter');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.tensor-name');
  assert.equal(await page.textContent('.tensor-name'), 'model.layers.3.self_attn.q_proj.weight');
  await page.goBack();
  await page.waitForFunction(() => document.querySelector('.detail') === null);
  await page.keyboard.press('/');
  await page.keyboard.press('Escape');
  await page.waitForFunction(() => document.querySelector('.tableview .status').textContent === '323 tensors');
  await page.click('.head [data-key=bytes]');
  assert.equal(await page.evaluate(() => location.hash), '#/table?sort=-bytes');
  assert.equal(await page.getAttribute('.head span:has([data-key=bytes])', 'aria-sort'), 'descending');
  assert.deepEqual((await visibleNames(page)).slice(0, 2), ['model.embed_tokens.weight', 'lm_head.weight']);
  // the tree by keys
  await page.evaluate(() => { location.hash = '#/'; });
  await page.waitForSelector('.view.shown[data-view=overview]');
  await page.focus('.tree li[tabindex="0"]');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowRight');
  await page.keyboard.press('ArrowRight');
  const here = await page.evaluate(() => [document.activeElement.getAttribute('aria-level'), document.activeElement.querySelector('.name').textContent]);
  assert.deepEqual(here, ['3', 'input_layernorm.weight']);
  await page.keyboard.press('Enter');
  await rowsShown(page);
  assert.equal(await page.evaluate(() => new URLSearchParams(location.hash.split('?')[1]).get('filter')), 'model.layers.*.input_layernorm.weight');
  assert.match(await page.textContent('.tableview .status'), /^32 of/);
  // links from elsewhere, and to nowhere
  for (const [hash, want] of [['#/tensor/model.layers.30.mlp.up_proj.weight', 'model.layers.30.mlp.up_proj.weight'], ['#/at/0', 'model.embed_tokens.weight']]) {
    const other = await openReport(browser, undefined, { hash });
    await other.page.waitForSelector('.tensor-name');
    assert.equal(await other.page.textContent('.tensor-name'), want);
    assert.deepEqual(await other.quiet(), []);
    await other.page.close();
  }
  for (const hash of ['#/tensor/none', '#/at/323', '#/at/-1', '#/at/x', '#/nowhere', '#/table?sort=nothing&file=99&dtype=none', '#//', '#/tensor/%E0%A4%A']) {
    const other = await openReport(browser, undefined, { hash });
    assert.deepEqual(await other.quiet(), [], hash);
    assert.equal(await other.page.$('.tensor-name'), null);
    await other.page.close();
  }
  assert.deepEqual(await quiet(), []);
});

test('hostile names and texts are text', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const { page, quiet } = await openReport(browser, hostile().page(template));
  await page.waitForSelector('.tree li');
  await picture(page, 'hostile-overview', { fullPage: true });
  const odd = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ue000-\uf8ff\uffff]/;
  const untidy = () => page.evaluate((source) => {
    const walk = document.createTreeWalker(document.getElementById('page'), NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
    const found = [];
    for (let node = walk.currentNode; node !== null; node = walk.nextNode()) {
      const texts = node.nodeType === 3 ? [node.data] : node instanceof SVGElement ? [] : [...node.attributes].filter(({ name }) => name !== 'href').map(({ value }) => value);
      found.push(...texts.filter((one) => new RegExp(source).test(one)));
    }
    return found;
  }, odd.source);
  for (const view of ['', 'table', 'files', 'metadata', 'findings']) {
    await page.evaluate((to) => { location.hash = `#/${to}`; }, view);
    await page.waitForSelector(`.view.shown[data-view=${view || 'overview'}]`);
    await page.waitForTimeout(60);
    assert.deepEqual(await untidy(), [], view);
    assert.equal(await page.$('.broken'), null, view);
    await picture(page, `hostile-${view || 'start'}`);
  }
  for (let i = 0; i < HOSTILE_NAMES.length; i++) {
    await page.evaluate((to) => { location.hash = to; }, `#/at/${i}`);
    await page.waitForFunction((k) => location.hash === `#/at/${k}` && document.querySelector('.tensor-name') !== null, i);
    assert.deepEqual(await untidy(), [], `tensor ${i}`);
    if (HOSTILE_NAMES[i].length <= 1000) {
      const name = HOSTILE_NAMES[i];
      const shown = await page.textContent('.tensor-name');
      assert.ok(odd.test(name) || /[\n\t\u00ad\u3164]/.test(name) || /\p{Co}|\u200d/u.test(name) || name !== name.normalize('NFC') || /^ | $/.test(name) ? shown.includes('\\') : shown === name, JSON.stringify([name, shown]));
    }
  }
  await go(page, `#/table?filter=${encodeURIComponent('</script>')}`);
  assert.match(await page.textContent('.tableview .status'), /^1 of 49/);
  assert.deepEqual(await page.evaluate(() => [globalThis.broken, document.querySelectorAll('script').length, document.querySelectorAll('img, iframe, b, i, object, embed').length]), [undefined, 1, 0]);
  assert.deepEqual(await quiet(), []);
});

test('nothing to show, and what cannot be shown', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const none = await openReport(browser, empty().page(template));
  assert.match(await none.page.textContent('main'), /This model has no tensors/);
  for (const view of ['table', 'files', 'metadata', 'findings']) {
    await none.page.evaluate((to) => { location.hash = `#/${to}`; }, view);
    await none.page.waitForSelector(`.view.shown[data-view=${view}]`);
  }
  await rowsShown(none.page);
  await none.page.focus('.tableview .list');
  await none.page.keyboard.press('ArrowDown');
  assert.deepEqual(await none.quiet(), []);
  const alone = await openReport(browser, template);
  assert.match(await alone.page.textContent('#page'), /safetensors report MODEL -o report\.html/);
  assert.deepEqual(await alone.quiet(), []);
  for (const [json, base64] of [['{', ''], ['{"schema":1}', ''], ['[]', ''], ['null', ''], ['{"schema":1,"columns":{"count":1e12,"sections":[]}}', ''], ['{"schema":9}', 'AAAA'], ['{"schema":1}', '!!!']]) {
    const bad = await openReport(browser, wrap(template, json, base64));
    assert.match(await bad.page.textContent('.broken'), /^This report cannot be shown: ./);
    assert.deepEqual(await bad.quiet(), []);
    await bad.page.close();
  }
});

test('a million metadata keys', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const { page, quiet } = await openReport(browser, keys().page(template));
  await page.evaluate(() => { location.hash = '#/metadata'; });
  await page.waitForSelector('.many .row');
  assert.equal(await page.textContent('.many .status'), '1,000,000 keys');
  assert.ok(await page.$$eval('.many .row', (all) => all.length) < 60);
  await page.focus('.many .list');
  await page.keyboard.press('End');
  assert.match(await page.textContent('.many .row.active'), /key 999999/);
  await page.fill('.many input', 'KEY 5');
  await page.waitForFunction(() => /^111,111 of/.test(document.querySelector('.many .status').textContent));
  await page.click('.many .row[aria-rowindex="1"]');
  assert.equal(await page.textContent('.pane pre'), '{\n  "five": [\n    5\n  ]\n}');
  await picture(page, 'keys');
  assert.deepEqual(await quiet(), []);
});

test('the switch of light and dark', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const { page, quiet } = await openReport(browser, small().page(template), { hash: '#/files' });
  await page.waitForTimeout(200);
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const strip = () => page.$eval('.file canvas', (canvas) => canvas.toDataURL());
  const light = [await ground(), await strip()];
  await page.click('#theme');
  assert.deepEqual([await ground(), await strip()], light);
  await page.click('#theme');
  const dark = [await ground(), await strip()];
  assert.notEqual(dark[0], light[0]);
  assert.notEqual(dark[1], light[1], 'canvases change, too');
  await page.click('#theme');
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.waitForTimeout(100);
  assert.deepEqual([await ground(), await strip()], dark);
  assert.deepEqual(await quiet(), []);
});

test('on paper: summary, bars, the picture, first rows, whatever was shown', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const { page, quiet } = await openReport(browser, seven().page(template), { hash: '#/table', dark: true });
  await rowsShown(page);
  await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  await page.setViewportSize({ width: 760, height: 1000 });
  const seen = (selector) => page.$eval(selector, (one) => one.checkVisibility());
  assert.deepEqual([await seen('.tiles'), await seen('.bars'), await seen('.treemap svg'), await seen('.paper'), await seen('nav'), await seen('.tableview')], [true, true, true, true, false, false]);
  assert.equal(await page.$$eval('.paper tbody tr', (all) => all.length), 40);
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  await picture(page, 'paper', { fullPage: true });
  const pdf = await page.pdf({ format: 'A4' });
  assert.ok(pdf.length > 10_000 && pdf.length < 3_000_000);
  assert.deepEqual(await quiet(), []);
});

/* ---------------------------------------------------------------- speed */

/** Script, style and layout of each frame in milliseconds of the processor, while `act` runs in the page. */
async function frames(page, act) {
  const session = await page.context().newCDPSession(page);
  const events = [];
  session.on('Tracing.dataCollected', ({ value }) => events.push(...value));
  const ended = new Promise((resolve) => session.once('Tracing.tracingComplete', resolve));
  await session.send('Tracing.start', { transferMode: 'ReportEvents', traceConfig: { includedCategories: ['devtools.timeline', 'blink'], excludedCategories: ['*'] } });
  await page.evaluate(act);
  await session.send('Tracing.end');
  await ended;
  await session.detach();
  const begins = events.filter(({ name }) => name === 'WebFrameWidgetImpl::BeginMainFrame');
  const threads = new Map();
  begins.forEach(({ pid, tid }) => threads.set(`${pid} ${tid}`, (threads.get(`${pid} ${tid}`) ?? 0) + 1));
  const [thread] = [...threads].sort((a, b) => b[1] - a[1])[0];
  const starts = begins.filter(({ pid, tid }) => `${pid} ${tid}` === thread).map(({ ts }) => ts).sort((a, b) => a - b);
  const work = events.filter(({ name, ph, pid, tid }) => ph === 'X' && `${pid} ${tid}` === thread
    && /^(EventDispatch|FireAnimationFrame|FunctionCall|TimerFire|RunMicrotasks|UpdateLayoutTree|Layout|ScheduleStyleRecalculation|MajorGC|MinorGC)$/.test(name)).sort((a, b) => a.ts - b.ts || b.dur - a.dur);
  const per = starts.map(() => 0);
  let end = -1;
  let frame = 0;
  for (const { ts, dur, tdur } of work) {
    if (ts < end) {
      continue; // inside of one that counts already
    }
    end = ts + dur;
    while (frame + 1 < starts.length && starts[frame + 1] <= ts) {
      frame++;
    }
    per[frame] += (tdur ?? dur) / 1000;
  }
  const sorted = per.slice(1).sort((a, b) => a - b);
  const at = (share) => Math.round(100 * (sorted[Math.floor(share * (sorted.length - 1))] ?? 0)) / 100;
  return { frames: sorted.length, p50: at(0.5), p95: at(0.95), max: at(1) };
}

test('1,290,000 tensors: first view, memory, scrolling, filters', { skip, timeout: 600_000 }, async (t) => {
  const COUNT = 1_290_000;
  const browser = await startBrowser(t);
  const html = experts(COUNT).page(template, { withStats: false });
  t.diagnostic(`${html.length} bytes`);
  const first = [];
  let open;
  for (let k = 0; k < 5; k++) {
    await open?.page.close();
    open = await openReport(browser, k === 0 ? html : undefined);
    await open.page.waitForFunction(() => performance.getEntriesByName('first-contentful-paint').length > 0);
    first.push(Math.round(await open.page.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0].startTime)));
  }
  const { page, quiet } = open;
  first.sort((a, b) => a - b);
  t.diagnostic(`first view after ${first.join(', ')} ms, load ${loadavg()[0].toFixed(1)} on ${cpus().length} processors`);
  await page.waitForSelector('.tree li');
  await picture(page, 'million-overview', { fullPage: true });
  await page.evaluate(() => { location.hash = '#/table'; });
  await rowsShown(page);
  assert.equal(await page.textContent('.tableview .status'), '1,290,000 tensors');
  assert.ok(await page.$$eval('.tableview .row', (all) => all.length) < 80);
  await picture(page, 'million-table');

  // Every row can be reached, and the scroll bar's ends are the list's.
  await page.focus('.tableview .list');
  await page.keyboard.press('End');
  assert.equal(await page.$eval('.tableview .row.active', (row) => row.getAttribute('aria-rowindex')), String(COUNT + 1));
  await page.keyboard.press('ArrowUp');
  assert.equal(await page.$eval('.tableview .row.active', (row) => row.getAttribute('aria-rowindex')), String(COUNT));
  await page.keyboard.press('Home');

  const wheel = await frames(page, () => new Promise((resolve) => {
    const list = document.querySelector('.tableview .list');
    let n = 0;
    const step = () => {
      list.scrollTop += 97;
      n++;
      requestAnimationFrame(n < 240 ? step : resolve);
    };
    step();
  }));
  const jumps = await frames(page, () => new Promise((resolve) => {
    const list = document.querySelector('.tableview .list');
    let n = 0;
    const step = () => {
      list.scrollTop = (n * 7919 % 1000) / 1000 * list.scrollHeight;
      n++;
      requestAnimationFrame(n < 240 ? step : resolve);
    };
    step();
  }));
  t.diagnostic(`frames of short steps: ${JSON.stringify(wheel)}`);
  t.diagnostic(`frames of jumps, all rows new: ${JSON.stringify(jumps)}`);

  // A wheel moves by what it says however high the list is, and what is shown are rows in order.
  await page.evaluate(() => { document.querySelector('.tableview .list').scrollTop = 4_000_000; });
  await page.waitForTimeout(400);
  const rows = () => page.$$eval('.tableview .row:not([hidden])', (all) => all.map((row) => [Number(row.getAttribute('aria-rowindex')), Math.round(row.getBoundingClientRect().top)]).sort((a, b) => a[0] - b[0]));
  const before = await rows();
  assert.ok(before[0][0] > 600_000 && before[0][0] < 690_000, String(before[0]));
  const box = await (await page.$('.tableview .list')).boundingBox();
  await page.mouse.move(box.x + 50, box.y + 50);
  await page.mouse.wheel(0, 280);
  await page.waitForFunction((old) => Math.min(...[...document.querySelectorAll('.tableview .row')].map((row) => Number(row.getAttribute('aria-rowindex')))) >= old + 10, before[0][0]);
  await page.waitForTimeout(400); // the bar settles
  const after = await rows();
  assert.equal(after[0][0], before[0][0] + 10);
  assert.equal(after[0][1], before[0][1]);
  after.forEach(([index, top], k) => assert.deepEqual([index, top], [after[0][0] + k, after[0][1] + 28 * k]));

  const times = {};
  for (const query of ['sort=name', 'sort=-bytes', 'filter=down', 'filter=experts.17.', 'filter=*.experts.[0-9].*&sort=name', '']) {
    const begin = performance.now();
    await go(page, `#/table?${query}`);
    times[query] = `${Math.round(performance.now() - begin)} ms, ${await page.textContent('.tableview .status')}`;
  }
  t.diagnostic(JSON.stringify(times, null, 1));
  assert.match(times['filter=experts.17.'], /, 348 of 1,290,000/);
  assert.match(times['filter=*.experts.[0-9].*&sort=name'], /, 3,480 of 1,290,000/);

  await page.evaluate(() => { location.hash = '#/tensor/model.layers.59.mlp.experts.200.up_proj.weight'; });
  await page.waitForSelector('.tensor-name');
  await page.evaluate(() => { location.hash = '#/files'; });
  await page.waitForSelector('.file canvas');
  await picture(page, 'million-files');

  const session = await page.context().newCDPSession(page);
  await session.send('HeapProfiler.collectGarbage');
  const heap = await session.send('Runtime.getHeapUsage');
  const resident = rendererMemory();
  const used = Math.round((heap.usedSize + heap.backingStorageSize + heap.embedderHeapUsedSize) / 2 ** 20);
  t.diagnostic(`memory: ${used} MiB of scripts; renderer ${resident} MiB resident`);
  assert.ok(used < 300, `${used} MiB`);
  assert.ok(resident < 600, `${resident} MiB`);
  assert.ok(wheel.frames > 100 && jumps.frames > 100);
  assert.deepEqual(await quiet(), []);
});

test('in the frame of a notebook, every link stays inside', { skip }, async (t) => {
  const browser = await startBrowser(t);
  const escaped = small().page(template).replaceAll('&', '&amp;').replaceAll('"', '&quot;');
  const { page, quiet, url } = await openReport(browser,
    `<!doctype html><body data-ready="true"><iframe sandbox="allow-scripts" style="width: 900px; height: 700px" srcdoc="${escaped}"></iframe>`);
  const inner = await (await page.waitForSelector('iframe')).contentFrame();
  await inner.waitForSelector('.tree li');
  await inner.click('nav a[data-view=table]');
  await inner.waitForSelector('.tableview .row');
  await inner.fill('.tableview input', 'h.3.attn');
  await inner.waitForFunction(() => / of /.test(document.querySelector('.tableview .status').textContent));
  await inner.click('.tableview .row .name');
  await inner.waitForSelector('.tensor-name');
  const first = await inner.textContent('.tensor-name');
  assert.match(first, /^h\.3\.attn/);
  await inner.click('.detail [aria-label="The next one"]');
  await inner.waitForFunction((before) => document.querySelector('.tensor-name').textContent !== before, first);
  await inner.press('.tableview input', 'Escape');
  await inner.click('nav a[data-view=files]');
  await inner.waitForSelector('.file canvas');
  assert.equal(inner.url().split('#')[0], 'about:srcdoc');
  assert.equal(page.url(), url);
  assert.equal(page.frames().length, 2);
  await picture(page, 'notebook');
  assert.deepEqual((await quiet()).filter((line) => line !== 'request: about:srcdoc'), []);
});

/** What the largest renderer process of this test's browser holds, in MiB. */
function rendererMemory() {
  const list = new Map();
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      list.set(pid, {
        parent: /^PPid:\s+(\d+)/m.exec(status)[1], resident: Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0) / 1024,
        renderer: readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--type=renderer'),
      });
    } catch {
      // it has ended
    }
  }
  const ours = (pid) => pid === String(process.pid) || (list.has(pid) && ours(list.get(pid).parent));
  return Math.round(Math.max(...[...list].filter(([pid, { renderer }]) => renderer && ours(pid)).map(([, { resident }]) => resident)));
}
