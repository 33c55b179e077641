/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/run/run.h - what the files of this room share: an open run, a step that is being saved. Read
 * <sft/run.h> and docs/run.md first; then steps.h (what is on the disk).
 *
 *   open.c    the directory, its lock, run.json          work.c    the thread behind
 *   save.c    what a step is to hold                     write.c   files, manifest, rename
 *   files.c   tensors divided into files                 link.c    a file that did not change
 *   stage.c   into an arena, by all threads              remove.c  what the rules do not keep
 *   queue.c   steps to be written, arenas, poll, wait,   resume.c  the newest step that is good
 *             failures                                   point.c   what it holds
 *   marks.c   steps that were found to be damaged        back.c    those above an older one
 */
#ifndef SFT_CHECKPOINT_RUN_PRIVATE_H
#define SFT_CHECKPOINT_RUN_PRIVATE_H

#include "base/text/buf.h"
#include "base/text/strmap.h"
#include "base/thread/thread.h"
#include "checkpoint/run/steps.h"

/* ---------------------------------------------------------------- a step that is being saved */

/* One tensor. Begins as a sft__base_strmap wants it. */
typedef struct sft__checkpoint_run_item {
    const char *name;
    size_t name_len;
    sft_run_tensor given; /* name and shape: copies */
    uint64_t file_begin;  /* in the data section of its file */
    uint8_t *staged;
} sft__checkpoint_run_item;

/* A file of tensors: `count` items from `first` on, in the order of the save's `order`. */
typedef struct sft__checkpoint_run_plan {
    char name[64];
    uint32_t part;
    size_t first;
    size_t count;
    sft_metadata_entry *metadata;
    size_t metadata_count;
    const char *info; /* of shards: DCP_SHARDING_INFO; else NULL */
    uint64_t data_bytes;
    uint64_t base; /* where its data section lies in the arena */
} sft__checkpoint_run_plan;

/* An entry of state.json, or a name alone. */
typedef struct sft__checkpoint_run_word {
    const char *name;
    size_t name_len;
    const char *text;
    size_t len;
} sft__checkpoint_run_word;

typedef struct sft__checkpoint_run_words {
    sft__checkpoint_run_word *list;
    size_t count;
    size_t room;
} sft__checkpoint_run_words;

struct sft_run_save {
    struct sft_run_save *next; /* in the queue */
    sft_run *run;
    const sft_allocator *allocator;
    sft__base_arena arena; /* of names, shapes, texts */
    uint64_t step;
    uint64_t ticket;
    int64_t time;
    uint32_t flags;
    sft__checkpoint_run_item *items;
    size_t count;
    size_t room;
    sft__checkpoint_run_words entries;
    sft__checkpoint_run_words metrics;
    sft__checkpoint_run_words files;
    sft__checkpoint_run_words metadata;
    /* made by files.c */
    sft_save_tensor *tensors; /* in the order of the files; data: in the arena of bytes */
    size_t *order;            /* of tensors: the item */
    sft__checkpoint_run_plan *plans;
    size_t plan_count;
    size_t plan_room;
    char token[SFT__RUN_ID + 1]; /* of a group: of this save alone, the same for all */
    uint64_t bytes;              /* of all data sections, each at a page of its own */
    uint32_t slot;               /* which arena */
    uint64_t keep;               /* a step that stays, too; SFT_RUN_NONE: none is named */
    const char *given_up;        /* why this process does not save; NULL: it does */
};

/* ---------------------------------------------------------------- a run */

enum { SFT__RUN_ARENAS = 16, SFT__RUN_FAILED = 64 };

typedef struct sft__checkpoint_run_slot {
    uint8_t *base;
    size_t size;
    bool busy;
    bool lent; /* the copier's memory */
} sft__checkpoint_run_slot;

typedef struct sft__checkpoint_run_failure {
    uint64_t ticket; /* 0: of no save: latest, or a removal */
    sft_error error;
    bool told;
} sft__checkpoint_run_failure;

/* A step that resume has passed over though it is complete. */
typedef struct sft__checkpoint_run_mark {
    uint64_t step;
    bool unread; /* the system did not let it be read, which says nothing about it */
} sft__checkpoint_run_mark;

struct sft_run {
    const sft_allocator *allocator;
    sft_run_options options; /* rules and copier: NULL, or those below */
    sft_run_rules rules;
    sft_copier copier;
    sft__base_arena arena; /* lives as long as the run */
    const char *path;
    char id[SFT__RUN_ID + 1]; /* "" where a run that is read has none */
    sft__fs_handle lock;
    bool read_only;
    bool unfinished; /* a rewind was decided on, and steps above it may have their names still */
    sft_run_save *begun; /* not staged yet */
    sft_run_list *skipped;
    /* shared with the thread behind, under `mutex` */
    sft__base_mutex mutex;
    sft__base_cond changed;
    sft__base_thread thread;
    bool made;    /* mutex and cond exist */
    bool started; /* the thread */
    bool stop;
    sft_run_save *first; /* the queue: the first is being written */
    sft_run_save *last;
    uint64_t tickets; /* given out */
    uint64_t done;    /* written, or failed: all up to this one */
    uint64_t keep;    /* the step that a committed save has named; SFT_RUN_NONE: none */
    sft_run_progress progress;
    sft__checkpoint_run_slot slots[SFT__RUN_ARENAS];
    sft__checkpoint_run_failure failures[SFT__RUN_FAILED];
    size_t failed; /* how many there were: the newest 64 are kept, by number */
    sft__checkpoint_run_mark *marks;
    size_t mark_count;
    size_t mark_room;
};

/* queue.c: the step that was committed last by this run; SFT_RUN_NONE: none. */
uint64_t sft__checkpoint_run_saved(sft_run *run);

