/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * mpitool/main.c - the command safetensors-mpi: the tool's commands that write many files, by all
 * ranks of mpirun together. Nothing but MPI is here; read cli/entry.h first.
 */
#include "cli/entry.h"
#include <mpi.h>
#include <sft/mpi.h>
#include <unistd.h>

/* Threads for each rank, if --jobs does not say: the processors that this one may use; divided by
 * the ranks of the machine where these are not bound to processors of their own. */
static uint32_t threads_each(void) {
    sft_pool *pool = NULL;
    sft_error err;
    MPI_Comm machine;
    int here = 1;
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine) ==
        MPI_SUCCESS) {
        (void)MPI_Comm_size(machine, &here);
        (void)MPI_Comm_free(&machine);
    }
    if (sft_pool_create(&pool, 0, NULL, &err) != SFT_OK) {
        return 1;
    }
    const uint32_t usable = sft_pool_threads(pool);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t ranks = here > 0 ? (uint32_t)here : 1;
    sft_pool_free(pool);
    if (online > 0 && (uint64_t)usable * ranks <= (uint64_t)online) {
        return usable;
    }
    return usable / ranks > 0 ? usable / ranks : 1;
}

int main(int argc, char **argv) {
    int provided = MPI_THREAD_SINGLE;
    int status = 3;
    MPI_Comm all;
    sft_error err;
    sft_group group;

    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) {
        return 3;
    }
    all = MPI_COMM_WORLD;
    if (sft_mpi_group(&group, &all, &err) == SFT_OK) {
        const cli_team team = {&group, provided >= MPI_THREAD_FUNNELED ? threads_each() : 1};
        status = cli_main(argc, argv, &team);
    }
    (void)MPI_Finalize();
    return status;
}
