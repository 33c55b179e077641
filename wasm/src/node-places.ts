// SPDX-License-Identifier: Apache-2.0 OR MIT
// node-places.ts - the files of Node.

import * as fs from 'node:fs';
import type { HostFile, Mount, Stat } from './host.js';

function convert(st: fs.Stats): Stat {
  return {
    size: st.size, kind: st.isFile() ? 'file' : st.isDirectory() ? 'directory' : 'other', mtimeMs: st.mtimeMs,
    inode: st.ino, device: st.dev,
  };
}

class NodeFile implements HostFile {
  constructor(private readonly fd: number) {}

  stat(): Stat {
    return convert(fs.fstatSync(this.fd));
  }

  read(offset: number, dst: Uint8Array): number {
    return fs.readSync(this.fd, dst, 0, dst.length, offset);
  }

  close(): void {
    fs.closeSync(this.fd);
  }
}

export const nodeMount: Mount = {
  // a FIFO without a writer must not block
  open: (path) => new NodeFile(fs.openSync(path, fs.constants.O_RDONLY | (fs.constants.O_NONBLOCK ?? 0))),
  stat: (path) => convert(fs.statSync(path)),
  list: (path) => fs.readdirSync(path === '' ? '.' : path),
  real: (path) => fs.realpathSync(path),
};
