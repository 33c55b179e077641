/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/gguf/gguf_in.c - see gguf_in.h. Metadata become texts: strings as they are, numbers in
 * decimal, arrays as JSON; which types they had is kept beside them, so that a writer can give them
 * back.
 */
#include "import/gguf/gguf_in.h"
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/json.h"
#include "base/text/strmap.h"
#include "base/text/utf8.h"
#include "import/gguf/gguf_bytes.h"
#include <stdio.h>

enum { WINDOW = 65536, DESCRIPTION_MAX = 100000000 };

/* ---------------------------------------------------------------- bytes */

static sft_status ended(const sft__import_gguf_in *g, uint64_t need, sft_error *err) {
    return sft__base_fail_at(err, SFT_E_SCHEMA, g->at,
                             "gguf-end: %llu bytes are needed here, the file ends after %llu",
                             (unsigned long long)need, (unsigned long long)(g->end - g->at));
}

/* The next n bytes, at most WINDOW of them; they are passed over. */
static sft_status take(sft__import_gguf_in *g, size_t n, const uint8_t **bytes, sft_error *err) {
    if (n > g->end - g->at) {
        return ended(g, n, err);
    }
    if (g->at + n > g->most) {
        return sft__base_fail_at(err, SFT_E_LIMIT, g->at,
                                 "gguf-size: the description has more than %llu bytes",
                                 (unsigned long long)g->most);
    }
    if (g->window == NULL) {
        SFT_TRY(sft__import_alloc(g->job, &g->window, WINDOW, 1, err));
    }
    if (g->at < g->window_at || g->at + n > g->window_at + g->window_len) {
        const uint64_t left = g->end - g->at;
        g->window_len = 0;
        const size_t len = left < WINDOW ? (size_t)left : WINDOW;
        SFT_TRY(sft_source_read(g->job->file, g->at, g->window, len, err));
        g->window_at = g->at;
        g->window_len = len;
    }
    *bytes = g->window + (size_t)(g->at - g->window_at);
    g->at += n;
    return SFT_OK;
}

static uint64_t number(const sft__import_gguf_in *g, const uint8_t *p, uint32_t size) {
    uint64_t v = 0;

    for (uint32_t i = 0; i < size; i++) {
        v |= (uint64_t)p[g->big ? size - 1 - i : i] << (8 * i);
    }
    return v;
}

sft_status sft__import_gguf_u32(sft__import_gguf_in *g, uint32_t *v, sft_error *err) {
    const uint8_t *p = NULL;

    SFT_TRY(take(g, 4, &p, err));
    *v = (uint32_t)number(g, p, 4);
    return SFT_OK;
}

sft_status sft__import_gguf_u64(sft__import_gguf_in *g, uint64_t *v, sft_error *err) {
    const uint8_t *p = NULL;

    SFT_TRY(take(g, 8, &p, err));
    *v = number(g, p, 8);
    return SFT_OK;
}

sft_status sft__import_gguf_size(sft__import_gguf_in *g, uint64_t *v, sft_error *err) {
    uint32_t small;

    if (g->version != 1) {
        return sft__import_gguf_u64(g, v, err);
    }
    SFT_TRY(sft__import_gguf_u32(g, &small, err));
    *v = small;
    return SFT_OK;
}

sft_status sft__import_gguf_begin(sft__import_gguf_in *g, sft_error *err) {
    const uint64_t most = g->job->limits.header_bytes;
    const uint8_t *p = NULL;

    g->most = most != 0 ? most : DESCRIPTION_MAX;
    SFT_TRY(take(g, 8, &p, err));
    g->version = sft__base_load_le32(p + 4);
    if ((g->version & 0xffff) == 0) {
        g->big = true;
        g->version = (uint32_t)number(g, p + 4, 4);
    }
    if (g->version < 1 || g->version > 3) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, 4,
                                 "gguf-version: %u, only versions 1 to 3 are known",
                                 (unsigned)g->version);
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- strings */

