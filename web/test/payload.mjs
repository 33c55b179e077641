// SPDX-License-Identifier: Apache-2.0 OR MIT
// payload.mjs - report data as the tool writes them (schema 1, web/README.md), of models that tests make up. It shares
// nothing with the page's own reading.

import { readFileSync } from 'node:fs';

/** Bytes that grow. */
class Bytes {
  buffer = Buffer.alloc(1 << 16);
  length = 0;
  room(n) {
    if (this.length + n > this.buffer.length) {
      const next = Buffer.alloc(Math.max(2 * this.buffer.length, this.length + n));
      this.buffer.copy(next, 0, 0, this.length);
      this.buffer = next;
    }
  }
  u8(value) {
    this.room(1);
    this.buffer[this.length++] = value;
  }
  leb(value) {
    this.room(9);
    while (value >= 128) {
      this.buffer[this.length++] = (value % 128) | 128;
      value = Math.floor(value / 128);
    }
    this.buffer[this.length++] = value;
  }
  f64(value) {
    this.room(8);
    this.length = this.buffer.writeDoubleLE(value, this.length);
  }
  f32(value) {
    this.room(4);
    this.length = this.buffer.writeFloatLE(value, this.length);
  }
  done() {
    return this.buffer.subarray(0, this.length);
  }
}

export const DTYPES = {
  F64: [1, 8, 'float'], F32: [1, 4, 'float'], F16: [1, 2, 'float'], BF16: [1, 2, 'float'], F8_E4M3: [1, 1, 'float'], I64: [1, 8, 'int'],
  I32: [1, 4, 'int'], U8: [1, 1, 'uint'], BOOL: [1, 1, 'bool'], Q4_K: [256, 144, 'opaque'], Q6_K: [256, 210, 'opaque'],
};
export const PERCENTILES = [0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999];

const big = (n) => (n > Number.MAX_SAFE_INTEGER ? String(n) : Number(n));

export class Payload {
  summary;
  names = new Bytes();
  kinds = new Bytes();
  places = new Bytes();
  stats = new Bytes();
  heat = new Bytes();
  count = 0;
  parameters = 0;
  bytes = 0;
  templateIds = new Map();
  kindIds = new Map();
  dtypeIds = new Map();
  file = -1;
  end = 0;

  constructor(more = {}) {
    this.summary = {
      schema: 1, kind: 'report', tool: 'safetensors 0.1.0', name: 'model', format: 'safetensors', files: [], metadata: [], totals: {}, dtypes: [],
      kinds: [], templates: [], statistics: 'none', percentiles: PERCENTILES, ...more,
    };
  }

  /** A file whose tensors follow. */
  startFile(name, dataOffset = 0) {
    this.file++;
    this.end = dataOffset;
    this.summary.files.push({ name, bytes: 0, ...(dataOffset > 0 ? { header_bytes: dataOffset - 8, data_offset: dataOffset } : {}), tensors: 0 });
  }

  /** { name, dtype, shape, gap, stats, heat } */
  add({ name, dtype, shape, gap = 0, stats, heat }) {
    const parts = [''];
    const numbers = [];
    for (const [token] of name.matchAll(/[0-9]+|[^0-9]+/g)) {
      if (/^(0|[1-9][0-9]*)$/.test(token) && Number(token) < 2 ** 53 && String(Number(token)) === token) {
        numbers.push(Number(token));
        parts.push('');
      } else {
        parts[parts.length - 1] += token;
      }
    }
    this.addTemplate(parts, numbers, { dtype, shape, gap, stats, heat });
  }

