// SPDX-License-Identifier: Apache-2.0 OR MIT
// peers.mjs - the site (SFT_SITE) beside netron (NETRON: the folder of its Python package, which is a site, too) and the parser
// of @huggingface/hub (HUB: its folder): a file of 1,290,000 tensors and one of a 7B model, each opened three times. One line of
// JSON for each: milliseconds until the first view or the parsed header, seconds of the processor, MiB; the best of each.

import { existsSync, mkdtempSync, openAsBlob, readFileSync, readdirSync, rmSync } from 'node:fs';
import { loadavg, tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { startBrowser } from './browser.mjs';
import { writeLarge, writeMany } from './models.mjs';
import { serveFolder, serveSite } from './servers.mjs';

const { SFT_SITE, NETRON, HUB } = process.env;
const ROUNDS = 3;
const LIMIT = 180_000;

function processes(folder) {
  let resident = 0;
  let seconds = 0;
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      if (line.includes('--type=renderer') && line.includes(basename(folder))) {
        const size = Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024;
        const [user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /, '').split(' ').slice(11, 13).map(Number);
        if (size > resident) {
          [resident, seconds] = [size, (user + system) / 100];
        }
      }
    } catch {
      // it has ended
    }
  }
  return { resident, seconds };
}

async function inBrowser(what, start, input, path, shown) {
  const best = { ms: Infinity, cpu: Infinity, mib: Infinity };
  let why = '';
  for (let k = 0; k < ROUNDS && why === ''; k++) {
    const ends = [];
    const t = { after: (end) => ends.push(end) };
    const browser = await startBrowser(t);
    try {
      const site = await start(t);
      const page = await browser.context.newPage();
      page.setDefaultTimeout(LIMIT);
      await page.goto(site.url);
      await page.waitForTimeout(2500);
      const before = processes(browser.folder);
      const from = performance.now();
      await page.setInputFiles(input, path);
      await page.waitForFunction(shown, undefined, { timeout: LIMIT, polling: 20 });
      const ms = performance.now() - from;
      const after = processes(browser.folder);
      best.ms = Math.min(best.ms, Math.round(ms));
      best.cpu = Math.min(best.cpu, +(after.seconds - before.seconds).toFixed(2));
      best.mib = Math.min(best.mib, Math.round(after.resident));
    } catch (e) {
      why = String(e.message).split('\n')[0];
    } finally {
      for (const end of ends.reverse()) {
        await end();
      }
    }
  }
  console.log(JSON.stringify({ what, file: basename(path), ...best, why, load: +loadavg()[0].toFixed(1) }));
}

async function parsed(path) {
  const { parseSafetensorsMetadata } = await import(pathToFileURL(join(HUB, 'dist/index.mjs')).href);
  const blob = await openAsBlob(path);
  const fetch = async (url, init = {}) => {
    const range = /^bytes=(\d+)-(\d+)$/.exec(new Headers(init.headers).get('Range') ?? '');
    if (!decodeURIComponent(url).endsWith('/model.safetensors')) {
      return new Response('', { status: 404, headers: { 'X-Error-Code': 'EntryNotFound' } });
    }
    const [begin, end] = range === null ? [0, init.method === 'HEAD' ? 0 : blob.size] : [Number(range[1]), Math.min(Number(range[2]) + 1, blob.size)];
    return new Response(blob.slice(begin, end), { status: range === null ? 200 : 206, headers: { ETag: '"x"', 'Accept-Ranges': 'bytes', 'Content-Length': String(end - begin), ...(range === null ? {} : { 'Content-Range': `bytes ${begin}-${end - 1}/${blob.size}` }) } });
  };
  const best = { ms: Infinity, cpu: Infinity, mib: Infinity };
  let why = '';
  for (let k = 0; k < ROUNDS; k++) {
    const from = performance.now();
    const before = process.cpuUsage();
    try {
      await parseSafetensorsMetadata({ repo: 'a/b', hubUrl: 'http://hub', fetch });
      const { user, system } = process.cpuUsage(before);
      best.ms = Math.min(best.ms, Math.round(performance.now() - from));
      best.cpu = Math.min(best.cpu, +((user + system) / 1e6).toFixed(3));
      best.mib = Math.min(best.mib, Math.round(process.memoryUsage().rss / 2 ** 20));
    } catch (e) {
      why = String(e.message);
      break;
    }
  }
  console.log(JSON.stringify({ what: '@huggingface/hub, in Node', file: basename(path), ...best, why, load: +loadavg()[0].toFixed(1) }));
}

const folder = mkdtempSync(join(tmpdir(), 'sft-peers-'));
try {
  for (const path of [writeLarge(join(folder, '7b.safetensors')), writeMany(join(folder, 'many.safetensors'))]) {
    await inBrowser('site', (t) => serveSite(t, SFT_SITE), '#files', path, () => document.querySelector('.tiles') !== null);
    if (NETRON !== undefined && existsSync(NETRON)) {
      await inBrowser('netron', (t) => serveFolder(t, NETRON), '#open-file-dialog', path,
        () => document.body.classList.contains('default') && document.querySelectorAll('#canvas .node, .graph-node, svg g.node').length > 0);
    }
    if (HUB !== undefined && existsSync(HUB)) {
      await parsed(path);
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
