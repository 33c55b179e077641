// SPDX-License-Identifier: Apache-2.0 OR MIT
// choice.ts - files that were chosen or dropped: their paths, and which of them is to be opened.

import type { Finding } from '../data.js';

export interface Choice { files: [string, File][]; path: string; name: string }

const MOST_FILES = 20_000;
const WEIGHTS = /\.(safetensors|gguf|ggml|pt|pth|bin|ckpt|tar|pkl|joblib|onnx|npz|npy|h5|hdf5|keras|msgpack|pdparams|pdiparams|tflite|index|ckpt-\d+|mindir|arrow)$/i;

/** Without the folders that all names begin with. folder: the outermost, which somebody took. */
function withoutFolders(files: [string, File][]): { folder: string; files: [string, File][] } {
  const folders = files[0]?.[0].split('/').slice(0, -1) ?? [];
  let common = folders.length;
  for (const [name] of files) {
    const parts = name.split('/').slice(0, -1);
    for (let k = 0; k < common; k++) {
      common = parts[k] === folders[k] ? common : k;
    }
  }
  const begin = folders.slice(0, common).reduce((sum, { length }) => sum + length + 1, 0);
  return { folder: common > 0 ? folders[0] : '', files: files.map(([name, file]) => [name.slice(begin), file]) };
}

const HIDDEN_WITHIN = /\/\./;

/** What of these files is the model: hidden ones are not, unless nothing else was taken. Throws a sentence. */
export function choose(given: [string, File][]): Choice {
  const within = given.filter(([name]) => !HIDDEN_WITHIN.test(name));
  const plain = within.filter(([name]) => !name.startsWith('.'));
  const { folder, files } = withoutFolders(plain.length > 0 ? plain : within);
  if (files.length === 0) {
    throw new Error('There are no files in it.');
  }
  if (files.length > MOST_FILES) {
    throw new Error(`These are ${files.length} files; a model has at most ${MOST_FILES}.`);
  }
  const top = files.map(([name]) => name).filter((name) => !name.includes('/'));
  const indexes = top.filter((name) => name.endsWith('.index.json'));
  const index = indexes.find((name) => name === 'model.safetensors.index.json') ?? (indexes.length === 1 ? indexes[0] : undefined);
  const weights = top.filter((name) => WEIGHTS.test(name));
  const path = files.length === 1 ? files[0][0] : index ?? (weights.length === 1 ? weights[0] : '.');
  const name = folder !== '' ? folder : path === '.' ? weights[0] ?? top[0] ?? files[0][0] : path;
  return { files, path, name };
}

/** Shards whose names say that there are more of them, where no index says which. */
export function halves(names: string[], path: string): Finding[] {
  if (path.endsWith('.index.json')) {
    return [];
  }
  const sets = new Map<string, { of: number; have: Set<number> }>();
  for (const name of names) {
    const [, stem, part, of] = /^(.*)-(\d{5})-of-(\d{5})\./.exec(name) ?? [];
    if (of !== undefined) {
      const set = sets.get(`${stem} ${of}`) ?? { of: Number(of), have: new Set<number>() };
      set.have.add(Number(part));
      sets.set(`${stem} ${of}`, set);
    }
  }
  return [...sets.values()].filter(({ of, have }) => have.size < of).map(({ of, have }) => ({
    from: 'files', level: 'warning', text: `by their names these are ${have.size} of ${of} parts of a model: the others are not here`,
  }));
}

/* ---------------------------------------------------------------- dropped */

const filesOf = (entry: FileSystemFileEntry): Promise<File> => new Promise((resolve, reject) => entry.file(resolve, reject));
const namesOf = (reader: FileSystemDirectoryReader): Promise<FileSystemEntry[]> => new Promise((resolve, reject) => reader.readEntries(resolve, reject));

/** All files of what was dropped, folders too. To be called in the event: its items are gone after it. */
export async function dropped(transfer: DataTransfer): Promise<[string, File][]> {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry());
  const plain = [...transfer.files];
  const out: [string, File][] = [];
  const waiting = entries.filter((entry) => entry !== null);
  if (waiting.length === 0) {
    return plain.map((file) => [file.name, file]);
  }
  for (let entry = waiting.shift(); entry !== undefined && out.length <= MOST_FILES; entry = waiting.shift()) {
    if (entry.isFile) {
      out.push([entry.fullPath.replace(/^\/+/, ''), await filesOf(entry as FileSystemFileEntry)]);
    } else if (!HIDDEN_WITHIN.test(entry.fullPath.slice(1))) {
      const reader = (entry as FileSystemDirectoryEntry).createReader();
      for (let some = await namesOf(reader); some.length > 0; some = await namesOf(reader)) { // a hundred at a time
        waiting.push(...some);
      }
    }
  }
  return out;
}

export const chosen = (list: FileList): [string, File][] => [...list].map((file) => [file.webkitRelativePath || file.name, file]);
