// SPDX-License-Identifier: Apache-2.0 OR MIT
// locate.ts - where this file lies: the module and the workers lie beside it. The build for require() has another
// of it (scripts/build.mjs).

export const here: string = import.meta.url;