/* The next string's bytes: in the window, or in the arena where it is longer. */
static sft_status string(sft__import_gguf_in *g, uint64_t most, const char **text, size_t *len,
                         sft_error *err) {
    const uint8_t *p;
    uint64_t n;

    SFT_TRY(sft__import_gguf_size(g, &n, err));
    if (n > g->end - g->at) {
        return ended(g, n, err);
    }
    if (n > most || n > g->most) {
        return sft__base_fail_at(err, SFT_E_LIMIT, g->at, "gguf-string: %llu bytes, at most %llu",
                                 (unsigned long long)n,
                                 (unsigned long long)(most < g->most ? most : g->most));
    }
    *len = (size_t)n;
    if (n <= WINDOW) {
        SFT_TRY(take(g, *len, &p, err));
        *text = (const char *)p;
        return SFT_OK;
    }
    char *copy;
    SFT_TRY(sft__import_alloc(g->job, &copy, *len + 1, 1, err));
    SFT_TRY(sft_source_read(g->job->file, g->at, copy, *len, err));
    copy[*len] = '\0';
    g->at += n;
    *text = copy;
    return SFT_OK;
}

sft_status sft__import_gguf_string(sft__import_gguf_in *g, size_t most, const char **text,
                                   size_t *len, sft_error *err) {
    const uint64_t at = g->at;
    char *copy;

    SFT_TRY(string(g, most, text, len, err));
    if (sft__base_utf8_valid(*text, *len) != *len) {
        return sft__base_fail_at(err, SFT_E_UTF8, at, "gguf-string: a name is not UTF-8");
    }
    SFT_TRY(sft__import_copy(g->job, &copy, *text, *len, err));
    *text = copy;
    return SFT_OK;
}

static void add_json_string(sft__base_buf *b, const char *text, size_t len) {
    sft__base_buf clean;

    if (sft__base_utf8_valid(text, len) == len) {
        sft__base_json_string(b, text, len);
        return;
    }
    sft__base_buf_init(&clean, b->allocator);
    sft__import_gguf_show_bytes(&clean, text, len);
    b->failed = b->failed || clean.failed;
    sft__base_json_string(b, clean.failed ? "" : clean.data, clean.failed ? 0 : clean.len);
    sft__base_buf_reset(&clean);
}

/* ---------------------------------------------------------------- values as text */

