/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/write/edit_text.c - see edit_text.h. The metadata object is written anew from the raw text of the
 * members that stay; blanks before its } take up what is left, or those at the end of the header
 * what is missing, so that the tensor entries move as rarely as possible.
 */
#include "move/write/edit_text.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/text/json.h"
#include "base/text/utf8.h"
#include "format/build.h"

static const char metadata_name[] = "__metadata__";

/* ---------------------------------------------------------------- finding things */

/* Where things lie in a valid header text; positions from its start. */
typedef struct header_map {
    size_t open;         /* the outer { */
    size_t blanks;       /* behind it: a member that was removed leaves them */
    size_t close;        /* the outer } */
    bool has_member;     /* any, __metadata__ included */
    bool has_metadata;   /* the member is there, maybe null */
    size_t member_begin; /* the quote of "__metadata__" */
    size_t value_begin;
    size_t value_end;
    size_t comma_before; /* position of the comma, or SIZE_MAX */
    size_t comma_after;
} header_map;

static sft_status bad(sft_error *err) {
    return sft__base_fail(err, SFT_E_INTERNAL, "a valid header could not be read again");
}

/* p at a member's key. Returns the position behind its value; NULL if it is not JSON after all. */
static const char *read_member(sft__base_json *j, const char *p, sft__base_json_str *key,
                               const char **value) {
    *value = sft__base_json_key(j, p, key, "a key in quotes is needed", "a colon is needed");
    return *value != NULL ? sft__base_json_value(j, *value, 1) : NULL;
}

/* text: valid, followed by SFT__JSON_SLACK zero bytes. */
static sft_status header_map_make(header_map *map, const char *text, size_t size, sft_error *err) {
    sft__base_json j = {text + size, NULL, NULL, false};
    size_t comma = SIZE_MAX;
    bool ours = false;
    const char *p = sft__base_json_blank(text);

    memset(map, 0, sizeof *map);
    map->comma_before = map->comma_after = SIZE_MAX;
    if (*p != '{') {
        return bad(err);
    }
    map->open = (size_t)(p - text);
    p = sft__base_json_blank(p + 1);
    map->blanks = (size_t)(p - text) - map->open - 1;
    while (*p == '"') {
        const char *const begin = p;
        const char *value;
        sft__base_json_str key;
        p = read_member(&j, p, &key, &value);
        if (p == NULL) {
            return bad(err);
        }
        ours =
            !map->has_metadata && sft__base_json_is(&key, metadata_name, sizeof metadata_name - 1);
        if (ours) {
            map->has_metadata = true;
            map->member_begin = (size_t)(begin - text);
            map->value_begin = (size_t)(value - text);
            map->value_end = (size_t)(p - text);
            map->comma_before = comma;
        }
        map->has_member = true;
        p = sft__base_json_blank(p);
        if (*p == ',') {
            comma = (size_t)(p - text);
            map->comma_after = ours ? comma : map->comma_after;
            p = sft__base_json_blank(p + 1);
        }
    }
    map->close = (size_t)(p - text);
    return *p == '}' && map->close < size ? SFT_OK : bad(err);
}

/* ---------------------------------------------------------------- the new metadata object */

static bool same(const char *a, size_t a_len, const char *b, size_t b_len) {
    return a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0);
}

/* What the change says about a key, or NULL. */
static const sft_metadata_entry *wanted(const sft__move_edit_change *c,
                                        const sft_metadata_entry *old) {
    for (size_t i = 0; i < c->count; i++) {
        if (same(c->entries[i].key, c->entries[i].key_len, old->key, old->key_len)) {
            return &c->entries[i];
        }
    }
    return NULL;
}

static bool is_present(const sft__format_header *h, const sft_metadata_entry *e) {
    for (size_t i = 0; i < h->metadata_count; i++) {
        if (same(h->metadata[i].key, h->metadata[i].key_len, e->key, e->key_len)) {
            return true;
        }
    }
    return false;
}

