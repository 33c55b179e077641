// SPDX-License-Identifier: Apache-2.0 OR MIT
// reader.ts - models over one instance of the module, without promises. Workers have one of these, and so has a
// program whose bytes are in memory, or which runs in Node.

import { failure, SafetensorsError } from './error.js';
import type { Mount } from './host.js';
import { type Columns, TensorList } from './list.js';
import { Native } from './native.js';
import type {
  CheckReport, DType, FileInfo, Finding, ModelFacts, OpenOptions, Problem, ReadOptions, SaveOptions, ScanReport,
  Slice, SliceItem, Tensor, TensorsToSave, TypedArray, Verdict, Verified,
} from './types.js';

const DTYPES: readonly DType[] = [
  'BOOL', 'F4', 'F6_E2M3', 'F6_E3M2', 'U8', 'I8', 'F8_E5M2', 'F8_E4M3', 'F8_E8M0', 'F8_E4M3FNUZ', 'F8_E5M2FNUZ',
  'I16', 'U16', 'F16', 'BF16', 'I32', 'U32', 'F32', 'C64', 'F64', 'I64', 'U64',
]; // from 1 on, as in sft/dtype.h

const VERDICTS: readonly Verdict[] = ['harmless', 'unknown', 'dangerous'];
const FINDINGS = ['', 'global', 'container', 'pickle', 'left_out', 'broken', 'note', 'content'];
const PROBLEMS = ['problem', 'orphan_file', 'orphan_tensor', 'missing_file', 'missing_tensor', 'other_shard',
  'total_size', 'alias'] as const;
const DEDUP = ['hf', 'first', 'keep', 'error', 'alias'];

/** What is read in one go through the module's memory. */
const CHUNK = 16 << 20;
const OMIT = -(2n ** 63n);

export function dtypeNumber(name: string): number {
  const id = DTYPES.indexOf(name as DType) + 1;
  if (id === 0) {
    throw failure('SFT_E_DTYPE', `there is no element type "${name}"`);
  }
  return id;
}

/** The array for elements of a type, over bytes that begin at a multiple of 8. */
export function typed(dtype: string, bytes: Uint8Array): TypedArray {
  const { buffer, byteOffset, byteLength } = bytes;
  switch (dtype) {
    case 'I8': return new Int8Array(buffer, byteOffset, byteLength);
    case 'I16': return new Int16Array(buffer, byteOffset, byteLength / 2);
    case 'U16': case 'F16': case 'BF16': return new Uint16Array(buffer, byteOffset, byteLength / 2);
    case 'I32': return new Int32Array(buffer, byteOffset, byteLength / 4);
    case 'U32': return new Uint32Array(buffer, byteOffset, byteLength / 4);
    case 'F32': case 'C64': return new Float32Array(buffer, byteOffset, byteLength / 4);
    case 'F64': return new Float64Array(buffer, byteOffset, byteLength / 8);
    case 'I64': return new BigInt64Array(buffer, byteOffset, byteLength / 8);
    case 'U64': return new BigUint64Array(buffer, byteOffset, byteLength / 8);
    default: return bytes;
  }
}

function room(size: number): Uint8Array {
  try {
    return new Uint8Array(size);
  } catch (e) {
    throw failure('SFT_E_NOMEM', `out of memory: ${size} bytes are needed`, e);
  }
}

function wellFormed(text: string, what: string): string {
  if (/\p{Surrogate}/u.test(text)) {
    throw failure('SFT_E_ARG', `${what} is not well-formed text: it holds half a surrogate pair`);
  }
  return text;
}

interface Piece {
  kind: number; // 0: range, 1: index, 2: ellipsis
  start: bigint;
  stop: bigint;
  step: bigint;
}

const whole = (n: number | null | undefined, otherwise: bigint): bigint => {
  if (n === null || n === undefined) {
    return otherwise;
  }
  if (!Number.isSafeInteger(n)) {
    throw failure('SFT_E_ARG', `${n} is no whole number that a slice can have`);
  }
  return BigInt(n);
};

