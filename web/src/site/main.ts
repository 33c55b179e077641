// SPDX-License-Identifier: Apache-2.0 OR MIT
// main.ts - the site: a model of files or of an address, opened in a worker and shown as a report is.

import type { Operand } from 'wasm/operand.js';
import { SafetensorsError } from 'wasm/error.js';
import type { Finding, Summary } from '../data.js';
import { el, on } from '../dom.js';
import { Embedded } from '../embedded.js';
import { show, themeButton, type Shown } from '../shell.js';
import { grouped } from '../text.js';
import { reportViews } from '../views.js';
import { addressOf, find } from './address.js';
import { alone, filesOf } from './alone.js';
import { choose, dropped, halves } from './choice.js';
import type { Entries, Page } from './engine.js';
import { Live } from './live.js';
import { Ended, load, Session } from './session.js';
import { Start } from './start.js';

/** Tensors are read as a whole up to so many bytes: of a file here, of one on a server. */
const WHOLE_FILE = 64 << 20;
const WHOLE_URL = 4 << 20;
/** Of more tensors, what check says comes after the first view. */
const FEW = 100_000;
const MOST_SCANNED = 100;
/** Scan reads all of a file: on a server only of one of at most so many bytes. */
const SCANNED_URL = 16 << 20;

interface Source { operand: Operand; path: string; name: string; beside: boolean; findings: (files: string[]) => Finding[] }

const page = document.getElementById('page')!;
let session = new Session();
let reader: Promise<WebAssembly.Module> | undefined;
let shown = (): void => undefined;
let start: Start;
let attempt: AbortController | undefined;

const library = (): Promise<WebAssembly.Module> => (reader ??= load('safetensors.wasm').catch((e) => {
  reader = undefined; // to be tried again
  throw e;
}));

function sentence(error: unknown, name = '.safetensors'): string {
  if (!(error instanceof SafetensorsError)) {
    return error instanceof Error ? error.message : String(error);
  }
  const text = /^header length is|bytes, needed at least 8$/.test(error.reason) && !/\.safetensors$/i.test(name)
    ? `it is no weight file of a known format (as safetensors: ${error.message})` : error.message;
  const word = /^[a-z]+ /.test(text); // and no name of a file
  return /[.!?]$/.test(text) ? text : `${word ? text[0].toUpperCase() + text.slice(1) : text}.`;
}

