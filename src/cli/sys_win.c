/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/sys_win.c - sys.h for Windows: UTF-16 underneath, UTF-8 above. Error numbers are
 * GetLastError's. Read sys.h first.
 */
#ifdef _WIN32

#include "cli/sys.h"
#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <shellapi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile LONG interrupted;
static volatile LONG catching;
static cli_sys_file *pending;

static BOOL WINAPI on_event(DWORD event) {
    (void)event;
    if (catching == 0 || InterlockedExchange(&interrupted, 1) != 0) {
        return FALSE; /* the default handler ends the process */
    }
    return TRUE;
}

void cli_sys_catch(bool on) {
    (void)InterlockedExchange(&catching, on ? 1 : 0);
}

bool cli_sys_interrupted(void) {
    return interrupted != 0;
}

bool cli_sys_catch_lost_pages(void) {
    return false;
}

bool cli_sys_lost_pages(void) {
    return false;
}

static wchar_t *to_wide(const char *text) {
    const int n = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    wchar_t *wide = n > 0 ? malloc((size_t)n * sizeof *wide) : NULL;
    if (wide != NULL) {
        (void)MultiByteToWideChar(CP_UTF8, 0, text, -1, wide, n);
    }
    return wide;
}

static char *to_utf8(const wchar_t *wide) {
    const int n = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = n > 0 ? malloc((size_t)n) : NULL;
    if (text != NULL) {
        (void)WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, n, NULL, NULL);
    }
    return text;
}

static void remove_pending(void) {
    if (pending != NULL) {
        cli_sys_discard(pending);
    }
}

static void start_console(DWORD which) {
    const HANDLE console = GetStdHandle(which);
    DWORD mode;
    if (GetConsoleMode(console, &mode) != 0) {
        (void)SetConsoleMode(console, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
    }
}

void cli_sys_start(int *argc, char ***argv) {
    int count = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **args = wide != NULL ? calloc((size_t)count + 1, sizeof *args) : NULL;
    bool complete = args != NULL;

    for (int i = 0; complete && i < count; i++) {
        args[i] = to_utf8(wide[i]); /* lives as long as the process */
        complete = args[i] != NULL;
    }
    if (complete) {
        *argc = count;
        *argv = args;
    }
    (void)LocalFree(wide);
    for (int fd = 0; fd <= 2; fd++) {
        (void)_setmode(fd, _O_BINARY);
    }
    (void)SetConsoleOutputCP(CP_UTF8);
    start_console(STD_OUTPUT_HANDLE);
    start_console(STD_ERROR_HANDLE);
    (void)SetConsoleCtrlHandler(on_event, TRUE);
}

static HANDLE handle_of(int fd) {
    return (HANDLE)_get_osfhandle(fd);
}

bool cli_sys_is_terminal(int fd) {
    DWORD mode;
    return GetConsoleMode(handle_of(fd), &mode) != 0;
}

size_t cli_sys_columns(int fd) {
    CONSOLE_SCREEN_BUFFER_INFO info;
    if (GetConsoleScreenBufferInfo(handle_of(fd), &info) == 0 || info.dwSize.X <= 0) {
        return 80;
    }
    return (size_t)info.dwSize.X;
}

double cli_sys_now(void) {
    LARGE_INTEGER count;
    LARGE_INTEGER frequency;
    (void)QueryPerformanceCounter(&count);
    (void)QueryPerformanceFrequency(&frequency);
    return (double)count.QuadPart / (double)frequency.QuadPart;
}

int cli_sys_write(int fd, const void *data, size_t size) {
    const char *at = data;

    while (size > 0) {
        const DWORD part = size < (1u << 30) ? (DWORD)size : (1u << 30);
        DWORD written = 0;
        if (WriteFile(handle_of(fd), at, part, &written, NULL) == 0) {
            return (int)GetLastError();
        }
        at += written;
        size -= written;
    }
    return 0;
}

bool cli_sys_open_stream(const char *path, int *fd) {
    *fd = 0;
    return strcmp(path, "-") == 0;
}

int cli_sys_read(int fd, void *data, size_t size, size_t *got) {
    DWORD n = 0;
    const DWORD most = size < (1u << 30) ? (DWORD)size : (1u << 30);
    const BOOL good = ReadFile(handle_of(fd), data, most, &n, NULL);
    const DWORD error = good ? 0 : GetLastError();

    *got = good ? n : 0;
    return error == ERROR_BROKEN_PIPE ? 0 : (int)error; /* who writes went away: the end */
}

uint64_t cli_sys_stream_stamp(int fd) {
    (void)fd; /* what Windows has open so is a pipe */
    return 0;
}

void cli_sys_close_stream(int fd) {
    (void)fd;
}

bool cli_sys_not_found(int error) {
    return error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND;
}

bool cli_sys_exists_error(int error) {
    return error == ERROR_ALREADY_EXISTS || error == ERROR_FILE_EXISTS;
}

bool cli_sys_closed_pipe(int error) {
    return error == ERROR_BROKEN_PIPE || error == ERROR_NO_DATA;
}

bool cli_sys_regular_fd(int fd) {
    LARGE_INTEGER zero = {.QuadPart = 0};
    LARGE_INTEGER at;
    const HANDLE handle = handle_of(fd);
    return GetFileType(handle) == FILE_TYPE_DISK &&
           SetFilePointerEx(handle, zero, &at, FILE_CURRENT) != 0 && at.QuadPart == 0;
}

const char *cli_sys_text(int error, char *text, size_t cap) {
    const DWORD n = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL,
                                   (DWORD)error, 0, text, (DWORD)cap - 1, NULL);
    size_t len = n;
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == '.')) {
        len--;
    }
    text[len] = '\0';
    if (len == 0) {
        (void)snprintf(text, cap, "system error %d", error);
    }
    return text;
}

