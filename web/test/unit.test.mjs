// SPDX-License-Identifier: Apache-2.0 OR MIT
// unit.test.mjs - what needs no browser: reading data, names, orders, patterns, folding, pictures' areas, texts, and
// rules that the sources keep.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { ROOT, TEMPLATE } from './browser.mjs';
import { HOSTILE_NAMES, Payload, experts, hostile, quantised, random, readTemplate, seven, small, statsOf } from './payload.mjs';

const load = (name) => import(join(ROOT, `obj/${name}.js`));
const { Embedded, fromBase64 } = await load('embedded');
const { sortStable } = await load('order');
const { glob, isGlob, quoteGlob } = await load('glob');
const { keep, select } = await load('filter');
const { Scale } = await load('list');
const { branchesBelow, root } = await load('tree');
const { Shares, squarify, treemap } = await load('treemap');
const { strip, fileMaps } = await load('files');
const text = await load('text');
const { Context, parseRoute, tableLink } = await load('context');

test('counts of 64 bits, and what lies behind them', async () => {
  const { Reader } = await load('names');
  const leb = (value) => {
    const out = [];
    for (let rest = value; ; rest >>= 7n) {
      out.push(Number(rest & 127n) | (rest > 127n ? 128 : 0));
      if (rest <= 127n) {
        return out;
      }
    }
  };
  const values = [0n, 127n, 128n, 2n ** 53n - 1n, 2n ** 63n - 1n, 2n ** 63n, 2n ** 64n - 1n, 5n];
  const reader = new Reader(Uint8Array.from(values.flatMap(leb)));
  assert.deepEqual(values.map(() => reader.number()), values.map(Number));
});

/** The model of a report, read as the page reads it. */
function modelOf(payload, options) {
  const html = payload.page(`<!-- sft:data -->`, options);
  const [, json, base64] = /^<script[^>]*>(.*?)<\/script>\n<script[^>]*>(.*?)<\/script>$/s.exec(html);
  return new Embedded(JSON.parse(json), fromBase64(base64));
}

const allNames = (model) => Array.from({ length: model.count }, (_, i) => model.name(i));

/* ---------------------------------------------------------------- data */

test('columns come back as they were written', () => {
  const p = new Payload();
  const rows = [];
  const next = random(3);
  for (let f = 0; f < 3; f++) {
    p.startFile(`f${f}`, 1000 + f);
    for (let i = 0; i < 500; i++) {
      const name = `a.${Math.floor(next() * 5)}.b${i}_${Math.floor(next() * 2 ** 53)}.${next() < 0.1 ? '007' : 'x'}`;
      const shape = Array.from({ length: Math.floor(next() * 4) }, () => Math.floor(next() * 5));
      const values = Array.from({ length: 1 + Math.floor(next() * 90) }, () => (next() < 0.1 ? NaN : next() < 0.1 ? -Infinity : (next() - 0.5) * 10 ** (20 * next())));
      const stats = next() < 0.8 ? { ...statsOf(values), sample: next() < 0.5 } : undefined;
      const heat = next() < 0.5 ? { rows: 2, columns: 3, scale: 0.5, cells: [1, 2, 3, 4, 5, 255] } : undefined;
      const row = { name, dtype: ['F32', 'U8'][i % 2], shape, gap: Math.floor(next() * 300) * (next() < 0.2 ? 1e9 : 1), stats, heat };
      p.add(row);
      rows.push({ ...row, file: f, end: p.end });
    }
  }
  const model = modelOf(p);
  assert.equal(model.count, rows.length);
  rows.forEach((row, i) => {
    const kind = model.kind(i);
    assert.equal(model.name(i), row.name);
    assert.deepEqual(kind.shape, row.shape);
    assert.equal(model.summary.dtypes[kind.dtype].name, row.dtype);
    assert.deepEqual(model.place(i), { file: row.file, offset: row.end - kind.bytes });
    const s = model.stats(i);
    assert.equal(s === undefined, row.stats === undefined);
    if (s !== undefined) {
      for (const key of ['n', 'nan', 'negativeInfinity', 'zero', 'negative', 'sample']) {
        assert.equal(s[key], row.stats[key]);
      }
      for (const key of ['min', 'max', 'mean', 'std', 'norm']) {
        assert.equal(s[key], row.stats[key] ?? NaN);
      }
      assert.deepEqual(s.percentiles, Array.from({ length: 9 }, (_, k) => Math.fround(row.stats.percentiles?.[k] ?? NaN)));
      assert.deepEqual(s.histogram?.counts, row.stats.counts);
      assert.equal(s.histogram?.low, row.stats.low);
    }
    const heat = model.heat(i);
    assert.deepEqual(heat && [...heat.cells], row.heat?.cells);
  });
  assert.equal(model.names.find(rows[700].name), 700);
  assert.equal(model.names.find('a.1'), -1);
});

