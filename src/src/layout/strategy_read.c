/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * layout/strategy_read.c - the text of a MindSpore strategy file: which of its two forms it has. They are
 * read in strategy_protobuf.c and strategy_json.c. Read layout/strategy.h first.
 */
#include "base/error.h"
#include "layout/strategy.h"

sft_status sft__layout_ms_parse(sft_ms_strategy **out, const void *data, size_t size,
                                const char *name, const sft_limits *limits,
                                const sft_allocator *allocator, sft_error *err) {
    const char *const text = data;
    sft_ms_strategy *s;
    sft_status status;
    size_t i = 0;
    *out = NULL;
    SFT_TRY(sft__layout_ms_create(&s, name, limits, allocator, err));
    while (i < size && (text[i] == ' ' || text[i] == '\n' || text[i] == '\t' || text[i] == '\r')) {
        i++;
    }
    /* A protobuf message begins with a field tag: 0x08, 0x12 or 0x1a, never '{'. */
    if (i < size && text[i] == '{') {
        s->form = SFT_MS_JSON;
        status = sft__layout_ms_read_json(s, text, size, err);
    } else {
        s->form = SFT_MS_PROTOBUF;
        status = sft__layout_ms_read_protobuf(s, data, size, err);
    }
    if (status == SFT_OK) {
        status = sft__layout_ms_finish(s, err);
    }
    s->name = NULL;
    if (status != SFT_OK) {
        sft__layout_ms_free(s);
        return status;
    }
    *out = s;
    return SFT_OK;
}