function pieceOf(item: SliceItem): Piece {
  if (item === '...') {
    return { kind: 2, start: OMIT, stop: OMIT, step: 1n };
  }
  if (typeof item === 'number') {
    return { kind: 1, start: whole(item, 0n), stop: OMIT, step: 1n };
  }
  if (item === null) {
    return { kind: 0, start: OMIT, stop: OMIT, step: 1n };
  }
  if (!Array.isArray(item) || item.length > 3) {
    throw failure('SFT_E_ARG', 'an item of a slice is a number, null, "..." or [start, stop, step]');
  }
  return { kind: 0, start: whole(item[0], OMIT), stop: whole(item[1], OMIT), step: whole(item[2], 1n) };
}

interface Dim {
  start: bigint;
  count: number;
  step: bigint;
  dropped: boolean;
}

/** A model that is open. Close it: the module's memory is not the garbage collector's. */
export class SyncModel implements ModelFacts {
  readonly format: string;
  readonly files: FileInfo[];
  readonly problems: Problem[];
  readonly findings: Finding[];
  readonly aliases: { name: string; index: number }[];
  private list: TensorList | null = null;

  /** @internal */
  constructor(private readonly native: Native, private readonly mount: Mount, private at: number) {
    const report = native.address('report', at);
    this.format = report === 0 ? 'safetensors' : formatName(native, native.call('report_format', report), 0);
    this.findings = report === 0 ? [] : findingsOf(native, report);
    this.files = filesOf(native, at);
    this.problems = problemsOf(native, at);
    this.aliases = aliasesOf(native, at);
  }

  /** Metadata of the first file. */
  get metadata(): Map<string, string> {
    return this.files[0]?.metadata ?? new Map();
  }

  get tensors(): TensorList {
    this.list ??= new TensorList(columnsOf(this.ready(), this.at));
    return this.list;
  }

  private ready(): Native {
    if (this.at === 0) {
      throw failure('SFT_E_STATE', 'the model is closed');
    }
    this.native.mount = this.mount;
    return this.native;
  }

  private tensorAt(which: string | number): number {
    const n = this.ready();
    const t = typeof which === 'number'
      ? (Number.isInteger(which) && which >= 0 && which < 2 ** 32 ? n.address('tensor', this.at, which) : 0)
      : n.withText(which, (text, len) => n.address('find', this.at, text, len));
    if (t === 0) {
      throw failure('SFT_E_NOT_FOUND', typeof which === 'number'
        ? `there is no tensor ${which}` : `there is no tensor "${which}"`);
    }
    return t;
  }

  /** A tensor, or a slice of one, by its name (or another name of it), or its index. */
  read(which: string | number, options: ReadOptions = {}): Tensor {
    const n = this.ready();
    const t = this.tensorAt(which);
    const own = n.u32(t + 8);
    const name = n.textOf(n.u32(t), n.u32(t + 4));
    const ownName = n.text(n.u32(own + 24));
    const dtype = options.dtype === undefined ? 0 : dtypeNumber(options.dtype);
    const slices = this.parse(options.slice, n.u32(t + 32));
    const { nbytes, shape } = this.result(t, slices, dtype);
    let bytes: Uint8Array;
    const handle = slices.length === 0 && dtype === 0 ? n.call('host_file', this.at, t) : -1;
    if (handle >= 0) {
      bytes = room(nbytes);
      n.readFile(handle, Number(n.memory().getBigUint64(n.u32(t + 16), true)), bytes);
    } else if (nbytes <= CHUNK || n.u32(own + 8) > 1) {
      bytes = this.readNow(t, slices, dtype, nbytes);
    } else {
      bytes = room(nbytes);
      this.readParts(t, this.resolve(t, slices), dtype, bytes);
    }
    const made = options.dtype ?? ownName;
    return { name, dtype: made, shape, data: typed(made, bytes) };
  }

