/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/torch/torch_bytes.c - byte strings as the protocols of pickles have them, and the texts that numpy
 * makes of such. Read first: torch.h.
 */
#include "base/text/utf8.h"
#include "import/torch/torch.h"

/* TEXT_MAX: bytes of a text of numpy that is a name; longer ones stay objects. */
enum { TEXT_MAX = 256 << 10 };

static const sft__import_pk_node *node(const sft__import_torch *t, uint32_t id) {
    return sft__import_pk_at(t->p, id);
}

bool sft__import_torch_is_no_bytes(const sft__import_torch *t, const sft__import_pk_node *n) {
    const sft__import_pk_node *class = node(t, n->callable);

    return n->type == SFT__PK_CALL && class->type == SFT__PK_GLOBAL &&
           node(t, n->args)->count == 0 &&
           (strcmp(class->u.text, "builtins.bytes") == 0 ||
            strcmp(class->u.text, "__builtin__.bytes") == 0);
}

/* Characters of which each is a byte; *bytes NULL: not all are. */
static sft_status decode(const sft__import_torch *t, const sft__import_pk_node *n, uint8_t **bytes,
                         size_t *size, sft_error *err) {
    SFT_TRY(sft__import_alloc(t->job, bytes, n->count, 1, err));
    for (uint32_t i = 0; i < n->count; i++) {
        uint8_t c = (uint8_t)n->u.text[i];
        if (c >= 0x80) { /* U+0080 to U+00FF: two bytes */
            if ((c & 0xfe) != 0xc2 || i + 1 >= n->count) {
                *bytes = NULL;
                return SFT_OK;
            }
            c = (uint8_t)(c << 6 | ((uint8_t)n->u.text[++i] & 0x3f));
        }
        (*bytes)[(*size)++] = c;
    }
    return SFT_OK;
}

sft_status sft__import_torch_bytes(const sft__import_torch *t, uint32_t id, uint8_t **bytes,
                                   size_t *size, sft_error *err) {
    const sft__import_pk_node *n = node(t, id);
    const bool call = n->type == SFT__PK_CALL && n->known == SFT__G_ENCODE;

    *bytes = NULL;
    *size = 0;
    if (sft__import_torch_is_no_bytes(t, n)) {
        return sft__import_alloc(t->job, bytes, 1, 1, err);
    }
    if (call || (n->type == SFT__PK_STR && n->known == SFT__PK_LATIN1)) {
        n = call ? node(t, sft__import_pk_item(t->p, n->args, 0)) : n;
        return n->type == SFT__PK_STR ? decode(t, n, bytes, size, err) : SFT_OK;
    }
    const bool raw = n->type == SFT__PK_STR && n->known == SFT__PK_RAW;
    if (!raw && (n->type != SFT__PK_BYTES || sft__import_pk_bytes(n) > SFT__TORCH_BYTES_MAX)) {
        return SFT_OK;
    }
    *size = raw ? n->count : (size_t)sft__import_pk_bytes(n);
    SFT_TRY(sft__import_alloc(t->job, bytes, *size, 1, err));
    return *size == 0 ? SFT_OK
                      : sft_source_read(t->p->source, raw ? sft__import_pk_place(n) : n->u.at,
                                        *bytes, *size, err);
}

/* ---------------------------------------------------------------- texts of numpy */

/* scalar(dtype('U3', ...), bytes): is it a text? */
static bool is_np_text(const sft__import_torch *t, const sft__import_pk_node *n) {
    if (n->type != SFT__PK_CALL || n->known != SFT__G_NP_SCALAR) {
        return false;
    }
    const sft__import_pk_node *dtype = node(t, sft__import_pk_item(t->p, n->args, 0));
    const sft__import_pk_node *code = node(t, sft__import_pk_item(t->p, dtype->args, 0));
    const sft__import_pk_node *bytes = node(t, sft__import_pk_item(t->p, n->args, 1));
    return dtype->type == SFT__PK_CALL && dtype->known == SFT__G_NP_DTYPE &&
           code->type == SFT__PK_STR && code->count > 1 && code->u.text[0] == 'U' &&
           (bytes->type != SFT__PK_BYTES || sft__import_pk_bytes(bytes) <= TEXT_MAX);
}

static uint32_t character(const uint8_t *bytes, bool big) {
    return big ? (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
                     bytes[3]
               : sft__base_load_le32(bytes);
}

/* Four bytes a character, padded with zeros; what is no such text stays what it was. */
static sft_status make_text(sft__import_torch *t, sft__import_pk_node *n, sft_error *err) {
    const sft__import_pk_node *dtype = node(t, sft__import_pk_item(t->p, n->args, 0));
    const bool big = sft__import_pk_is_text(t->p, sft__import_pk_item(t->p, dtype->state, 1), ">");
    uint8_t *bytes;
    size_t size;
    size_t len = 0;
    char *text;

    SFT_TRY(sft__import_torch_bytes(t, sft__import_pk_item(t->p, n->args, 1), &bytes, &size, err));
    if (bytes == NULL || size % 4 != 0 || size > TEXT_MAX) {
        return SFT_OK;
    }
    while (size != 0 && character(bytes + size - 4, big) == 0) {
        size -= 4;
    }
    SFT_TRY(sft__import_alloc(t->job, &text, size + 1, 1, err));
    for (size_t i = 0; i < size; i += 4) {
        const uint32_t c = character(bytes + i, big);
        if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) {
            return SFT_OK;
        }
        len += sft__base_utf8_encode(text + len, c);
    }
    text[len] = '\0';
    *n = (sft__import_pk_node){.type = SFT__PK_STR, .walked = n->walked, .count = (uint32_t)len};
    n->u.text = text;
    return SFT_OK;
}

sft_status sft__import_torch_texts(sft__import_torch *t, sft_error *err) {
    for (uint32_t id = 0; id < t->p->count; id++) {
        sft__import_pk_node *n = sft__import_pk_at(t->p, id);
        if (is_np_text(t, n)) {
            SFT_TRY(make_text(t, n, err));
        }
    }
    return SFT_OK;
}