static void add_real(sft__base_buf *b, double v, int digits) {
    char text[48];

    if (v != v || v > 1.7976931348623157e308 || v < -1.7976931348623157e308) {
        sft__base_buf_text(b, v != v ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
        return;
    }
    int n = snprintf(text, sizeof text, "%.*g", digits, v);
    bool whole = true;
    for (int i = 0; i < n; i++) { /* whatever the locale's point is */
        const char c = text[i];
        const bool plain = (c >= '0' && c <= '9') || c == '-' || c == '+' || c == 'e';
        text[i] = c;
        if (!plain) {
            text[i] = '.';
        }
        whole = whole && plain && c != 'e';
    }
    sft__base_buf_add(b, text, (size_t)n);
    sft__base_buf_text(b, whole ? ".0" : "");
}

static void add_signed(sft__base_buf *b, uint64_t v, uint32_t size) {
    const uint64_t sign = UINT64_C(1) << (8 * size - 1);

    if ((v & sign) != 0) {
        sft__base_buf_text(b, "-");
        v = (sign - (v & (sign - 1)));
    }
    sft__base_buf_u64(b, v);
}

static sft_status add_scalar(sft__import_gguf_in *g, uint32_t type, sft_error *err) {
    const uint32_t size = sft__import_gguf_value_bytes(type);
    const uint8_t *p;
    float single;
    double real;

    SFT_TRY(take(g, size, &p, err));
    const uint64_t v = number(g, p, size);
    const uint32_t low = (uint32_t)v;
    switch (type) {
    case SFT__GGUF_F32:
        memcpy(&single, &low, sizeof single);
        add_real(&g->text, (double)single, 9);
        break;
    case SFT__GGUF_F64:
        memcpy(&real, &v, sizeof real);
        add_real(&g->text, real, 17);
        break;
    case SFT__GGUF_BOOL:
        if (v > 1) {
            return sft__base_fail_at(err, SFT_E_SCHEMA, g->at - 1, "gguf-bool: %u, neither 0 nor 1",
                                     (unsigned)v);
        }
        sft__base_buf_text(&g->text, v != 0 ? "true" : "false");
        break;
    case SFT__GGUF_I8:
    case SFT__GGUF_I16:
    case SFT__GGUF_I32:
    case SFT__GGUF_I64:
        add_signed(&g->text, v, size);
        break;
    default:
        sft__base_buf_u64(&g->text, v);
        break;
    }
    return SFT_OK;
}

static sft_status check_text(sft__import_gguf_in *g, sft_error *err) {
    SFT_NEED(!g->text.failed, g->text.len, err);
    if (g->text.len > g->job->options.memory_bytes / 4) {
        return sft__base_fail_at(
            err, SFT_E_LIMIT, g->at,
            "memory: a metadata value needs more than a quarter of the limit of "
            "%llu bytes",
            (unsigned long long)g->job->options.memory_bytes);
    }
    return SFT_OK;
}

/* Beside what the catalog shows; of all entries together as long as memory allows it. */
static void keep_bytes(sft__import_gguf_in *g, const char *text, size_t len) {
    const uint64_t most = g->job->options.memory_bytes / 64;

    g->replaced++;
    g->too_many = g->too_many || len > most / 8 || g->types.len + g->bytes.len > most;
    if (!g->too_many) {
        sft__import_gguf_keep_bytes(&g->bytes, g->element, text, len);
    }
}

/* Texts of arrays become JSON, six bytes for one in the worst case; others at most three. Before
 * they are made. */
static sft_status add_text(sft__import_gguf_in *g, bool listed, sft_error *err) {
    const uint64_t most = g->job->options.memory_bytes / 4;
    const char *text = NULL;
    size_t len = 0;

    SFT_TRY(string(g, listed ? most / 6 : most / 2, &text, &len, err));
    if (sft__base_utf8_valid(text, len) != len) {
        keep_bytes(g, text, len);
    }
    if (listed) {
        add_json_string(&g->text, text, len);
        return SFT_OK;
    }
    if (len > most / 3 && sft__base_utf8_valid(text, len) != len) {
        return sft__base_fail_at(err, SFT_E_LIMIT, g->at,
                                 "gguf-string: %zu bytes that are not UTF-8, at most %llu", len,
                                 (unsigned long long)(most / 3));
    }
    sft__import_gguf_show_bytes(&g->text, text, len);
    return SFT_OK;
}

static sft_status add_array(sft__import_gguf_in *g, uint32_t *type, sft_error *err) {
    uint64_t count;

    SFT_TRY(sft__import_gguf_u32(g, type, err));
    SFT_TRY(sft__import_gguf_size(g, &count, err));
    if (*type == SFT__GGUF_ARRAY || *type >= SFT__GGUF_VALUES) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, g->at,
                                 "gguf-array: elements of type %u: arrays hold numbers or strings",
                                 (unsigned)*type);
    }
    const uint32_t least = *type != SFT__GGUF_STRING ? sft__import_gguf_value_bytes(*type)
                           : g->version == 1         ? 4
                                                     : 8;
    if (count > (g->end - g->at) / least) {
        return sft__base_fail_at(
            err, SFT_E_SCHEMA, g->at,
            "gguf-array: %llu elements cannot be in the %llu bytes that are left",
            (unsigned long long)count, (unsigned long long)(g->end - g->at));
    }
    sft__base_buf_text(&g->text, "[");
    for (uint64_t i = 0; i < count; i++) {
        sft__base_buf_text(&g->text, i > 0 ? ", " : "");
        g->element = i;
        if (*type == SFT__GGUF_STRING) {
            SFT_TRY(add_text(g, true, err));
        } else {
            SFT_TRY(add_scalar(g, *type, err));
        }
        SFT_TRY(check_text(g, err));
    }
    sft__base_buf_text(&g->text, "]");
    return SFT_OK;
}