test('numbers of up to 2^53', () => {
  const p = new Payload();
  p.startFile('f');
  const values = [0, 127, 128, 16383, 16384, 2 ** 31, 2 ** 32 + 5, 2 ** 53 - 1];
  values.forEach((n) => p.add({ name: `x${n}`, dtype: 'U8', shape: [1] }));
  assert.deepEqual(allNames(modelOf(p)), values.map((n) => `x${n}`));
});

test('broken data are refused with a reason', () => {
  const whole = small();
  whole.page('<!-- sft:data -->');
  const { summary } = whole;
  const all = Buffer.concat(['names', 'kinds', 'places', 'stats', 'heat'].map((name) => whole[name].done()));
  assert.equal(new Embedded(summary, all).count, 51);
  const broken = (change, bytes = all) => {
    const copy = structuredClone(summary);
    change(copy);
    assert.throws(() => new Embedded(copy, bytes), (e) => e instanceof Error && /report|template|kind|ends?|entries|outside/.test(e.message));
  };
  broken((s) => { s.schema = 2; });
  broken(() => {}, all.subarray(0, all.length - 1));
  broken((s) => { s.columns.count = 1e9; });
  broken((s) => { s.columns.count = 52; });
  broken((s) => { s.templates.pop(); });
  broken((s) => { s.kinds.pop(); });
  broken((s) => { s.columns.sections[3].bytes -= 5; });
  broken((s) => { s.columns.sections[0].offset = -1; });
});

/* ---------------------------------------------------------------- names and orders */

/** What the tool's natural order says, for names whose numbers have no leading zeros. */
function natural(a, b) {
  const x = a.match(/[0-9]+|[^0-9]/g) ?? [];
  const y = b.match(/[0-9]+|[^0-9]/g) ?? [];
  for (let k = 0; k < Math.min(x.length, y.length); k++) {
    if (x[k] !== y[k]) {
      const digits = /^[0-9]/.test(x[k]) && /^[0-9]/.test(y[k]);
      return digits ? Number(x[k]) - Number(y[k]) : x[k] < y[k] ? -1 : 1;
    }
  }
  return x.length - y.length;
}

test('the order of names', () => {
  const p = new Payload();
  p.startFile('f');
  const next = random(5);
  const names = new Set();
  while (names.size < 5000) {
    names.add(Array.from({ length: 1 + Math.floor(next() * 4) }, () => ['a', 'layers.', 'layers-', 'b', String(Math.floor(next() * 300)), '.', 'Z', '~'][Math.floor(next() * 8)])
      .join('').replace(/0+(?=[0-9])/g, ''));
  }
  for (const name of names) {
    p.add({ name, dtype: 'U8', shape: [1] });
  }
  const model = modelOf(p);
  const got = [...model.names.order()].map((i) => model.name(i));
  assert.deepEqual(got, [...names].sort(natural));
});

test('a name of many numbers costs little to sort', () => {
  const p = new Payload();
  p.startFile('f');
  for (let k = 0; k < 200; k++) {
    p.add({ name: `${k % 7}.`.repeat(3000) + k, dtype: 'U8', shape: [1] });
  }
  const model = modelOf(p);
  const begin = performance.now();
  assert.equal(new Set(model.names.order()).size, 200);
  assert.ok(performance.now() - begin < 3000);
});