  /** Compares tensors with the digests that are recorded in the file; an error if there are none. */
  verify(): Verified {
    const n = this.ready();
    return n.with(8 + 112, (out) => {
      const status = n.call('verify', this.at, out);
      const damaged = n.u32(out);
      if (status !== 0 && damaged === 0) {
        throw n.error();
      }
      return { checked: n.u32(out + 4), damaged, first: damaged === 0 ? null : n.text(out + 8) };
    });
  }

  /** What crosses to another thread. */
  facts(): ModelFacts {
    const { format, files, problems, findings, aliases } = this;
    return { format, files, problems, findings, aliases };
  }

  close(): void {
    if (this.at !== 0 && this.native.alive) {
      this.native.mount = this.mount;
      this.native.call('close', this.at);
    }
    this.at = 0;
  }

  // ------------------------------------------------------------------ slices

  private parse(slice: Slice | undefined, rank: number): Piece[] {
    if (slice === undefined) {
      return [];
    }
    if (typeof slice !== 'string') {
      return slice.map(pieceOf);
    }
    const n = this.native;
    const most = rank + 2;
    return n.with(32 * most, (at) => n.withText(slice, (text, len) => {
      const count = n.call('slice_parse', text, len, at, most);
      if (count < 0) {
        throw n.error();
      }
      const view = n.memory();
      return Array.from({ length: count }, (_, i) => ({
        start: view.getBigInt64(at + 32 * i, true), stop: view.getBigInt64(at + 32 * i + 8, true),
        step: view.getBigInt64(at + 32 * i + 16, true), kind: view.getUint32(at + 32 * i + 24, true),
      }));
    }));
  }

  private withSlices<T>(slices: Piece[], use: (at: number) => T): T {
    const n = this.native;
    return n.with(32 * slices.length, (at) => {
      const view = n.memory();
      slices.forEach((s, i) => {
        view.setBigInt64(at + 32 * i, s.start, true);
        view.setBigInt64(at + 32 * i + 8, s.stop, true);
        view.setBigInt64(at + 32 * i + 16, s.step, true);
        view.setUint32(at + 32 * i + 24, s.kind, true);
        view.setUint32(at + 32 * i + 28, 0, true);
      });
      return use(at);
    });
  }

  private result(t: number, slices: Piece[], dtype: number): { nbytes: number; shape: number[] } {
    const n = this.native;
    const rank = n.u32(t + 32);
    return this.withSlices(slices, (at) => n.with(16 + 8 * rank, (out) => {
      if (dtype !== 0) {
        n.check('can_cast', this.at, t);
      }
      n.check('result', t, at, slices.length, dtype, out);
      const view = n.memory();
      const dims = n.u32(out + 8);
      return {
        nbytes: view.getFloat64(out, true),
        shape: Array.from({ length: dims }, (_, i) => Number(view.getBigUint64(out + 16 + 8 * i, true))),
      };
    }));
  }

  private resolve(t: number, slices: Piece[]): Dim[] {
    const n = this.native;
    const rank = n.u32(t + 32);
    return this.withSlices(slices, (at) => n.with(32 * rank, (out) => {
      n.check('resolve', t, at, slices.length, out);
      const view = n.memory();
      return Array.from({ length: rank }, (_, i) => ({
        start: view.getBigUint64(out + 32 * i, true), count: Number(view.getBigUint64(out + 32 * i + 8, true)),
        step: view.getBigInt64(out + 32 * i + 16, true), dropped: view.getUint32(out + 32 * i + 24, true) !== 0,
      }));
    }));
  }

  private readNow(t: number, slices: Piece[], dtype: number, nbytes: number): Uint8Array {
    const n = this.native;
    return this.withSlices(slices, (at) => n.with(nbytes, (dst) => {
      n.check('read', this.at, t, at, slices.length, dtype, dst, nbytes);
      return n.copyOut(dst, nbytes);
    }));
  }

