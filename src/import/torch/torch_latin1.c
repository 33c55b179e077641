/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_latin1.c - bytes that a pickle has as text (protocols 0 to 2), as Paddle and numpy wrote
 * arrays under Python 2: each character up to U+00FF is a byte. Read first: torch.h.
 */
#include "base/memory/need.h"
#include "import/torch/torch.h"

/* Characters up to U+00FF as bytes; SIZE_MAX: there are others. dst: NULL only to count. */
static size_t latin1(uint8_t *dst, const char *text, size_t len) {
    const uint8_t *s = (const uint8_t *)text;
    size_t n = 0;

    for (size_t i = 0; i < len; n++) {
        const bool pair = s[i] >= 0x80;
        if (pair && (s[i] < 0xc2 || s[i] > 0xc3 || i + 1 == len)) {
            return SIZE_MAX;
        }
        const uint8_t value = pair ? (uint8_t)((s[i] & 3) << 6 | (s[i + 1] & 0x3f)) : s[i];
        if (dst != NULL) {
            dst[n] = value;
        }
        i += pair ? 2 : 1;
    }
    return n;
}

static void take_decoded(const sft__import_decoded_text *d, sft__import_view *v) {
    v->low = v->first = 0;
    v->high = d->size;
    v->data = d->data;
    v->source = d->source;
}

/* Each is in memory until the catalog is closed: together at most half of the limit. */
static sft_status decode(sft__import_torch *t, const sft__import_pk_node *text, size_t size,
                         sft__import_decoded_text *made, sft_error *err) {
    const uint64_t most = t->job->options.memory_bytes / 2;
    sft_source *source;
    uint8_t *bytes;

    if (size > most || t->text_bytes > most - size) {
        return sft__base_fail(
            err, SFT_E_LIMIT,
            "memory: bytes as text need more than half of the limit of %llu bytes",
            (unsigned long long)t->job->options.memory_bytes);
    }
    SFT_TRY(sft__import_source_own(&source, &bytes, size, "text", t->job->allocator, err));
    (void)latin1(bytes, text->u.text, text->count);
    t->text_bytes += size;
    made->data = source;
    made->size = size;
    return sft_builder_add_source(t->job->builder, source, &made->source, err);
}

sft_status sft__import_torch_latin1(sft__import_torch *t, uint32_t id, sft__import_view *v,
                                    sft_error *err) {
    const sft__import_pk_node *bytes = sft__import_pk_at(t->p, id);
    const bool call = bytes->type == SFT__PK_CALL;
    sft__import_pk_node *text =
        sft__import_pk_at(t->p, call ? sft__import_pk_item(t->p, bytes->args, 0) : id);

    const bool named = text->type == SFT__PK_STR &&
                       (!call || sft__import_pk_is_text(
                                     t->p, sft__import_pk_item(t->p, bytes->args, 1), "latin1"));
    if (named && text->state != 0) { /* another array has it, too */
        take_decoded(&t->texts[text->state - 1], v);
        return SFT_OK;
    }
    const size_t size = named ? latin1(NULL, text->u.text, text->count) : SIZE_MAX;
    if (size == SIZE_MAX) {
        return sft__base_fail(err, SFT_E_SCHEMA, "numpy-pickle: bytes as text that is not Latin-1");
    }
    const sft__import_decoded_text none = {t->p->source, 0, t->p->source_index};
    if (size == 0) {
        take_decoded(&none, v);
        return SFT_OK;
    }
    SFT_TRY(SFT_ONE_MORE(t->job->allocator, t->texts, t->text_room, t->text_count, err));
    SFT_TRY(decode(t, text, size, &t->texts[t->text_count], err));
    take_decoded(&t->texts[t->text_count], v);
    text->state = (uint32_t)++t->text_count; /* at most one for each node */
    return SFT_OK;
}