  addTemplate(parts, numbers, { dtype, shape, gap = 0, stats, heat }) {
    const id = (map, key, add) => {
      let k = map.get(key);
      if (k === undefined) {
        k = map.size;
        map.set(key, k);
        add();
      }
      return k;
    };
    this.names.leb(id(this.templateIds, parts.join('\ufffe'), () => this.summary.templates.push(parts)));
    for (const n of numbers) {
      this.names.leb(n);
    }
    const [blockElements, blockBytes, kind] = DTYPES[dtype];
    const type = id(this.dtypeIds, dtype, () => this.summary.dtypes.push({ name: dtype, block_elements: blockElements, block_bytes: blockBytes, kind }));
    const elements = shape.reduce((product, d) => product * d, 1);
    const nbytes = elements / blockElements * blockBytes;
    this.kinds.leb(id(this.kindIds, `${type} ${shape.join()}`, () => this.summary.kinds.push([type, big(nbytes), shape])));
    const offset = this.end + gap;
    this.places.leb(this.file);
    const step = this.places.before === this.file ? offset - this.places.end : offset;
    this.places.leb(step >= 0 ? 2 * step : -2 * step - 1);
    this.places.before = this.file;
    this.places.end = this.end = offset + nbytes;
    const file = this.summary.files[this.file];
    file.tensors++;
    file.bytes = Math.max(file.bytes, this.end);
    this.writeStats(stats);
    this.writeHeat(heat);
    this.count++;
    this.parameters += elements;
    this.bytes += nbytes;
  }

  writeStats(s) {
    const out = this.stats;
    if (s === undefined) {
      out.u8(0);
      return;
    }
    out.u8(s.sample ? 2 : 1);
    for (const key of ['n', 'nan', 'positiveInfinity', 'negativeInfinity', 'zero', 'negative']) {
      out.leb(s[key] ?? 0);
    }
    for (const key of ['min', 'max', 'mean', 'std', 'norm']) {
      out.f64(s[key] ?? NaN);
    }
    for (let k = 0; k < 9; k++) {
      out.f32(s.percentiles?.[k] ?? NaN);
    }
    out.f64(s.low ?? 0);
    out.f64(s.width ?? 0);
    out.u8(s.counts?.length ?? 0);
    for (const n of s.counts ?? []) {
      out.leb(n);
    }
  }

  writeHeat(h) {
    const out = this.heat;
    out.u8(h === undefined ? 0 : 1);
    if (h !== undefined) {
      out.u8(h.rows);
      out.u8(h.columns);
      out.f32(h.scale);
      h.cells.forEach((cell) => out.u8(cell));
    }
  }

  /** The report: the template with these data in it. */
  page(template, { withStats = true } = {}) {
    const { summary } = this;
    summary.totals = { tensors: this.count, parameters: big(this.parameters), bytes: big(this.bytes), aliases: summary.aliases?.length ?? 0, ...summary.totals };
    const parts = [];
    const sections = [];
    let offset = 0;
    for (const name of ['names', 'kinds', 'places', ...(withStats ? ['stats', 'heat'] : [])]) {
      const bytes = this[name].done();
      sections.push({ name, offset, bytes: bytes.length });
      parts.push(bytes);
      offset += bytes.length;
    }
    summary.columns = { count: this.count, sections };
    return wrap(template, JSON.stringify(summary), Buffer.concat(parts).toString('base64'));
  }
}

/* ---------------------------------------------------------------- two models */

export const CHANGES = ['same', 'removed', 'added', 'type', 'values', 'name'];

/** What `safetensors diff --report` writes (docs/report.md), of differences that tests make up. */
export class DiffPayload {
  rows = [];

  constructor(more = {}) {
    this.more = more;
  }

  /** { name, change, dtype, shape, to: { dtype, shape, name }, measures: { relative, cosine, maxAbs, maxUlp, equal, ... } } */
  add(row) {
    this.rows.push(row);
    return this;
  }

