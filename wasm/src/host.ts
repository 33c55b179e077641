// SPDX-License-Identifier: Apache-2.0 OR MIT
// host.ts - where bytes come from: files by path, read at a position, without waiting for a promise. The other
// side of native/host.h.

/** Errors by the names that the module's C library knows, with its numbers. */
export const ERRNO = {
  EACCES: 2, EBADF: 8, EINVAL: 28, EIO: 29, EISDIR: 31, ELOOP: 32, EMFILE: 33, ENAMETOOLONG: 37,
  ENOENT: 44, ENOMEM: 48, ENOTDIR: 54, ENOTSUP: 58, EPERM: 63,
} as const;

export class HostError extends Error {
  readonly errno: number;
  constructor(code: keyof typeof ERRNO, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.errno = ERRNO[code];
  }
}

export interface Stat {
  size: number;
  kind: 'file' | 'directory' | 'other';
  mtimeMs?: number;
  inode?: number;
  device?: number;
}

export interface HostFile {
  stat(): Stat;
  /** Reads at most dst.length bytes at the offset; fewer at the end of the file alone. */
  read(offset: number, dst: Uint8Array): number;
  close(): void;
}

/** Files that a model may consist of, by path. What is not there is a HostError of ENOENT. */
export interface Mount {
  open(path: string): HostFile;
  stat(path: string): Stat;
  list(path: string): string[];
  real(path: string): string;
}

function missing(path: string): HostError {
  return new HostError('ENOENT', `${path}: there is no such file`);
}

/** "a/./b//c" and "/a/b/c" are a/b/c; the directory itself is "". */
export function plainPath(path: string): string {
  return path.split('/').filter((part) => part !== '' && part !== '.').join('/');
}

/** Files that are known beforehand, by name; directories are what the names have before a slash. */
export class TableMount implements Mount {
  private readonly files = new Map<string, HostFile>();

  add(path: string, file: HostFile): void {
    this.files.set(plainPath(path), file);
  }

  paths(): string[] {
    return [...this.files.keys()];
  }

  private isDirectory(plain: string): boolean {
    if (plain === '') {
      return true;
    }
    for (const name of this.files.keys()) {
      if (name.startsWith(plain + '/')) {
        return true;
      }
    }
    return false;
  }

  open(path: string): HostFile {
    const plain = plainPath(path);
    const file = this.files.get(plain);
    if (file !== undefined) {
      return { stat: () => this.stat(path), read: (at, dst) => file.read(at, dst), close: () => undefined };
    }
    if (this.isDirectory(plain)) {
      return { stat: () => ({ size: 0, kind: 'directory' }), read: () => 0, close: () => undefined };
    }
    throw missing(path);
  }

  stat(path: string): Stat {
    const plain = plainPath(path);
    const file = this.files.get(plain);
    if (file !== undefined) {
      return { inode: [...this.files.keys()].indexOf(plain) + 1, ...file.stat() };
    }
    if (this.isDirectory(plain)) {
      return { size: 0, kind: 'directory' };
    }
    throw missing(path);
  }

  list(path: string): string[] {
    const plain = plainPath(path);
    const before = plain === '' ? '' : plain + '/';
    const names = new Set<string>();
    for (const name of this.files.keys()) {
      if (name.startsWith(before)) {
        names.add(name.slice(before.length).split('/')[0]);
      }
    }
    if (names.size === 0 && !this.isDirectory(plain)) {
      throw missing(path);
    }
    return [...names].sort();
  }

  real(path: string): string {
    return '/' + plainPath(path);
  }
}

/** Bytes in memory. */
export class MemoryFile implements HostFile {
  constructor(readonly bytes: Uint8Array) {}

  stat(): Stat {
    return { size: this.bytes.byteLength, kind: 'file' };
  }

  read(offset: number, dst: Uint8Array): number {
    if (offset >= this.bytes.byteLength) {
      return 0;
    }
    const part = this.bytes.subarray(offset, offset + dst.length);
    dst.set(part);
    return part.length;
  }

  close(): void { /* nothing is held */ }
}

const BLOCK = 1 << 18;
const BLOCKS = 64;

/**
 * A file whose every read is dear: a Blob, a URL. Short reads go through blocks of 256 KiB, of which the last 64
 * are kept; long ones go past them.
 */
export abstract class BlockFile implements HostFile {
  private readonly blocks = new Map<number, Uint8Array>();
  private next = -1;
  private ahead = 1;

  /** Exactly these bytes, which lie inside the file. */
  protected abstract fetch(offset: number, size: number): Uint8Array;
  abstract stat(): Stat;
  close(): void { /* the blocks stay: files are opened again */ }

  protected keep(index: number, bytes: Uint8Array): void {
    this.blocks.set(index, bytes);
    if (this.blocks.size > BLOCKS) {
      this.blocks.delete(this.blocks.keys().next().value!);
    }
  }

  /** Who reads block after block gets ever more of them at once. */
  private block(index: number): Uint8Array {
    const known = this.blocks.get(index);
    if (known !== undefined) {
      this.blocks.delete(index); // the order of the map is that of use
      this.blocks.set(index, known);
      return known;
    }
    this.ahead = index === this.next ? Math.min(2 * this.ahead, BLOCKS / 2) : 1;
    const begin = index * BLOCK;
    const bytes = this.fetch(begin, Math.min(this.ahead * BLOCK, this.stat().size - begin));
    for (let at = 0; at < bytes.length; at += BLOCK) {
      this.keep(index + at / BLOCK, bytes.subarray(at, at + BLOCK));
    }
    this.next = index + this.ahead;
    return bytes.subarray(0, BLOCK);
  }

