/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/settings/reach.c - two texts of one object that are a module of Python's and a function in
 * it that reaches the operating system or the interpreter: {"mod": "os", "call": "system"}.
 * Whatever the keys of such a pair are, nobody but a program that calls it has use for it. Read
 * first: settings.h.
 */
#include "import/settings/settings.h"

enum {
    OS = 7, /* os, posix, nt */
    SUBPROCESS = 8,
    BUILTINS = 48,
    RUNPY = 64,
    PTY = 128,
    IMPORTLIB = 256,
    CTYPES = 512,
    COMMANDS = 1024,
    SHUTIL = 2048,
    PLATFORM = 4096
};

/* In the order of their bits. */
const char *const sft__import_setting_modules[] = {
    "os",  "posix",     "nt",     "subprocess", "builtins", "__builtin__", "runpy",
    "pty", "importlib", "ctypes", "commands",   "shutil",   "platform",    NULL};

const sft__import_setting_function sft__import_setting_reaching[] = {
    {"system", OS},
    {"popen", OS | PLATFORM},
    {"execl", OS},
    {"execle", OS},
    {"execlp", OS},
    {"execv", OS},
    {"execve", OS},
    {"execvp", OS},
    {"execvpe", OS},
    {"spawnl", OS},
    {"spawnlp", OS},
    {"spawnv", OS},
    {"spawnve", OS},
    {"spawnvp", OS},
    {"posix_spawn", OS},
    {"posix_spawnp", OS},
    {"startfile", OS},
    {"Popen", SUBPROCESS},
    {"run", SUBPROCESS},
    {"call", SUBPROCESS},
    {"check_call", SUBPROCESS},
    {"check_output", SUBPROCESS},
    {"getoutput", SUBPROCESS | COMMANDS},
    {"getstatusoutput", SUBPROCESS | COMMANDS},
    {"eval", BUILTINS},
    {"exec", BUILTINS},
    {"compile", BUILTINS},
    {"getattr", BUILTINS},
    {"breakpoint", BUILTINS},
    {"__import__", BUILTINS | IMPORTLIB},
    {"import_module", IMPORTLIB},
    {"run_path", RUNPY},
    {"run_module", RUNPY},
    {"spawn", PTY},
    {"CDLL", CTYPES},
    {"rmtree", SHUTIL},
    {NULL, 0},
};

uint32_t sft__import_setting_module(const char *key, size_t key_len, const char *text, size_t len) {
    static const char *const says[] = {"mod", "Mod", "MOD", "pack", "pkg",  "lib",
                                       "Lib", "imp", "Imp", "path", "Path", NULL};
    bool any = false;

    for (size_t i = 0; len >= 2 && len <= 11 && says[i] != NULL && !any; i++) {
        any = sft__import_text_has(key, key_len, says[i]);
    }
    for (size_t i = 0; any && sft__import_setting_modules[i] != NULL; i++) {
        if (strlen(sft__import_setting_modules[i]) == len &&
            memcmp(sft__import_setting_modules[i], text, len) == 0) {
            return UINT32_C(1) << i;
        }
    }
    return 0;
}

bool sft__import_setting_reaches(uint32_t set, const char *text, size_t len) {
    for (size_t i = 0; sft__import_setting_reaching[i].name != NULL; i++) {
        const sft__import_setting_function *f = &sft__import_setting_reaching[i];
        if ((f->modules & set) != 0 && strlen(f->name) == len && memcmp(f->name, text, len) == 0) {
            return true;
        }
    }
    return false;
}
