/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * fs/stream_win.c - see stream.h. Bytes go past the C library, whose text mode would change them.
 */
#ifdef _WIN32
#include "fs/stream.h"
#include <io.h>
#include <windows.h>

static const size_t CALL_MAX = (size_t)1 << 30;

static sft_status handle_of(int fd, HANDLE *out, sft_error *err) {
    const intptr_t h = _get_osfhandle(fd);
    if (h == -1 || h == -2) {
        return sft__base_fail_sys(err, SFT_E_IO, ERROR_INVALID_HANDLE, "descriptor %d", fd);
    }
    *out = (HANDLE)h;
    return SFT_OK;
}

sft_status sft__fs_stream_init(sft__fs_stream *stream, int fd, sft_error *err) {
    HANDLE h = INVALID_HANDLE_VALUE;

    memset(stream, 0, sizeof *stream);
    SFT_TRY(handle_of(fd, &h, err));
    stream->handle = (sft__fs_handle)h;
    stream->pipe = GetFileType(h) == FILE_TYPE_PIPE;
    return SFT_OK;
}

sft_status sft__fs_stream_write(const sft__fs_stream *stream, const sft__fs_span *parts,
                                size_t count, sft_error *err) {
    for (size_t i = 0; i < count; i++) {
        const uint8_t *data = parts[i].data;
        size_t size = parts[i].size;
        while (size > 0) {
            DWORD n = 0;
            if (WriteFile((HANDLE)stream->handle, data, (DWORD)(size < CALL_MAX ? size : CALL_MAX),
                          &n, NULL) == 0 ||
                n == 0) {
                return sft__base_fail_sys(err, SFT_E_IO, (int32_t)GetLastError(),
                                          "cannot write to the stream");
            }
            data += n;
            size -= n;
        }
    }
    return SFT_OK;
}

sft_status sft__fs_stream_file(int fd, sft__fs_handle *out, sft_error *err) {
    HANDLE h = INVALID_HANDLE_VALUE;

    *out = SFT__FS_NO_HANDLE;
    SFT_TRY(handle_of(fd, &h, err));
    if (GetFileType(h) != FILE_TYPE_DISK) {
        return sft__base_fail(err, SFT_E_NOT_REGULAR,
                              "descriptor %d is no regular file: use a stream", fd);
    }
    *out = (sft__fs_handle)h;
    return SFT_OK;
}
#else
typedef int sft__fs_stream_win_empty;
#endif
