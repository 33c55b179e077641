// SPDX-License-Identifier: Apache-2.0 OR MIT
// corpus.test.mjs - bad files: the module says what the native tool says, word for word. The fuzz corpora, the
// fixtures, the conformance cases, and thousands of fixtures that are cut or changed.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import * as sft from '@libsafetensors/wasm';
import { FIXTURES, ROOT, TOOL, scratch, toolJson } from './helpers.mjs';

const skip = TOOL === '' ? 'SFT_TOOL names no native tool' : false;

function* filesBelow(folder) {
  for (const entry of readdirSync(folder, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) {
      yield* filesBelow(path);
    } else if (entry.isFile()) {
      yield path;
    }
  }
}

/** Memory of 32 and of 64 bits runs out at different places, which is said in bytes. */
const words = (text) => text.replace(/\d+ bytes of memory/g, 'N bytes of memory');

function compareCheck(files, options = []) {
  const native = toolJson('check', files, options);
  assert.equal(native.length, files.length);
  const different = [];
  let refused = 0;
  native.forEach((theirs, i) => {
    const ours = sft.checkSync(files[i], { strict: options.includes('--strict') });
    refused += ours.valid ? 0 : 1;
    const want = theirs.error && { code: theirs.error.status, reason: words(theirs.error.message), offset: theirs.error.offset,
      tensor: theirs.error.tensor };
    const have = ours.error && { ...ours.error, reason: words(ours.error.reason) };
    if (JSON.stringify(want) !== JSON.stringify(have)) {
      different.push({ file: files[i], want, have });
    }
  });
  return { different, refused };
}

function compareScan(files) {
  const native = toolJson('scan', files);
  assert.equal(native.length, files.length);
  const different = [];
  native.forEach((theirs, i) => {
    const { format, verdict, findings } = sft.scanSync(files[i]);
    const want = { format: theirs.format, verdict: theirs.verdict,
      findings: theirs.findings.map(({ kind, verdict: v, rule, message, offset, count }) => ({ kind, v, rule, message: words(message), offset, count })) };
    const have = { format, verdict,
      findings: findings.map(({ kind, verdict: v, rule, message, offset, count }) => ({ kind, v, rule, message: words(message), offset, count })) };
    if (JSON.stringify(want) !== JSON.stringify(have)) {
      different.push({ file: files[i], want, have });
    }
  });
  return different;
}

function report(t, what, files, check, scan) {
  t.diagnostic(`${what}: ${files.length} files, ${check.refused} refused; ${check.different.length} differ in check, ${scan.length} in scan`);
  const differ = [...check.different, ...scan];
  assert.equal(differ.length, 0, JSON.stringify(differ.slice(0, 5), null, 1));
}

test('fuzz corpora and fixtures', { skip }, (t) => {
  const files = [...filesBelow(join(ROOT, 'fuzz/corpus')), ...filesBelow(FIXTURES)];
  assert.ok(files.length > 1500);
  report(t, 'corpora and fixtures', files, compareCheck(files), compareScan(files));
});

/** tests/conformance/README.md has the form of a case. */
function caseText(s) {
  const out = [];
  for (let i = 0; i < s.length;) {
    if (s[i] !== 0x5c) {
      out.push(s[i++]);
    } else if (s[i + 1] === 0x78) {
      out.push(parseInt(s.toString('latin1', i + 2, i + 4), 16));
      i += 4;
    } else if (s[i + 1] === 0x2a) {
      const [all, count, inner] = /^\\\*(\d+)\(([^)]*)\)/.exec(s.toString('latin1', i));
      const part = caseText(Buffer.from(inner, 'latin1'));
      for (let k = 0; k < Number(count); k++) {
        out.push(...part);
      }
      i += all.length;
    } else {
      out.push(s[i + 1] === 0x73 ? 0x20 : s[i + 1]);
      i += 2;
    }
  }
  return Buffer.from(out);
}

