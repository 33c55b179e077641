/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/scan/tar.c - the members of a tar, by its headers: names as pax and GNU give them, what is
 * neither a file nor a directory, names that are there twice, what is cut short. Source: POSIX ustar
 * and pax, Lib/tarfile.py. Read first: members.h.
 */
#include "base/checked.h"
#include "base/memory/need.h"
#include "base/text/strmap.h"
#include "import/scan/members.h"
#include <stdio.h>

enum {
    BLOCK = 512,
    NAME = 100,
    PREFIX_AT = 345,
    PREFIX = 155,
    LONG_NAME = 4096,
    BEHIND_MOST = 64 << 20 /* bytes that are gone through for a tar behind a tar */
};

/* ---------------------------------------------------------------- tar */

/* A number of a tar header: octal text, or the binary of GNU. */
static bool tar_number(const uint8_t *p, size_t len, uint64_t *value) {
    size_t i = 0;

    *value = 0;
    if ((p[0] & 0x80) != 0) {
        for (i = 1; i < len; i++) {
            if (*value >> 55 != 0) {
                return false;
            }
            *value = *value << 8 | p[i];
        }
        return true;
    }
    while (i < len && p[i] == ' ') {
        i++;
    }
    for (; i < len && p[i] >= '0' && p[i] <= '7'; i++) {
        *value = *value << 3 | (uint64_t)(p[i] - '0');
    }
    return i == len || p[i] == ' ' || p[i] == '\0';
}

/* The sum of the bytes, those of its own field as spaces; some have summed them as signed. */
bool sft__import_tar_is_header(const uint8_t *h) {
    uint64_t said;
    uint64_t sum = 8 * ' ';
    uint64_t high = 0;

    for (size_t i = 0; i < BLOCK; i++) {
        const bool counts = i < 148 || i >= 156;
        sum += counts ? h[i] : 0;
        high += counts && h[i] >= 0x80 ? 256 : 0;
    }
    return h[0] != 0 && tar_number(h + 148, 8, &said) && (said == sum || said == sum - high);
}

/* The first byte of a stretch that is no zero, SIZE_MAX: all are. */
static size_t first_byte(const uint8_t *p, size_t len) {
    for (size_t i = 0; i < len; i++) {
        if (p[i] != 0) {
            return i;
        }
    }
    return SIZE_MAX;
}

/* Behind the end of a tar, or where a header is none: the next block that is a header, which tar -i
 * and Python's ignore_zeros go on with. What lies there otherwise is given out once. */
static sft_status tar_resume(sft__import_members *m, uint8_t *h, sft__import_member *member,
                             bool *more, sft_error *err) {
    for (;;) {
        const uint64_t room = m->end - m->at;
        const size_t n = room < BLOCK ? (size_t)room : BLOCK;
        const uint64_t at = m->at;
        *more = n != 0 && m->left >= n;
        m->whole = m->whole && (n == 0 || *more);
        if (!*more) {
            return SFT_OK;
        }
        m->left -= n;
        SFT_TRY(sft_source_read(m->source, at, h, n, err));
        if (n == BLOCK && sft__import_tar_is_header(h)) {
            return SFT_OK;
        }
        m->at += n;
        const size_t first = first_byte(h, n);
        if (first != SIZE_MAX && !m->told) {
            memset(member, 0, sizeof *member);
            member->behind = true;
            member->offset = at + first;
            member->size = member->plain = m->end - member->offset;
            (void)snprintf(member->name, sizeof member->name, "@%llu",
                           (unsigned long long)(member->offset - m->offset));
            m->told = true;
            return SFT_OK;
        }
    }
}

/* ---------------------------------------------------------------- names */

static sft_status grow_seen(sft__import_members *m, sft_error *err) {
    const sft_allocator *a = sft__base_allocator(NULL);
    const size_t room = m->seen_room != 0 ? 2 * m->seen_room : 64;

    uint64_t *slots = sft__base_alloc_zero(a, room * sizeof *slots);
    SFT_NEED(slots != NULL, room * sizeof *slots, err);
    for (size_t i = 0; i < m->seen_room; i++) {
        size_t at = (size_t)m->seen[i] & (room - 1);
        while (m->seen[i] != 0 && slots[at] != 0) {
            at = (at + 1) & (room - 1);
        }
        slots[at] = m->seen[i] != 0 ? m->seen[i] : slots[at];
    }
    sft__base_free(a, m->seen, m->seen_room * sizeof *slots);
    m->seen = slots;
    m->seen_room = room;
    return SFT_OK;
}

/* Was there a member of this name, in any case? There may be as many as members are looked into. */
static sft_status is_again(sft__import_members *m, uint64_t hash, bool *again, sft_error *err) {
    if (2 * m->seen_count >= m->seen_room) {
        SFT_TRY(grow_seen(m, err));
    }
    size_t at = (size_t)hash & (m->seen_room - 1);
    while (m->seen[at] != 0 && m->seen[at] != hash) {
        at = (at + 1) & (m->seen_room - 1);
    }
    *again = m->seen[at] == hash;
    m->seen_count += !*again;
    m->seen[at] = hash;
    return SFT_OK;
}

/* "./a//B" is "a/b". */
static uint64_t hash_of(char *name, size_t len) {
    static const uint64_t key[2] = {0x452821e638d01377u, 0xbe5466cf34e90c6cu};
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        const bool first = n == 0 || name[n - 1] == '/';
        const bool dot = first && name[i] == '.' && (i + 1 == len || name[i + 1] == '/');
        if ((first && name[i] == '/' && n != 0) || dot) {
            i += dot;
            continue;
        }
        name[n++] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] | 0x20 : name[i]);
    }
    return sft__base_hash(key, name, n) | 1;
}