sft_status sft__import_gguf_check_note(const sft__import_gguf_in *g, const sft__base_buf *b,
                                       sft_error *err) {
    return b->len <= g->job->options.memory_bytes / 8
               ? SFT_OK
               : sft__base_fail_at(
                     err, SFT_E_LIMIT, g->at,
                     "memory: names and types need more than an eighth of the limit of "
                     "%llu bytes",
                     (unsigned long long)g->job->options.memory_bytes);
}

static void note_type(sft__import_gguf_in *g, const char *key, size_t key_len, uint32_t type,
                      uint32_t element) {
    sft__base_buf *b = &g->types;

    const bool kept = g->replaced != 0 && !g->too_many;

    if (type == SFT__GGUF_STRING && !kept) {
        return;
    }
    sft__base_buf_text(b, b->len == 0 ? "{" : ", ");
    sft__base_json_string(b, key, key_len);
    sft__base_buf_text(b, kept ? ": {\"type\": " : ": ");
    sft__base_buf_text(b, type == SFT__GGUF_ARRAY ? "\"[" : "\"");
    sft__base_buf_text(b, sft__import_gguf_value_name(type == SFT__GGUF_ARRAY ? element : type));
    sft__base_buf_text(b, type == SFT__GGUF_ARRAY ? "]\"" : "\"");
    if (kept) {
        sft__base_buf_text(b, ", \"bytes\": {");
        sft__base_buf_add(b, g->bytes.data, g->bytes.len);
        sft__base_buf_text(b, "}}");
    }
    b->failed = b->failed || g->bytes.failed;
}

/* Strings that are no UTF-8 are shown with U+FFFD. */
static void tell_replaced(sft__import_gguf_in *g, const char *key, size_t len) {
    static const char what[] = "%llu of its strings %s not UTF-8: bytes that are not are U+FFFD%s";
    const unsigned long long n = g->replaced;
    const char *are = n == 1 ? "is" : "are";

    if (g->replaced != 0 && g->too_many) {
        sft__import_left(g->job, key, len, 0, what, n, are, "");
    } else if (g->replaced != 0) {
        sft__import_find(g->job, SFT__RULE(NOTE, HARMLESS, "gguf-string"),
                         SFT__AT(key, len, SFT_NO_OFFSET), what, n, are,
                         " here, gguf.types has them as they are");
    }
}

/* ---------------------------------------------------------------- one entry */

typedef struct key_of {
    const char *name; /* for the name table */
    size_t len;
} key_of;

static bool is_key(const key_of *k, const char *text) {
    return k->len == strlen(text) && memcmp(k->name, text, k->len) == 0;
}

/* A number below 65,536 in decimal; 0: anything else. */
static uint32_t small_number(const sft__base_buf *text) {
    uint32_t v = 0;

    for (size_t i = 0; i < text->len; i++) {
        const char c = text->data[i];
        if (c < '0' || c > '9' || i == 5) {
            return 0;
        }
        v = 10 * v + (uint32_t)(c - '0');
    }
    return v;
}

static sft_status set_alignment(sft__import_gguf_in *g, uint32_t type, uint64_t at,
                                sft_error *err) {
    uint64_t v = 0;

    for (size_t i = 0; i < g->text.len && i < 10; i++) {
        v = v * 10 + (uint64_t)(g->text.data[i] - '0');
    }
    if (type != SFT__GGUF_U32 || v == 0 || v > SFT__GGUF_ALIGNMENT_MAX || (v & (v - 1)) != 0) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, at,
                                 "gguf-alignment: no u32 that is a power of two up to %d",
                                 (int)SFT__GGUF_ALIGNMENT_MAX);
    }
    g->alignment = v;
    return SFT_OK;
}

