/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/settings/files.c - files that a program of their own acts upon, told by their name and
 * what is in them: lists of packages that pip and conda install (mlflow restores them), scripts of
 * package.json and its like. Read first: settings.h.
 */
#include "import/settings/settings.h"

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r';
}

bool sft__import_setting_is_requirements(const char *name) {
    static const char *const names[] = {"conda.yaml",      "conda.yml",       "environment.yaml",
                                        "environment.yml", "python_env.yaml", "python_env.yml",
                                        "constraints.txt", "requires.txt"};
    const char *base = sft__import_content_base(name);
    const char *word = strstr(base, "requirements");

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(base) == strlen(names[i]) && sft__import_content_ends(base, names[i])) {
            return true;
        }
    }
    word = base - name >= 13 && memcmp(base - 13, "requirements", 12) == 0 ? base : word;
    return word != NULL &&
           (sft__import_content_ends(base, ".txt") || sft__import_content_ends(base, ".in"));
}

/* Does the line take a package from elsewhere than from the index that pip is set to? */
static bool is_elsewhere(const char *p, size_t len) {
    static const char *const begins[] = {"-i ",
                                         "--index-url",
                                         "--extra-index-url",
                                         "-f ",
                                         "--find-links",
                                         "--trusted-host",
                                         "-e ",
                                         "--editable",
                                         "--pre-install",
                                         "./",
                                         "../",
                                         "/",
                                         "~",
                                         "file:",
                                         "--global-option",
                                         "--config-settings",
                                         "--install-option"};
    static const char *const known[] = {"https://pypi.org/simple",
                                        "https://download.pytorch.org/whl"};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (sft__import_text_has(p, len, known[i]) && !sft__import_text_has(p, len, "git+") &&
            !sft__import_text_has(p, len, "@")) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++) {
        if (sft__import_text_starts(p, len, begins[i])) {
            return true;
        }
    }
    if (sft__import_text_starts(p, len, "-r") || sft__import_text_starts(p, len, "-c") ||
        sft__import_text_starts(p, len, "--r") || sft__import_text_starts(p, len, "--c")) {
        return sft__import_text_has(p, len, "://") || sft__import_text_has(p, len, "../") ||
               sft__import_text_has(p, len, " /"); /* other files */
    }
    return sft__import_text_has(p, len, "://") || sft__import_text_has(p, len, " @ ") ||
           sft__import_text_has(p, len, ".whl") || sft__import_text_has(p, len, ".tar.gz");
}

/* One line, without a list's mark, quotes, and what stands behind " #". */
static void trim(const char **begin, const char **end) {
    const char *p = *begin;
    const char *stop = *end;

    while (p < stop && (is_blank(*p) || *p == '"' || *p == '\'' ||
                        (*p == '-' && p + 1 < stop && is_blank(p[1])))) {
        p++;
    }
    for (const char *q = p; q < stop; q++) {
        if (*q == '#' && (q == p || is_blank(q[-1]))) {
            stop = q;
        }
    }
    *begin = p;
    *end = stop;
}

/* The end of the line at p, as Python's str.splitlines() sees it; the bytes of an end that are more
 * than one begin the next line. */
static const char *line_end(const char *p, const char *end) {
    for (; p < end; p++) {
        const size_t left = (size_t)(end - p);
        if (*p == '\n' || *p == '\r' || *p == '\f' || *p == '\v' || (*p >= 0x1c && *p <= 0x1e) ||
            (left >= 2 && memcmp(p, "\xc2\x85", 2) == 0) ||
            (left >= 3 && memcmp(p, "\xe2\x80", 2) == 0 && (p[2] == '\xa8' || p[2] == '\xa9'))) {
            return p;
        }
    }
    return end;
}

/* Behind that end. */
static const char *next_line(const char *p, const char *end) {
    const size_t n = p == end ? 0 : *p == '\xc2' ? 2 : *p == '\xe2' ? 3 : 1;
    return p + n;
}

bool sft__import_setting_is_entry_points(const char *name) {
    const char *base = sft__import_content_base(name);
    return strlen(base) == 16 && sft__import_content_ends(base, "entry_points.txt");
}

bool sft__import_setting_entry_points(const sft__import_content *c) {
    const char *text = (const char *)c->data;
    const char *end = text + c->len;
    bool loaded = false;
    bool good = true;

    for (const char *p = text; p < end && !sft__import_content_is_tired(c);) {
        const char *stop = line_end(p, end);
        const char *next = next_line(stop, end);
        while (p < stop && is_blank(*p)) {
            p++;
        }
        const size_t n = (size_t)(stop - p);
        if (n != 0 && *p == '[') { /* programs by name are run by nobody but who calls them */
            loaded = !sft__import_text_starts(p, n, "[console_scripts]") &&
                     !sft__import_text_starts(p, n, "[gui_scripts]");
        } else if (n != 0 && *p != '#' && *p != ';' && loaded && memchr(p, '=', n) != NULL) {
            sft__import_content_find(
                c, SFT_SCAN_UNKNOWN, "code-file", (size_t)(p - text), p, n < 160 ? n : 160,
                "an entry point: programs load such of every package that they find");
            good = false;
        }
        p = next;
    }
    return good;
}

bool sft__import_setting_requirements(const sft__import_content *c) {
    const char *text = (const char *)c->data;
    const char *end = text + c->len;
    bool good = true;

    for (const char *p = text; p < end && !sft__import_content_is_tired(c);) {
        const char *next = line_end(p, end);
        const char *begin = p;
        const char *stop = next;
        trim(&begin, &stop);
        const size_t n = (size_t)(stop - begin);
        if (is_elsewhere(begin, n)) {
            sft__import_content_find(c, SFT_SCAN_UNKNOWN, "config-path", (size_t)(begin - text),
                                     begin, n < 160 ? n : 160,
                                     "a package from elsewhere, whose installation runs code");
            good = false;
        }
        p = next_line(next, end);
    }
    return good;
}

typedef struct file_key {
    const char *file; /* how the name begins */
    const char *key;
    unsigned depth; /* 0: any */
    const char *sentence;
} file_key;

const char *sft__import_setting_of_file(const char *name, const char *key, unsigned depth) {
    static const file_key rows[] = {
        {"package.json", "scripts", 1, "commands that npm runs, some when it installs"},
        {"app.json", "scripts", 1, "commands that a server runs"},
        {"app.json", "buildpacks", 1, "programs that a server builds with"},
        {"tasks.json", "command", 0, "a command that an editor runs"},
        {"launch.json", "program", 0, "a program that an editor runs"},
        {"launch.json", "runtimeExecutable", 0, "a program that an editor runs"},
        {"launch.json", "preLaunchTask", 0, "a command that an editor runs"},
        {"launch.json", "command", 0, "a command that an editor runs"},
        {"tsconfig", "plugins", 0, "plugins that an editor or a compiler loads"},
        {"jsconfig", "plugins", 0, "plugins that an editor or a compiler loads"},
    };
    const char *base = sft__import_content_base(name);

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (sft__import_text_starts(base, strlen(base), rows[i].file) &&
            strcmp(rows[i].key, key) == 0 && (rows[i].depth == 0 || rows[i].depth == depth)) {
            return rows[i].sentence;
        }
    }
    return NULL;
}
