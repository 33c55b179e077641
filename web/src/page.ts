// SPDX-License-Identifier: Apache-2.0 OR MIT
// page.ts - the script of a report.

import { start } from './main.js';

start();
