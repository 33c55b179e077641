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

static char *to_utf8(const wchar_t *wide) {
    const int n = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = n > 0 ? malloc((size_t)n) : NULL;
    if (text != NULL) {
        (void)WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, n, NULL, NULL);
    }
    return text;
}

char *cli_sys_called(void) {
    return NULL;
}

char *cli_sys_self(void) {
    static wchar_t path[32768];
    const DWORD n = GetModuleFileNameW(NULL, path, (DWORD)(sizeof path / sizeof path[0]));
    char *text = n > 0 && n < sizeof path / sizeof path[0] ? to_utf8(path) : NULL;
    for (char *p = text; p != NULL && *p != '\0'; p++) {
        *p = *p == '\\' ? '/' : *p;
    }
    return text;
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

void cli_sys_pause(void) {
    Sleep(50);
}

#endif
