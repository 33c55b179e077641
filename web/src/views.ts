// SPDX-License-Identifier: Apache-2.0 OR MIT
// views.ts - the views of a report: one model.

import { Context } from './context.js';
import type { ModelData } from './data.js';
import { detail } from './detail.js';
import { Files } from './files.js';
import { findings } from './findings.js';
import { header } from './header.js';
import { metadata } from './metadata.js';
import { overview } from './overview.js';
import type { Views } from './shell.js';
import { columnsOf, Table } from './table.js';
import { grouped, nameText } from './text.js';

export function reportViews(data: ModelData): Views {
  const context = new Context(data);
  let table: Table | undefined;
  let files: Files | undefined;
  const found = (data.summary.findings ?? []).length;
  const tab = (view: string, label: string, count = ''): Views['tabs'][number] => ({ view, label, count });
  const make: Record<string, () => HTMLElement> = {
    overview: () => overview(context),
    table: () => {
      table = new Table(context, { columns: columnsOf(context), none: 'As stored', group: 'file', groupName: (file) => context.fileName(file) });
      return table.element;
    },
    files: () => {
      files = new Files(context);
      return files.element;
    },
    metadata: () => metadata(context),
    findings: () => findings(context),
  };
  return {
    title: `${nameText(data.summary.name ?? 'model', 80)} \u2013 safetensors report`,
    tabs: [tab('overview', 'Overview'), tab('table', 'Tensors', grouped(data.count)), tab('files', 'Files'), tab('metadata', 'Metadata'),
      tab('findings', 'Findings', found > 0 ? grouped(found) : '')],
    header: header(context), make: (view) => make[view](), table: () => table!, redraw: () => files?.redraw(),
    count: data.count, find: (name) => data.names.find(name), link: (i) => context.tensorLink(i),
    detail: (i, actions) => detail(context, i, actions),
  };
}
