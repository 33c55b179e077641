/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A child process truncates a file and makes it whole again, in a loop, while this one reads tensors from a
 * handle opened when the file was whole: 100,000 reads that succeed or fail with an error, and no signal.
 * Half of the reads go through a handle that has the file mapped.
 */
#include "stress.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 64, COLS = 1024, READS = 100000 };

static const char *const path = "stress_truncate.safetensors";

static _Noreturn void shrink_and_grow(void) {
    static uint8_t bytes[ROWS * COLS + 4096];
    const int fd = open(path, O_RDWR);
    REQUIRE(fd >= 0);
    const ssize_t size = pread(fd, bytes, sizeof bytes, 0);
    REQUIRE(size > ROWS * COLS);
    for (unsigned i = 0;; i++) {
        REQUIRE(ftruncate(fd, (off_t)(i * 977u % (unsigned)size)) == 0);
        (void)usleep(i % 50);
        REQUIRE(pwrite(fd, bytes, (size_t)size, 0) == size);
        (void)usleep(i % 30);
    }
}

int main(void) {
    static uint8_t data[ROWS * COLS];
    static uint8_t out[ROWS * COLS];
    const uint64_t shape[2] = {ROWS, COLS};
    const sft_slice column[2] = {{SFT_OMIT, SFT_OMIT, 1, SFT_SLICE_RANGE, 0},
                                 {17, 900, 1, SFT_SLICE_RANGE, 0}};
    unsigned good = 0;
    unsigned refused = 0;
    sft_catalog *catalogs[2];
    sft_open_options oopt;
    sft_write_options wopt;
    sft_read_options ropt;
    sft_error err;

    for (uint32_t i = 0; i < sizeof data; i++) {
        data[i] = pattern(0, i);
    }
    const sft_save_tensor tensor = {"w", 1, sft_dtype_get(SFT_U8), shape, 2, 0, data, sizeof data};
    SFT_INIT(&wopt);
    wopt.durability = SFT_DURABLE_NONE;
    REQUIRE_OK(sft_save(path, &tensor, 1, NULL, 0, &wopt, &err), err);
    for (int i = 0; i < 2; i++) {
        SFT_INIT(&oopt);
        oopt.access = i == 0 ? SFT_ACCESS_READ : SFT_ACCESS_MAP;
        REQUIRE_OK(sft_catalog_open(&catalogs[i], path, &oopt, &err), err);
    }
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        shrink_and_grow();
    }
    SFT_INIT(&ropt);
    ropt.slices = column;
    ropt.slice_count = 2;
    for (unsigned i = 0; i < READS; i++) {
        const sft_catalog *c = catalogs[i % 2];
        const sft_tensor *w = sft_catalog_find(c, "w", 1);
        const sft_status st =
            sft_tensor_read(c, w, i % 4 < 2 ? NULL : &ropt, out, sizeof out, &err);
        if (st == SFT_OK) {
            good++;
        } else {
            REQUIRE(st == SFT_E_TRUNCATED || st == SFT_E_CHANGED);
            REQUIRE(err.message[0] != '\0');
            refused++;
        }
    }
    REQUIRE(kill(child, SIGKILL) == 0);
    REQUIRE(waitpid(child, NULL, 0) == child);
    for (int i = 0; i < 2; i++) {
        sft_catalog_close(catalogs[i]);
    }
    REQUIRE(unlink(path) == 0);
    printf("%u reads while the file shrank and grew: %u whole, %u refused, no signal\n", READS,
           good, refused);
    REQUIRE(refused > 0);
    return 0;
}
