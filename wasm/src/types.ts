// SPDX-License-Identifier: Apache-2.0 OR MIT
// types.ts - what callers see: plain data, the same on both sides of a worker.

/** The 22 element types of safetensors. Readers of other formats may have more, under names of their own. */
export type DType =
  | 'BOOL' | 'F4' | 'F6_E2M3' | 'F6_E3M2' | 'U8' | 'I8' | 'F8_E5M2' | 'F8_E4M3' | 'F8_E8M0'
  | 'F8_E4M3FNUZ' | 'F8_E5M2FNUZ' | 'I16' | 'U16' | 'F16' | 'BF16' | 'I32' | 'U32' | 'F32' | 'C64'
  | 'F64' | 'I64' | 'U64';

export type TypedArray =
  | Uint8Array | Int8Array | Int16Array | Uint16Array | Int32Array | Uint32Array
  | Float32Array | Float64Array | BigInt64Array | BigUint64Array;

/** Bytes that are in memory. They are not copied: leave them as they are while a model is open. */
export type Bytes = ArrayBuffer | Uint8Array;

/**
 * What can be opened: bytes; a File or Blob; the files of a model (of a file input or a drop, or by name);
 * a URL, of which only the ranges that are needed are fetched; in Node a path to a file or a directory.
 */
export type Source = Bytes | Blob | URL | string | readonly File[] | { readonly [name: string]: Bytes | Blob };

export interface OpenOptions {
  /** Which of several files is to be opened; without it their index, or all of them as one model. */
  path?: string;
  /** A name for bytes, in messages. */
  name?: string;
  /** The longest header that is accepted; default 100,000,000, as the reference. */
  maxHeaderBytes?: number;
  maxTensors?: number;
  /** Memory for what describes the tensors; of other formats 192 MiB by default. */
  maxMemoryBytes?: number;
  /** Bytes that deflated members of archives may have together; default 1,032 times the file. */
  maxInflateBytes?: number;
  /** Refuse what the reference accepts against the letter of the format. */
  strict?: boolean;
  /** Open even if an index names files or tensors that are not there; they become problems. */
  incomplete?: boolean;
  /** Other formats: leave out what is not understood, instead of failing; findings list it. */
  allowOpaque?: boolean;
  /** Other formats: read and check the checksums of large members, too. */
  checksums?: boolean;
  /** GGUF: F32 instead of blocks, where the type is known. */
  dequantize?: boolean;
  /** Other formats: the part of a nested file, "state_dict" or "ema.params"; "." for all of it. */
  key?: string;
  /** Other formats: which of several names of the same bytes is the tensor. */
  dedup?: 'hf' | 'first' | 'keep' | 'error' | 'alias';
  /** Element types that a file does not tell, by pattern of names: { '*': 'BF16' }. */
  viewAs?: { readonly [pattern: string]: DType };
}

export interface RemoteOptions {
  /** Headers of requests for a URL, "Authorization" for example. */
  headers?: { readonly [name: string]: string };
  /** Ends what is going on, and closes the model. */
  signal?: AbortSignal;
}

/** One dimension of a slice: an index, which drops it; [start, stop, step] as in Python; null for all of it. */
export type SliceItem = number | null | '...' | readonly [start?: number | null, stop?: number | null, step?: number | null];
/** As in numpy, "0:2, ::-1, 3, ...", or the same as an array: [[0, 2], [null, null, -1], 3, '...']. */
export type Slice = string | readonly SliceItem[];

export interface ReadOptions {
  slice?: Slice;
  /** The element type that is wanted: BF16, F16 and F8 as 'F32', for example. */
  dtype?: DType;
}

export interface Tensor {
  name: string;
  dtype: string;
  shape: number[];
  /**
   * Elements in row-major order. F16 and BF16 come as the bits of a Uint16Array, F8 as those of a Uint8Array,
   * types of fewer bits packed in one, C64 as pairs in a Float32Array: ask for 'F32' to get numbers.
   */
  data: TypedArray;
}

export interface TensorInfo {
  index: number;
  name: string;
  dtype: string;
  /** Above 2^53, which only a tensor without elements can have, the nearest double. */
  shape: number[];
  elements: number;
  nbytes: number;
  /** Where its bytes begin in its file; null if they do not lie there in order and in one piece. */
  offset: number | null;
  /** Index of its file. */
  file: number;
}

export interface FileInfo {
  path: string;
  size: number;
  /** Length of a safetensors header; 0 for other formats. */
  headerBytes: number;
  dataOffset: number;
  tensorCount: number;
  /** null: the file has none. */
  metadata: Map<string, string> | null;
}

export interface Problem {
  kind: 'orphan_file' | 'orphan_tensor' | 'missing_file' | 'missing_tensor' | 'other_shard' | 'total_size' | 'alias' | 'problem';
  fatal: boolean;
  subject: string;
  message: string;
}

export type Verdict = 'harmless' | 'unknown' | 'dangerous';

export interface Finding {
  kind: string;
  verdict: Verdict;
  rule: string;
  subject: string;
  message: string;
  offset: number | null;
  count: number;
}

export interface ScanReport {
  format: string;
  title: string;
  verdict: Verdict;
  findings: Finding[];
}

/** Another name of a tensor. It may show only a part: reading by this name gives that. */
export interface Alias {
  name: string;
  index: number;
}

/** Everything that is known of a model when it is open. */
export interface ModelFacts {
  format: string;
  files: FileInfo[];
  problems: Problem[];
  /** Of other formats: what was left out, and what is good to know. */
  findings: Finding[];
  aliases: Alias[];
}

export interface Verified {
  /** Tensors whose recorded digest was compared. */
  checked: number;
  damaged: number;
  /** The first one that is damaged, or null. */
  first: string | null;
}

export interface ErrorFacts {
  code: string;
  reason: string;
  offset: number | null;
  tensor: string | null;
}

export type CheckReport =
  | { valid: true; error: null; format: string; tensors: number; problems: Problem[] }
  | { valid: false; error: ErrorFacts; format: null; tensors: 0; problems: Problem[] };

export interface TensorToSave {
  /** Not needed where the array tells it: Float32Array is F32, Uint8Array U8, BigInt64Array I64 ... */
  dtype?: DType;
  shape: readonly number[];
  data: ArrayBufferView | ArrayBuffer;
}

export interface SaveOptions {
  metadata?: { readonly [key: string]: string } | ReadonlyMap<string, string> | null;
  /** The data section begins at a multiple of it: a power of two from 8 (default) to 2^20. */
  alignment?: number;
  /** Keep the order in which the tensors are given; default: that of the reference. */
  declaredOrder?: boolean;
}

export type TensorsToSave = { readonly [name: string]: TensorToSave } | ReadonlyMap<string, TensorToSave>;