  page(template) {
    const tables = new Payload();
    const marks = new Bytes();
    this.moved = new Bytes();
    this.measures = new Bytes();
    tables.startFile('');
    const others = [];
    const tally = Object.fromEntries(CHANGES.map((change) => [change, 0]));
    const kindIds = [];
    for (const { name, change = 'same', dtype = 'F32', shape = [4], to = {}, measures: m } of this.rows) {
      const other = to.dtype !== undefined || to.shape !== undefined;
      tally[change]++;
      marks.u8(CHANGES.indexOf(change) | (to.name !== undefined ? 8 : 0) | (m !== undefined ? 16 : 0) | (other ? 32 : 0));
      tables.add({ name, dtype, shape });
      kindIds.push([dtype, shape]);
      if (other) {
        kindIds.push([to.dtype ?? dtype, to.shape ?? shape]);
      }
      if (to.name !== undefined) {
        others.push(to.name);
      }
      if (m !== undefined) {
        this.measure(m);
      }
    }
    const names = Buffer.from(tables.names.done());
    tables.names.length = 0;
    others.forEach((name) => tables.add({ name, dtype: 'U8', shape: [] }));
    tables.kinds.length = 0;
    kindIds.forEach(([dtype, shape]) => tables.add({ name: 'k', dtype, shape }));
    const { dtypes, kinds, templates } = tables.summary;
    const parts = { names, marks: marks.done(), kinds: tables.kinds.done(), others: this.namesOf(others, templates), moved: this.moved.done(), measures: this.measures.done() };
    const sections = [];
    let offset = 0;
    for (const [name, bytes] of Object.entries(parts)) {
      sections.push({ name, offset, bytes: bytes.length });
      offset += bytes.length;
    }
    const model = { format: 'safetensors', files: 1, tensors: this.rows.length, elements: 1000, bytes: 4000 };
    const object = {
      schema: 1, kind: 'diff', tool: 'safetensors 0.1.0', a: 'base', b: 'tuned', same: false, change: 'fine-tuned', reason: '3 of 4 tensors changed', models: [model, model], tally,
      renamed: others.length, overall: { tensors: this.rows.length - tally.removed - tally.added, moved: tally.values, elements: 1000, equal: 10, not_finite: 0, relative: 0.003, cosine: 0.9999,
        max_abs: 0.5, max_ulp: 7, histogram: { exponent: -12, counts: [5, 0, 90, 3] } },
      metadata_changes: 0, metadata: [], dtypes, kinds, templates, columns: { count: this.rows.length, sections }, left_out: [], ...this.more,
    };
    return wrap(template, JSON.stringify(object), Buffer.concat(Object.values(parts)).toString('base64'), 'sft-diff');
  }

  namesOf(names, templates) {
    const known = new Map(templates.map((parts, k) => [parts.join('\ufffe'), k]));
    const out = new Bytes();
    for (const name of names) {
      const alone = new Payload();
      alone.startFile('');
      alone.add({ name, dtype: 'U8', shape: [] });
      out.leb(known.get(alone.summary.templates[0].join('\ufffe')));
      for (const byte of alone.names.done().subarray(1)) {
        out.u8(byte);
      }
    }
    return out.done();
  }

  measure(m) {
    const out = this.measures;
    this.moved.f32(m.relative ?? NaN);
    if (m.left) {
      out.u8(0);
      return;
    }
    const numbers = m.cosine !== undefined;
    out.u8(numbers ? 2 : 1);
    out.leb(m.equal ?? 0);
    out.leb(m.notFinite ?? 0);
    out.u8(m.maxUlp === undefined ? 0 : 1);
    out.leb(m.maxUlp ?? 0);
    out.u8(m.cast === undefined ? 0 : m.cast ? 2 : 1);
    out.leb(m.rank === undefined ? 0 : m.rank + 1);
    if (numbers) {
      [m.normA ?? 1, m.normB ?? 1, m.norm ?? m.relative, m.relative, m.cosine, m.maxAbs ?? 0].forEach((v) => out.f64(v));
      out.u8((m.exponent ?? -10) + 48);
      out.u8(m.counts?.length ?? 0);
      (m.counts ?? []).forEach((n) => out.leb(n));
    }
  }
}