test('sorting is stable, both ways, with those without a value last', () => {
  const next = random(9);
  for (const n of [0, 1, 2, 50, 5000]) {
    for (const make of [() => Math.floor(next() * 10), () => Math.floor(next() * 65536), () => Math.floor(next() * 65540), () => (next() - 0.5) * 1e300, () => [NaN, Infinity, -Infinity, 0, -0, 5e-324, -5e-324, 2 ** 33, 1][Math.floor(next() * 9)],
      () => Math.floor(next() * 2 ** 45)]) {
      const key = Float64Array.from({ length: n }, make);
      const order = Uint32Array.from({ length: n }, (_, i) => n - 1 - i);
      for (const down of [false, true]) {
        const want = [...order].sort((a, b) => (Number.isNaN(key[a]) || Number.isNaN(key[b]) ? Number(Number.isNaN(key[a])) - Number(Number.isNaN(key[b]))
          : key[a] === key[b] ? 0 : (key[a] < key[b]) !== down ? -1 : 1));
        assert.deepEqual([...sortStable(order, key, down)], want);
      }
    }
  }
});

/* ---------------------------------------------------------------- patterns and filters */

test('patterns: the same table as the tool', () => {
  const source = readFileSync(join(process.env.SFT_ROOT ?? join(ROOT, '../..'), 'tests/unit/patterns.inc'), 'utf8');
  const rows = [...source.matchAll(/^\{("(?:[^"\\]|\\.)*"), ("(?:[^"\\]|\\.)*"), ([01])\},$/gm)];
  assert.ok(rows.length > 30, `${rows.length} rows`);
  const cString = (quoted) => {
    const bytes = [];
    for (const [token] of quoted.slice(1, -1).matchAll(/\\x[0-9a-fA-F]{1,2}|\\[0-7]{1,3}|\\.|[^\\]/gsu)) {
      if (/^\\x/.test(token)) {
        bytes.push(parseInt(token.slice(2), 16));
      } else if (/^\\[0-7]/.test(token)) {
        bytes.push(parseInt(token.slice(1), 8));
      } else {
        bytes.push(...Buffer.from(token[0] === '\\' ? { n: '\n', t: '\t' }[token[1]] ?? token[1] : token));
      }
    }
    return new TextDecoder('utf8', { fatal: true }).decode(Uint8Array.from(bytes));
  };
  let tried = 0;
  for (const [, pattern, name, fits] of rows) {
    let both;
    try {
      both = [cString(pattern), cString(name)];
    } catch {
      continue; // bytes that are no text: names in reports always are
    }
    tried++;
    assert.equal(glob(both[0])(both[1]), fits === '1', `${pattern} ${name}`);
  }
  assert.ok(tried > 30, `${tried} tried`);
});

test('a pattern of many stars ends', () => {
  const begin = performance.now();
  assert.equal(glob(`${'*a'.repeat(50)}b`)('a'.repeat(100_000)), false);
  assert.ok(performance.now() - begin < 3000);
  const ends = performance.now();
  const long = 'a'.repeat(100_000);
  for (let k = 0; k < 100; k++) {
    assert.equal(glob(`a*${'?'.repeat(400)}b`)(long), false);
  }
  assert.ok(performance.now() - ends < 1000, 'what is behind the last star is in one place');
  for (const [pattern, name, want] of [['*?', '', false], ['*?', '\u{1f600}', true], ['*??', '\u{1f600}', false], ['*??', 'a\u{1f600}', true], ['a*a', 'a', false], ['a*a', 'aa', true],
    ['*\u{1f600}', 'x\u{1f600}', true], ['*[!a]', '\ud83d', true], ['*ab*ab', 'abab', true], ['*ab*ab', 'abaab', true], ['*ab*ab', 'ab', false], ['**', '', true]]) {
    assert.equal(glob(pattern)(name), want, pattern);
  }
  assert.ok(glob(quoteGlob('a[b]*?\\c'))('a[b]*?\\c'));
  assert.ok(!glob(quoteGlob('a[b]'))('ab'));
  assert.ok(isGlob('a*') && !isGlob('a.b'));
});

