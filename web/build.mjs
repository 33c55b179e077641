// SPDX-License-Identifier: Apache-2.0 OR MIT
// build.mjs [OUT] - dist/report.html (or OUT) of src/: one file, its style and script inside, their hashes in its CSP.
// build.mjs --site OUT - index.html, site.js, site.css and worker.js of src/site; the modules of WebAssembly are wasm/build.sh's.
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

async function site(out) {
  mkdirSync(out, { recursive: true });
  const files = {
    'index.html': readFileSync(join(root, 'src/site/index.html'), 'utf8'),
    'site.js': await bundle('src/site/main.ts', { format: 'iife' }),
    'site.css': await bundle('src/site/site.css', {}),
    'worker.js': await bundle('src/site/worker.ts', { format: 'iife' }),
  };
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(out, name), text.endsWith('\n') ? text : `${text}\n`);
  }
}

if (process.argv[2] === '--site') {
  await site(process.argv[3]);
} else if (process.argv[2] === '--modules') {
  const out = process.argv[3];
  const site = ['address.ts', 'alone.ts', 'choice.ts', 'engine.ts', 'live.ts'].map((name) => join('site', name));
  const names = readdirSync(join(root, 'src'), { recursive: true })
    .filter((name) => name.endsWith('.ts') && name !== 'main.ts' && !name.startsWith('site/'));
  await build({
    ...common, entryPoints: names.map((name) => join(root, 'src', name)), outdir: out, outbase: join(root, 'src'), format: 'esm', bundle: false,
    write: true,
  });
  await build({
    ...common, entryPoints: site.map((name) => join(root, 'src', name)), outdir: join(out, 'site'), format: 'esm', bundle: true, write: true,
  });
} else {
  const out = process.argv[2] ?? join(root, 'dist/report.html');
  mkdirSync(dirname(out), { recursive: true });
  const html = await page();
  writeFileSync(out, html);
  console.log(`${html.length} bytes`);
}
