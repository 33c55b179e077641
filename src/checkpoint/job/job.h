/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/job/job.h - what a job is made of. Its plan, each file calling only those before it:
 * job_header.c: headers; job_pieces.c: from pieces to runs and moves; job_bands.c: moves gathered into
 * bands; job_units.c: shares of work, costs and the key; job.c: the public face. job_copy.c carries one
 * share out; run.h: all of them, by way of stage/journal.h, stage/stage.h and stage/outputs.h. Read
 * <sft/job.h> first.
 *
 * Bytes take one of three ways. A *run* is contiguous in its source and in its file, and large, or
 * all there is. Tensors that consist of many short runs are *moves* between *nodes*: a source node
 * is a tensor in a source file, a target node one in an output. Nodes that are linked by moves make
 * a *cluster*, and are placed in one grid; a *band* is a slice of that grid, for which every source
 * node is read once, every target node written once. What fits neither (strides that grow inwards,
 * negative ones) is read as a *whole* by the core, block by block.
 */
#ifndef SFT_CHECKPOINT_JOB_H
#define SFT_CHECKPOINT_JOB_H

#include "base/checked.h"
#include "base/error.h"
#include "base/memory/alloc.h"
#include "base/sizes.h"
#include "base/text/buf.h"
#include "checkpoint/more.h"
#include "fs/file.h"
#include <sft/extend.h>
#include <sft/job.h>

enum { SFT__JOB_RANK = 60 }; /* dimensions of a tensor in bands, at most */

typedef struct sft__checkpoint_job_source {
    const sft_source *source;
    uint64_t size;
    int64_t mtime_ns;
    uint64_t device; /* with `number`: which file it is */
    uint64_t number; /* of what is no file: its version, 0: not known */
    bool timed;      /* it is a file: mtime_ns, device and number are known */
} sft__checkpoint_job_source;

typedef struct sft__checkpoint_job_run {
    uint64_t from;
    uint64_t to;
    uint64_t size;
    uint32_t source;
    uint32_t file;
} sft__checkpoint_job_run;

/* Arrays have as many entries as the target tensor has dimensions. Elements are blocks of the
 * dtype. */
typedef struct sft__checkpoint_job_move {
    uint64_t from; /* of the first element, in the source */
    const uint64_t *count;
    const uint64_t *from_stride; /* bytes */
    const uint64_t *start;       /* in the target node */
    const uint64_t *position;    /* in the source node */
    uint32_t source_node;        /* the source itself, until there are nodes */
    uint32_t target_node;
    uint32_t rank;
    uint32_t element; /* bytes */
} sft__checkpoint_job_move;

typedef struct sft__checkpoint_job_node {
    uint64_t base; /* of its first byte */
    uint64_t end;  /* behind its last one */
    const uint64_t *stride;
    uint64_t *count;
    int64_t *at;    /* its first element in the cluster's grid */
    uint32_t where; /* source, or file */
    uint32_t rank;
    uint32_t element; /* bytes */
    uint32_t next;    /* union-find, then the cluster */
    uint64_t low;     /* what is wanted of each row: bytes [low, low + pitch) */
    uint64_t pitch;   /* bytes per row in the buffer */
    uint32_t tensor;  /* position in the file's list; targets only */
    bool target;
    bool placed; /* at is known */
    bool lost;   /* not to be done by bands */
    bool rows;   /* read row by row, not all between them */
} sft__checkpoint_job_node;

typedef struct sft__checkpoint_job_cluster {
    size_t first_node;
    size_t node_count;
    size_t first_move;
    size_t move_count;
    uint64_t *extent;
    uint32_t rank;
    uint32_t level; /* bands are slices of this dimension, one index of each before it */
    uint64_t rows;  /* of one band */
    uint64_t bands;
    uint64_t room;  /* bytes of one band */
    uint64_t bytes; /* of all target nodes */
} sft__checkpoint_job_cluster;

typedef struct sft__checkpoint_job_whole {
    const sft_catalog *catalog;
    const sft_tensor *tensor;
    uint64_t to;
    uint32_t file;
} sft__checkpoint_job_whole;

typedef struct sft__checkpoint_job_file {
    sft_job_file given; /* name and metadata are copies */
    uint64_t size;
    uint64_t header;
    size_t count;        /* tensors */
    uint64_t *offsets;   /* of their bytes in the file */
    size_t source_table; /* the catalog's sources: position of the first in source_index */
    size_t first_run;
    size_t run_count;
    uint64_t pieces; /* contiguous ones */
    uint64_t source_count;
    uint64_t read;
} sft__checkpoint_job_file;

typedef enum sft__checkpoint_unit_kind {
    SFT__UNIT_RUNS,
    SFT__UNIT_BANDS,
    SFT__UNIT_WHOLE
} sft__checkpoint_unit_kind;

typedef struct sft__checkpoint_job_unit {
    uint32_t kind;
    uint32_t which; /* file, cluster or whole */
    uint64_t first; /* byte of the file, band, or byte of the tensor */
    uint64_t end;
    uint64_t bytes; /* written */
} sft__checkpoint_job_unit;

