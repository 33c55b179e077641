/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * io/reader.c - how a source is best read, with the sentence that says why; reads through the page cache and
 * past it. See reader.h.
 */
#include "io/reader.h"
#include "base/sizes.h"
#include "io/source.h"

sft_status sft__io_strategy_check(sft_strategy strategy, sft_error *err) {
    if (strategy == SFT_STRATEGY_URING) {
        return sft__base_fail(err, SFT_E_UNSUPPORTED,
                              "reads by io_uring are no longer there: DIRECT is as fast");
    }
    return (uint32_t)strategy <= SFT_STRATEGY_DIRECT
               ? SFT_OK
               : sft__base_fail(err, SFT_E_ARG, "%lu is no strategy", (unsigned long)strategy);
}

/* ---------------------------------------------------------------- the choice */

/* Why AUTO stays with the page cache, or NULL. */
static const char *why_cached(sft__io_reader *r, int fd, sft__fs_kind kind) {
    if (kind != SFT__FS_LOCAL) {
        return kind == SFT__FS_UNKNOWN ? "the file system is not known"
                                       : "not a local disk: large parallel reads, never a mapping";
    }
    if (r->wanted < sft__base_size.load_file ||
        (r->wanted < sft__base_size.load_direct && r->total < sft__base_size.load_direct)) {
        return "too little to be worth going past the page cache";
    }
    r->choice.cached = sft__fs_cached(fd, sft_source_size(r->source));
    if (r->choice.cached < 0) {
        return "the system does not tell what is in the page cache";
    }
    return r->choice.cached >= 50 ? "half of the file or more is in the page cache" : NULL;
}

static void choose(sft__io_reader *r, sft_strategy wanted, bool aligned) {
    static const char asked[] = "it was asked for";
    const int fd = sft_source_descriptor(r->source);
    sft__fs_kind kind = SFT__FS_UNKNOWN;
    const char *reason = NULL;

    r->choice =
        (sft_strategy_choice){.strategy = SFT_STRATEGY_READ, .cached = -1, .file_system = ""};
    if (fd >= 0) {
        kind = sft__fs_system(fd, &r->choice.file_system);
    }
    if (wanted == SFT_STRATEGY_MAP || wanted == SFT_STRATEGY_READ) {
        r->choice.strategy = wanted;
        reason = asked;
    } else if (fd < 0) {
        reason = "the source reads in its own way";
    } else if (kind == SFT__FS_MEMORY) {
        reason = "the file is in memory already";
    } else if (aligned) {
        reason = "tensors are read one by one, to be aligned";
    } else if (wanted == SFT_STRATEGY_AUTO) {
        reason = why_cached(r, fd, kind);
    }
    if (reason == NULL) {
        r->direct = sft__fs_open_direct(fd);
        if (r->direct < 0) {
            reason = "the file system has no direct reads";
        } else {
            r->choice.strategy = SFT_STRATEGY_DIRECT;
            reason =
                wanted == SFT_STRATEGY_AUTO ? "a large file, mostly not in the page cache" : asked;
        }
    }
    r->choice.reason = reason;
}

void sft__io_reader_open(sft__io_reader *r, sft_strategy strategy, bool aligned) {
    r->direct = -1;
    r->batches = sft__io_source_batches(r->source);
    if (r->wanted > 0) {
        choose(r, strategy, aligned);
    }
    r->stamped = sft__fs_stamp_fd(sft_source_descriptor(r->source), &r->stamp);
}

void sft__io_readers_open(sft__io_reader *readers, size_t count, sft_strategy strategy,
                          bool aligned) {
    uint64_t total = 0;

    for (size_t i = 0; i < count; i++) {
        total += readers[i].wanted; /* overflow: a worse choice, no more */
    }
    for (size_t i = 0; i < count; i++) {
        readers[i].total = total;
        sft__io_reader_open(&readers[i], strategy, aligned);
    }
}

void sft__io_reader_close(sft__io_reader *r) {
    sft__fs_close_direct(r->direct);
    r->direct = -1;
}

sft_strategy sft__io_reader_told(const sft__io_reader *r, const char **reason) {
    const bool used = r != NULL && r->choice.reason != NULL;
    const bool refused = used && atomic_load_explicit(&r->refused, memory_order_relaxed);

    if (reason != NULL) {
        *reason = refused ? "direct reads were refused, the page cache was used"
                  : used  ? r->choice.reason
                          : "nothing of the file was wanted";
    }
    return refused ? SFT_STRATEGY_READ : used ? r->choice.strategy : SFT_STRATEGY_AUTO;
}

/* ---------------------------------------------------------------- reads */

/* Whole pages directly, from the page of the first byte to that of the last, or to the last whole
 * one of the file; the rest through the cache. */
sft_status sft__io_reader_read(sft__io_reader *r, uint64_t offset, uint64_t size, uint8_t *dst,
                               sft_error *err) {
    const uint64_t mask = SFT__FS_DIRECT_ALIGN - 1;
    const uint64_t file_pages = sft_source_size(r->source) & ~mask;
    const uint64_t end = offset + size;
    uint64_t from = offset;

    if (r->direct >= 0 && !atomic_load_explicit(&r->refused, memory_order_relaxed)) {
        const uint64_t a = offset & ~mask;
        uint64_t b = (end + mask) & ~mask; /* a file is far from 2^64 long */
        b = b < file_pages ? b : file_pages;
        if (b > a && sft__fs_read_direct(r->direct, a, dst - (offset - a), (size_t)(b - a))) {
            from = b < end ? b : end;
        } else if (b > a) {
            atomic_store_explicit(&r->refused, true, memory_order_relaxed);
        }
    }
    return from == end ? SFT_OK
                       : sft_source_read(r->source, from, dst + (size_t)(from - offset),
                                         (size_t)(end - from), err);
}

sft_status sft__io_reader_read_ranges(const sft__io_reader *r, const sft_io_range *ranges,
                                      size_t count, sft_error *err) {
    /* where it does not come in one call, one by one also finds the error */
    if (count > 1 && sft__fs_read_vector(sft_source_descriptor(r->source), ranges, count)) {
        return SFT_OK;
    }
    for (size_t i = 0; i < count; i++) {
        SFT_TRY(sft_source_read(r->source, ranges[i].offset, ranges[i].data, ranges[i].size, err));
    }
    return SFT_OK;
}

/* ---------------------------------------------------------------- changes */

sft_status sft__io_reader_unchanged(const sft__io_reader *r, const char *what, sft_error *err) {
    sft__fs_stamp now;
    const bool changed = r->stamped && sft__fs_stamp_fd(sft_source_descriptor(r->source), &now) &&
                         (now.size != r->stamp.size || now.mtime_ns != r->stamp.mtime_ns);
    return changed ? sft__base_fail(err, SFT_E_CHANGED, "%s changed while it was %s",
                                    sft_source_name(r->source), what)
                   : SFT_OK;
}