/* save.c: are the bytes of what lies here those of its shape? */
sft_status sft__checkpoint_run_check_bytes(const sft_run_tensor *tensor, sft_error *err);
/* Frees what the thread behind has written. */
void sft__checkpoint_run_save_drop(sft_run_save *save);

/* queue.c: a failure, to be told by the next call. */
void sft__checkpoint_run_keep_failure(sft_run *run, uint64_t ticket, const sft_error *error);
/* The oldest failure that no call has told; SFT_OK: there is none. */
sft_status sft__checkpoint_run_tell(sft_run *run, sft_error *err);
/* A free arena of at least `bytes`; waits for one. The save's slot. */
sft_status sft__checkpoint_run_take_slot(sft_run *run, sft_run_save *save, sft_error *err);
void sft__checkpoint_run_give_slot(sft_run *run, const sft_run_save *save);
/* The save is to be written: it is the run's from here on. */
void sft__checkpoint_run_push(sft_run *run, sft_run_save *save);
/* work.c: what the thread behind does until it is stopped. */
void sft__checkpoint_run_work(void *run);

/* files.c: how files of tensors are written; the parts' names; which tensors go to which files, and where.
 * */
#define SFT__RUN_PAGE ((uint64_t)4096)
extern const char *const sft__checkpoint_run_parts[3];
void sft__checkpoint_run_write_options(const sft_run_save *save, sft_write_options *out);
sft_status sft__checkpoint_run_divide(sft_run_save *save, sft_error *err);
/* Its steps, for those who divide otherwise: names that are given twice, but not tensors', and
 * more entries than a reader takes; room; a file; a
 * tensor at its place in the order of files; metadata and places of all files (map: of the tensors' names,
 * or NULL). */
sft_status sft__checkpoint_run_check_words(const sft_run_save *save, sft_error *err);
sft_status sft__checkpoint_run_make_room(sft_run_save *save, sft_error *err);
sft_status sft__checkpoint_run_add_plan(sft_run_save *save, uint32_t part, size_t first,
                                        sft_error *err);
void sft__checkpoint_run_take_item(sft_run_save *save, size_t at, size_t index);
sft_status sft__checkpoint_run_finish_plans(sft_run_save *save, const sft__base_strmap *map,
                                            sft_error *err);
/* An arena of at least so many bytes; what was in it is gone. */
sft_status sft__checkpoint_run_slot_grow(sft_run *run, sft__checkpoint_run_slot *slot, size_t bytes,
                                         sft_error *err);
void sft__checkpoint_run_free_slots(sft_run *run);
/* write.c: one step, from its arena to its name. */
sft_status sft__checkpoint_run_write(sft_run *run, sft_run_save *save, sft_error *err);
/* link.c: makes DIRECTORY/NAME a link to the same file of an older step, if that is equal in every byte.
 * *linked. */
typedef struct sft__checkpoint_run_older {
    const char *path; /* of the step's directory; NULL: there is none */
    const sft__checkpoint_run_manifest *manifest;
} sft__checkpoint_run_older;
sft_status sft__checkpoint_run_link(const sft_run_save *save, const sft__checkpoint_run_plan *plan,
                                    const sft__checkpoint_run_older *older, const char *to,
                                    bool *linked, sft_error *err);
/* marks.c: resume has passed over the complete step; it was saved anew; which steps stay, by the rules and by
 * what the run knows: those passed over do not count, and step `saved` (or SFT_RUN_NONE) stays. */
sft_status sft__checkpoint_run_mark_bad(sft_run *run, uint64_t step, bool unread, sft_error *err);
void sft__checkpoint_run_mark_good(sft_run *run, uint64_t step);
/* Is it damaged, as far as is known? One that could only not be read is not. */
bool sft__checkpoint_run_is_marked(sft_run *run, uint64_t step);
/* The steps above this one (SFT_RUN_NONE: all) are gone, and what the run knows of them. */
void sft__checkpoint_run_unmark(sft_run *run, uint64_t step);
/* SFT_E_EXISTS if a step above this one is there, complete and not passed over, or is being
 * written. */
sft_status sft__checkpoint_run_check_newer(sft_run *run, uint64_t step, sft_error *err);
void sft__checkpoint_run_judge_list(sft_run *run, sft_run_list *list, uint64_t saved);
/* remove.c: what the rules do not keep, but for step `saved`. */
sft_status sft__checkpoint_run_clear(sft_run *run, uint64_t saved, uint64_t *removed,
                                     sft_error *err);
/* `latest`, of a step of this number; SFT_RUN_NONE: there is none any more. */
sft_status sft__checkpoint_run_write_latest(const sft_run *run, uint64_t step, sft_error *err);
/* A step's directory, if it is there, loses its name; what has lost it is removed. */
sft_status sft__checkpoint_run_hide(const sft_run *run, uint64_t step, sft_error *err);
/* The same from the name with one end (NULL: the step's own) to that with another; what is there goes. */
sft_status sft__checkpoint_run_rename(const sft_run *run, uint64_t step, const char *from,
                                      const char *to, sft_error *err);
sft_status sft__checkpoint_run_forget(const sft_run *run, uint64_t step, sft_error *err);
/* An empty staging directory for the step. */
sft_status sft__checkpoint_run_make_staging(const sft_run *run, const sft_run_save *save,
                                            sft_error *err);
/* What killed processes left. */
sft_status sft__checkpoint_run_sweep(const sft_run *run, sft_error *err);
/* back.c: ends a rewind that was decided on, if there is one. */
sft_status sft__checkpoint_run_end_rewind(sft_run *run, sft_error *err);

#endif
