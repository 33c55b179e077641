/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/convert/turn.h - tensors whose elements lie in another order than their file: cut into panels that
 * fit into memory, and each panel read and turned. Read first: convert_copy.c, tile.h.
 */
#ifndef SFT_IMPORT_TURN_H
#define SFT_IMPORT_TURN_H

#include "base/compiler.h"
#include <sft/import.h>

enum { SFT__TURN_DIMS = 64 };

/* One strided piece of whole elements. */
bool sft__import_is_strided(const sft_tensor *t);
/* Strided, and in another order than row-major, or with elements that repeat: plain runs of bytes,
 * read one after the other, do not give it. */
bool sft__import_is_turned(const sft_tensor *t);

/* How panels are cut. READ: both sides are as long runs of bytes as the size of a panel allows, for
 * each run is a call. MAPPED: the source lends its memory, where short runs cost little: those of
 * the result are as long as may be, and panels are numbered in the source's order. STRETCHES: each
 * panel is one stretch of the tensor's bytes, and they follow each other. */
typedef enum sft__import_cut { SFT__CUT_READ, SFT__CUT_MAPPED, SFT__CUT_STRETCHES } sft__import_cut;

/* How a turned tensor is cut: boxes of `count` elements, `across` of them in each dimension;
 * `order`: the dimensions, the one whose index changes last first. */
typedef struct sft__import_panels {
    uint64_t count[SFT__TURN_DIMS];
    uint64_t across[SFT__TURN_DIMS];
    uint32_t order[SFT__TURN_DIMS];
    uint64_t all;
    sft__import_cut cut;
} sft__import_panels;
/* capacity: bytes of a panel, at least one element. */
void sft__import_panels_plan(sft__import_panels *p, const sft_tensor *t, uint64_t capacity,
                             sft__import_cut cut);

/* Of panels in the source's order: is this the first of a band, those that share what lies farthest
 * apart in the source? Then [*offset, *offset + *size) of the source holds all the band's elements.
 */
bool sft__import_panel_begins_band(const sft__import_panels *p, const sft_tensor *t, uint64_t index,
                                   uint64_t *offset, uint64_t *size);

typedef struct sft__import_panel {
    uint64_t start[SFT__TURN_DIMS];
    uint64_t count[SFT__TURN_DIMS];
    uint64_t run;  /* elements that follow each other in the tensor */
    uint64_t runs; /* of them */
} sft__import_panel;
void sft__import_panel_at(const sft__import_panels *p, const sft_tensor *t, uint64_t index,
                          sft__import_panel *panel);
/* The place in the tensor of the first element of run i. */
uint64_t sft__import_panel_run_at(const sft__import_panel *panel, const sft_tensor *t, uint64_t i);

/* Reads a panel into `out`, packed and row-major, by way of `strip`, of strip_bytes (at least 64
 * KiB). */
typedef struct sft__import_turn_room {
    uint8_t *out;
    uint8_t *strip;
    size_t strip_bytes;
    bool mapped; /* SFT_READ_BORROW */
} sft__import_turn_room;
sft_status sft__import_panel_read(const sft_catalog *catalog, const sft_tensor *t,
                                  const sft__import_panel *panel, const sft__import_turn_room *room,
                                  sft_error *err);

#endif
