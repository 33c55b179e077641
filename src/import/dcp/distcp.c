/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/dcp/distcp.c - a file of a distributed checkpoint by itself (__0_0.distcp): archives of
 * torch.save one behind the other, without names. It is refused with a sentence; a scan looks into
 * each archive, from the last one to the first. Read first: dcp.h.
 */
#include "import/dcp/dcp.h"

enum { END = 22, LOCATOR = 20, END64 = 56, ITEMS_MOST = 8192 };
#define SIG_MEMBER  0x04034b50u
#define SIG_END     0x06054b50u
#define SIG_END64   0x06064b50u
#define SIG_LOCATOR 0x07064b50u

/* Where the archive begins that ends at `end`, by its end record (without a comment, as PyTorch writes it);
 * false: none does. */
static bool begin_of(const sft_source *source, uint64_t end, uint64_t *begin) {
    uint8_t tail[END + LOCATOR + END64];
    const size_t len = end < sizeof tail ? (size_t)end : sizeof tail;
    uint8_t mark[4];

    if (len < END || sft_source_read(source, end - len, tail, len, NULL) != SFT_OK) {
        return false;
    }
    const uint8_t *e = tail + len - END;
    uint64_t size = sft__base_load_le32(e + 12);
    uint64_t at = sft__base_load_le32(e + 16);
    uint64_t behind = end - END;
    if (sft__base_load_le32(e) != SIG_END || sft__base_load_le16(e + 20) != 0) {
        return false;
    }
    if (len == sizeof tail && sft__base_load_le32(tail + END64) == SIG_LOCATOR &&
        sft__base_load_le32(tail) == SIG_END64) {
        size = sft__base_load_le64(tail + 40);
        at = sft__base_load_le64(tail + 48);
        behind = end - sizeof tail;
    }
    if (size > behind || at > behind - size) {
        return false;
    }
    *begin = behind - size - at;
    return sft_source_read(source, *begin, mark, sizeof mark, NULL) == SFT_OK &&
           sft__base_load_le32(mark) == SIG_MEMBER;
}

static bool probe(const sft__import_probe *p) {
    static const char name[] = "archive/";
    uint64_t begin;

    return p->head_len > 64 && sft__base_load_le32(p->head) == SIG_MEMBER &&
           memcmp(p->head + 30, name, sizeof name - 1) == 0 &&
           begin_of(p->source, p->size, &begin) && begin != 0;
}

/* One archive: the pickle in it becomes findings. */
static sft_status scan_item(sft__import *job, uint64_t begin, uint64_t end, sft_error *err) {
    const sft_source *outer = job->file;
    const uint32_t flags = job->options.flags;
    sft_source *part;
    sft__import_view view;
    bool tensor;
    bool storages;

    SFT_TRY(sft__import_source_part(&part, outer, (sft__import_extent){begin, end - begin}, "item",
                                    job->allocator, err));
    const sft__base_arena before = job->arena;
    job->file = part;
    const sft_status status = sft__import_torch_zip_item(job, &view, &tensor, &storages, err);
    job->file = outer;
    job->options.flags = flags;
    sft__base_arena_rewind(&job->arena, &before);
    sft_source_close(part);
    return status;
}

static sft_status open_distcp(sft__import *job, sft_error *err) {
    uint64_t end = sft_source_size(job->file);
    uint64_t begin;

    if (!job->scanning) {
        return sft__base_fail_at(
            err, SFT_E_FORMAT, 0,
            "this is a file of a PyTorch distributed checkpoint (DCP): the names of "
            "its tensors are in .metadata; open the directory");
    }
    for (uint32_t i = 0; end != 0; i++) {
        if (i == ITEMS_MOST) {
            return sft__base_fail_at(err, SFT_E_LIMIT, end, "dcp-file: more than %d archives",
                                     (int)ITEMS_MOST);
        }
        if (!begin_of(job->file, end, &begin)) {
            return sft__base_fail_at(err, SFT_E_SCHEMA, end, "dcp-file: no archive ends here");
        }
        SFT_TRY(scan_item(job, begin, end, err));
        end = begin;
    }
    return SFT_OK;
}

const sft__import_reader sft__import_reader_distcp = {SFT_IMPORT_DCP, probe, open_distcp};