cli_kind cli_sys_kind(const char *path) {
    wchar_t *wide = to_wide(path);
    const DWORD attributes = wide != NULL ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    free(wide);
    if (attributes == INVALID_FILE_ATTRIBUTES) {
        return CLI_KIND_NONE;
    }
    return (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0 ? CLI_KIND_FOLDER
           : (attributes & FILE_ATTRIBUTE_DEVICE) != 0  ? CLI_KIND_OTHER
                                                        : CLI_KIND_FILE;
}

static bool identity(const char *path, BY_HANDLE_FILE_INFORMATION *info) {
    wchar_t *wide = to_wide(path);
    bool good = false;
    if (wide == NULL) {
        return false;
    }
    const HANDLE h = CreateFileW(wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                 NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    free(wide);
    if (h != INVALID_HANDLE_VALUE) {
        good = GetFileInformationByHandle(h, info) != 0;
        (void)CloseHandle(h);
    }
    return good;
}

int cli_sys_make_folder(const char *path) {
    wchar_t *wide = to_wide(path);
    const bool made = wide != NULL && CreateDirectoryW(wide, NULL) != 0;
    const int error = made ? 0 : (int)GetLastError();
    free(wide);
    return error;
}

void cli_sys_remove_folder(const char *path) {
    wchar_t *wide = to_wide(path);
    if (wide != NULL) {
        (void)RemoveDirectoryW(wide);
    }
    free(wide);
}

bool cli_sys_same_file(const char *a, const char *b) {
    BY_HANDLE_FILE_INFORMATION ia;
    BY_HANDLE_FILE_INFORMATION ib;
    return identity(a, &ia) && identity(b, &ib) &&
           ia.dwVolumeSerialNumber == ib.dwVolumeSerialNumber &&
           ia.nFileIndexHigh == ib.nFileIndexHigh && ia.nFileIndexLow == ib.nFileIndexLow;
}

uint64_t cli_sys_stamp(const char *path) {
    BY_HANDLE_FILE_INFORMATION info;

    if (!identity(path, &info)) {
        return 0;
    }
    const uint64_t written =
        (uint64_t)info.ftLastWriteTime.dwHighDateTime << 32 | info.ftLastWriteTime.dwLowDateTime;
    return written + ((uint64_t)info.nFileSizeLow << 40) + ((uint64_t)info.nFileIndexLow << 32);
}

bool cli_sys_is_link(const char *path) {
    wchar_t *wide = to_wide(path);
    const DWORD bits = wide != NULL ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    free(wide);
    return bits != INVALID_FILE_ATTRIBUTES && (bits & FILE_ATTRIBUTE_REPARSE_POINT) != 0;
}

char *cli_sys_attributes(const char *path) {
    (void)path;
    return NULL;
}

char *cli_sys_real(const char *path) {
    wchar_t *wide = to_wide(path);
    char *real = NULL;
    const HANDLE h =
        wide == NULL ? INVALID_HANDLE_VALUE
                     : CreateFileW(wide, 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                   NULL, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    free(wide);
    if (h == INVALID_HANDLE_VALUE) {
        return NULL;
    }
    const DWORD n = GetFinalPathNameByHandleW(h, NULL, 0, 0);
    wchar_t *found = n != 0 ? malloc(((size_t)n + 1) * sizeof *found) : NULL;
    if (found != NULL && GetFinalPathNameByHandleW(h, found, n + 1, 0) <= n) {
        real = to_utf8(found);
    }
    free(found);
    (void)CloseHandle(h);
    for (char *p = real; p != NULL && *p != '\0'; p++) {
        *p = *p == '\\' ? '/' : *p;
    }
    return real;
}

int cli_sys_list(const char *folder, cli_sys_entry entry, void *ctx) {
    const size_t size = strlen(folder) + 3;
    char *pattern = malloc(size);
    WIN32_FIND_DATAW data;
    DWORD error = ERROR_SUCCESS;

    if (pattern == NULL) {
        return ERROR_NOT_ENOUGH_MEMORY;
    }
    (void)snprintf(pattern, size, "%s\\*", folder);
    wchar_t *wide = to_wide(pattern);
    free(pattern);
    const HANDLE find = wide != NULL ? FindFirstFileW(wide, &data) : INVALID_HANDLE_VALUE;
    free(wide);
    if (find == INVALID_HANDLE_VALUE) {
        return (int)GetLastError();
    }
    do {
        char *name = to_utf8(data.cFileName);
        const DWORD skip = FILE_ATTRIBUTE_REPARSE_POINT | FILE_ATTRIBUTE_DIRECTORY;
        if (name != NULL && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            entry(ctx, name, (data.dwFileAttributes & skip) == FILE_ATTRIBUTE_DIRECTORY);
        }
        free(name);
    } while (FindNextFileW(find, &data) != 0);
    error = GetLastError();
    (void)FindClose(find);
    return error == ERROR_NO_MORE_FILES ? 0 : (int)error;
}

/* Directories have no locks here. */
int cli_sys_lock_folder(const char *folder, bool shared, bool *busy) {
    (void)folder;
    (void)shared;
    *busy = false;
    return -1;
}

void cli_sys_unlock(int lock) {
    (void)lock;
}

void cli_sys_pause(void) {
    Sleep(50);
}

/* ---------------------------------------------------------------- files that appear whole */

int cli_sys_create(cli_sys_file *f, const char *path) {
    static bool registered;
    const size_t size = strlen(path) + 40;
    int error = ERROR_NOT_ENOUGH_MEMORY;

    f->fd = -1;
    f->temp = NULL;
    f->path = NULL;
    if (cli_sys_kind(path) == CLI_KIND_FOLDER) {
        return ERROR_DIRECTORY;
    }
    f->path = _strdup(path);
    f->temp = f->path != NULL ? malloc(size) : NULL;
    for (unsigned tries = 0; f->temp != NULL && f->fd < 0 && tries < 100; tries++) {
        (void)snprintf(f->temp, size, "%s.tmp%lx-%u", path, (unsigned long)GetCurrentProcessId(),
                       tries);
        wchar_t *wide = to_wide(f->temp);
        const HANDLE h = wide == NULL
                             ? INVALID_HANDLE_VALUE
                             : CreateFileW(wide, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE,
                                           NULL, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, NULL);
        error = (int)GetLastError();
        free(wide);
        if (h == INVALID_HANDLE_VALUE && !cli_sys_exists_error(error)) {
            break;
        }
        f->fd = h == INVALID_HANDLE_VALUE ? -1 : _open_osfhandle((intptr_t)h, _O_BINARY);
    }
    if (f->fd < 0) {
        free(f->temp);
        free(f->path);
        f->temp = NULL;
        f->path = NULL;
        return error;
    }
    if (!registered) {
        registered = atexit(remove_pending) == 0;
    }
    pending = f;
    return 0;
}

int cli_sys_commit(cli_sys_file *f, bool replace) {
    wchar_t *from = to_wide(f->temp);
    wchar_t *to = to_wide(f->path);
    int error = ERROR_NOT_ENOUGH_MEMORY;

    (void)_close(f->fd);
    f->fd = -1;
    if (from != NULL && to != NULL) {
        error = MoveFileExW(from, to, replace ? MOVEFILE_REPLACE_EXISTING : 0) != 0
                    ? 0
                    : (int)GetLastError();
    }
    free(from);
    free(to);
    cli_sys_discard(f);
    return error;
}

void cli_sys_discard(cli_sys_file *f) {
    if (f->fd >= 0) {
        (void)_close(f->fd);
    }
    if (f->temp != NULL) {
        wchar_t *wide = to_wide(f->temp);
        if (wide != NULL) {
            (void)DeleteFileW(wide);
        }
        free(wide);
        free(f->temp);
    }
    free(f->path);
    f->fd = -1;
    f->temp = NULL;
    f->path = NULL;
    pending = NULL;
}

#endif