static sft_status check_entries(const sft__move_edit_change *c, sft_error *err) {
    for (size_t i = 0; i < c->count; i++) {
        const sft_metadata_entry *e = &c->entries[i];
        if (e->key == NULL) {
            return sft__base_fail(err, SFT_E_ARG, "metadata entry %llu has no key",
                                  (unsigned long long)i);
        }
        if (sft__base_utf8_valid(e->key, e->key_len) != e->key_len ||
            (e->value != NULL && sft__base_utf8_valid(e->value, e->value_len) != e->value_len)) {
            return sft__base_fail(err, SFT_E_ARG, "metadata entry %llu is not UTF-8",
                                  (unsigned long long)i);
        }
        for (size_t k = 0; k < i; k++) {
            if (same(c->entries[k].key, c->entries[k].key_len, e->key, e->key_len)) {
                return sft__base_fail(err, SFT_E_DUPLICATE,
                                      "metadata entries %llu and %llu have the same key",
                                      (unsigned long long)k, (unsigned long long)i);
            }
        }
    }
    return SFT_OK;
}

/* The metadata on its way into a new object. */
typedef struct edit {
    const sft__move_edit_old *old;
    const header_map *map;
    const sft__move_edit_change *change;
    sft__base_buf object;
    size_t members; /* of it */
    bool changed;
} edit;

static void separate(edit *e) {
    if (e->members++ > 0) {
        sft__base_buf_text(&e->object, ",");
    }
}

/* The members that were there: kept as written, given another value, or dropped. */
static sft_status old_members(edit *e, sft_error *err) {
    const sft__move_edit_change *const c = e->change;
    const sft__format_header *const header = e->old->header;
    sft__base_buf *const out = &e->object;
    sft__base_json j = {e->old->text + e->map->close, NULL, NULL, false};
    const char *p = e->old->text + e->map->value_begin + 1;

    for (size_t i = 0; i < header->metadata_count; i++) {
        const sft_metadata_entry *old = &header->metadata[i];
        const sft_metadata_entry *want = wanted(c, old);
        const bool keep = want == NULL && !c->clear;
        const bool equal = want != NULL && want->value != NULL &&
                           same(want->value, want->value_len, old->value, old->value_len);
        const char *const begin = sft__base_json_blank(p);
        const char *value;
        sft__base_json_str key;
        p = read_member(&j, begin, &key, &value);
        if (p == NULL) {
            return bad(err);
        }
        if (keep || equal) {
            separate(e);
            sft__base_buf_add(out, begin, (size_t)(p - begin));
        } else if (want != NULL && want->value != NULL) {
            separate(e);
            sft__base_buf_add(out, begin, (size_t)(value - begin));
            sft__base_json_string(out, want->value, want->value_len);
        }
        e->changed = e->changed || !(keep || equal);
        p = sft__base_json_blank(p);
        p += *p == ',' ? 1 : 0;
    }
    return SFT_OK;
}

/* Everything but the closing bracket. */
static sft_status new_object(edit *e, sft_error *err) {
    const sft__format_header *const header = e->old->header;
    sft__base_buf *const out = &e->object;

    sft__base_buf_text(out, "{");
    if (header->has_metadata) {
        SFT_TRY(old_members(e, err));
    }
    for (size_t i = 0; i < e->change->count; i++) {
        const sft_metadata_entry *entry = &e->change->entries[i];
        if (entry->value != NULL && !(header->has_metadata && is_present(header, entry))) {
            separate(e);
            sft__base_json_string(out, entry->key, entry->key_len);
            sft__base_buf_text(out, ":");
            sft__base_json_string(out, entry->value, entry->value_len);
            e->changed = true;
        }
    }
    return out->failed ? sft__base_fail_nomem(err, out->len) : SFT_OK;
}

/* ---------------------------------------------------------------- the new text */

/* The whole member goes: blanks in its place. */
static void remove_member(sft__base_buf *out, const char *text, size_t size,
                          const header_map *map) {
    size_t begin = map->member_begin;
    size_t end = map->value_end;

    if (map->comma_after != SIZE_MAX) {
        end = map->comma_after + 1;
    } else if (map->comma_before != SIZE_MAX) {
        begin = map->comma_before;
    }
    sft__base_buf_add(out, text, begin);
    sft__base_buf_fill(out, ' ', end - begin);
    sft__base_buf_add(out, text + end, size - end);
}