static void set_name(char out[SFT__MEMBER_NAME], const char *name, size_t len) {
    const size_t n = len < SFT__MEMBER_NAME ? len : SFT__MEMBER_NAME - 1;

    for (size_t i = 0; i < n; i++) {
        out[i] = name[i] != '\0' ? name[i] : '?';
    }
    out[n] = '\0';
}

static void next_name(sft__import_members *m, char *name, size_t len) {
    m->has_next = len != 0;
    set_name(m->next, name, len);
    m->next_hash = hash_of(name, len);
}

/* Records "LENGTH KEY=VALUE\n": the last path, or the name of a sparse file. False: not all of them
 * are such. */
static bool pax_name(sft__import_members *m, char *text, size_t len) {
    static const char *const keys[] = {"path=", "GNU.sparse.name="};
    char *value = NULL;
    size_t value_len = 0;
    size_t at = 0;

    while (at < len) {
        size_t n = 0;
        size_t i = at;
        for (; i < len && text[i] >= '0' && text[i] <= '9' && n < LONG_NAME; i++) {
            n = n * 10 + (size_t)(text[i] - '0');
        }
        const size_t used = i - at + 1; /* with the blank */
        if (i >= len || text[i] != ' ' || n <= used || n > len - at) {
            break;
        }
        for (size_t k = 0; k < 2; k++) {
            const size_t key = strlen(keys[k]);
            if (n - used > key && memcmp(text + at + used, keys[k], key) == 0) {
                value = text + at + used + key;
                value_len = n - used - key - 1; /* without the end of the line */
            }
        }
        at += n;
    }
    if (value != NULL) {
        next_name(m, value, value_len);
    }
    return at == len;
}

/* A header that is about the next one: its name. */
static sft_status take_next(sft__import_members *m, const sft__import_member *member, uint8_t type,
                            sft_error *err) {
    char text[LONG_NAME];
    const size_t n = member->size < sizeof text ? (size_t)member->size : sizeof text;

    if (n == 0 || (type != 'L' && type != 'x' && type != 'X')) {
        return SFT_OK;
    }
    SFT_TRY(sft_source_read(m->source, member->offset, text, n, err));
    if (type == 'L') {
        const char *end = memchr(text, 0, n);
        next_name(m, text, end != NULL ? (size_t)(end - text) : n);
    } else if (!pax_name(m, text, n)) {
        m->whole = false;
    }
    return SFT_OK;
}

/* The member's own name, and whether it was there before. */
static sft_status take_name(sft__import_members *m, const uint8_t *h, sft__import_member *member,
                            sft_error *err) {
    char full[PREFIX + 1 + NAME];
    size_t n = 0;

    const uint8_t *end = memchr(h, 0, NAME);
    const size_t len = end != NULL ? (size_t)(end - h) : NAME;
    if (memcmp(h + 257, "ustar\0", 6) == 0 && h[PREFIX_AT] != 0) {
        const uint8_t *stop = memchr(h + PREFIX_AT, 0, PREFIX);
        n = stop != NULL ? (size_t)(stop - (h + PREFIX_AT)) : PREFIX;
        memcpy(full, h + PREFIX_AT, n);
        full[n++] = '/';
    }
    memcpy(full + n, h, len);
    n += len;
    set_name(member->name, full, n);
    uint64_t hash = hash_of(full, n);
    if (m->has_next) {
        memcpy(member->name, m->next, sizeof m->next);
        hash = m->next_hash;
    }
    m->has_next = false;
    const size_t name_len = strlen(member->name);
    member->directory = member->directory || (name_len != 0 && member->name[name_len - 1] == '/');
    return member->directory ? SFT_OK : is_again(m, hash, &member->again, err);
}

/* ---------------------------------------------------------------- members */

sft_status sft__import_tar_next(sft__import_members *m, sft__import_member *member, bool *more,
                                sft_error *err) {
    uint8_t h[BLOCK];
    uint64_t size;

    if (m->at == m->offset) {
        m->whole = true;
        m->left = BEHIND_MOST;
    }
    member->behind = false;
    SFT_TRY(tar_resume(m, h, member, more, err));
    if (!*more || member->behind) {
        return SFT_OK;
    }
    if (!tar_number(h + 124, 12, &size)) {
        *more = false;
        m->whole = false;
        return SFT_OK;
    }
    memset(member, 0, sizeof *member);
    const uint8_t type = h[156];
    member->about = type == 'L' || type == 'K' || type == 'x' || type == 'X' || type == 'g';
    member->directory = type == '5';
    member->link = type == '1' || type == '2';
    member->device = type == '3' || type == '4' || type == '6';
    if (member->about) {
        const uint8_t *end = memchr(h, 0, NAME);
        set_name(member->name, (const char *)h, end != NULL ? (size_t)(end - h) : NAME);
    } else {
        SFT_TRY(take_name(m, h, member, err));
    }
    member->offset = m->at + BLOCK;
    const uint64_t left = m->end - member->offset;
    const bool none = member->directory || member->link || member->device;
    member->cut = !none && size > left;
    member->size = none ? 0 : size < left ? size : left;
    member->plain = member->size;
    const uint64_t padded = (member->size + BLOCK - 1) / BLOCK * BLOCK;
    m->at = member->offset + (padded < left ? padded : left);
    return member->about ? take_next(m, member, type, err) : SFT_OK;
}

void sft__import_members_reset(sft__import_members *m) {
    sft__base_free(sft__base_allocator(NULL), m->seen, m->seen_room * sizeof *m->seen);
    m->seen = NULL;
    m->seen_room = 0;
}