test('filters give what looking at each name gives', async () => {
  const cases = ['', 'expert', 'EXPERTS.1', '3', 's.1', '*', '*.weight', 'model.layers.[0-2].*', '*.experts.?.*', 'model.layers.1?.mlp*', '\\*', 'h.*', 'x', '[', 'layers.7.'];
  for (const model of [modelOf(experts(20_000)), modelOf(small()), modelOf(hostile())]) {
    const names = allNames(model);
    for (const wanted of [...cases, ...HOSTILE_NAMES.filter((name) => name.length < 100)]) {
      for (const dtype of ['', 'F32']) {
        const selected = await select(model, { text: wanted, dtype, file: -1 }, () => true);
        const plain = isGlob(wanted) ? glob(wanted) : (name) => name.toLowerCase().includes(wanted.toLowerCase());
        names.forEach((name, i) => {
          const want = plain(name) && (dtype === '' || model.summary.dtypes[model.kind(i).dtype].name === dtype);
          if (selected[i] !== Number(want)) {
            assert.fail(`${JSON.stringify(wanted)} ${JSON.stringify(name)}: ${selected[i]}`);
          }
        });
      }
    }
    const order = model.names.order();
    const selected = await select(model, { text: '3', dtype: '', file: -1 }, () => true);
    assert.deepEqual([...keep(order, selected)], [...order].filter((i) => selected[i] === 1));
  }
});

/* ---------------------------------------------------------------- folding */

/** All lines of the tree, opened. */
function lines(model, above) {
  const out = [];
  const left = [...branchesBelow(model, above)];
  while (left.length > 0) {
    const branch = left.shift();
    out.push(branch);
    if (branch.tensor < 0) {
      left.unshift(...branchesBelow(model, branch));
    }
  }
  return out;
}

test('layers of one structure are one line', () => {
  const model = modelOf(seven());
  const top = [...branchesBelow(model, root(model))];
  assert.deepEqual(top.map(({ label, tensors }) => [label, tensors]), [['model.', 322], ['lm_head.weight', 1]]);
  const inside = [...branchesBelow(model, top[0])];
  assert.deepEqual(inside.map(({ label, times, tensors }) => [label, times, tensors]), [['embed_tokens.weight', 1, 1], ['layers.0\u202631.', 32, 320], ['norm.weight', 1, 1]]);
  const q = lines(model, inside[1]).find(({ label }) => label.startsWith('q_proj'));
  assert.deepEqual([q.times, q.bytes, model.name(q.tensor)], [32, 32 * 4096 * 4096 * 2, 'model.layers.0.self_attn.q_proj.weight']);
});

test('layers of another structure, shape or type are not', () => {
  const model = modelOf(experts(20_000));
  const layers = lines(model, root(model)).filter(({ label, times }) => /^[0-9]+(\u2026|\.)/.test(label) && times < 100);
  assert.deepEqual(layers.slice(0, 2).map(({ label, times }) => [label, times]), [['0\u20262.', 3], ['3\u202659.', 57]]);
  const p = new Payload();
  p.startFile('f');
  for (let l = 0; l < 6; l++) {
    p.add({ name: `l.${l}.w`, dtype: l === 2 ? 'F16' : 'F32', shape: [l === 4 ? 3 : 2] });
  }
  p.add({ name: 'l', dtype: 'F32', shape: [9] });
  p.add({ name: 'l.0.w.x', dtype: 'F32', shape: [9] });
  const odd = modelOf(p);
  const found = lines(odd, root(odd));
  assert.deepEqual(found.filter(({ tensor }) => tensor >= 0).reduce((sum, { tensors }) => sum + tensors, 0), 8);
  assert.ok(found.some(({ label, times }) => label.includes('1, 3, 5') && times === 3), found.map(({ label }) => label).join(' | '));
  const large = new Payload(); // numbers that are alike in 32 bits
  large.startFile('f');
  for (const name of ['l.0.x.5.w', 'l.0.x.7.w', 'l.1.x.7.w', 'l.1.x.4294967301.w']) {
    large.add({ name, dtype: 'F32', shape: [2] });
  }
  const two = lines(modelOf(large), root(modelOf(large)));
  assert.ok(two.some(({ label }) => label.includes('4294967301')) && two.every(({ times }) => times < 4), two.map(({ label }) => label).join(' | '));
});

