// SPDX-License-Identifier: Apache-2.0 OR MIT
// build.mjs - dist/esm and dist/cjs of src/, by tsc alone. dist/safetensors.wasm is build.sh's.

import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
process.chdir(root);

function tsc(...args) {
  try {
    execFileSync(process.execPath, [join('node_modules', 'typescript', 'bin', 'tsc'), '-p', ...args], { stdio: 'pipe' });
  } catch (e) {
    process.stderr.write(e.stdout);
    process.exit(1);
  }
}

rmSync('dist/esm', { recursive: true, force: true });
rmSync('dist/cjs', { recursive: true, force: true });
tsc('.', '--removeComments', '--declaration', 'false');
tsc('.', '--emitDeclarationOnly', '--stripInternal');

// For require(): the entry of Node alone, and where it lies told by __filename.
rmSync('obj', { recursive: true, force: true });
mkdirSync('obj');
cpSync('src', 'obj/src', { recursive: true });
for (const name of ['browser.ts', 'browser-places.ts', 'browser-worker.ts']) {
  rmSync(join('obj/src', name));
}
writeFileSync('obj/src/locate.ts', `import { pathToFileURL } from 'node:url';
export const here: string = pathToFileURL(__filename).href;
`);
writeFileSync('obj/tsconfig.json', JSON.stringify({
  extends: '../tsconfig.json',
  compilerOptions: {
    module: 'commonjs', moduleResolution: 'node10', rootDir: 'src', outDir: '../dist/cjs', removeComments: true,
    declaration: false, typeRoots: ['../node_modules/@types'],
  },
  include: ['src'],
}));
tsc('obj');
tsc('obj', '--declaration', '--emitDeclarationOnly', '--stripInternal', '--removeComments', 'false');
writeFileSync('dist/cjs/package.json', '{ "type": "commonjs" }\n');
rmSync('obj', { recursive: true });
