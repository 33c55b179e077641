// SPDX-License-Identifier: Apache-2.0 OR MIT
// main.ts - the page: what was written into it, a model or the differences of two.

import { diffViews } from './diff/views.js';
import { diffFromPage } from './diff/data.js';
import { el } from './dom.js';
import { fromPage } from './embedded.js';
import { failure, show } from './shell.js';
import { reportViews } from './views.js';

function start(): void {
  const page = document.getElementById('page')!;
  try {
    const diff = diffFromPage(document);
    const model = diff === undefined ? fromPage(document) : undefined;
    if (diff !== undefined) {
      show(page, diffViews(diff));
    } else if (model !== undefined) {
      show(page, reportViews(model));
    } else {
      page.replaceChildren(el('p', { class: 'empty' }, 'This page shows models: `safetensors report MODEL -o report.html` writes one into it, `safetensors diff A B --report diff.html` what differs between two.'));
    }
    document.body.dataset.ready = 'true';
  } catch (error) {
    page.replaceChildren(failure('This report cannot be shown', error));
  }
}

start();
