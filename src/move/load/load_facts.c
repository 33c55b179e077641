/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/load_facts.c - what a load learns of the tensors that pass: which digests and counts are
 * wanted, and their sums over the parts. Read first: load.h, recorded.h.
 */
#include "base/memory/need.h"
#include "move/load/load.h"

#define DIGESTS (SFT_DIGEST_CRC32C | SFT_DIGEST_SHA256)

static bool can_scan(const sft_dtype *t) {
    return (t->kind == SFT_KIND_FLOAT || t->kind == SFT_KIND_COMPLEX) &&
           sft_dtype_get(t->id) != NULL;
}

/* Which of the recorded digests is compared: the one that can be divided among threads, and what
 * is computed anyway. */
static uint32_t to_verify(uint32_t have, uint32_t digests) {
    const uint32_t one = (have & SFT_DIGEST_CRC32C) != 0 ? (uint32_t)SFT_DIGEST_CRC32C : have;
    return one | (have & digests);
}

sft_status sft__move_load_facts_want(sft__move_load *w, sft__move_recorded **recorded,
                                     sft_error *err) {
    const sft_load_options *o = w->options;
    sft_loaded *l = w->loaded;
    bool found = true;

    if (o->digests == 0 && (o->flags & (SFT_LOAD_VERIFY | SFT_LOAD_SCAN)) == 0) {
        return SFT_OK;
    }
    l->facts = sft__base_alloc_zero(l->allocator, l->slot_count * sizeof *l->facts);
    if (l->facts == NULL && l->slot_count != 0) {
        return sft__base_fail_nomem(err, l->slot_count * sizeof *l->facts);
    }
    if ((o->flags & SFT_LOAD_VERIFY) != 0) {
        *recorded = sft__base_alloc_zero(l->allocator, (l->slot_count + 1) * sizeof **recorded);
        SFT_NEED(*recorded != NULL, l->slot_count * sizeof **recorded, err);
        SFT_TRY(sft__move_recorded_load(l->catalog, DIGESTS, l->allocator, *recorded, &found, err));
        found = false;
    }
    for (size_t i = 0; i < l->slot_count; i++) {
        if (l->slots[i].data == NULL) {
            continue;
        }
        const uint32_t check = *recorded != NULL ? to_verify((*recorded)[i].have, o->digests) : 0;
        const bool scan =
            (o->flags & SFT_LOAD_SCAN) != 0 && can_scan(sft_catalog_at(l->catalog, i)->dtype);
        l->facts[i].want = o->digests | check | (scan ? SFT__FACT_SCAN : 0);
        l->facts[i].verified = check; /* until it is found otherwise, by an error */
        l->verified += check != 0;
        found = found || check != 0;
    }
    return found ? SFT_OK
                 : sft__base_fail(err, SFT_E_NOT_FOUND,
                                  "no digests are recorded of the tensors that are to be loaded");
}

/* An element that began in the part before and ended in this one; all of it is in memory now. */
static void count_torn(const sft_loaded *l, const sft__move_load_part *p, sft__move_load_fact *f) {
    const sft_tensor *t = sft_catalog_at(l->catalog, p->slot);
    const uint64_t unit = t->dtype->block_bytes;
    const uint64_t start = p->begin - p->begin % unit;

    if (start != p->begin && start >= p[-1].begin) {
        sft__move_nonfinite_count(t->dtype, l->slots[p->slot].data + (size_t)start, (size_t)unit,
                                  &f->nans, &f->infinities);
    }
}

static sft_status compare(const sft_loaded *l, size_t i, const sft__move_recorded *r,
                          sft_error *err) {
    const sft__move_load_fact *f = &l->facts[i];
    const sft_tensor *t = sft_catalog_at(l->catalog, i);

    if ((f->verified & SFT_DIGEST_CRC32C) != 0 && f->crc != r->crc) {
        return sft__move_recorded_differs(l->catalog, t, "CRC32C", err);
    }
    if ((f->verified & SFT_DIGEST_SHA256) != 0 && memcmp(f->sha, r->sha, sizeof f->sha) != 0) {
        return sft__move_recorded_differs(l->catalog, t, "SHA-256", err);
    }
    return SFT_OK;
}

sft_status sft__move_load_facts_sum(sft__move_load *w, const sft__move_recorded *recorded,
                                    sft_error *err) {
    const sft_loaded *l = w->loaded;

    if (l->facts == NULL) {
        return SFT_OK;
    }
    for (size_t k = 0; k < w->part_count; k++) {
        const sft__move_load_part *p = &w->parts[k];
        sft__move_load_fact *f = &l->facts[p->slot];
        f->crc = sft_crc32c_combine(f->crc, p->crc, p->size);
        f->nans += p->nans;
        f->infinities += p->infinities;
        if (p->begin != 0 && (f->want & SFT__FACT_SCAN) != 0) {
            count_torn(l, p, f);
        }
    }
    for (size_t i = 0; i < l->slot_count; i++) {
        sft__move_load_fact *f = &l->facts[i];
        if ((f->want & SFT_DIGEST_SHA256) != 0 && sft_catalog_at(l->catalog, i)->nbytes == 0) {
            sft_sha256 s;
            sft_sha256_init(&s);
            sft_sha256_final(&s, f->sha);
        }
        if (f->verified != 0) {
            SFT_TRY(compare(l, i, &recorded[i], err));
        }
    }
    return SFT_OK;
}

void sft_loaded_facts_get(const sft_loaded *loaded, const sft_tensor *tensor,
                          sft_loaded_facts *out) {
    memset(out, 0, sizeof *out);
    if (loaded->facts == NULL) {
        return;
    }
    const sft__move_load_fact *f = &loaded->facts[sft_catalog_index_of(loaded->catalog, tensor)];
    out->digests = f->want & DIGESTS;
    out->verified = f->verified;
    out->scanned = (f->want & SFT__FACT_SCAN) != 0;
    out->crc32c = (f->want & SFT_DIGEST_CRC32C) != 0 ? f->crc : 0;
    memcpy(out->sha256, f->sha, sizeof out->sha256);
    out->nans = f->nans;
    out->infinities = f->infinities;
}

size_t sft_loaded_verified(const sft_loaded *loaded) {
    return loaded->verified;
}