function* conformanceCases(path) {
  let bytes = null;
  let ours = false;
  for (const line of readFileSync(path, 'latin1').split('\n')) {
    const blank = line.indexOf(' ');
    const word = blank < 0 ? line : line.slice(0, blank);
    const value = Buffer.from(blank < 0 ? '' : line.slice(blank + 1), 'latin1');
    if (word === 'case') {
      ours = false;
      bytes = Buffer.alloc(0);
    } else if (word === 'header') {
      const text = caseText(value);
      const length = Buffer.alloc(8);
      length.writeBigUInt64LE(BigInt(text.length));
      bytes = Buffer.concat([length, text]);
    } else if (word === 'file') {
      bytes = caseText(value);
    } else if (word === 'data') {
      bytes = Buffer.concat([bytes, Buffer.alloc(Number(value.toString()))]);
    } else if (word === 'limit') {
      ours = true;
    } else if (word === 'want' && !ours) {
      yield bytes;
    }
  }
}

test('conformance cases', { skip }, (t) => {
  const folder = scratch(t);
  const files = [];
  for (const path of filesBelow(join(ROOT, 'tests/conformance/cases'))) {
    for (const bytes of conformanceCases(path)) {
      const file = join(folder, `${files.length}.safetensors`);
      writeFileSync(file, bytes);
      files.push(file);
    }
  }
  assert.ok(files.length > 300, `${files.length}`);
  report(t, 'conformance cases', files, compareCheck(files), compareScan(files));
  // --strict of the tool says more than the library: only whether the file is refused is compared
  const bytes = files.map((file) => new Uint8Array(readFileSync(file)));
  const memory = bytes.filter((x, i) => sft.checkSync(x).valid !== sft.checkSync(files[i]).valid);
  assert.equal(memory.length, 0, 'bytes in memory give the verdict of the file');
});

test('fixtures, cut and changed', { skip }, (t) => {
  const folder = scratch(t);
  const fixtures = [...filesBelow(FIXTURES)].filter((f) => !f.endsWith('.json') && statSync(f).size < 300000 && statSync(f).size > 16);
  let seed = 1;
  const random = (n) => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return Math.floor(seed / 2 ** 32 * n);
  };
  const files = [];
  const count = Number(process.env.SFT_MUTATIONS ?? 3000);
  for (let i = 0; i < count; i++) {
    const source = fixtures[i % fixtures.length];
    let bytes = readFileSync(source);
    const how = random(4);
    if (how === 0) {
      bytes = bytes.subarray(0, random(bytes.length));
    } else if (how === 3 && bytes.length > 24) { // a number that is far too large
      bytes.writeBigUInt64LE(2n ** BigInt(30 + random(34)) - BigInt(random(3)), random(bytes.length - 8));
    } else {
      for (let k = 0; k <= random(how === 1 ? 1 : 8); k++) {
        bytes[random(Math.min(bytes.length, how === 1 ? bytes.length : 512))] = random(256);
      }
    }
    const file = join(folder, `${i}-${source.split('/').pop()}`);
    writeFileSync(file, bytes);
    files.push(file);
  }
  report(t, 'cut and changed', files, compareCheck(files), compareScan(files));
});

test('the tool reads what is written here, and the other way round', { skip }, (t) => {
  const folder = scratch(t);
  const file = join(folder, 'a.safetensors');
  writeFileSync(file, sft.saveSync({ x: { shape: [3], data: new Float32Array([1, 2, 3]) } }, { metadata: { k: 'v' } }));
  const copy = join(folder, 'b.safetensors');
  execFileSync(TOOL, ['cp', file, copy, '--digests', 'crc32c']);
  const model = sft.openSync(copy);
  assert.deepEqual(model.read('x').data, new Float32Array([1, 2, 3]));
  assert.deepEqual(model.verify(), { checked: 1, damaged: 0, first: null });
  model.close();
  const bytes = readFileSync(copy);
  bytes[bytes.length - 1] ^= 1;
  const damaged = sft.openSync(new Uint8Array(bytes));
  assert.deepEqual(damaged.verify(), { checked: 1, damaged: 1, first: 'x' });
  damaged.close();
});
