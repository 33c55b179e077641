// SPDX-License-Identifier: Apache-2.0 OR MIT
// start.ts - the screen before a model: drop, choose, or write an address; what is going on; what went wrong.

import { el, on } from '../dom.js';
import { bytesText, nameText, visible } from '../text.js';
import { chosen } from './choice.js';

export interface Wishes { files: (files: [string, File][]) => void; address: (text: string) => void; cancel: () => void }

const FORMATS = 'safetensors, GGUF, PyTorch (.pt, .pth, .bin, .ckpt), NumPy (.npy, .npz), ONNX, Keras and HDF5, TensorFlow, TFLite, Flax, Paddle, MindSpore';

export class Start {
  readonly element: HTMLElement;
  private readonly input = el('input', { type: 'text', id: 'address', placeholder: 'org/name, or https://\u2026', spellcheck: 'false', autocapitalize: 'off',
    autocomplete: 'off', 'aria-describedby': 'address-hint' });
  private readonly state = el('div', { class: 'state', role: 'status' });
  private readonly wrong = el('div', { class: 'wrong', role: 'alert' });

  /** linked: an address that the link to this page names; it is opened when somebody says so. */
  constructor(private readonly wishes: Wishes, theme: HTMLElement, linked = '') {
    const file = el('input', { type: 'file', multiple: true, hidden: true, id: 'files' });
    const folder = el('input', { type: 'file', webkitdirectory: true, hidden: true, id: 'folder' });
    for (const input of [file, folder]) {
      on(input, {
        change: () => {
          const files = chosen(input.files!);
          input.value = ''; // so that the same may be chosen again
          if (files.length > 0) {
            wishes.files(files);
          }
        },
      });
    }
    const button = (text: string, act: () => void, kind = ''): HTMLElement => on(el('button', { type: 'button', class: kind || undefined }, text), { click: act });
    const form = on(el('form', { class: 'address' }, el('label', { for: 'address' }, 'Or a model on a server'),
      el('div', { class: 'line' }, this.input, el('button', { type: 'submit' }, 'Open')),
      el('p', { class: 'hint-text', id: 'address-hint' }, 'A repository of Hugging Face as org/name, or the address of a file or of a folder. Only its header and the parts that you look at are fetched; of a pickle, all of it.')), {
      submit: (event) => {
        event.preventDefault();
        wishes.address(this.input.value);
      },
    });
    this.input.value = linked;
    const offer = linked !== '' && el('div', { class: 'card offer' }, el('p', {}, 'The link to this page names a model: ', el('bdi', {}, nameText(linked, 300)), '. Nothing of it has been fetched.'),
      button('Open it', () => wishes.address(linked), 'main'));
    this.element = el('div', { class: 'start' },
      el('div', { class: 'top' }, el('span', { class: 'brand' }, 'safetensors'), el('span', { class: 'room' }), theme),
      el('h1', {}, 'What is in a model file?'),
      el('p', { class: 'lead' }, 'Its tensors with their values, its metadata, and what is wrong with it. Files are read on this computer, by this page; nothing is sent anywhere.'),
      ...(offer === false ? [] : [offer]), this.wrong, this.state,
      el('div', { class: 'dropzone' }, el('p', { class: 'big' }, 'Drop a file or a folder here'),
        el('p', { class: 'line' }, button('Choose files', () => file.click(), 'main'), button('Choose a folder', () => folder.click())), file, folder),
      form, el('p', { class: 'formats' }, FORMATS));
  }

  /** What is going on, with a way to end it; '': nothing. */
  busy(text: string, read = 0): void {
    this.wrong.replaceChildren();
    this.element.classList.toggle('busy', text !== '');
    if (text === '') {
      this.state.replaceChildren();
      return;
    }
    const line = `${visible(text)}${read > 0 ? `: ${bytesText(read)} read` : ''}`;
    const known = this.state.querySelector('.text');
    if (known !== null) {
      known.textContent = line;
    } else {
      this.state.replaceChildren(el('span', { class: 'spin', 'aria-hidden': 'true' }), el('span', { class: 'text' }, line),
        on(el('button', { type: 'button' }, 'Cancel'), { click: () => this.wishes.cancel() }));
    }
  }

  failed(what: string, why: string): void {
    this.busy('');
    this.wrong.replaceChildren(el('p', { class: 'what' }, el('bdi', {}, nameText(what, 200))), el('p', {}, visible(why)));
  }
}
