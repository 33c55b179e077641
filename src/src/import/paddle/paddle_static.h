/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/paddle/paddle_static.h - inside the reader of Paddle's static graphs: paddle_static.c
 * reads the tensors, paddle_names.c their names out of the model that lies beside. Read first:
 * wire.h.
 */
#ifndef SFT_IMPORT_PADDLE_STATIC_H
#define SFT_IMPORT_PADDLE_STATIC_H

#include "import/core/wire.h"

enum { SFT__PADDLE_NAME = 65536 };

/* A parameter of the model. name, len first: sorted by it. */
typedef struct sft__import_paddle_name {
    const char *name;
    size_t len;
    uint64_t dims[SFT__WIRE_RANK]; /* UINT64_MAX: not known */
    uint32_t rank;
    bool shaped;
} sft__import_paddle_name;

typedef struct sft__import_paddle_names {
    sft__import_paddle_name *at; /* of the job's allocator: free it */
    size_t count;
    size_t room;
    const char *model; /* the file they are from; NULL: none is there */
} sft__import_paddle_names;

/* The parameters of the model beside job->path (NAME.pdmodel, NAME.json, __model__), in the order
 * of their tensors. A model that cannot be read is a note, and as if there were none. */
sft_status sft__import_paddle_names_read(sft__import *job, sft__import_paddle_names *names,
                                         sft_error *err);
/* The last part of job->path; NULL: there is none. */
const char *sft__import_paddle_base(const sft__import *job);

#endif
