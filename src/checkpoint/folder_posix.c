/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * checkpoint/folder_posix.c - the entries of a folder. Read checkpoint/layout_set.h first.
 */
#ifndef _WIN32
#include "base/error.h"
#include "checkpoint/layout_set.h"
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

bool sft__ck_is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

sft_status sft__ck_list(const char *folder, sft__ck_visit visit, void *ctx, sft_error *err) {
    DIR *const d = opendir(folder);
    sft_status status = SFT_OK;
    if (d == NULL) {
        return sft__fail_sys(err, SFT_E_IO, errno, "cannot list the folder");
    }
    while (status == SFT_OK) {
        errno = 0;
        const struct dirent *const e = readdir(d);
        if (e == NULL) {
            status =
                errno != 0 ? sft__fail_sys(err, SFT_E_IO, errno, "cannot list the folder") : SFT_OK;
            break;
        }
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            status = visit(ctx, e->d_name, strlen(e->d_name), err);
        }
    }
    (void)closedir(d);
    return status;
}
#endif