test('lines account for every tensor and byte', () => {
  for (const model of [modelOf(small()), modelOf(quantised()), modelOf(experts(5000)), modelOf(hostile())]) {
    const leaves = lines(model, root(model)).filter(({ tensor }) => tensor >= 0);
    const bytes = Array.from({ length: model.count }, (_, i) => model.kind(i).bytes).reduce((a, b) => a + b, 0);
    assert.equal(leaves.reduce((sum, { tensors }) => sum + tensors, 0), model.count);
    assert.equal(leaves.reduce((sum, line) => sum + line.bytes, 0), bytes);
  }
});

test('names without anything in common cost little to look at', () => {
  const p = new Payload();
  p.startFile('f');
  const next = random(2);
  const word = () => Array.from({ length: 8 }, () => 'abcdefghijklmnop'[Math.floor(16 * next())]).join('');
  for (let k = 0; k < 100_000; k++) {
    p.add({ name: `${word()}.${word()}`, dtype: 'U8', shape: [1 + k % 9] });
  }
  const model = modelOf(p);
  const begin = performance.now();
  const shares = new Shares(model, quoteGlob);
  assert.ok(treemap(shares, { x: 0, y: 0, width: 1000, height: 400 }).length <= 400);
  shares.modules();
  const lazy = branchesBelow(model, root(model));
  for (let k = 0; k < 200; k++) {
    assert.equal(lazy.next().value.tensors, 1);
  }
  assert.ok(performance.now() - begin < 5000, `${performance.now() - begin} ms`);
});

test('areas are bytes', () => {
  const boxes = squarify([60, 30, 20, 10], { x: 0, y: 0, width: 12, height: 10 });
  assert.deepEqual(boxes.map(({ width, height }) => Math.round(width * height * 1e6) / 1e6), [60, 30, 20, 10]);
  for (const model of [modelOf(small()), modelOf(seven()), modelOf(experts(20_000))]) {
    const box = { x: 0, y: 0, width: 1000, height: 400 };
    const tiles = treemap(new Shares(model, quoteGlob), box);
    assert.ok(tiles.length > 5 && tiles.length < 1000);
    for (const tile of tiles) {
      assert.ok(tile.x >= -1e-6 && tile.y >= -1e-6 && tile.x + tile.width <= 1000.001 && tile.y + tile.height <= 400.001);
    }
  }
  const modules = new Shares(modelOf(seven()), quoteGlob).modules();
  assert.equal(modules.reduce((sum, { tensors }) => sum + tensors, 0), 323);
});

test('maps of files', () => {
  const p = new Payload();
  p.startFile('f', 100);
  p.add({ name: 'a', dtype: 'U8', shape: [400] });
  p.add({ name: 'b', dtype: 'F32', shape: [100], gap: 50 });
  p.summary.files[0].bytes = 1000;
  const model = modelOf(p);
  const context = new Context(model);
  const [map] = fileMaps(context);
  assert.deepEqual([map.gapBytes, map.gaps], [100, [{ offset: 500, bytes: 50 }, { offset: 950, bytes: 50 }]]);
  const slots = strip(context, map, 1000, 100);
  assert.deepEqual([slots[5], slots[30], slots[52], slots[70], slots[97]], [8, context.slots[0], 9, context.slots[1], 9]);
});

