/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * mpi/group.c - a communicator as a group. Read <sft/mpi.h> and <sft/checkpoint_group.h> first.
 */
#include <limits.h>
#include <mpi.h>
#include <sft/extend.h>
#include <sft/mpi.h>
#include <stdbool.h>
#include <stdio.h>

static sft_status failed(int code, const char *what, sft_error *err) {
    char text[MPI_MAX_ERROR_STRING + 1];
    int len = 0;
    if (MPI_Error_string(code, text, &len) != MPI_SUCCESS) {
        len = 0;
    }
    text[len] = '\0';
    return sft_error_set(err, SFT_E_IO, 0, SFT_NO_OFFSET, NULL, 0, "%s: %s", what, text);
}

static MPI_Comm comm_of(const void *ctx) {
    return *(const MPI_Comm *)ctx;
}

static sft_status allgather(void *ctx, const void *mine, size_t bytes, void *all, sft_error *err) {
    if (bytes > INT_MAX) { /* SFT_GROUP_BLOCK is far below */
        return sft_error_set(err, SFT_E_LIMIT, 0, SFT_NO_OFFSET, NULL, 0,
                             "%llu bytes at once, MPI takes 2^31 - 1", (unsigned long long)bytes);
    }
    const int n = (int)bytes;
    const int code = MPI_Allgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, comm_of(ctx));
    return code == MPI_SUCCESS ? SFT_OK : failed(code, "MPI_Allgather", err);
}

static sft_status barrier(void *ctx, sft_error *err) {
    const int code = MPI_Barrier(comm_of(ctx));
    return code == MPI_SUCCESS ? SFT_OK : failed(code, "MPI_Barrier", err);
}

/* May this thread call MPI now? */
static bool may_call(void) {
    int yes = 0;
    int level = MPI_THREAD_SINGLE;
    if (MPI_Initialized(&yes) != MPI_SUCCESS || !yes) {
        return false;
    }
    if (MPI_Finalized(&yes) != MPI_SUCCESS || yes) {
        return false;
    }
    if (MPI_Query_thread(&level) != MPI_SUCCESS || level >= MPI_THREAD_SERIALIZED) {
        return true;
    }
    return MPI_Is_thread_main(&yes) != MPI_SUCCESS || yes != 0;
}

sft_status sft_mpi_group(sft_group *out, const void *comm, sft_error *err) {
    int rank = 0;
    int size = 0;
    SFT_INIT(out);
    if (comm == NULL) {
        return sft_error_set(err, SFT_E_ARG, 0, SFT_NO_OFFSET, NULL, 0,
                             "the address of a communicator is needed");
    }
    if (!may_call()) {
        return sft_error_set(err, SFT_E_STATE, 0, SFT_NO_OFFSET, NULL, 0,
                             "MPI is not initialised, or not to be called from this thread");
    }
    if (comm_of(comm) == MPI_COMM_NULL) {
        return sft_error_set(err, SFT_E_ARG, 0, SFT_NO_OFFSET, NULL, 0,
                             "the communicator is MPI_COMM_NULL");
    }
    int code = MPI_Comm_rank(comm_of(comm), &rank);
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_size(comm_of(comm), &size);
    }
    if (code != MPI_SUCCESS) {
        return failed(code, "MPI_Comm_size", err);
    }
    out->rank = (uint32_t)rank;
    out->size = (uint32_t)size;
    out->allgather = allgather;
    out->barrier = barrier;
    out->ctx = (void *)(uintptr_t)comm; /* only read */
    return SFT_OK;
}

sft_status sft_mpi_save(const void *comm, const char *path, const sft_group_tensor *tensors,
                        size_t count, const sft_group_save_options *options,
                        sft_group_result *result, sft_error *err) {
    sft_group g;
    const sft_status status = sft_mpi_group(&g, comm, err);
    return status != SFT_OK
               ? status
               : sft_checkpoint_save_group(&g, path, tensors, count, options, result, err);
}

sft_status sft_mpi_load(const void *comm, const char *path, const sft_group_tensor *tensors,
                        size_t count, const sft_group_load_options *options,
                        sft_group_result *result, sft_error *err) {
    sft_group g;
    const sft_status status = sft_mpi_group(&g, comm, err);
    return status != SFT_OK
               ? status
               : sft_checkpoint_load_group(&g, path, tensors, count, options, result, err);
}