/** A tuned model of `layers` layers: later layers moved more, the values' projections most, norms not at all. */
export function tunedDiff(layers = 32, more = {}) {
  const p = new DiffPayload({
    metadata_changes: 3, metadata: [{ key: 'step', a: '1000', b: '2000' }, { key: 'gone', a: 'x', b: null }, { key: 'new', a: null, b: '{"lr":1e-5}', b_cut: 17 }],
    states: [{ key: 'scheduler', a: '{"step":1}', b: '{"step":2}' }], left_out: ['measures of 3 of 9 tensors, the least changed ones'],
    reason: 'most tensors changed, by 0.003 of their norm, cosine 0.9999', ...more,
  });
  const next = random(17);
  const counts = Array.from({ length: 14 }, (_, k) => Math.round(4000 * Math.exp(-((k - 9) ** 2) / 5)));
  const measures = (relative) => ({ relative, cosine: 1 - relative * relative / 2, maxAbs: relative, maxUlp: Math.ceil(relative * 1e6), equal: Math.round(100 * next()), normA: 20, normB: 20, norm: 20 * relative, exponent: -20, counts });
  p.add({ name: 'model.embed_tokens.weight', change: 'values', dtype: 'BF16', shape: [32000, 4096], measures: measures(0.001) });
  for (let l = 0; l < layers; l++) {
    for (const m of 'qkvo') {
      const removed = l === 3 && m === 'k';
      p.add({ name: `model.layers.${l}.self_attn.${m}_proj.weight`, change: removed ? 'removed' : 'values', dtype: 'BF16', shape: [4096, 4096], measures: removed ? undefined : measures(0.0004 * (1 + l) * (m === 'v' ? 4 : 1) * (0.8 + 0.4 * next())) });
    }
    for (const m of ['gate', 'up', 'down']) {
      const cast = l === 7 && m === 'up';
      p.add({ name: `model.layers.${l}.mlp.${m}_proj.weight`, change: cast ? 'type' : 'values', dtype: 'BF16', shape: [11008, 4096], to: cast ? { dtype: 'F8_E4M3' } : {}, measures: { ...measures(0.0003 * (1 + l)), ...(cast ? { cast: true, maxUlp: undefined } : {}), rank: l === 9 ? 8 : undefined } });
    }
    p.add({ name: `model.layers.${l}.input_layernorm.weight`, dtype: 'BF16', shape: [4096] });
  }
  p.add({ name: 'model.norm.weight', dtype: 'BF16', shape: [4096] });
  p.add({ name: 'lm_head.weight', change: 'values', dtype: 'BF16', shape: [32000, 4096], to: { name: 'head.2.weight' }, measures: measures(0.002) });
  p.add({ name: 'old.bias', change: 'name', dtype: 'F32', shape: [8], to: { name: 'new.bias' } });
  p.add({ name: `model.layers.${layers}.self_attn.k_proj.weight`, change: 'added', dtype: 'BF16', shape: [4096, 4096] });
  return p;
}

export function wrap(template, json, base64, id = 'sft-summary') {
  const parts = template.split('<!-- sft:data -->');
  if (parts.length !== 2) {
    throw new Error(`the template has ${parts.length - 1} marks`);
  }
  return `${parts[0]}<script type="application/json" id="${id}">${json.replaceAll('<', '\\u003c')}</script>\n`
    + `<script type="application/octet-stream" id="sft-columns">${base64}</script>${parts[1]}`;
}

/** Numbers that look random and are the same every time. */
export function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

const quantile = (sorted, q) => sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];

/** Statistics of values as a plain program takes them; `times`: each stands for so many. */
export function statsOf(values, times = 1) {
  const finite = values.filter(Number.isFinite).sort((a, b) => a - b);
  const sum = (f) => finite.reduce((all, v) => all + f(v), 0);
  const out = {
    n: values.length * times, nan: values.filter(Number.isNaN).length * times, positiveInfinity: values.filter((v) => v === Infinity).length * times,
    negativeInfinity: values.filter((v) => v === -Infinity).length * times, zero: values.filter((v) => v === 0).length * times,
    negative: values.filter((v) => v < 0).length * times,
  };
  if (finite.length > 0) {
    const [min] = finite;
    const max = finite[finite.length - 1];
    const mean = sum((v) => v) / finite.length;
    const bins = max > min ? 64 : 1;
    const width = (max - min) / bins;
    const counts = Array(bins).fill(0);
    finite.forEach((v) => {
      counts[width > 0 ? Math.min(bins - 1, Math.floor((v - min) / width)) : 0] += times;
    });
    Object.assign(out, {
      min, max, mean, std: Math.sqrt(sum((v) => (v - mean) ** 2) / finite.length), norm: Math.sqrt(sum((v) => v * v) * times),
      percentiles: PERCENTILES.map((q) => quantile(finite, q)), low: min, width, counts,
    });
  }
  return out;
}