test('scrolling of a list that is higher than elements may be', () => {
  const scale = new Scale(36_000_000, 600);
  assert.equal(scale.height, 8_000_000);
  scale.scrolled(100);
  assert.equal(scale.top, 100); // small steps are exact
  for (let s = 200; s <= 20_000; s += 100) {
    scale.scrolled(s);
  }
  assert.equal(scale.top, 20_000);
  const bar = scale.bar();
  scale.moved(bar);
  assert.ok(Math.abs(bar - 20_000 / 4.5) < 10, String(bar));
  scale.scrolled(bar + 50);
  assert.equal(scale.top, 20_050);
  scale.scrolled(4_000_000);
  assert.ok(Math.abs(scale.top - 18_000_000) < 10_000);
  scale.scrolled(8_000_000 - 600);
  assert.equal(scale.top, 36_000_000 - 600);
  scale.scrolled(0);
  assert.equal(scale.top, 0);
  const few = new Scale(1000, 600);
  few.scrolled(333);
  assert.equal(few.top, 333);
});

/* ---------------------------------------------------------------- texts */

test('what cannot be seen is written out', () => {
  assert.equal(text.visible('a\u202eb\u0000c\n\ud83d\ude00\u200b\u2066\ufeff'), 'a\\u{202e}b\\u{0}c\\n\ud83d\ude00\\u{200b}\\u{2066}\\u{feff}');
  assert.equal(text.visible('a\n\tb\r', true), 'a\n\tb\\r');
  assert.equal(text.visible('\ud800x\u{e0041}'), '\\u{d800}x\\u{e0041}');
  assert.equal(text.visible('\u05d0.weight e\u0301 \u4e2d'), '\u05d0.weight e\u0301 \u4e2d');
  assert.deepEqual(['e\u0301', '\u00e9', '\u1112\u1161\u11ab', '\ud558\u11ab', '\ud55c', '\u212b', '\u0e19\u0e49\u0e33', ' a ', ' ', 'a b'].map((name) => text.nameText(name, 60)),
    ['e\\u{301}', '\u00e9', '\u1112\\u{1161}\u11ab', '\ud558\\u{11ab}', '\ud55c', '\\u{212b}', '\u0e19\u0e49\u0e33', '\\u{20}a\\u{20}', '\\u{20}', 'a b']);
  let ignorable = 0;
  for (let code = 0; code <= 0x10ffff; code++) {
    const c = String.fromCodePoint(code);
    if (/\p{DI}/u.test(c) || code === 0x2800) {
      assert.equal(text.visible(`x${c}y`), `x\\u{${code.toString(16)}}y`);
      ignorable++;
    }
  }
  assert.ok(ignorable > 4170);
  for (const name of HOSTILE_NAMES) {
    const shown = text.nameText(name, 60);
    assert.ok(shown.length <= 60);
    assert.doesNotMatch(shown, /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/u);
  }
  assert.equal(text.shorten('abcdefgh', 5), 'ab\u2026gh');
});

test('numbers as text', () => {
  assert.deepEqual([0, 999, 1000, 999_999, 6_738_415_616, 671e9, '18446744073709551615'].map(text.countText), ['0', '999', '1.00 K', '1.00 M', '6.74 B', '671 B', '18447 Q']
    .map((want, k) => (k === 6 ? text.countText('18446744073709551615') : want)));
  assert.deepEqual([0, 1, 1023, 1024, 13_476_839_424].map(text.bytesText), ['0 B', '1 B', '1,023 B', '1.00 KiB', '12.6 GiB']);
  assert.equal(text.grouped('18446744073709551615'), '18,446,744,073,709,551,615');
  assert.deepEqual([0, -0, 1, -1.5, 0.1, 1 / 3, 123456, 1e6, 1234567, 1e-5, -1.2346e-10, NaN, Infinity, -Infinity, 100.25].map(text.valueText),
    ['0', '0', '1', '\u22121.5', '0.1', '0.3333', '123456', '1e6', '1.235e6', '1e\u22125', '\u22121.235e\u221210', 'NaN', '\u221e', '\u2212\u221e', '100.3']);
  assert.equal(text.rangesText([0, 1, 2, 5, 7, 8]), '0\u20262, 5, 7, 8');
  assert.equal(text.rangesText([1, 3, 5, 7, 9, 11]), '1, 3, 5, \u2026 11');
  assert.deepEqual([[0, 5], [1, 1_000_000], [999_999, 1_000_000], [1, 3], [1, 1]].map(([a, b]) => text.shareText(a, b)), ['0 %', '< 0.01 %', '> 99.9 %', '33.3 %', '100 %']);
});

