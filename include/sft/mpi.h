/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/mpi.h - jobs, saves and loads by the ranks of an MPI communicator. In the library
 * libsafetensors-mpi, which is built for one MPI (here Open MPI); everything else is in
 * sft/checkpoint_group.h, and this header only lends it MPI_Allgather and MPI_Barrier.
 *
 * Caveats first.
 *  - `comm` is the address of your MPI_Comm: this header does not include mpi.h, so that no program
 *    that only reads it needs MPI. Every rank of the communicator must make the call.
 *  - MPI is called from the thread that makes the call, and from no other: MPI_THREAD_FUNNELED is
 *    enough, and then it must be the thread that initialised MPI (SFT_E_STATE). A pool's threads
 *    only read and write files.
 *  - Errors of MPI itself go to the communicator's error handler: MPI's own ends the program; with
 *    MPI_ERRORS_RETURN the call fails with SFT_E_IO.
 *  - Open MPI ends all ranks when one of them dies; what was being written has not appeared then.
 */
#ifndef SFT_MPI_H
#define SFT_MPI_H

#include <sft/checkpoint_group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The communicator as a group, for all functions that take one. comm is borrowed: it must stay, at
 * this address, as long as the group is used. SFT_E_STATE: MPI is not initialised, or finalised, or
 * this is a thread that may not call it. */
SFT_API SFT_MUST_CHECK sft_status sft_mpi_group(sft_group *out, const void *comm, sft_error *err);

/* sft_checkpoint_save_group and sft_checkpoint_load_group over a communicator. A job goes over one with
 * sft_mpi_group and sft_job_run_group. */
SFT_API SFT_MUST_CHECK sft_status sft_mpi_save(const void *comm, const char *path,
                                               const sft_group_tensor *tensors, size_t count,
                                               const sft_group_save_options *options,
                                               sft_group_result *result, sft_error *err);
SFT_API SFT_MUST_CHECK sft_status sft_mpi_load(const void *comm, const char *path,
                                               const sft_group_tensor *tensors, size_t count,
                                               const sft_group_load_options *options,
                                               sft_group_result *result, sft_error *err);

#ifdef __cplusplus
}
#endif
#endif