/** The address of this page, whole: a path that begins with // would be another host's. */
const here = (query: string): string => location.href.replace(/[?#].*$/, '') + query;

/** The screen before a model. */
function begin(linked = ''): void {
  shown();
  shown = () => undefined;
  session.end();
  session = new Session();
  delete document.body.dataset.view;
  document.body.classList.remove('opened');
  document.title = 'safetensors: what is in a model file?';
  const ended = new AbortController();
  start = new Start({ files: (files) => void openFiles(() => files), address: (text) => void openAddress(text), cancel: () => cancel(linked) },
    themeButton(() => undefined, ended.signal), linked);
  shown = () => ended.abort('ended');
  page.replaceChildren(start.element);
  document.body.dataset.ready = 'true';
}

/** Runs one attempt; a later one ends it. */
async function trying(given: string, what: (signal: AbortSignal) => Promise<Source>, link: string): Promise<void> {
  attempt?.abort('replaced');
  const mine = attempt = new AbortController();
  const { signal } = mine;
  if (!start.element.isConnected) {
    begin();
  } else if (session.used) {
    session.end();
    session = new Session();
  }
  session.used = true;
  delete document.body.dataset.ready;
  let name = given;
  start.busy(`Opening ${name}`);
  try {
    const source = await what(signal);
    ({ name } = source);
    start.busy(`Opening ${name}`);
    const module = await library();
    if (!signal.aborted) {
      await open(source, module, signal, link);
    }
  } catch (error) {
    if (!signal.aborted) {
      start.failed(name, sentence(error, name));
    }
  }
  if (!signal.aborted) {
    document.body.dataset.ready = 'true';
  }
}

/** Once what is shown now is on the screen: until then the processor is wanted there. */
const painted = (): Promise<void> => new Promise((resolve) => { requestAnimationFrame(() => setTimeout(resolve)); });

async function open(source: Source, module: WebAssembly.Module, signal: AbortSignal, link: string): Promise<void> {
  const { operand, path, name, beside } = source;
  const mine = session;
  const first = await mine.ask<Page>({ op: 'open', module, operand, path, name, beside },
    (read) => start.busy(`Opening ${name}`, read));
  if (signal.aborted) {
    return;
  }
  const columns = new Embedded(JSON.parse(first.json) as Summary, first.columns);
  const whole = operand.kind === 'url' ? WHOLE_URL : WHOLE_FILE;
  const folder = path === '.' ? '' : path.slice(0, path.lastIndexOf('/') + 1);
  const files = operand.kind === 'table' && first.format === 'safetensors' ? filesOf(columns, folder, operand.files as [string, Blob][]) : undefined;
  const ask = (index: number, nbytes: number): Promise<Entries> => {
    const file = files?.[columns.place(index).file];
    return mine.ask(file === undefined ? { op: 'tensor', index, nbytes, most: whole }
      : { op: 'alone', module, path: file.path, file: alone(columns, index, file.blob), nbytes, most: whole });
  };
  const more = [...first.findings, ...source.findings(columns.summary.files.map((file) => file.name))];
  let view: Shown | undefined;
  const display = (summary: Summary, findings: Finding[]): void => {
    summary.findings = [...findings, ...summary.findings ?? []];
    const views = reportViews(new Live(summary, columns, ask));
    if (view !== undefined) {
      view.renew(views);
      return;
    }
    shown();
    view = show(page, views, [on(el('button', { type: 'button', id: 'another', 'aria-label': 'Open another', title: 'Open another' }, el('span', {}, 'Open'), el('span', { class: 'more' }, ' another')), { click: () => another() })]);
    shown = view.end;
  };
  const look = async (): Promise<void> => {
    const bytes = columns.summary.files.reduce((sum, file) => sum + Number(file.bytes), 0);
    const scanned: Finding[] = first.format === 'safetensors' ? []
      : operand.kind !== 'url' || bytes <= SCANNED_URL ? await scan(mine, columns.summary.files.map((file) => folder + file.name))
        : [{ from: 'scan', level: 'unknown', text: `what loading it would do was not looked at, as that reads all of its ${grouped(bytes)} bytes: download it, and drop it here` }];
    const summary = JSON.parse(await mine.ask<string>({ op: 'look' }).finally(() => files !== undefined && mine.renew())) as Summary;
    if (!signal.aborted && mine === session) {
      display(summary, [...scanned, ...more]);
    }
  };
  history.replaceState(null, '', here(link) + location.hash);
  if (columns.count <= FEW) {
    start.busy(`Looking at ${name}`);
    await look();
  } else {
    display(columns.summary, more);
    void painted().then(look).catch((error) => {
      if (!signal.aborted && mine === session) {
        display(columns.summary, [...more, { from: 'check', level: 'unknown', text: `it could not be looked at further: ${sentence(error)}` }]);
      }
    });
  }
}

/** What would loading it do? Asked of formats that can do anything. */
async function scan(mine: Session, paths: string[]): Promise<Finding[]> {
  try {
    const module = await load('safetensors-scan.wasm');
    return await mine.ask({ op: 'scan', module, paths: paths.slice(0, MOST_SCANNED) });
  } catch (error) {
    return [{ from: 'scan', level: 'unknown', text: `it could not be scanned: ${sentence(error)}` }];
  }
}

function openFiles(what: () => [string, File][] | Promise<[string, File][]>): Promise<void> {
  history.replaceState(null, '', here(''));
  const files = what(); // of a drop: while the event lasts
  return trying('the files', async () => {
    const { files: kept, path, name } = choose(await files);
    return { operand: { kind: 'table', files: kept }, path, name, beside: true, findings: (names) => halves(names, path) };
  }, '');
}

function openAddress(text: string): Promise<void> {
  history.replaceState(null, '', here(''));
  return trying(text.trim() === '' ? 'Nothing' : text.trim(), async (signal) => {
    const address = addressOf(text);
    const { url, beside } = await find(address, signal);
    return {
      operand: { kind: 'url', url, headers: {} }, path: decodeURIComponent(new URL(url).pathname.split('/').pop() ?? ''), name: address.name,
      beside, findings: (names) => halves(names, url),
    };
  }, `?url=${encodeURIComponent(text.trim())}`);
}

function another(): void {
  history.replaceState(null, '', here(''));
  cancel();
}

function cancel(linked = ''): void {
  attempt?.abort('cancelled');
  begin(linked);
}

/* ---------------------------------------------------------------- dropped anywhere */

const carriesFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes('Files') ?? false;
addEventListener('dragover', (event) => {
  if (carriesFiles(event)) {
    event.preventDefault();
    document.body.classList.add('dragging');
  }
});
addEventListener('dragleave', (event) => {
  if (event.relatedTarget === null) {
    document.body.classList.remove('dragging');
  }
});
addEventListener('pointermove', () => document.body.classList.remove('dragging')); // there are none while something is dragged: it has ended elsewhere
addEventListener('drop', (event) => {
  document.body.classList.remove('dragging');
  if (carriesFiles(event)) {
    event.preventDefault();
    void openFiles(() => dropped(event.dataTransfer!));
  }
});

begin(new URLSearchParams(location.search).get('url') ?? '');
library().then((module) => session.ask({ op: 'warm', module })).catch((error) => {
  if (!(error instanceof Ended)) { // by who was faster
    start.failed('This page', sentence(error));
  }
});
