/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * move/load/load_choose.c - how a file is best read, and the sentence that says why. See load.h.
 */
#include "io/uring.h"
#include "move/load/load.h"

/* Why AUTO stays with the page cache, or NULL. */
static const char *why_cached(sft__move_load_source *s, int fd, uint64_t size, sft__fs_kind kind) {
    if (kind != SFT__FS_LOCAL) {
        return kind == SFT__FS_UNKNOWN ? "the file system is not known"
                                       : "not a local disk: large parallel reads, never a mapping";
    }
    if (s->wanted < sft__base_size.load_file ||
        (s->wanted < sft__base_size.load_direct && s->total < sft__base_size.load_direct)) {
        return "too little to be worth going past the page cache";
    }
    s->choice.cached = sft__fs_cached(fd, size);
    if (s->choice.cached < 0) {
        return "the system does not tell what is in the page cache";
    }
    return s->choice.cached >= 50 ? "half of the file or more is in the page cache" : NULL;
}

void sft__move_load_choose(sft__move_load_source *s, const sft_source *source, sft_strategy wanted,
                           bool aligned) {
    static const char asked[] = "it was asked for";
    const int fd = sft_source_descriptor(source);
    sft__fs_kind kind = SFT__FS_UNKNOWN;
    const char *reason = NULL;

    s->direct = -1;
    s->choice =
        (sft_strategy_choice){.strategy = SFT_STRATEGY_READ, .cached = -1, .file_system = ""};
    if (fd >= 0) {
        kind = sft__fs_system(fd, &s->choice.file_system);
    }
    if (wanted == SFT_STRATEGY_MAP || wanted == SFT_STRATEGY_READ) {
        s->choice.strategy = wanted;
        reason = asked;
    } else if (fd < 0) {
        reason = "the source reads in its own way";
    } else if (kind == SFT__FS_MEMORY) {
        reason = "the file is in memory already";
    } else if (aligned) {
        reason = "tensors are read one by one, to be aligned";
    } else if (wanted == SFT_STRATEGY_AUTO) {
        reason = why_cached(s, fd, sft_source_size(source), kind);
    }
    if (reason == NULL) {
        s->direct = sft__fs_open_direct(fd);
        if (s->direct < 0) {
            reason = "the file system has no direct reads";
        } else if (wanted == SFT_STRATEGY_URING) {
            sft__io_uring *ring = sft__io_uring_open(NULL);
            s->choice.strategy = ring != NULL ? SFT_STRATEGY_URING : SFT_STRATEGY_DIRECT;
            reason = ring != NULL ? asked : "io_uring is not to be had here, direct reads are";
            sft__io_uring_close(ring);
        } else {
            s->choice.strategy = SFT_STRATEGY_DIRECT;
            reason =
                wanted == SFT_STRATEGY_AUTO ? "a large file, mostly not in the page cache" : asked;
        }
    }
    s->choice.reason = reason;
}

/* Whole pages directly, from the page of the first byte to that of the last, or to the last whole
 * one of the file; the rest through the cache. */
sft_status sft__move_load_read(sft__move_load_source *s, const sft_source *source, uint64_t offset,
                               uint64_t size, uint8_t *dst, sft_error *err) {
    const uint64_t mask = SFT__FS_DIRECT_ALIGN - 1;
    const uint64_t file_pages = sft_source_size(source) & ~mask;
    const uint64_t end = offset + size;
    uint64_t from = offset;

    if (s->direct >= 0 && !atomic_load_explicit(&s->refused, memory_order_relaxed)) {
        const uint64_t a = offset & ~mask;
        uint64_t b = (end + mask) & ~mask; /* a file is far from 2^64 long */
        b = b < file_pages ? b : file_pages;
        if (b > a && sft__fs_read_direct(s->direct, a, dst - (offset - a), (size_t)(b - a))) {
            from = b < end ? b : end;
        } else if (b > a) {
            atomic_store_explicit(&s->refused, true, memory_order_relaxed);
        }
    }
    return from == end ? SFT_OK
                       : sft_source_read(source, from, dst + (size_t)(from - offset),
                                         (size_t)(end - from), err);
}

void sft__move_load_stamp(sft__move_load_source *s, const sft_source *source) {
    s->stamped = sft__fs_stamp_fd(sft_source_descriptor(source), &s->stamp);
}

bool sft__move_load_changed(const sft__move_load_source *s, const sft_source *source) {
    sft__fs_stamp now;
    return s->stamped && sft__fs_stamp_fd(sft_source_descriptor(source), &now) &&
           (now.size != s->stamp.size || now.mtime_ns != s->stamp.mtime_ns);
}

sft_strategy sft__move_load_told(const sft__move_load_source *s, const char **reason) {
    const bool used = s != NULL && s->choice.reason != NULL;
    const bool refused = used && atomic_load_explicit(&s->refused, memory_order_relaxed);

    if (reason != NULL) {
        *reason = refused ? "direct reads were refused, the page cache was used"
                  : used  ? s->choice.reason
                          : "nothing of the file was wanted";
    }
    return refused ? SFT_STRATEGY_READ : used ? s->choice.strategy : SFT_STRATEGY_AUTO;
}

sft_status sft_strategy_choose(const sft_catalog *catalog, size_t file, sft_strategy wanted,
                               sft_strategy_choice *out, sft_error *err) {
    sft__move_load_source s;

    if (catalog == NULL || out == NULL || (uint32_t)wanted > SFT_STRATEGY_URING) {
        return sft__base_fail(err, SFT_E_ARG, "catalog or out is NULL, or the strategy is unknown");
    }
    memset(out, 0, sizeof *out);
    const sft_file *f = sft_catalog_file_at(catalog, file);
    if (f == NULL) {
        return sft__base_fail(err, SFT_E_RANGE, "the catalog has %llu files",
                              (unsigned long long)sft_catalog_file_count(catalog));
    }
    memset(&s, 0, sizeof s);
    s.wanted = f->data_bytes;
    sft__move_load_choose(&s, sft_catalog_source_at(catalog, f->source), wanted, false);
    sft__fs_close_direct(s.direct);
    *out = s.choice;
    return SFT_OK;
}
