/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/fault/scenario.h - what is done while things fail: saves, edits and reads, each with the
 * folder that it starts from. A folder's whole content can be taken as a snapshot and compared.
 */
#ifndef SFT_TESTS_FAULT_SCENARIO_H
#define SFT_TESTS_FAULT_SCENARIO_H

#define SFT_FILES_SHARED
#include "unit/files.h"

#include <stdbool.h>

#include <sft/sft.h>

typedef struct scenario {
    const char *name;
    void (*prepare)(void); /* fills the empty folder */
    sft_status (*run)(const sft_allocator *allocator, sft_error *err);
    bool writes;  /* files: before or after, nothing between */
    bool torn;    /* SFT_EDIT_IN_PLACE: said to be unsafe, anything may be left */
    bool two;     /* writes a sidecar, too: the file may be there before it */
    bool unnamed; /* a save of a new file: a kill leaves nothing behind at all where O_TMPFILE works
                   */
} scenario;

extern const scenario scenarios[];
extern const size_t scenario_count;

int scenarios_open(void **state); /* makes the data, and a folder in /tmp */
int scenarios_open_quick(
    void **state); /* the same in memory, where fsync costs nothing, if there is such */
int scenarios_close(void **state); /* drops it */

/* All names of the folder with type, mode and content, sorted. skip_temporary: without
 * .NAME.tmp.RANDOM. */
typedef struct snapshot {
    char *bytes;
    size_t size;
    int temporary; /* how many names looked temporary */
} snapshot;

void snapshot_take(snapshot *s, bool skip_temporary);
bool snapshot_equal(const snapshot *a, const snapshot *b);
void snapshot_drop(snapshot *s);

/* Of scenarios that write two files: what the folder is like between them. keep before the run,
 * after it snapshot_between, which puts the old sidecar back. */
typedef struct sidecar {
    char *bytes; /* NULL: there was none */
    size_t size;
} sidecar;

sidecar sidecar_keep(void);
void snapshot_between(snapshot *s, sidecar *old, bool skip_temporary);

#endif
