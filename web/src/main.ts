// SPDX-License-Identifier: Apache-2.0 OR MIT
// main.ts - the page: what was written into it, a model or the differences of two.

import { diffSite } from './diff/site.js';
import { diffFromPage } from './diff/data.js';
import { el } from './dom.js';
import { fromPage } from './embedded.js';
import { failure, show } from './shell.js';
import { reportSite } from './site.js';

function start(): void {
  const page = document.getElementById('page')!;
  try {
    const diff = diffFromPage(document);
    const model = diff === undefined ? fromPage(document) : undefined;
    if (diff !== undefined) {
      show(page, diffSite(diff));
    } else if (model !== undefined) {
      show(page, reportSite(model));
    } else {
      page.replaceChildren(el('p', { class: 'empty' }, 'This page shows models: `safetensors report MODEL -o report.html` writes one into it, `safetensors diff A B --report diff.html` what differs between two.'));
    }
    document.body.dataset.ready = 'true';
  } catch (error) {
    page.replaceChildren(failure('This report cannot be shown', error));
  }
}

start();
