// SPDX-License-Identifier: Apache-2.0 OR MIT
// browser.mjs - a headless Chromium with a profile of its own, which asks nobody for anything.

import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PACKAGE, read, serve } from './helpers.mjs';

export const CHROMIUM = process.env.SFT_CHROMIUM ?? '/usr/bin/chromium';
export const skip = existsSync(CHROMIUM) ? false : `there is no ${CHROMIUM}`;

const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

/** A page of the test server, which has the package at /package/ and what `lookUp` knows. */
export async function openPage(t, lookUp = () => null, options = {}) {
  const { chromium } = await import('playwright-core');
  const site = await serve(t, (path) => {
    if (path.startsWith('/package/') && !path.includes('..')) {
      return read(PACKAGE, path.slice('/package/'.length));
    }
    return path === '/page.html' ? read(PACKAGE, 'test/page.html') : lookUp(path);
  }, options);
  const profile = mkdtempSync(join(tmpdir(), 'sft-chromium-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: CHROMIUM, headless: true, args: FLAGS, viewport: { width: 900, height: 560 },
  });
  t.after(async () => {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  });
  const page = await context.newPage();
  const errors = [];
  const elsewhere = [];
  page.on('pageerror', (e) => errors.push(String(e)));
  context.on('request', (request) => {
    if (!request.url().startsWith(site.base) && !request.url().startsWith('blob:')) {
      elsewhere.push(request.url());
    }
  });
  await page.goto(`${site.base}/page.html`);
  await page.waitForFunction(() => globalThis.ready === true);
  return { page, errors, elsewhere, ...site };
}