  read(offset: number, dst: Uint8Array): number {
    const size = Math.min(dst.length, Math.max(0, this.stat().size - offset));
    let done = 0;
    while (done < size) {
      const at = offset + done;
      const index = Math.floor(at / BLOCK);
      if (size - done >= BLOCK && !this.blocks.has(index)) {
        const part = this.fetch(at, Math.min(size - done, 32 * BLOCK));
        dst.set(part, done);
        done += part.length;
      } else {
        const begin = at - index * BLOCK;
        const part = this.block(index).subarray(begin, begin + size - done);
        dst.set(part, done);
        done += part.length;
      }
    }
    return size;
  }
}

/** A function that fetches a range of a URL at once: synchronous XMLHttpRequest, or another thread. */
export type FetchRange = (url: string, begin: number, end: number) => RangeReply;

export interface RangeReply {
  status: number;
  body: Uint8Array;
  /** The header Content-Range. */
  range: string | null;
  /** ETag, or Last-Modified. */
  version: string | null;
}

const changed = (path: string): HostError => new HostError('EIO', `${path}: the file behind the URL has changed`);

/** How long the whole file is (known: if that is known), of an answer that has the bytes that were asked for and no others. */
function totalOf(path: string, reply: RangeReply, offset: number, size: number, known?: number): number {
  const [, begin, last, length] = /^bytes (\d+)-(\d+)\/(\d+|\*)$/i.exec(reply.range ?? '') ?? [];
  const total = length === undefined || length === '*' ? known : Number(length);
  if (length === undefined || total === undefined) {
    throw new HostError('EIO', `${path}: the answer does not tell ${length === undefined ? 'which bytes these are' : 'how long the file is'} (Content-Range; ` +
      'from another origin, Access-Control-Expose-Headers must name it)');
  }
  if (known !== undefined && total !== known) {
    throw changed(path);
  }
  const end = Math.min(offset + size, total);
  if (Number(begin) !== offset || Number(last) !== end - 1) {
    throw new HostError('EIO', `${path}: the server sent bytes ${begin}-${last}, asked was ${offset}-${end - 1}`);
  }
  if (reply.body.length !== end - offset) {
    throw new HostError('EIO', `${path}: the server sent ${reply.body.length} bytes instead of ${end - offset}`);
  }
  return total;
}

function refused(path: string, status: number): HostError {
  const code = status === 404 || status === 410 ? 'ENOENT' : status === 401 || status === 403 ? 'EACCES' : 'EIO';
  return new HostError(code, `${path}: the server answered ${status}`);
}

/** A file behind a URL. The first block is fetched with the question whether it is there. */
class UrlFile extends BlockFile {
  private readonly size: number;
  private readonly version: string | null;
  private readonly whole: Uint8Array | null = null;

  constructor(private readonly url: string, private readonly path: string, private readonly range: FetchRange) {
    super();
    const reply = range(url, 0, BLOCK);
    this.version = reply.version;
    if (reply.status === 206) {
      this.size = totalOf(path, reply, 0, BLOCK);
      this.keep(0, reply.body);
    } else if (reply.status === 200) { // no ranges: all of it came
      this.size = reply.body.length;
      this.whole = reply.body;
    } else if (reply.status === 416 && !/\/0*[1-9]\d*$/.test(reply.range ?? '')) {
      this.size = 0;
    } else {
      throw refused(path, reply.status);
    }
  }

  override stat(): Stat {
    return { size: this.size, kind: 'file' };
  }

  protected override fetch(offset: number, size: number): Uint8Array {
    if (this.whole !== null) {
      return this.whole.subarray(offset, offset + size);
    }
    const reply = this.range(this.url, offset, offset + size);
    if (reply.status !== 206) {
      throw refused(this.path, reply.status);
    }
    totalOf(this.path, reply, offset, size, this.size);
    if (reply.version !== this.version) {
      throw changed(this.path);
    }
    return reply.body;
  }
}

/** The files beside one URL. A directory cannot be listed over HTTP: only what is asked for by name is found. */
export class UrlMount implements Mount {
  private readonly base: string;
  private readonly first: string;
  private readonly files = new Map<string, UrlFile | HostError>();

  constructor(private readonly url: string, private readonly range: FetchRange) {
    this.base = new URL('.', url).href;
    this.first = decodeURIComponent(new URL(url).pathname.split('/').pop() ?? '');
  }

  name(): string {
    return this.first;
  }

  private file(path: string): UrlFile {
    const plain = plainPath(path);
    let known = this.files.get(plain);
    if (known === undefined) {
      const url = plain === this.first ? this.url
        : this.base + plain.split('/').map(encodeURIComponent).join('/');
      try {
        known = new UrlFile(url, plain, this.range);
      } catch (e) {
        if (!(e instanceof HostError) || e.errno !== ERRNO.ENOENT) {
          throw e;
        }
        known = e;
      }
      this.files.set(plain, known);
    }
    if (known instanceof HostError) {
      throw known;
    }
    return known;
  }

  open(path: string): HostFile {
    if (plainPath(path) === '') {
      return { stat: () => this.stat(path), read: () => 0, close: () => undefined };
    }
    const file = this.file(path);
    return { stat: () => this.stat(path), read: (at, dst) => file.read(at, dst), close: () => undefined };
  }

  stat(path: string): Stat {
    return plainPath(path) === '' ? { size: 0, kind: 'directory' }
      : { inode: [...this.files.keys()].indexOf(plainPath(path)) + 1, ...this.file(path).stat() };
  }

  list(path: string): string[] {
    throw new HostError('ENOTSUP', `${path}: a directory cannot be listed over HTTP`);
  }

  real(path: string): string {
    return '/' + plainPath(path);
  }
}