  /** In parts along the first dimension that has more than one element, so that the module's memory stays small. */
  private readParts(t: number, dims: Dim[], dtype: number, into: Uint8Array): void {
    const d = dims.findIndex((dim) => dim.count > 1);
    if (into.length <= CHUNK || d < 0) {
      const slices = dims.map((dim): Piece => {
        const stop = dim.start + dim.step * BigInt(dim.count);
        return dim.dropped ? { kind: 1, start: dim.start, stop: OMIT, step: 1n }
          : { kind: 0, start: dim.start, stop: stop < 0n ? OMIT : stop, step: dim.step };
      });
      into.set(this.readNow(t, slices, dtype, into.length));
      return;
    }
    const row = into.length / dims[d].count;
    const rows = Math.max(1, Math.floor(CHUNK / row));
    for (let at = 0; at < dims[d].count; at += rows) {
      const count = Math.min(rows, dims[d].count - at);
      const part = dims.slice();
      part[d] = { ...dims[d], start: dims[d].start + dims[d].step * BigInt(at), count };
      this.readParts(t, part, dtype, into.subarray(at * row, (at + count) * row));
    }
  }
}

// -------------------------------------------------------------------- structs of the library

export function formatName(n: Native, format: number, title: number): string {
  return n.text(n.address('format_name', format, title));
}

export function findingsOf(n: Native, report: number): Finding[] {
  return Array.from({ length: n.address('report_count', report) }, (_, i) => {
    const at = n.address('report_finding', report, i);
    const view = n.memory();
    const offset = view.getBigUint64(at + 24, true);
    return {
      kind: FINDINGS[view.getUint32(at, true)] ?? '',
      verdict: VERDICTS[view.getUint32(at + 4, true)] ?? 'unknown',
      subject: n.text(view.getUint32(at + 8, true)),
      rule: n.text(view.getUint32(at + 12, true)),
      message: n.text(view.getUint32(at + 16, true)),
      offset: offset === 0xffffffffffffffffn ? null : Number(offset),
      count: Number(view.getBigUint64(at + 32, true)),
    };
  });
}

function metadataOf(n: Native, model: number, file: number): Map<string, string> {
  const map = new Map<string, string>();
  const count = n.address('metadata_count', model, file);
  n.with(16, (out) => {
    for (let i = 0; i < count; i++) {
      n.call('metadata', model, file, i, out);
      map.set(n.textOf(n.u32(out), n.u32(out + 4)), n.textOf(n.u32(out + 8), n.u32(out + 12)));
    }
  });
  return map;
}

function filesOf(n: Native, model: number): FileInfo[] {
  return Array.from({ length: n.address('file_count', model) }, (_, i) => {
    const at = n.address('file', model, i);
    const number = (to: number): number => Number(n.memory().getBigUint64(at + to, true));
    return {
      path: n.text(n.u32(at)), size: number(8), headerBytes: number(16), dataOffset: number(24),
      tensorCount: number(40), metadata: n.u32(at + 52) === 0 ? null : metadataOf(n, model, i),
    };
  });
}

function problemsOf(n: Native, model: number): Problem[] {
  return Array.from({ length: n.address('problem_count', model) }, (_, i) => {
    const at = n.address('problem', model, i);
    return {
      kind: PROBLEMS[n.u32(at)] ?? 'problem', fatal: n.u32(at + 4) !== 0,
      subject: n.textOf(n.u32(at + 8), n.u32(at + 12)), message: n.text(n.u32(at + 16)),
    };
  });
}

function aliasesOf(n: Native, model: number): { name: string; index: number }[] {
  const count = n.address('alias_count', model);
  return n.with(8, (out) => Array.from({ length: count }, (_, i) => {
    const name = n.address('alias', model, i, out);
    return { name: n.textOf(name, n.u32(out)), index: n.u32(out + 4) };
  }));
}

