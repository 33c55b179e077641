// SPDX-License-Identifier: Apache-2.0 OR MIT
// native.ts - one instance of the module: its memory, what it asks of its host, and its errors.

import { failure, SafetensorsError } from './error.js';
import { ERRNO, HostError, type HostFile, type Mount, type Stat } from './host.js';

type Exports = { memory: WebAssembly.Memory } & { [name: string]: (...args: (number | bigint)[]) => number };

/** Bytes in which the module's memory is filled and emptied at once. */
const STEP = 8 << 20;

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

function errnoOf(e: unknown): number {
  if (e instanceof HostError) {
    return e.errno;
  }
  const code = (e as { code?: unknown }).code;
  return typeof code === 'string' && code in ERRNO ? ERRNO[code as keyof typeof ERRNO] : ERRNO.EIO;
}

/** d.ddde+dd, rounded half to even where toExponential rounds up. */
function exponential(v: number, digits: number): string {
  const long = v.toExponential(Math.min(digits + 40, 100));
  const [mantissa, exponent] = long.split('e');
  const rest = mantissa.slice(mantissa.indexOf('.') + 1 + digits);
  const before = mantissa.replace('.', '')[mantissa.startsWith('-') ? digits + 1 : digits];
  const tie = /^50*$/.test(rest) && Number(before) % 2 === 0;
  const kept = digits === 0 ? mantissa.split('.')[0] : mantissa.slice(0, mantissa.length - rest.length);
  const [m, e] = tie ? [kept, exponent] : v.toExponential(digits).split('e');
  return `${m}e${e[0]}${e.slice(1).padStart(2, '0')}`;
}

/** What C's printf makes of a number with %.<digits>e or %.<digits>g. */
export function realText(v: number, general: boolean, digits: number): string {
  if (!Number.isFinite(v)) {
    return Number.isNaN(v) ? 'nan' : v < 0 ? '-inf' : 'inf';
  }
  if (Object.is(v, -0)) {
    return '-' + realText(0, general, digits);
  }
  if (!general) {
    return exponential(v, digits);
  }
  const p = digits === 0 ? 1 : digits;
  const text = exponential(v, p - 1);
  const [mantissa, exponent] = text.split('e');
  const x = Number(exponent);
  const short = (t: string): string => (t.includes('.') ? t.replace(/\.?0+$/, '') : t);
  if (x < -4 || x >= p) {
    return `${short(mantissa)}e${exponent}`;
  }
  const sign = mantissa.startsWith('-') ? '-' : '';
  const all = mantissa.replace(/[-.]/g, '');
  return sign + short(x < 0 ? `0.${'0'.repeat(-x - 1)}${all}` : `${all.slice(0, x + 1)}.${all.slice(x + 1)}`);
}

export class Native {
  /** Files for the call that is going on. */
  mount: Mount | null = null;
  private readonly exports: Exports;
  /** By handle; one file may have several. */
  private readonly files: (HostFile | null)[] = [];
  private view: DataView;
  private bytes: Uint8Array;
  private cause: unknown;
  private dead: SafetensorsError | null = null;

  constructor(module: WebAssembly.Module) {
    this.exports = new WebAssembly.Instance(module, { host: this.host() }).exports as unknown as Exports;
    this.view = new DataView(this.exports.memory.buffer);
    this.bytes = new Uint8Array(this.exports.memory.buffer);
  }

  get alive(): boolean {
    return this.dead === null;
  }

  // ------------------------------------------------------------------ calls

  /** Calls the module. Whatever it throws is its end: its memory may be in any state. */
  call(name: string, ...args: number[]): number {
    if (this.dead !== null) {
      throw this.dead;
    }
    if (name !== 'free' && name !== 'alloc') {
      this.cause = undefined;
    }
    try {
      return this.exports[name](...args);
    } catch (e) {
      this.dead = failure('TRAP', 'the WebAssembly module has stopped, and what it had open is gone: ' +
        'please report the file', e);
      throw this.dead;
    }
  }

  /** The same where the result is an address. */
  address(name: string, ...args: number[]): number {
    return this.call(name, ...args) >>> 0;
  }

  /** The error of the last call. */
  error(): SafetensorsError {
    const cause = this.cause;
    const at = this.address('error');
    const view = this.memory();
    const status = view.getInt32(at, true);
    const code = this.text(this.address('status_name', status));
    const offset = view.getBigUint64(at + 8, true);
    const tensor = this.text(at + 48);
    return new SafetensorsError({
      code,
      reason: this.text(at + 160),
      offset: offset === 0xffffffffffffffffn ? null : Number(offset),
      tensor: tensor === '' ? null : tensor,
    }, code === 'SFT_E_IO' || code === 'SFT_E_SHARD_MISSING' ? cause : undefined);
  }

  /** For functions that return a status. */
  check(name: string, ...args: number[]): void {
    if (this.call(name, ...args) !== 0) {
      throw this.error();
    }
  }

  // ------------------------------------------------------------------ memory

  memory(): DataView {
    if (this.view.buffer !== this.exports.memory.buffer) {
      this.view = new DataView(this.exports.memory.buffer);
      this.bytes = new Uint8Array(this.exports.memory.buffer);
    }
    return this.view;
  }

  slice(at: number, size: number): Uint8Array {
    this.memory();
    return this.bytes.subarray(at, at + size);
  }

  copyOut(at: number, size: number): Uint8Array {
    this.memory();
    return this.bytes.slice(at, at + size);
  }

