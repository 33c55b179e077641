// SPDX-License-Identifier: Apache-2.0 OR MIT
// bench.mjs - the figures of docs/packages.md: a header of 132 MB with 1,290,000 tensors opened, and 512 MiB read, in
// Node, in headless Chromium and by the native tool. FOLDER (first argument) takes the files; SFT_TOOL is the tool.

import { execFileSync } from 'node:child_process';
import { closeSync, existsSync, openSync as openFile, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { openSync } from '@libsafetensors/wasm';

const folder = process.argv[2] ?? '/dev/shm';
const many = join(folder, 'many.safetensors');
const large = join(folder, 'large.safetensors');
const LIMIT = { maxHeaderBytes: 200e6 };
const ROWS = 8192;
const COLUMNS = 16384;

function writeFile(path, header, data) {
  const fd = openFile(path, 'w');
  const text = Buffer.from(header);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeSync(fd, length);
  writeSync(fd, text);
  for (const part of data) {
    writeSync(fd, part);
  }
  closeSync(fd);
}

if (!existsSync(many)) {
  const parts = [];
  for (let i = 0; i < 1290000; i++) {
    const name = `model.layers.${i % 61}.mlp.experts.${Math.floor(i / 61)}.down_proj.weight`;
    parts.push(`"${name}":{"dtype":"BF16","shape":[1],"data_offsets":[${2 * i},${2 * i + 2}]}`);
  }
  writeFile(many, `{${parts.join(',')}}`, [Buffer.alloc(2 * 1290000)]);
}
if (!existsSync(large)) {
  const row = Buffer.from(new Float32Array(COLUMNS).map((_, i) => i).buffer);
  const half = ROWS * COLUMNS * 4;
  writeFile(large, JSON.stringify({
    f: { dtype: 'F32', shape: [ROWS, COLUMNS], data_offsets: [0, half] },
    b: { dtype: 'BF16', shape: [ROWS, COLUMNS], data_offsets: [half, half * 1.5] },
  }), Array.from({ length: ROWS * 1.5 }, () => row));
}
console.log(`header: ${statSync(many).size - 2 * 1290000 - 8} bytes`);

const best = async (what) => {
  let least = Infinity;
  for (let i = 0; i < 3; i++) {
    const from = performance.now();
    await what();
    least = Math.min(least, performance.now() - from);
  }
  return Math.round(least);
};
const READS = [
  ['f, all', 'f', {}], ['f[::2, ::3]', 'f', { slice: '::2, ::3' }], ['f[:, :64]', 'f', { slice: ':, :64' }],
  ['b as F32', 'b', { dtype: 'F32' }],
];

const rows = [];
rows.push(['open', await best(() => {
  const model = openSync(many, LIMIT);
  if (model.tensors.length !== 1290000) {
    throw new Error('wrong');
  }
  model.close();
})]);
const model = openSync(large);
for (const [title, name, options] of READS) {
  rows.push([title, await best(() => model.read(name, options))]);
}
model.close();
console.log('Node', JSON.stringify(rows));

const tool = process.env.SFT_TOOL;
if (tool) {
  const time = (args) => best(() => execFileSync(tool, args, { stdio: 'ignore' }));
  const native = [['open', await time(['check', '--max-header-bytes', '200000000', many])]];
  for (const [title, name, o] of READS) {
    native.push([title, await time(['get', large, o.slice ? `${name}[${o.slice}]` : name, '-f', '-o', join(folder, 'out.npy'),
      ...(o.dtype ? ['--dtype', o.dtype] : [])])]);
  }
  console.log('tool', JSON.stringify(native));
}

const cleanups = [];
const { openPage } = await import('../test/browser.mjs');
const { page } = await openPage({ after: (what) => cleanups.push(what) });
const shown = [];
for (const path of [many, large]) {
  await page.setInputFiles('#files', []);
  await page.evaluate(() => { document.getElementById('files').onchange = (e) => { globalThis.chosen = e.target.files; }; });
  await page.setInputFiles('#files', path);
  shown.push(...await page.evaluate(async ({ reads, limit, isMany }) => {
    const out = [];
    if (isMany) {
      let least = Infinity;
      for (let i = 0; i < 3; i++) {
        const from = performance.now();
        const model = await globalThis.sft.open(globalThis.chosen, limit);
        if (model.tensors.name(1289999) === '') {
          throw new Error('wrong');
        }
        least = Math.min(least, performance.now() - from);
        if (i === 2) {
          const look = performance.now();
          model.tensors.indexOf('nobody');
          out.push(['first look-up by name', Math.round(performance.now() - look)]);
        }
        model.close();
      }
      out.push(['open', Math.round(least)]);
      return out;
    }
    const model = await globalThis.sft.open(globalThis.chosen, limit);
    for (const [title, name, options] of reads) {
      let least = Infinity;
      for (let i = 0; i < 3; i++) {
        const from = performance.now();
        await model.read(name, options);
        least = Math.min(least, performance.now() - from);
      }
      out.push([title, Math.round(least)]);
    }
    model.close();
    return out;
  }, { reads: READS, limit: LIMIT, isMany: path === many }));
}
console.log('Chromium', JSON.stringify(shown));
for (const cleanup of cleanups.reverse()) {
  await cleanup();
}