static sft_status read_value(sft__import_gguf_in *g, key_of *key, sft_error *err) {
    uint32_t element = 0;
    uint32_t type;

    SFT_TRY(sft__import_gguf_string(g, SFT__GGUF_KEY_MAX, &key->name, &key->len, err));
    if (is_key(key, SFT__GGUF_KEY_TYPES) || is_key(key, SFT__GGUF_KEY_TENSORS)) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, g->at,
                                 "gguf-key: %s is a key of this library's own", key->name);
    }
    SFT_TRY(sft__import_gguf_u32(g, &type, err));
    const uint64_t at = g->at;
    g->text.len = 0;
    g->replaced = 0;
    g->element = 0;
    g->bytes.len = 0;
    g->too_many = false;
    if (type >= SFT__GGUF_VALUES) {
        return sft__base_fail_at(err, SFT_E_SCHEMA, at - 4, "gguf-value: there is no type %u",
                                 (unsigned)type);
    }
    if (type == SFT__GGUF_STRING) {
        SFT_TRY(add_text(g, false, err));
    } else if (type == SFT__GGUF_ARRAY) {
        SFT_TRY(add_array(g, &element, err));
    } else {
        SFT_TRY(add_scalar(g, type, err));
    }
    SFT_TRY(check_text(g, err));
    if (is_key(key, "general.alignment")) {
        SFT_TRY(set_alignment(g, type, at, err));
    }
    if (is_key(key, "split.no") && type != SFT__GGUF_STRING && type != SFT__GGUF_ARRAY) {
        g->split_no = small_number(&g->text);
    }
    if (is_key(key, "split.count") && type != SFT__GGUF_STRING && type != SFT__GGUF_ARRAY) {
        g->split_count = small_number(&g->text);
    }
    tell_replaced(g, key->name, key->len);
    note_type(g, key->name, key->len, type, element);
    SFT_TRY(sft__import_gguf_check_note(g, &g->types, err));
    const sft_metadata_entry entry = {key->name, key->len, g->text.data != NULL ? g->text.data : "",
                                      g->text.len};
    return sft_builder_add_metadata(g->job->builder, 0, &entry, err);
}

sft_status sft__import_gguf_values(sft__import_gguf_in *g, uint64_t count, sft_error *err) {
    sft_status status = SFT_OK;
    sft__base_strmap map;
    key_of *keys;

    SFT_TRY(sft__import_alloc(g->job, &keys, (size_t)count, sizeof *keys, err));
    SFT_NEED(sft__base_strmap_init(&map, keys, sizeof *keys, (size_t)count, g->job->allocator),
             (size_t)count * 16, err);
    for (size_t i = 0; i < count && status == SFT_OK; i++) {
        status = read_value(g, &keys[i], err);
        if (status == SFT_OK && sft__base_strmap_add(&map, i) != SFT__STRMAP_NONE) {
            status = sft__base_fail_at(err, SFT_E_DUPLICATE, g->at,
                                       "gguf-key: %.100s is there twice", keys[i].name);
        }
    }
    sft__base_strmap_reset(&map);
    return status;
}

static sft_status note(sft__import_gguf_in *g, const char *key, sft__base_buf *b, sft_error *err) {
    if (b->len == 0 && !b->failed) {
        return SFT_OK;
    }
    sft__base_buf_text(b, "}");
    SFT_NEED(!b->failed, b->len, err);
    const sft_metadata_entry entry = {key, strlen(key), b->data, b->len};
    return sft_builder_add_metadata(g->job->builder, 0, &entry, err);
}

sft_status sft__import_gguf_note_types(sft__import_gguf_in *g, sft_error *err) {
    SFT_TRY(note(g, SFT__GGUF_KEY_TYPES, &g->types, err));
    return note(g, SFT__GGUF_KEY_TENSORS, &g->tensors, err);
}