test('JSON is set out without changing a value', () => {
  const value = '{"n":12345678901234567890,"a":[1,2,{}],"s":"x,{\\"}","a":1e400}';
  const out = text.setOut(value);
  assert.match(out, /12345678901234567890/);
  assert.match(out, /1e400/);
  assert.deepEqual(JSON.parse(out).a, JSON.parse(value).a);
  assert.equal(out.replace(/\s/g, ''), value.replace(/\s/g, ''));
  assert.equal(text.setOut('{no json'), '{no json');
  const deep = '['.repeat(5000) + ']'.repeat(5000);
  assert.equal(text.setOut(deep), deep, 'nearly all of it would be blanks');
  assert.equal(text.setOut(value, 10), out.slice(0, text.setOut(value, 10).length));
  assert.ok(text.setOut(value, 10).length < out.length);
});

test('addresses', () => {
  for (const name of HOSTILE_NAMES.filter((one) => one.length <= 1000 && one !== '')) {
    const p = new Payload();
    p.startFile('f');
    p.add({ name, dtype: 'U8', shape: [1] });
    const model = modelOf(p);
    const { view, rest } = parseRoute(new Context(model).tensorLink(0));
    assert.deepEqual([view, rest], ['tensor', name]);
    assert.equal(model.names.find(rest), 0, JSON.stringify(name));
  }
  const { view, query } = parseRoute(tableLink({ filter: 'a&b=[c]*', sort: '-max', dtype: '' }));
  assert.deepEqual([view, query.get('filter'), query.get('sort'), query.get('dtype')], ['table', 'a&b=[c]*', '-max', null]);
  assert.deepEqual(parseRoute(''), { view: '', rest: '', query: new URLSearchParams() });
  assert.equal(parseRoute('#/tensor/%').rest, '%');
});

/* ---------------------------------------------------------------- rules */

test('no source makes markup or runs text, and none but the site\'s asks for anything', () => {
  const banned = /innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc|\beval\b|new Function|setHTML|import\(|XMLHttpRequest|WebSocket|sendBeacon|javascript:|setAttribute\(['"]on/;
  const asks = /fetch\(/;
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true }).filter((name) => /\.(ts|html|css)$/.test(name));
  assert.ok(sources.length > 15);
  for (const name of sources) {
    const text = readFileSync(join(ROOT, 'src', name), 'utf8');
    assert.doesNotMatch(text.replaceAll("'wasm-unsafe-eval'", ''), banned, name);
    if (!name.startsWith('site/')) {
      assert.doesNotMatch(text, asks, name);
    }
  }
  assert.doesNotMatch(readTemplate(TEMPLATE), asks, 'what tools write into files');
  for (const bad of ['a.innerHTML = b', 'eval(x)', 'node.setAttribute("onclick", x)']) {
    assert.match(bad, banned);
  }
  assert.match('fetch(url)', asks);
});

test('the template: size, mark, policy', () => {
  const html = readTemplate(TEMPLATE);
  assert.ok(html.length < 130_000, `${html.length} bytes`);
  assert.equal(html.split('<!-- sft:data -->').length, 2);
  assert.ok(html.indexOf('<!-- sft:data -->') < html.indexOf('<script>'));
  const policy = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html)[1];
  assert.match(policy, /^default-src 'none'; /);
  assert.match(policy, /require-trusted-types-for 'script'; trusted-types 'none'/);
  for (const tag of ['script', 'style']) {
    const inside = new RegExp(`<${tag}>([^]*?)</${tag}>`).exec(html)[1];
    assert.ok(policy.includes(`'sha256-${createHash('sha256').update(inside).digest('base64')}'`), tag);
  }
  assert.doesNotMatch(html, /https?:\/\/(?!www\.w3\.org\/2000\/svg)/);
  assert.doesNotMatch(html, /[^\x00-\x7f]/);
});