function gaussian(next) {
  return Math.sqrt(-2 * Math.log(next() + 1e-12)) * Math.cos(2 * Math.PI * next());
}

function drawn(next, shape, std, heads = 1) {
  const elements = shape.reduce((product, d) => product * d, 1);
  const few = Math.min(1500, elements);
  const values = Array.from({ length: few }, () => std * gaussian(next) * (next() < 0.01 ? 4 : 1));
  const rows = shape.length > 1 ? Math.min(32, shape[0]) : 1;
  const columns = Math.min(32, shape[shape.length - 1] ?? 1);
  const cells = Array.from({ length: rows * columns }, (_, k) => {
    const head = Math.floor((k % columns) * heads / columns);
    return 90 + Math.round(40 * Math.sin(head * 7) + 60 * next() * (Math.floor(k / columns) % 9 === 0 ? 1.8 : 0.6));
  });
  const most = Math.max(...cells, 1);
  return {
    stats: statsOf(values, Math.max(1, Math.round(elements / Math.max(1, few)))),
    heat: { rows, columns, scale: std * 1.6, cells: cells.map((cell) => Math.max(0, Math.round(cell / most * 255))) },
  };
}

/** A small transformer in one file, full statistics. */
export function small() {
  const p = new Payload({
    name: 'tiny-gpt', statistics: 'full', license: 'apache-2.0',
    config: JSON.stringify({ architectures: ['GPT2LMHeadModel'], model_type: 'gpt2', n_layer: 6, n_head: 12, n_embd: 768, vocab_size: 50257 }),
    metadata: [{ file: 0, key: 'format', value: 'pt' }, { file: 0, key: 'training', value: '{"steps":120000,"seed":9007199254740993,"schedule":{"warmup":2000,"kind":"cosine"},"data":["books","code"]}' }],
    findings: [{ from: 'check', level: 'ok', text: 'The file is valid.' },
      { from: 'check', level: 'note', file: 0, tensor: 'h.3.attn.c_attn.weight', offset: 154_402_816, text: 'The tensor does not begin at a multiple of 64 bytes.' }],
  });
  const next = random(7);
  p.startFile('model.safetensors', 8 + 14_072);
  const add = (name, shape, std, dtype = 'F32', gap = 0) => p.add({ name, dtype, shape, gap, ...drawn(next, shape, std, 12) });
  add('wte.weight', [50257, 768], 0.14);
  add('wpe.weight', [1024, 768], 0.02);
  for (let l = 0; l < 6; l++) {
    const h = `h.${l}.`;
    add(`${h}ln_1.weight`, [768], 0.2);
    add(`${h}ln_1.bias`, [768], 0.05);
    add(`${h}attn.bias`, [1, 1, 1024, 1024], 0.5, 'BOOL');
    add(`${h}attn.c_attn.weight`, [768, 2304], 0.13, 'F32', l === 3 ? 40 : 0);
    add(`${h}attn.c_attn.bias`, [2304], 0.4);
    add(`${h}attn.c_proj.weight`, [768, 768], 0.09);
    add(`${h}mlp.c_fc.weight`, [768, 3072], 0.13);
    add(`${h}mlp.c_proj.weight`, [3072, 768], 0.09);
  }
  add('ln_f.weight', [768], 1.2);
  return p;
}

