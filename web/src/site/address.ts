// SPDX-License-Identifier: Apache-2.0 OR MIT
// address.ts - what people write for a model on a server, as the URLs to try; and whether a server gives parts of files.

import { grouped } from '../text.js';

/** urls: of which the first that is there is the model. beside: config.json and README.md may be looked for. */
export interface Address { urls: string[]; name: string; beside: boolean }

/** What is tried in a directory, in this order. */
export const IN_DIRECTORY = ['model.safetensors.index.json', 'model.safetensors', 'diffusion_pytorch_model.safetensors', 'adapter_model.safetensors',
  'pytorch_model.bin.index.json', 'pytorch_model.bin'];

const HUB = 'https://huggingface.co/';
const PART = /^[A-Za-z0-9][\w.-]*$/;
const WEIGHTS = /\.(safetensors|gguf|ggml|pt|pth|bin|ckpt|onnx|npz|npy|h5|hdf5|keras|msgpack|pdparams|pdiparams|tflite|json)$/i;

export class Refused extends Error {}
/** Of a file that may be another's, or not there: servers without a list say so of what is missing. */
class Denied extends Refused {}

const inDirectory = (base: string, name: string): Address => ({ urls: IN_DIRECTORY.map((file) => base + file), name, beside: true });
const file = (url: string): Address => {
  const name = decode(new URL(url).pathname.split('/').pop() ?? '');
  return { urls: [url], name, beside: name.endsWith('.index.json') };
};

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** org/name, org/name@revision, and what a browser shows: /tree/REVISION/FOLDER, /blob/REVISION/FILE. */
function ofHub(path: string): Address {
  const parts = path.split('/').filter((part) => part !== '').map(decode);
  if (parts[0] === 'datasets' || parts[0] === 'spaces') {
    throw new Refused('That is no model: only repositories of models are read.');
  }
  const kind = parts.findIndex((part) => part === 'tree' || part === 'blob' || part === 'resolve');
  const repository = kind > 0 ? parts.slice(0, kind) : parts.slice(0, 2);
  const [last, at] = (repository[repository.length - 1] ?? '').split('@');
  repository[repository.length - 1] = last;
  if (repository.length === 0 || repository.length > 2 || !repository.every((part) => PART.test(part))) {
    throw new Refused('A repository is written as org/name.');
  }
  const revision = kind > 0 ? parts[kind + 1] ?? 'main' : at ?? 'main';
  const rest = kind > 0 ? parts.slice(kind + 2) : parts.slice(2);
  const base = `${HUB}${repository.join('/')}/resolve/${encodeURIComponent(revision)}/`;
  const below = rest.map(encodeURIComponent).join('/');
  const isFile = kind > 0 ? parts[kind] !== 'tree' && rest.length > 0 : rest.length > 0 && WEIGHTS.test(rest[rest.length - 1]);
  return isFile ? file(base + below) : inDirectory(base + (below === '' ? '' : `${below}/`), repository.join('/'));
}