function columnsOf(n: Native, model: number): Columns {
  const [count, nameBytes, dims] = n.with(12, (out) => {
    n.call('sizes', model, out);
    return [n.u32(out), n.u32(out + 4), n.u32(out + 8)];
  });
  const copy = (at: number, size: number): ArrayBuffer => n.copyOut(at, size).buffer as ArrayBuffer;
  const [names, nameStarts] = n.with(nameBytes, (at) => n.with(4 * (count + 1), (starts) => {
    n.call('name_columns', model, at, starts);
    return [copy(at, nameBytes), copy(starts, 4 * (count + 1))];
  }));
  const sizes = [8 * dims, 8 * count, 8 * count, 8 * count, 4 * (count + 1), 4 * count, 2 * count];
  const others = n.with(28 + 4 + sizes.reduce((sum, size) => sum + size, 0), (at) => {
    const view = n.memory();
    let to = at + 32;
    const begins = sizes.map((size, i) => {
      view.setUint32(at + 4 * i, to, true);
      to += size;
      return to - size;
    });
    n.call('columns', model, at);
    return begins.map((begin, i) => copy(begin, sizes[i]));
  });
  const dtypes = new Uint16Array(others[6]);
  const dtypeNames = ['', ...DTYPES] as string[];
  for (let i = 0; i < count; i++) {
    if (dtypes[i] > DTYPES.length) { // of another format: named by its descriptor
      const name = n.text(n.u32(n.u32(n.address('tensor', model, i) + 8) + 24));
      const known = dtypeNames.indexOf(name);
      dtypes[i] = known < 0 ? dtypeNames.push(name) - 1 : known;
    }
  }
  return {
    nameBytes: new Uint8Array(names),
    nameStarts: new Uint32Array(nameStarts),
    dtypes, dtypeNames,
    dims: new BigUint64Array(others[0]),
    dimStarts: new Uint32Array(others[4]),
    nbytes: new Float64Array(others[1]),
    offsets: new Float64Array(others[2]),
    files: new Uint32Array(others[5]),
    elements: new Float64Array(others[3]),
  };
}

// -------------------------------------------------------------------- opening

const OPTIONS_BYTES = 56;

/** The struct `options` of native/module.h for the time of `use`. */
export function withOptions<T>(n: Native, o: OpenOptions, scan: boolean, use: (at: number) => T): T {
  const rules = Object.entries(o.viewAs ?? {}).map(([pattern, dtype]) => ({
    bytes: new TextEncoder().encode(pattern), dtype: dtypeNumber(dtype),
  }));
  const texts = rules.reduce((sum, r) => sum + r.bytes.length, 0);
  const dedup = o.dedup === undefined ? 0 : DEDUP.indexOf(o.dedup);
  if (dedup < 0) {
    throw failure('SFT_E_ARG', `dedup is one of ${DEDUP.join(', ')}`);
  }
  const limit = (value: number | undefined, name: string): number => {
    if (value !== undefined && !(value >= 0 && Number.isSafeInteger(value))) {
      throw failure('SFT_E_ARG', `${name} is no whole number from 0 on`);
    }
    return value ?? 0;
  };
  return n.withText(o.key ?? '', (key) => n.with(OPTIONS_BYTES + 12 * rules.length + texts, (at) => {
    const view = n.memory();
    const bytes = n.slice(at, OPTIONS_BYTES + 12 * rules.length + texts);
    view.setFloat64(at, limit(o.maxHeaderBytes, 'maxHeaderBytes'), true);
    view.setFloat64(at + 8, limit(o.maxTensors, 'maxTensors'), true);
    view.setFloat64(at + 16, limit(o.maxMemoryBytes, 'maxMemoryBytes'), true);
    view.setFloat64(at + 24, limit(o.maxInflateBytes, 'maxInflateBytes'), true);
    view.setUint32(at + 32, (o.incomplete === true ? 1 : 0) | (o.strict === true ? 2 : 0), true);
    view.setUint32(at + 36, (o.allowOpaque === true || scan ? 1 : 0) | (o.checksums === true ? 4 : 0) |
      (o.dequantize === true ? 16 : 0), true);
    view.setUint32(at + 40, dedup, true);
    view.setUint32(at + 44, o.key === undefined ? 0 : key, true);
    view.setUint32(at + 48, at + OPTIONS_BYTES, true);
    view.setUint32(at + 52, rules.length, true);
    let text = OPTIONS_BYTES + 12 * rules.length;
    rules.forEach((rule, i) => {
      view.setUint32(at + OPTIONS_BYTES + 12 * i, at + text, true);
      view.setUint32(at + OPTIONS_BYTES + 12 * i + 4, rule.bytes.length, true);
      view.setUint32(at + OPTIONS_BYTES + 12 * i + 8, rule.dtype, true);
      bytes.set(rule.bytes, text);
      text += rule.bytes.length;
    });
    return use(at);
  }));
}