  /** Text that ends with a NUL. */
  text(at: number): string {
    this.memory();
    const end = this.bytes.indexOf(0, at);
    return decoder.decode(this.bytes.subarray(at, end));
  }

  textOf(at: number, size: number): string {
    return decoder.decode(this.slice(at, size));
  }

  u32(at: number): number {
    return this.memory().getUint32(at, true);
  }

  /** Memory of the module for the time of `use`. */
  with<T>(size: number, use: (at: number) => T): T {
    const at = size <= 0xffffff00 ? this.address('alloc', size) : 0;
    if (at === 0) {
      throw failure('SFT_E_NOMEM', `out of memory: ${size} bytes are needed`);
    }
    try {
      return use(at);
    } finally {
      if (this.dead === null) {
        this.call('free', at);
      }
    }
  }

  withText<T>(text: string, use: (at: number, len: number) => T): T {
    const bytes = encoder.encode(text);
    return this.with(bytes.length + 1, (at) => {
      const room = this.slice(at, bytes.length + 1);
      room.set(bytes);
      room[bytes.length] = 0;
      return use(at, bytes.length);
    });
  }

  // ------------------------------------------------------------------ the host's side

  /** Reads a file that the module has open. */
  readFile(handle: number, offset: number, dst: Uint8Array): void {
    for (let done = 0; done < dst.length;) {
      const part = dst.subarray(done, done + STEP);
      let n = 0;
      try {
        n = this.files[handle]!.read(offset + done, part);
      } catch (e) {
        throw failure('SFT_E_IO', 'cannot read the file', e);
      }
      if (n === 0) {
        throw failure('SFT_E_TRUNCATED', `the file ends here or before, ${dst.length - done} more bytes were needed`);
      }
      done += n;
    }
  }

  private hold(file: HostFile): number {
    let handle = this.files.indexOf(null);
    handle = handle < 0 ? this.files.length : handle;
    this.files[handle] = file;
    return handle;
  }

  private writeStat(at: number, st: Stat): void {
    const view = this.memory();
    view.setFloat64(at, st.size, true);
    view.setFloat64(at + 8, st.mtimeMs ?? 0, true);
    view.setFloat64(at + 16, st.inode ?? 0, true);
    view.setFloat64(at + 24, st.device ?? 0, true);
    view.setUint32(at + 32, st.kind === 'file' ? 1 : st.kind === 'directory' ? 2 : 3, true);
  }

  private writeTexts(texts: string[], at: number, cap: number): number {
    const parts = texts.map((t) => encoder.encode(t));
    const need = parts.reduce((sum, p) => sum + p.length + 1, 0);
    if (need <= cap) {
      const room = this.slice(at, need);
      let to = 0;
      for (const part of parts) {
        room.set(part, to);
        room[to + part.length] = 0;
        to += part.length + 1;
      }
    }
    return need;
  }

  /** Runs what the module asked for; an exception never reaches it. */
  private answer(what: (mount: Mount) => number): number {
    try {
      if (this.mount === null) {
        throw new HostError('EINVAL', 'no files are given');
      }
      return what(this.mount);
    } catch (e) {
      // The first of a call: what follows are guesses. What a place cannot do is none where more went wrong. Errors of Node's say no more than their numbers.
      const known = this.cause instanceof HostError && this.cause.errno === ERRNO.ENOTSUP ? undefined : this.cause;
      if (known === undefined && (e instanceof HostError || errnoOf(e) === ERRNO.EIO)) {
        this.cause = e;
      }
      return -errnoOf(e);
    }
  }

  private host(): Record<string, (...args: number[]) => number | void> {
    const path = (at: number, len: number): string => this.textOf(at >>> 0, len >>> 0);
    return {
      open: (at, len, st) => this.answer((mount) => {
        const file = mount.open(path(at, len));
        try {
          this.writeStat(st >>> 0, file.stat());
        } catch (e) {
          file.close();
          throw e;
        }
        return this.hold(file);
      }),
      dup: (file) => this.answer(() => this.hold(this.files[file]!)),
      fstat: (file, st) => this.answer(() => {
        this.writeStat(st >>> 0, this.files[file]!.stat());
        return 0;
      }),
      stat: (at, len, st) => this.answer((mount) => {
        this.writeStat(st >>> 0, mount.stat(path(at, len)));
        return 0;
      }),
      read: (file, offset, dst, size) => this.answer(() => {
        const want = Math.min(size >>> 0, STEP);
        return this.files[file]!.read(offset, this.slice(dst >>> 0, want));
      }),
      close: (file) => {
        const closed = this.files[file];
        this.files[file] = null;
        if (closed !== null && !this.files.includes(closed)) {
          closed.close();
        }
      },
      list: (at, len, names, cap) => this.answer((mount) =>
        this.writeTexts(mount.list(path(at, len)), names >>> 0, cap >>> 0)),
      real: (at, len, real, cap) => this.answer((mount) =>
        this.writeTexts([mount.real(path(at, len))], real >>> 0, cap >>> 0)),
      real_text: (v, general, digits, at, cap) => {
        const text = encoder.encode(realText(v, general !== 0, digits)).subarray(0, cap);
        this.slice(at >>> 0, text.length).set(text);
        return text.length;
      },
      real_of: (at, len) => Number(this.textOf(at >>> 0, len >>> 0)),
      random: (dst, size) => {
        const room = new Uint8Array(size >>> 0);
        globalThis.crypto?.getRandomValues(room);
        this.slice(dst >>> 0, size >>> 0).set(room);
      },
      now: () => Date.now(),
    };
  }
}