/** A model of 7 billion parameters in three shards, statistics of a sample. */
export function seven() {
  const p = new Payload({
    name: 'Llama-2-7b-hf', statistics: 'sample', license: 'llama2', metadata: [0, 1, 2].map((file) => ({ file, key: 'format', value: 'pt' })),
    config: JSON.stringify({ architectures: ['LlamaForCausalLM'], hidden_size: 4096, intermediate_size: 11008, num_hidden_layers: 32, torch_dtype: 'bfloat16' }),
    left_out: ['Statistics are of a sample of 65,536 elements of each tensor.'],
  });
  const next = random(11);
  const add = (name, shape, std, dtype = 'BF16') => {
    const { stats, heat } = drawn(next, shape, std, 32);
    p.add({ name, dtype, shape, stats: { ...stats, sample: true }, heat });
  };
  p.startFile('model-00001-of-00003.safetensors', 8 + 21_984);
  add('model.embed_tokens.weight', [32000, 4096], 0.017);
  for (let l = 0; l < 32; l++) {
    if (l === 11 || l === 23) {
      p.startFile(`model-0000${l === 11 ? 2 : 3}-of-00003.safetensors`, 8 + 24_000);
    }
    const h = `model.layers.${l}.`;
    add(`${h}input_layernorm.weight`, [4096], 0.3);
    add(`${h}mlp.down_proj.weight`, [4096, 11008], 0.02);
    add(`${h}mlp.gate_proj.weight`, [11008, 4096], 0.02);
    add(`${h}mlp.up_proj.weight`, [11008, 4096], 0.02);
    add(`${h}post_attention_layernorm.weight`, [4096], 0.3);
    for (const m of 'kqvo') {
      add(`${h}self_attn.${m}_proj.weight`, [4096, 4096], 0.025);
    }
    add(`${h}self_attn.rotary_emb.inv_freq`, [64], 0.3, 'F32');
  }
  add('model.norm.weight', [4096], 1.8);
  add('lm_head.weight', [32000, 4096], 0.02);
  return p;
}

/** A GPTQ model of 8 layers: packed weights with scales, zeros and groups. */
export function quantised() {
  const p = new Payload({
    name: 'Mistral-GPTQ', statistics: 'full', quantised: [],
    config: JSON.stringify({ model_type: 'mistral', quantization_config: { quant_method: 'gptq', bits: 4, group_size: 128, desc_act: true } }),
    metadata: [{ file: 0, key: 'format', value: 'pt' }, { file: 0, key: 'quantization', value: '{"method":"gptq","bits":4}' }],
    findings: [{ from: 'index', level: 'warning', text: 'model.safetensors.index.json names a tensor that no file has: model.layers.7.self_attn.q_proj.bias' }],
  });
  const next = random(13);
  let logical = 0;
  p.startFile('gptq_model-4bit-128g.safetensors', 8 + 18_224);
  const add = (name, dtype, shape, std) => p.add({ name, dtype, shape, ...drawn(next, shape, std) });
  add('model.embed_tokens.weight', 'F16', [32000, 4096], 0.02);
  logical += 32000 * 4096;
  for (let l = 0; l < 8; l++) {
    for (const [name, rows, columns] of [['self_attn.q_proj', 4096, 4096], ['self_attn.k_proj', 4096, 1024], ['self_attn.v_proj', 4096, 1024],
      ['self_attn.o_proj', 4096, 4096], ['mlp.gate_proj', 4096, 14336], ['mlp.up_proj', 4096, 14336], ['mlp.down_proj', 14336, 4096]]) {
      const base = `model.layers.${l}.${name}`;
      const first = p.count;
      add(`${base}.qweight`, 'I32', [rows / 8, columns], 1e9);
      add(`${base}.qzeros`, 'I32', [rows / 128, columns / 8], 1e9);
      add(`${base}.scales`, 'F16', [rows / 128, columns], 0.004);
      add(`${base}.g_idx`, 'I32', [rows], 60);
      p.summary.quantised.push({ name: `${base}.weight`, scheme: 'GPTQ', shape: [columns, rows], parameters: rows * columns, bits: 4, members: [first, first + 1, first + 2, first + 3] });
      logical += rows * columns;
    }
    add(`model.layers.${l}.input_layernorm.weight`, 'F16', [4096], 0.5);
    logical += 4096;
  }
  p.summary.totals.logical_parameters = logical;
  return p;
}