export function openModel(n: Native, mount: Mount, path: string, o: OpenOptions): SyncModel {
  n.mount = mount;
  const model = n.withText(path, (text) => withOptions(n, o, false, (at) => n.address('open', text, at)));
  if (model === 0) {
    throw n.error();
  }
  return new SyncModel(n, mount, model);
}

export function checkModel(n: Native, mount: Mount, path: string, o: OpenOptions): CheckReport {
  try {
    const model = openModel(n, mount, path, o);
    const { format, problems } = model;
    const tensors = n.address('count', model['at']);
    model.close();
    return { valid: true, error: null, format, tensors, problems };
  } catch (e) {
    if (!(e instanceof SafetensorsError) || e.code === 'TRAP') {
      throw e;
    }
    const { code, reason, offset, tensor } = e;
    const shards = code === 'SFT_E_SHARD_MISSING' || code === 'SFT_E_SHARD_DISAGREES';
    const problems = shards && o.incomplete !== true ? problemsAnyway(n, mount, path, o) : [];
    return { valid: false, error: { code, reason, offset, tensor }, format: null, tensors: 0, problems };
  }
}

/** All that an index and its files disagree about, of a model that lacks parts. */
function problemsAnyway(n: Native, mount: Mount, path: string, o: OpenOptions): Problem[] {
  try {
    const model = openModel(n, mount, path, { ...o, incomplete: true });
    model.close();
    return model.problems;
  } catch (e) {
    return [];
  }
}

export function scanModel(n: Native, mount: Mount, path: string, o: OpenOptions): ScanReport {
  n.mount = mount;
  const report = n.withText(path, (text) => withOptions(n, o, true, (at) => n.address('scan', text, at)));
  if (report === 0) {
    throw n.error();
  }
  const format = n.call('report_format', report);
  const made: ScanReport = {
    format: formatName(n, format, 0), title: formatName(n, format, 1),
    verdict: VERDICTS[n.call('report_verdict', report)] ?? 'unknown', findings: findingsOf(n, report),
  };
  n.call('report_free', report);
  return made;
}

// -------------------------------------------------------------------- writing

function bytesOf(data: ArrayBufferView | ArrayBuffer): Uint8Array {
  return ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
}

function dtypeOf(name: string, data: ArrayBufferView | ArrayBuffer): DType {
  const kinds: [Function, DType][] = [ // eslint-disable-line
    [Float32Array, 'F32'], [Float64Array, 'F64'], [Uint8Array, 'U8'], [Uint8ClampedArray, 'U8'], [Int8Array, 'I8'],
    [Int16Array, 'I16'], [Uint16Array, 'U16'], [Int32Array, 'I32'], [Uint32Array, 'U32'], [BigInt64Array, 'I64'],
    [BigUint64Array, 'U64'],
  ];
  const found = kinds.find(([kind]) => data instanceof kind);
  if (found === undefined) {
    throw failure('SFT_E_ARG', `tensor "${name}": its array does not tell an element type: dtype must`);
  }
  return found[1];
}

