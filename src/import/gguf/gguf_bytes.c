/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/gguf_bytes.c - see gguf_bytes.h.
 */
#include "import/gguf/gguf_bytes.h"
#include "base/compiler.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include <string.h>

void sft__import_gguf_show_bytes(sft__base_buf *b, const char *text, size_t len) {
    while (len > 0) {
        const size_t n = sft__base_utf8_valid(text, len);
        sft__base_buf_add(b, text, n);
        if (n < len) {
            sft__base_buf_text(b, "\xef\xbf\xbd");
        }
        const size_t used = n < len ? n + 1 : n;
        text += used;
        len -= used;
    }
}

void sft__import_gguf_keep_bytes(sft__base_buf *b, uint64_t index, const char *text, size_t len) {
    sft__base_buf wide;

    sft__base_buf_init(&wide, b->allocator);
    if (len <= SIZE_MAX / 2 && sft__base_buf_reserve(&wide, 2 * len)) {
        for (size_t i = 0; i < len; i++) {
            const uint8_t c = (uint8_t)text[i];
            if (c >= 0x80) {
                wide.data[wide.len++] = (char)(0xc0 | c >> 6);
            }
            wide.data[wide.len++] = (char)(c < 0x80 ? c : 0x80 | (c & 0x3f));
        }
    }
    sft__base_buf_text(b, b->len == 0 ? "\"" : ", \"");
    sft__base_buf_u64(b, index);
    sft__base_buf_text(b, "\": ");
    sft__base_json_string(b, wide.failed ? "" : wide.data, wide.failed ? 0 : wide.len);
    b->failed = b->failed || wide.failed;
    sft__base_buf_reset(&wide);
}

/* Characters to the bytes of their numbers, in place. False: one has a number above 255. */
static bool narrow(sft__base_buf *b) {
    size_t n = 0;

    for (size_t i = 0; i < b->len; i++) {
        const uint8_t c = (uint8_t)b->data[i];
        if (c >= 0x80 && (c < 0xc2 || c > 0xc3 || i + 1 == b->len)) {
            return false;
        }
        b->data[n++] = (char)(c < 0x80 ? c : (c & 3) << 6 | (b->data[++i] & 0x3f));
    }
    b->len = n;
    return true;
}

/* The number of the next member, and where its value begins. */
static const char *next_member(const sft__import_gguf_kept *k, uint64_t *index) {
    sft__base_json j = {.end = k->end};
    sft__base_json_str key;
    sft__base_json_num number;

    const char *const p = sft__base_json_key(&j, sft__base_json_blank(k->at), &key,
                                             "a number in quotes is needed", "a colon is needed");
    if (p == NULL || key.len == 0 || !sft__base_is_digit(key.raw[0]) ||
        sft__base_json_number(&j, key.raw, &number) != key.raw + key.len || !number.is_uint) {
        return NULL;
    }
    *index = number.value;
    return p;
}

/* The text at `from` becomes `bytes` if that is what they look like. */
static void replace(sft__base_buf *out, size_t from, const sft__base_buf *bytes) {
    sft__base_buf shown;

    sft__base_buf_init(&shown, out->allocator);
    sft__import_gguf_show_bytes(&shown, bytes->data, bytes->len);
    const bool same = !shown.failed && shown.len == out->len - from - 8 &&
                      memcmp(shown.data, out->data + from + 8, shown.len) == 0;
    out->failed = out->failed || shown.failed;
    sft__base_buf_reset(&shown);
    if (same) {
        out->len = from + 8;
        sft__base_buf_add(out, bytes->data, bytes->len);
        if (!out->failed) {
            sft__base_store_le64(out->data + from, bytes->len);
        }
    }
}

bool sft__import_gguf_restore_bytes(sft__import_gguf_kept *kept, uint64_t index, sft__base_buf *out,
                                    size_t from) {
    sft__base_json j = {.end = kept->end};
    sft__base_json_str text;
    sft__base_buf bytes;
    uint64_t next = 0;

    if (kept->at == NULL || *sft__base_json_blank(kept->at) == '}' || out->failed) {
        return true;
    }
    const char *p = next_member(kept, &next);
    if (p == NULL || *p != '"' || next < index) {
        return false;
    }
    if (next != index) {
        return true;
    }
    p = sft__base_json_read(&j, p, &text);
    sft__base_buf_init(&bytes, out->allocator);
    if (p != NULL && sft__base_buf_reserve(&bytes, text.len + 1)) {
        bytes.len = sft__base_json_decode(bytes.data, &text);
    }
    const bool good = p != NULL && text.len != 0 && !bytes.failed && narrow(&bytes);
    out->failed = out->failed || bytes.failed;
    if (good) {
        replace(out, from, &bytes);
        p = sft__base_json_blank(p);
        kept->at = *p == ',' ? p + 1 : NULL;
    }
    sft__base_buf_reset(&bytes);
    return good;
}
