// SPDX-License-Identifier: Apache-2.0 OR MIT
// build.mjs [OUT] - dist/report.html (or OUT) of src/: one file, its style and script inside, their hashes in its CSP.
// build.mjs --modules OUT - src/ as JavaScript modules, for the unit tests.

import { build } from 'esbuild';
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(fileURLToPath(import.meta.url));
const MARK = '<!-- sft:data -->';
const common = { absWorkingDir: root, target: ['es2022'], charset: 'ascii', legalComments: 'none', write: false, logLevel: 'warning' };

async function bundle(entry, more) {
  const { outputFiles } = await build({ ...common, entryPoints: [entry], bundle: true, minify: true, ...more });
  return outputFiles[0].text.trim();
}

function once(page, mark, text) {
  const parts = page.split(mark);
  if (parts.length !== 2) {
    throw new Error(`page.html has ${mark} ${parts.length - 1} times`);
  }
  return parts.join(text);
}

const hash = (text) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;

async function page() {
  const script = await bundle('src/main.ts', { format: 'iife' });
  const style = await bundle('src/style.css', {});
  if (/<\/script|<!--/i.test(script) || /<\//.test(style)) {
    throw new Error('the script or the style would end its element');
  }
  const csp = ["default-src 'none'", `script-src ${hash(script)}`, `style-src ${hash(style)}`, 'img-src data:', "base-uri 'none'",
    "form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"].join('; ');
  let html = readFileSync(join(root, 'src/page.html'), 'utf8');
  html = once(html, '{{csp}}', csp);
  html = once(html, '{{style}}', style);
  html = once(html, '{{script}}', script);
  once(html, MARK, '');
  return html;
}

if (process.argv[2] === '--modules') {
  const out = process.argv[3];
  const names = readdirSync(join(root, 'src'), { recursive: true }).filter((name) => name.endsWith('.ts') && name !== 'main.ts');
  await build({
    ...common, entryPoints: names.map((name) => join(root, 'src', name)), outdir: out, outbase: join(root, 'src'), format: 'esm', bundle: false,
    write: true,
  });
} else {
  const out = process.argv[2] ?? join(root, 'dist/report.html');
  mkdirSync(dirname(out), { recursive: true });
  const html = await page();
  writeFileSync(out, html);
  console.log(`${html.length} bytes`);
}