/** 61 layers, 58 of them of 256 experts, and more of the same until there are `count`: weights and their scales. */
export function experts(count = 1_290_000) {
  const p = new Payload({ name: 'mixture-1.29M', left_out: ['--stats none: no statistics.'] });
  const hidden = 7168;
  let file = 0;
  const next = () => {
    file++;
    p.startFile(`model-${String(file).padStart(5, '0')}-of-00163.safetensors`, 8 + 812_000);
  };
  next();
  const perFile = Math.ceil(count / 163);
  const add = (parts, numbers, dtype, shape) => {
    if (p.count < count) {
      if (p.summary.files[file - 1].tensors >= perFile) {
        next();
      }
      p.addTemplate(parts, numbers, { dtype, shape });
    }
  };
  add(['model.embed_tokens.weight'], [], 'BF16', [129280, hidden]);
  const perLayer = Math.ceil((count - 2 - 61 * 8) / 58 / 6);
  for (let l = 0; l < 61; l++) {
    const layer = (rest, dtype, shape) => add(['model.layers.', `.${rest}`], [l], dtype, shape);
    layer('input_layernorm.weight', 'BF16', [hidden]);
    layer('self_attn.q_a_proj.weight', 'F8_E4M3', [1536, hidden]);
    layer('self_attn.q_a_proj.weight_scale_inv', 'F32', [12, 56]);
    layer('self_attn.o_proj.weight', 'F8_E4M3', [hidden, 16384]);
    layer('self_attn.o_proj.weight_scale_inv', 'F32', [56, 128]);
    if (l < 3) {
      layer('mlp.gate_proj.weight', 'F8_E4M3', [18432, hidden]);
      layer('mlp.up_proj.weight', 'F8_E4M3', [18432, hidden]);
      layer('mlp.down_proj.weight', 'F8_E4M3', [hidden, 18432]);
    } else {
      layer('mlp.gate.weight', 'BF16', [256, hidden]);
      for (let e = 0; e < perLayer; e++) {
        for (const m of ['gate_proj', 'up_proj', 'down_proj']) {
          const shape = m === 'down_proj' ? [hidden, 2048] : [2048, hidden];
          add(['model.layers.', '.mlp.experts.', `.${m}.weight`], [l, e], 'F8_E4M3', shape);
          add(['model.layers.', '.mlp.experts.', `.${m}.weight_scale_inv`], [l, e], 'F32', shape.map((d) => d / 128));
        }
      }
    }
  }
  while (p.count < count) {
    add(['model.rest.', '.weight'], [p.count], 'BF16', [hidden]);
  }
  return p;
}

export const HOSTILE_NAMES = [
  '</script><script>globalThis.broken = 1</script>', '<img src=x onerror="globalThis.broken = 2">', '<!-- sft:data -->', '"><svg onload=globalThis.broken=3>',
  "'; globalThis.broken = 4; '", '{{constructor.constructor("globalThis.broken = 5")()}}', 'javascript:globalThis.broken=6',
  'layer.\u202egnp.thgiew\u202c.txt', '\u2066\u2067isolated\u2069', 'null\u0000byte', 'bell\u0007\u001b[31mred', 'line\nbreak\r\n\ttab', '\u2028\u2029',
  'zero\u200bwidth\u200d\ufeff', '\u05d0\u05d1\u05d2.weight', '\u0645\u0631\u062d\u0628\u0627.weight', 'Z\u0335\u0321\u0322a\u0337\u0321l\u0336g\u0334o\u0336', '\ud83d\ude00.\ud83d\udc69\u200d\ud83d\udcbb',
  'e\u0301', ' ', '  two  blanks  ', '..', '/', '////', '__proto__', 'constructor', 'toString', '%2e%2e%2f', '#/tensor/x', '?filter=*', '*', '[', 'a[b]c', '\\', '&lt;b&gt;',
  '007.weight', 'x.08', 'x.8', '99999999999999999999', '9007199254740991', '9007199254740993', 'x'.repeat(100_000), 'y.'.repeat(50_000), '7.'.repeat(3000), '\u202e'.repeat(1000),
  '\ue000private\u{f0000}', '\uffff', '\u3164\u115f\u00ad', 'www.example.com/?q=<b>',
];

