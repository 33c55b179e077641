// SPDX-License-Identifier: Apache-2.0 OR MIT
// numpy.test.mjs - slices and casts equal those of numpy and ml_dtypes: numpy_cases.py makes them.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import test from 'node:test';
import * as sft from '@libsafetensors/wasm';
import { PACKAGE, PYTHON, read, scratch } from './helpers.mjs';

test('random slices and casts', { skip: PYTHON === '' ? 'SFT_PYTHON names no Python with numpy' : false }, (t) => {
  const folder = scratch(t);
  const count = process.env.SFT_SLICES ?? '2000';
  execFileSync(PYTHON, [join(PACKAGE, 'test/numpy_cases.py'), folder, count], { stdio: 'inherit' });
  const cases = JSON.parse(new TextDecoder().decode(read(folder, 'cases.json')));
  const wanted = read(folder, 'wanted.bin');
  const model = sft.openSync(join(folder, 'model.safetensors'));
  let different = 0;
  for (const { name, slice, dtype, shape, begin, end } of cases) {
    const got = model.read(name, { slice, ...(dtype === null ? {} : { dtype }) });
    const bytes = new Uint8Array(got.data.buffer, got.data.byteOffset, got.data.byteLength);
    const same = JSON.stringify(got.shape) === JSON.stringify(shape) &&
      Buffer.compare(bytes, wanted.subarray(begin, end)) === 0;
    if (!same && different++ < 5) {
      t.diagnostic(`${name}[${slice}] as ${dtype}: ${got.shape} instead of ${shape}`);
    }
  }
  model.close();
  t.diagnostic(`${cases.length} slices, ${cases.filter((c) => c.dtype !== null).length} with a cast`);
  assert.equal(different, 0);
});
