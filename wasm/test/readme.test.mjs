// SPDX-License-Identifier: Apache-2.0 OR MIT
// readme.test.mjs - the examples of README.md work: those of Node in Node, those of a page in Chromium.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync, symlinkSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import * as sft from '@libsafetensors/wasm';
import { openPage, skip } from './browser.mjs';
import { FIXTURES, PACKAGE, scratch } from './helpers.mjs';

const text = readFileSync(join(PACKAGE, 'README.md'), 'utf8');
const blocks = (kind) => [...text.matchAll(/```(\w+)([^\n]*)\n([^]*?)```/g)]
  .filter(([, language, info]) => `${language}${info}` === kind).map(([, , , code]) => code);

const MODEL = sft.saveSync({
  'model.norm.weight': { dtype: 'BF16', shape: [64], data: new Uint16Array(64).fill(0x3f80) },
  'model.embed_tokens.weight': { shape: [100, 64], data: new Float32Array(6400).map((_, i) => i) },
}, { metadata: { format: 'pt' } });

test('README: Node', (t) => {
  const folder = scratch(t);
  mkdirSync(join(folder, 'node_modules/@libsafetensors'), { recursive: true });
  symlinkSync(PACKAGE, join(folder, 'node_modules/@libsafetensors/wasm'));
  const found = blocks('js node');
  assert.ok(found.length >= 4);
  for (const [i, code] of found.entries()) {
    writeFileSync(join(folder, 'model.safetensors'), MODEL);
    cpSync(join(FIXTURES, 'zip.pt'), join(folder, 'checkpoint.pt'));
    const name = code.includes('require(') ? `block${i}.cjs` : `block${i}.mjs`;
    writeFileSync(join(folder, name), code);
    const said = execFileSync(process.execPath, [name], { cwd: folder, encoding: 'utf8', timeout: 60000 });
    for (const [, wanted] of code.matchAll(/ \/\/ => (.*)$/gm)) {
      assert.ok(said.includes(wanted), `${wanted} is not in: ${said}`);
    }
  }
});

test('README: a page', { skip }, async (t) => {
  const { page, base } = await openPage(t, (path) => (path === '/model.safetensors' ? MODEL : null));
  const found = blocks('js page');
  assert.ok(found.length >= 1);
  for (const code of found) {
    await page.evaluate(async ({ source, from }) => {
      document.body.innerHTML = '<input type="file" id="file"><pre id="out"></pre>';
      const blob = new Blob([source.replaceAll("'@libsafetensors/wasm'", `'${from}/package/dist/esm/browser.js'`)
        .replaceAll("'https://example.org/", `'${from}/`)], { type: 'text/javascript' });
      await import(URL.createObjectURL(blob));
    }, { source: code, from: base });
    if (code.includes('#file')) {
      await page.setInputFiles('#file', { name: 'model.safetensors', mimeType: '', buffer: Buffer.from(MODEL) });
    }
    await page.waitForFunction(() => document.getElementById('out').textContent.includes('model.norm.weight'));
  }
});
