// SPDX-License-Identifier: Apache-2.0 OR MIT
// models.mjs - files of models, written without the project's code.

import { closeSync, ftruncateSync, mkdirSync, openSync, writeFileSync, writeSync } from 'node:fs';
import { dirname } from 'node:path';

function put(path, json, data) {
  const header = json.padEnd(Math.ceil(json.length / 8) * 8); // all of it is ASCII
  mkdirSync(dirname(path), { recursive: true });
  const fd = openSync(path, 'w');
  const text = Buffer.from(header);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeSync(fd, length);
  writeSync(fd, text);
  data(fd, 8 + text.length);
  closeSync(fd);
  return path;
}

const ascii = (json) => json.replace(/[^\0-~]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** A safetensors file of tensors { name, dtype, shape, data: Buffer }. */
export function writeModel(path, tensors, metadata) {
  const header = metadata === undefined ? {} : { __metadata__: metadata };
  let at = 0;
  for (const { name, dtype, shape, data } of tensors) {
    Object.defineProperty(header, name, { value: { dtype, shape, data_offsets: [at, at + data.length] }, enumerable: true });
    at += data.length;
  }
  return put(path, ascii(JSON.stringify(header)), (fd) => tensors.forEach(({ data }) => writeSync(fd, data)));
}

/** So many BF16 of one element, named as experts are: a header of 132 MB. */
export function writeMany(path, count = 1_290_000) {
  const parts = [];
  const kinds = ['gate_proj', 'up_proj', 'down_proj'];
  const perLayer = Math.ceil(count / 61);
  for (let i = 0; i < count; i++) {
    const k = i % perLayer;
    parts.push(`"layers.${Math.floor(i / perLayer)}.experts.${Math.floor(k / 3)}.${kinds[k % 3]}.weight":{"dtype":"BF16","shape":[1],"data_offsets":[${2 * i},${2 * i + 2}]}`);
  }
  return put(path, `{${parts.join(',')}}`, (fd, at) => ftruncateSync(fd, at + 2 * count));
}

/** Tensors of a 7B model as large as they are, of zeros that take no room on a disk. */
export function writeLarge(path, layers = 32) {
  const header = {};
  let at = 0;
  const add = (name, shape) => {
    const bytes = 2 * shape.reduce((n, d) => n * d, 1);
    header[name] = { dtype: 'BF16', shape, data_offsets: [at, at + bytes] };
    at += bytes;
  };
  add('model.embed_tokens.weight', [32000, 4096]);
  for (let l = 0; l < layers; l++) {
    for (const m of ['q_proj', 'k_proj', 'v_proj', 'o_proj']) {
      add(`model.layers.${l}.self_attn.${m}.weight`, [4096, 4096]);
    }
    for (const m of ['gate_proj', 'up_proj']) {
      add(`model.layers.${l}.mlp.${m}.weight`, [11008, 4096]);
    }
    add(`model.layers.${l}.mlp.down_proj.weight`, [4096, 11008]);
    add(`model.layers.${l}.input_layernorm.weight`, [4096]);
    add(`model.layers.${l}.post_attention_layernorm.weight`, [4096]);
  }
  add('model.norm.weight', [4096]);
  add('lm_head.weight', [32000, 4096]);
  return put(path, JSON.stringify(header), (fd, from) => {
    ftruncateSync(fd, from + at);
    writeSync(fd, Buffer.from([0, 63]), 0, 2, from); // a file of zeros alone would be taken for one that was not written
    writeSync(fd, Buffer.from([0, 63]), 0, 2, from + at - 2);
  });
}

/** The types of safetensors whose values `report` counts, and the bytes of an element. */
export const TYPES = {
  BOOL: 1, U8: 1, I8: 1, F8_E5M2: 1, F8_E4M3: 1, F8_E8M0: 1, F8_E4M3FNUZ: 1, F8_E5M2FNUZ: 1, I16: 2, U16: 2, F16: 2, BF16: 2, I32: 4, U32: 4, F32: 4, C64: 8,
  F64: 8, I64: 8, U64: 8, F4: 0.5, F6_E2M3: 0.75, F6_E3M2: 0.75,
};

/** Of each type tensors of few and of many elements, of random bits: NaN, infinities and zeros are among them. */
export function writeTypes(path) {
  let seed = 12345;
  const next = () => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 16;
  const tensors = [];
  for (const [dtype, size] of Object.entries(TYPES)) {
    for (const shape of [[8], [40, 24], [3, 33, 200], [0, 4], [700, 1000]]) {
      const data = Buffer.alloc(shape.reduce((n, d) => n * d, 1) * size);
      for (let i = 0; i < data.length; i++) {
        data[i] = dtype === 'BOOL' ? next() & 1 : next() & 255;
      }
      if (shape[0] === 40) {
        data.fill(0, 0, data.length / 2);
      }
      tensors.push({ name: `${dtype}.${shape.join('x')}`, dtype, shape, data });
    }
  }
  for (const [dtype, size] of [['F32', 4], ['F64', 8], ['BF16', 2]]) { // as weights are
    const data = Buffer.alloc(512 * 512 * size);
    for (let i = 0; i < 512 * 512; i++) {
      const v = (next() - next()) / 65536 / 50;
      if (size === 8) {
        data.writeDoubleLE(v, 8 * i);
      } else if (size === 4) {
        data.writeFloatLE(v, 4 * i);
      } else {
        const four = Buffer.alloc(4);
        four.writeFloatLE(v);
        four.copy(data, 2 * i, 2, 4);
      }
    }
    tensors.push({ name: `weights.${dtype}`, dtype, shape: [512, 512], data });
  }
  return writeModel(path, tensors, { format: 'pt' });
}

/** A Hugging Face directory of shards: index, config.json, README.md with a licence. */
export function writeRepository(folder, shards = 3, leaveOut = []) {
  const weight_map = {};
  const name = (s) => `model-${String(s + 1).padStart(5, '0')}-of-${String(shards).padStart(5, '0')}.safetensors`;
  let total = 0;
  mkdirSync(folder, { recursive: true });
  for (let s = 0; s < shards; s++) {
    const tensors = ['self_attn.q_proj', 'mlp.up_proj', 'mlp.down_proj'].map((m) => {
      const data = Buffer.alloc(64 * 64 * 4);
      for (let i = 0; i < 64 * 64; i++) {
        data.writeFloatLE(Math.sin(i * (s + 1)) / 10, 4 * i);
      }
      total += data.length;
      return { name: `model.layers.${s}.${m}.weight`, dtype: 'F32', shape: [64, 64], data };
    });
    tensors.forEach((t) => { weight_map[t.name] = name(s); });
    if (!leaveOut.includes(s)) {
      writeModel(`${folder}/${name(s)}`, tensors, { format: 'pt' });
    }
  }
  writeFileSync(`${folder}/model.safetensors.index.json`, JSON.stringify({ metadata: { total_size: total }, weight_map }));
  writeFileSync(`${folder}/config.json`, JSON.stringify({ architectures: ['LlamaForCausalLM'], model_type: 'llama', hidden_size: 64, num_hidden_layers: shards }));
  writeFileSync(`${folder}/README.md`, '---\nlicense: apache-2.0\n---\n# A model\n');
  return folder;
}