/** Throws a sentence. */
export function addressOf(text: string): Address {
  const given = text.trim();
  if (given === '') {
    throw new Refused('Write an address: org/name of a model on Hugging Face, or one that begins with https://.');
  }
  if (/^hf:\/\//i.test(given)) {
    return ofHub(given.slice(5));
  }
  if (/^[a-z][a-z0-9+.-]*:/i.test(given)) {
    let url: URL;
    try {
      url = new URL(given);
    } catch {
      throw new Refused('This is no address that a browser can read.');
    }
    if (url.protocol !== 'https:' && url.protocol !== 'http:') {
      throw new Refused(`Addresses that begin with ${url.protocol} are not read, only https: and http: are.`);
    }
    if (url.username !== '' || url.password !== '') {
      throw new Refused('Addresses with a name or a password (in front of @) are not read.');
    }
    url.hash = '';
    if (/^(www\.)?(huggingface\.co|hf\.co)$/i.test(url.hostname) && url.port === '') {
      return ofHub(url.pathname);
    }
    return url.pathname.endsWith('/') ? inDirectory(url.href.split('?')[0], decode(url.pathname.split('/').filter((part) => part !== '').pop() ?? url.host)) : file(url.href);
  }
  if (given.startsWith('/')) {
    throw new Refused('That is a path, as of a file on this computer: choose the file, or drop it here.');
  }
  const first = given.split('/')[0];
  if (first.includes('.') && WEIGHTS.test(given.split(/[?#]/)[0])) {
    throw new Refused(`To open a file of a server, write the whole address: https://${given}`);
  }
  if (!given.includes('/')) {
    throw new Refused('A repository is written as org/name, a file of a server with https:// in front.');
  }
  return ofHub(given);
}

/* ---------------------------------------------------------------- the server */

/** A file that is fetched as a whole where the server gives no parts. */
export const MOST_WHOLE = 32 << 20;

/** How many bytes are sent where one is asked for: 0 of a server that gives parts of files. undefined: the file is missing. */
async function ask(url: string, signal: AbortSignal): Promise<number | undefined> {
  const ended = new AbortController();
  signal.addEventListener('abort', () => ended.abort(), { signal: ended.signal });
  const host = new URL(url).host;
  const name = decode(new URL(url).pathname.split('/').pop() ?? '');
  let reply: Response;
  try {
    reply = await fetch(url, { headers: { Range: 'bytes=0-0' }, credentials: 'omit', referrerPolicy: 'no-referrer', signal: ended.signal });
  } catch (e) {
    if (signal.aborted) {
      throw e;
    }
    throw new Refused(`${host} did not answer, or does not let other pages read its files (CORS). Download the file and drop it here.`);
  }
  const { status, headers } = reply;
  ended.abort(); // one byte was asked for: where all come, they are not waited for
  if (status === 404 || status === 410) {
    return undefined;
  }
  if (status === 401 || status === 403) {
    throw new Denied(`${host} refuses ${name} (${status}): the model is private or gated, or the name is wrong. This page has no passwords; download the file and drop it here.`);
  }
  if (status === 206) {
    if (headers.get('Content-Range') === null) {
      throw new Refused(`${host} does not tell other pages how long ${name} is (Access-Control-Expose-Headers must name Content-Range). Download the file and drop it here.`);
    }
    return 0;
  }
  if (status === 416) {
    return 0; // an empty file
  }
  if (status !== 200) {
    throw new Refused(`${host} answered ${status} for ${name}.`);
  }
  const length = headers.get('Content-Length');
  if (length === null || !(Number(length) <= MOST_WHOLE)) {
    throw new Refused(`${host} sends whole files alone, no parts of them (ranges), and ${name} has ${length === null ? 'a length that it does not tell' : `${grouped(Number(length))} bytes`}. Nothing was read. Download the file and drop it here.`);
  }
  return Number(length);
}

const AT_ONCE = 8;
/** How long is waited for what a model can be shown without. */
const PATIENCE_MS = 5000;

/** Of files beside one another, of which each may be on another server. Throws a sentence where more than a little is sent that was not asked for. */
async function askAll(urls: string[], signal: AbortSignal): Promise<void> {
  const left = [...urls];
  let whole = 0;
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let url = left.shift(); url !== undefined; url = left.shift()) {
      const sent = await ask(url, signal);
      whole += sent ?? 0;
      if (whole > MOST_WHOLE) {
        throw new Refused(`${new URL(url).host} sends whole files alone, no parts of them (ranges), and these are more than ${grouped(MOST_WHOLE)} bytes. Download them and drop them here.`);
      }
    }
  }));
}

/** The parts that an index names. */
async function partsOf(index: string, signal: AbortSignal): Promise<string[]> {
  const reply = await fetch(index, { headers: { Range: `bytes=0-${MOST_WHOLE - 1}` }, credentials: 'omit', referrerPolicy: 'no-referrer', signal });
  const map = (await reply.json().catch(() => null) as { weight_map?: unknown } | null)?.weight_map; // the reader says what is wrong with it
  const isBelow = (name: unknown): name is string => typeof name === 'string' && name.split('/').every((part) => !['', '.', '..'].includes(part));
  const names = typeof map === 'object' && map !== null ? [...new Set(Object.values(map).filter(isBelow))] : [];
  return names.map((name) => new URL(`./${name.split('/').map(encodeURIComponent).join('/')}`, index).href);
}

/** The first of the URLs that is there, on servers that give parts of files; else a sentence is thrown. beside: so do they of config.json and README.md. */
export async function find(address: Address, signal: AbortSignal): Promise<{ url: string; beside: boolean }> {
  let denied: unknown;
  for (const url of address.urls) {
    const sent = await ask(url, signal).catch((error) => {
      if (!(error instanceof Denied)) {
        throw error;
      }
      denied ??= error;
      return undefined;
    });
    if (sent === undefined) {
      continue;
    }
    if (new URL(url).pathname.endsWith('.index.json')) {
      await askAll(await partsOf(url, signal), signal);
    }
    const others = address.beside ? ['config.json', 'README.md'].map((name) => new URL(name, url).href) : [];
    const beside = await askAll(others, AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)])).then(() => address.beside, () => false);
    signal.throwIfAborted();
    return { url, beside };
  }
  if (denied !== undefined) {
    throw denied;
  }
  const names = address.urls.map((url) => decode(new URL(url).pathname.split('/').pop() ?? ''));
  throw new Refused(names.length === 1 ? `There is no ${names[0]} at this address.`
    : `None of these is at this address: ${names.join(', ')}. Give the address of the file itself.`);
}