struct sft_job {
    const sft_allocator *allocator;
    sft__base_arena arena;
    sft_order order;
    uint64_t data_alignment;
    uint32_t digests;         /* SFT_DIGEST_* that go into the headers */
    const sft_limits *limits; /* NULL, or the copy below */
    sft_limits limits_given;
    sft__checkpoint_job_file *files;
    size_t count;
    sft_job_text *texts;
    size_t text_count;
    sft__checkpoint_job_source *sources;
    size_t source_count;
    size_t source_room;
    uint32_t *by_descriptor; /* number of a source + 1; 0: none */
    size_t descriptor_room;
    uint32_t *source_index; /* of every catalog's sources: their numbers here */
    size_t source_index_count;
    size_t source_index_room;
    uint32_t *stamps; /* by source: the last file that was seen to use it */
    size_t stamp_room;
    sft__checkpoint_job_run *runs; /* by file, then by place */
    size_t run_count;
    size_t run_room;
    sft__checkpoint_job_move *moves; /* by cluster */
    size_t move_count;
    size_t move_room;
    sft__checkpoint_job_node *nodes; /* by cluster */
    size_t node_count;
    size_t node_room;
    sft__checkpoint_job_cluster *clusters;
    size_t cluster_count;
    size_t cluster_room;
    sft__checkpoint_job_whole *wholes;
    size_t whole_count;
    size_t whole_room;
    sft__checkpoint_job_unit *units;
    size_t unit_count;
    size_t unit_room;
    uint64_t room; /* bytes of the buffer for any share */
    sft_job_cost total;
    uint8_t plan_key[32]; /* of everything but the sources' identities */
    uint8_t key[32];
};

static inline const sft_tensor *sft__checkpoint_job_tensor(const sft__checkpoint_job_file *f,
                                                           size_t i) {
    return sft_catalog_at(f->given.catalog, f->given.tensors != NULL ? f->given.tensors[i] : i);
}

/* The name of an output: files, then texts. */
static inline const char *sft__checkpoint_job_name(const sft_job *job, size_t i) {
    return i < job->count ? job->files[i].given.name : job->texts[i - job->count].name;
}

/* The header of a file, and where its tensors lie (count entries, or NULL). */
sft_status sft__checkpoint_job_header(const sft_job *job, const sft__checkpoint_job_file *f,
                                      sft__base_buf *out, uint64_t *offsets, sft_error *err);
#define SFT__JOB_CRC_KEY "sft.crc32c"
#define SFT__JOB_SHA_KEY "sft.sha256"
/* Is it what digests of tensors are recorded under? They are of one file, and go with no other. */
bool sft__checkpoint_job_is_digest(const sft_metadata_entry *entry);
/* Gives the file's metadata zeros in the places of its digests. */
sft_status sft__checkpoint_job_places(sft_job *job, sft__checkpoint_job_file *f, sft_error *err);
/* Number of a source in the job; added if it is new. */
sft_status sft__checkpoint_job_add_source(sft_job *job, const sft_source *source, uint32_t *index,
                                          sft_error *err);
/* Runs, moves, target nodes and wholes of one file, whose offsets are known. */
sft_status sft__checkpoint_job_take_file(sft_job *job, uint32_t file, sft_error *err);
/* A copy of the node with counts and place of its own, all zero. */
sft_status sft__checkpoint_job_add_node(sft_job *job, const sft__checkpoint_job_node *node,
                                        sft_error *err);
sft_status sft__checkpoint_job_add_whole(sft_job *job, uint32_t file, size_t tensor,
                                         sft_error *err);
/* Source nodes, clusters and bands, from all moves. */
sft_status sft__checkpoint_job_gather(sft_job *job, sft_error *err);
/* Sorts the runs, divides everything into units, adds up costs, makes the keys. */
sft_status sft__checkpoint_job_divide(sft_job *job, sft_error *err);

/* ---------------------------------------------------------------- copying */

/* Bytes of an output. */
typedef struct sft__checkpoint_range {
    uint32_t file;
    uint64_t offset;
    uint64_t size;
} sft__checkpoint_range;

/* Where the bytes of a unit go; or, to look at what is there, come from. */
typedef struct sft__checkpoint_job_sink {
    void *ctx;
    sft_status (*put)(void *ctx, uint32_t file, uint64_t offset, uint8_t *data, size_t size,
                      sft_error *err);
    /* Bytes of a source from `from` on straight into the file, as many as can go so (*moved); NULL: none. */
    sft_status (*move)(void *ctx, sft__checkpoint_range to, int fd, uint64_t from, uint64_t *moved,
                       sft_error *err);
    uint64_t read; /* bytes, counted */
} sft__checkpoint_job_sink;

/* Carries out one unit in `room` bytes at `buffer`. */
sft_status sft__checkpoint_job_copy(const sft_job *job, const sft__checkpoint_job_unit *unit,
                                    uint8_t *buffer, sft__checkpoint_job_sink *sink,
                                    sft_error *err);
/* The ranges that the unit writes, in the order of writing, without their bytes. */
typedef sft_status (*sft__checkpoint_job_visit)(void *ctx, sft__checkpoint_range range,
                                                sft_error *err);
sft_status sft__checkpoint_job_ranges(const sft_job *job, const sft__checkpoint_job_unit *unit,
                                      sft__checkpoint_job_visit visit, void *ctx, sft_error *err);

#endif