/** Names and texts that want to be more than text. */
export function hostile() {
  const p = new Payload({
    name: '</title><script>globalThis.broken = 10</script>\u202e', statistics: 'full', format: '<b>safetensors</b>', tool: '<i>tool</i>', license: '"><script>globalThis.broken=11</script>',
    config: '{"a":"</script><script>globalThis.broken=12</script>","\\u202e":[' + '['.repeat(2000) + ']'.repeat(2000) + ']}',
    metadata: [...HOSTILE_NAMES.slice(0, 44).map((name) => ({ file: 0, key: name, value: name })),
      { file: 0, key: 'long', value: 'v'.repeat(300_000), cut: 123_456 }, { file: 0, key: 'json', value: '{"__proto__":{"x":1},"n":12345678901234567890}' }],
    findings: HOSTILE_NAMES.slice(0, 12).map((name, k) => ({ from: name.slice(0, 9), level: ['error', name, 'dangerous', 'warning'][k % 4], file: k % 2 ? name : 0, tensor: name, offset: '18446744073709551615', text: name })),
    left_out: [HOSTILE_NAMES[0], HOSTILE_NAMES[7]], aliases: [[0, HOSTILE_NAMES[1]], [99999, 'nobody']],
    quantised: [{ name: HOSTILE_NAMES[0], scheme: HOSTILE_NAMES[1], shape: [0, '18446744073709551615'], parameters: '18446744073709551615', bits: 4, members: [0, 1, 99999, -1] }],
  });
  p.startFile('<script>globalThis.broken = 20</script>.safetensors', 8 + 100);
  p.summary.files.push({ name: '../../\u202etxt.exe', bytes: '9223372036854775807' });
  const shapes = [[], [0], [0, 4096], [1], [2, 3], Array(64).fill(1), [3, 0, 5]];
  const nan = statsOf(Array(5).fill(NaN));
  const infinite = statsOf([Infinity, -Infinity, NaN, 0]);
  const one = statsOf([3, 3, 3]);
  const odd = statsOf([-1e308, 1e308, 5e-324, -0]);
  HOSTILE_NAMES.forEach((name, k) => p.add({
    name, dtype: ['F32', 'F16', 'I64', 'BOOL'][k % 4], shape: shapes[k % shapes.length], gap: k % 5 === 0 ? 3 : 0,
    stats: [nan, infinite, one, odd, { n: 0 }, undefined, statsOf([])][k % 7],
    heat: [undefined, { rows: 1, columns: 1, scale: NaN, cells: [0] }, { rows: 0, columns: 0, scale: 0, cells: [] }, { rows: 2, columns: 3, scale: Infinity, cells: [0, 0, 0, 0, 0, 0] }][k % 4],
  }));
  return p;
}

export function empty() {
  const p = new Payload({ name: 'nothing' });
  p.startFile('nothing.safetensors', 10);
  p.summary.files[0].bytes = 10;
  return p;
}

/** A million keys. */
export function keys(count = 1_000_000) {
  const p = new Payload({ name: 'keys', metadata: Array.from({ length: count }, (_, k) => ({ file: 0, key: `key ${k}`, value: k === 5 ? '{"five":[5]}' : `value ${k}` })) });
  p.startFile('keys.safetensors', 1000);
  p.add({ name: 'a', dtype: 'F32', shape: [2] });
  return p;
}

export const readTemplate = (path) => readFileSync(path, 'utf8');