/* Where the new object goes, and the blanks inside it (inner) and behind the header (outer). */
typedef struct room {
    size_t slot;  /* bytes that it may take where it lies without moving what follows */
    size_t extra; /* without a member to fill: its name and a comma come along */
    size_t need;  /* bytes up to and with the outer }, without any blanks to spare */
    size_t inner;
    size_t outer;
} room;

static sft_status find_room(room *r, const edit *e, sft_error *err) {
    const sft__move_edit_change *const c = e->change;
    const size_t size = e->old->size;
    const size_t object = r->extra + e->object.len + 1;
    const size_t need = r->need;
    uint64_t total = size;
    uint64_t grown;

    if (object <= r->slot) {
        r->inner = r->slot - object;
        r->outer = size - (need + r->inner);
        return SFT_OK;
    }
    r->inner = 0;
    if (need > size) {
        if (!sft__base_add64(need, c->reserve, &grown)) {
            return sft__base_fail(err, SFT_E_HEADER_TOO_LARGE, "the header would pass 64 bits");
        }
        grown -= size;
        grown += c->unit - 1; /* cannot overflow: both far below 2^63, or the limit below refuses */
        total = size + (grown - grown % c->unit);
        total += (8 - (8 + total) % 8) % 8; /* a header of another writer need not be aligned */
        if (total > UINT32_MAX) {
            return sft__base_fail(err, SFT_E_HEADER_TOO_LARGE, "the header would have %llu bytes",
                                  (unsigned long long)total);
        }
        r->inner = (size_t)total - need;
    }
    r->outer = (size_t)total - need - r->inner;
    return SFT_OK;
}

/* The header's text with the new object in it. */
static sft_status new_text(const edit *e, sft__base_buf *out, sft_error *err) {
    const header_map *const map = e->map;
    const char *const text = e->old->text;
    const size_t begin = map->has_metadata ? map->value_begin : map->open + 1;
    room r = {.slot = map->has_metadata ? map->value_end - map->value_begin : map->blanks};

    if (!map->has_metadata) {
        r.extra = sizeof metadata_name - 1 + 3 + (map->has_member ? 1 : 0);
    }
    r.need = map->close + 1 - r.slot + r.extra + e->object.len + 1;
    SFT_TRY(find_room(&r, e, err));
    sft__base_buf_add(out, text, begin);
    sft__base_buf_text(out, map->has_metadata ? "" : "\"__metadata__\":");
    sft__base_buf_add(out, e->object.data, e->object.len);
    sft__base_buf_fill(out, ' ', r.inner);
    sft__base_buf_text(out, map->has_metadata || !map->has_member ? "}" : "},");
    sft__base_buf_add(out, text + begin + r.slot, map->close + 1 - (begin + r.slot));
    sft__base_buf_fill(out, ' ', r.outer);
    return out->failed ? sft__base_fail_nomem(err, out->len) : SFT_OK;
}

sft_status sft__move_edit_text(sft__base_buf *out, const sft__move_edit_old *old,
                               const sft__move_edit_change *change, bool *changed, sft_error *err) {
    header_map map;
    edit e = {.old = old, .map = &map, .change = change};

    *changed = false;
    SFT_TRY(check_entries(change, err));
    SFT_TRY(header_map_make(&map, old->text, old->size, err));
    if (change->clear && change->count == 0) {
        *changed = map.has_metadata;
        if (*changed) {
            remove_member(out, old->text, old->size, &map);
        }
        return out->failed ? sft__base_fail_nomem(err, old->size) : SFT_OK;
    }
    sft__base_buf_init(&e.object, out->allocator);
    sft_status st = new_object(&e, err);
    *changed = e.changed;
    if (st == SFT_OK && e.changed) {
        st = new_text(&e, out, err);
    }
    sft__base_buf_reset(&e.object);
    return st;
}