/** A file as its parts: the header, then the tensors' own bytes, not copied. */
export function saveParts(n: Native, tensors: TensorsToSave, o: SaveOptions = {}): Uint8Array[] {
  const list = [...(tensors instanceof Map ? tensors : Object.entries(tensors))].map(([name, t]) => ({
    name: new TextEncoder().encode(wellFormed(name, 'a name')), bytes: bytesOf(t.data), shape: t.shape,
    dtype: dtypeNumber(t.dtype ?? dtypeOf(name, t.data)),
  }));
  const given = o.metadata ?? null;
  const metadata = given === null ? [] : [...(given instanceof Map ? given : Object.entries(given))].flatMap((kv) =>
    kv.map((text: string) => new TextEncoder().encode(wellFormed(String(text), 'metadata'))));
  const dims = list.reduce((sum, t) => sum + t.shape.length, 0);
  const texts = [...list.map((t) => t.name), ...metadata];
  const size = {
    saving: 24, tensors: 40 * list.length, entries: 8 * metadata.length, dims: 8 * dims, offsets: 8 * list.length + 8,
    texts: texts.reduce((sum, t) => sum + t.length, 0),
  };
  const total = 48 + size.tensors + size.entries + size.dims + size.offsets + size.texts;
  return n.with(total, (at) => {
    const tensorsAt = at + 48;
    const dimsAt = tensorsAt + size.tensors;
    const offsetsAt = dimsAt + size.dims;
    const entriesAt = offsetsAt + size.offsets;
    let text = entriesAt + size.entries;
    let dim = dimsAt;
    const dtypes = list.map((t) => n.address('dtype', t.dtype));
    const view = n.memory();
    n.slice(at, total).fill(0);
    const putText = (bytes: Uint8Array): number => {
      n.slice(text, bytes.length).set(bytes);
      text += bytes.length;
      return text - bytes.length;
    };
    list.forEach((t, i) => {
      const to = tensorsAt + 40 * i;
      view.setUint32(to, putText(t.name), true);
      view.setUint32(to + 4, t.name.length, true);
      view.setUint32(to + 8, dtypes[i], true);
      view.setUint32(to + 12, dim, true);
      view.setUint32(to + 16, t.shape.length, true);
      view.setBigUint64(to + 32, BigInt(t.bytes.length), true);
      for (const d of t.shape) {
        if (!(Number.isSafeInteger(d) && d >= 0)) {
          throw failure('SFT_E_SHAPE', `${d} is no size of a dimension`);
        }
        view.setBigUint64(dim, BigInt(d), true);
        dim += 8;
      }
    });
    for (let i = 0; i < metadata.length; i++) {
      view.setUint32(entriesAt + 8 * i, putText(metadata[i]), true);
      view.setUint32(entriesAt + 8 * i + 4, metadata[i].length, true);
    }
    const alignment = o.alignment ?? 0;
    view.setUint32(at, tensorsAt, true);
    view.setUint32(at + 4, list.length, true);
    view.setUint32(at + 8, given === null ? 0 : entriesAt, true);
    view.setUint32(at + 12, metadata.length / 2, true);
    view.setUint32(at + 16, alignment, true);
    view.setUint32(at + 20, o.declaredOrder === true ? 1 : 0, true);
    const header = n.address('header', at, offsetsAt, at + 24);
    if (header === 0) {
      throw n.error();
    }
    const bytes = n.copyOut(header, n.u32(at + 24));
    n.call('free', header);
    const after = n.memory();
    const order = list.map((t, i) => ({ bytes: t.bytes, offset: Number(after.getBigUint64(offsetsAt + 8 * i, true)) }))
      .filter((t) => t.bytes.length > 0).sort((a, b) => a.offset - b.offset);
    return [bytes, ...order.map((t) => t.bytes)];
  });
}

export function joinParts(parts: Uint8Array[]): Uint8Array {
  const all = room(parts.reduce((sum, p) => sum + p.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
