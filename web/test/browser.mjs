// SPDX-License-Identifier: Apache-2.0 OR MIT
// browser.mjs - reports in a headless Chromium: whatever a page asks for, says or is refused is kept.

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

export const CHROMIUM = process.env.SFT_CHROMIUM ?? '/usr/bin/chromium';
export const skip = existsSync(CHROMIUM) ? false : `there is no ${CHROMIUM}`;
export const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
export const TEMPLATE = join(ROOT, 'dist/report.html');
/** Where pictures go; "": nowhere. */
export const PICTURES = process.env.SFT_PICTURES ?? '';

const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

/** A browser with a profile of its own; t.after ends it. */
export async function startBrowser(t, flags = []) {
  const { chromium } = await import('playwright-core');
  const folder = mkdtempSync(join(tmpdir(), 'sft-web-'));
  const context = await chromium.launchPersistentContext(join(folder, 'profile'), {
    executablePath: CHROMIUM, headless: true, args: [...FLAGS, ...flags], viewport: { width: 1280, height: 800 },
  });
  t.after(async () => {
    await context.close();
    rmSync(folder, { recursive: true, force: true });
  });
  return { context, folder };
}

/** Opens a report (HTML text) as a file. said: errors, console messages, CSP violations; asked: requests beside the file. */
export async function openReport({ context, folder }, html, { hash = '', width = 1280, height = 800, dark = false, name = 'report.html' } = {}) {
  const path = join(folder, name);
  if (html !== undefined) {
    writeFileSync(path, html);
  }
  const page = await context.newPage();
  const said = [];
  const asked = [];
  const url = pathToFileURL(path).href;
  page.on('pageerror', (e) => said.push(`error: ${e}`));
  page.on('console', (message) => said.push(`console: ${message.text()}`));
  page.on('dialog', (dialog) => said.push(`dialog: ${dialog.message()}`));
  page.on('popup', () => said.push('popup'));
  page.on('request', (request) => {
    if (request.url().split('#')[0] !== url && !request.url().startsWith('data:,')) {
      asked.push(request.url());
    }
  });
  await page.addInitScript(() => {
    globalThis.violations = [];
    addEventListener('securitypolicyviolation', (e) => globalThis.violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
  });
  await page.setViewportSize({ width, height });
  await page.emulateMedia({ colorScheme: dark ? 'dark' : 'light' });
  await page.goto(url + hash);
  await page.waitForFunction(() => document.body.dataset.ready === 'true' || document.querySelector('.broken') !== null);
  const quiet = async () => [...said, ...asked.map((address) => `request: ${address}`), ...await page.evaluate(() => globalThis.violations)];
  return { page, quiet, url };
}

export async function picture(page, name, options = {}) {
  if (PICTURES !== '') {
    mkdirSync(PICTURES, { recursive: true });
    await page.screenshot({ path: join(PICTURES, `${name}.png`), ...options });
  }
}
