/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/serve/folder.c - what is served, held in memory: a page that was made, or the files of a folder. Read
 * serve.h first.
 */
#include "cli/operands/scan_dir.h"
#include "cli/serve/serve.h"
#include "cli/sys.h"
#include "cli/ui/text.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 64, MOST_BYTES = 32 << 20 /* of one */ };

static const char *const types[][2] = {
    {".html", "text/html; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".wasm", "application/wasm"},
    {".svg", "image/svg+xml"},
    {".json", "application/json"},
};

static void add(cli_site *site, const char *name, const char *type, char *data, size_t size) {
    site->files = cli_resize(site->files, site->count + 1, sizeof *site->files);
    site->files[site->count++] = (cli_served){cli_copy_of(name), type, data, size};
}

void cli_site_page(cli_site *site, char *html, size_t size) {
    add(site, "", types[0][1], html, size);
}

void cli_site_reset(cli_site *site) {
    for (size_t i = 0; i < site->count; i++) {
        free(site->files[i].name);
        free(site->files[i].data);
    }
    free(site->files);
    site->files = NULL;
    site->count = 0;
    if (site->listening >= 0) {
        cli_socket_close(site->listening);
        site->listening = -1;
    }
}

/* NULL: files of this name are not served. */
static const char *type_of(const char *name) {
    const char *dot = strrchr(name, '.');

    for (const char *at = name; *at != '\0'; at++) {
        if (strchr("-._", *at) == NULL && !(*at >= '0' && *at <= '9') &&
            !((*at | 32) >= 'a' && (*at | 32) <= 'z')) {
            return NULL; /* it would be written otherwise in an address */
        }
    }
    for (size_t i = 0; dot != NULL && name[0] != '.' && i < sizeof types / sizeof types[0]; i++) {
        if (strcmp(dot, types[i][0]) == 0) {
            return types[i][1];
        }
    }
    return NULL;
}

static void on_entry(void *ctx, const char *name, bool is_directory) {
    if (!is_directory && type_of(name) != NULL) {
        cli_strings_take(ctx, cli_copy_of(name));
    }
}

/* ours: it was installed with this program, so links are the installer's. False: reported. */
static bool add_file(cli *c, cli_site *site, const char *folder, const char *name, bool ours) {
    char *path = cli_joined(folder, "/", name);
    char *data = NULL;
    size_t size = 0;
    sft_error err;
    const bool leads_out = !ours && cli_sys_is_link(path) && cli_link_leads_out(folder, path);

    if (leads_out || cli_sys_kind(path) != CLI_KIND_FILE) {
        cli_warn(c, path, "%s: not served",
                 leads_out ? "a link that leads out of the folder" : "no regular file");
        free(path);
        return true;
    }
    const bool good = cli_read_text(path, MOST_BYTES, &data, &size, &err) == SFT_OK;

    if (good) {
        add(site, strcmp(name, "index.html") == 0 ? "" : name, type_of(name), data, size);
    } else {
        cli_fail(c, path, &err);
        free(data);
    }
    free(path);
    return good;
}

static bool has_index(const char *folder) {
    char *path = cli_joined(folder, "/index.html", "");
    const bool has = cli_sys_kind(path) == CLI_KIND_FILE;

    free(path);
    return has;
}

/* The one of a program's prefix; NULL: nothing is there. free() it. */
static char *folder_of(char *program, const char *prefix) {
    char *found = NULL;

    if (program != NULL) {
        program[cli_base_name(program) - program] = '\0';
        found = cli_joined(program, prefix, "/share/libsafetensors/site");
    }
    free(program);
    if (found != NULL && !has_index(found)) {
        free(found);
        found = NULL;
    }
    return found;
}

/* Where `make install` and wheels put it; of a program that is a link, that of the link, or of what it leads
 * to. */
static char *own_folder(void) {
    char *found = folder_of(cli_sys_called(), "..");

    found = found != NULL ? found : folder_of(cli_sys_self(), "..");
#ifdef _WIN32
    found = found != NULL ? found : folder_of(cli_sys_self(), "../.."); /* pip's --user */
#endif
    return found;
}

static bool has_page(const cli_site *site) {
    bool has = false;
    for (size_t i = 0; i < site->count; i++) {
        has = has || site->files[i].name[0] == '\0';
    }
    return has;
}

bool cli_site_folder(cli *c, cli_site *site, const char *folder) {
    char *own = folder == NULL ? own_folder() : NULL;
    const char *from = folder != NULL ? folder : own;
    cli_strings names = {NULL, 0};
    bool good = from != NULL && has_index(from);

    if (from == NULL) {
        cli_usage(c,
                  "which MODEL? Without one the page itself is shown, which opens files that are "
                  "dropped on it: --site names the folder that has it (make site, or the release's "
                  "libsafetensors-VERSION-site.tar.gz)");
    } else if (!good) {
        cli_usage(c, "--site: there is no index.html in \"%s\"", from);
    } else if ((good = cli_sys_list(from, on_entry, &names) == 0) && names.count > MOST_FILES) {
        cli_usage(c, "--site: \"%s\" has more than %d files: this is no site", from, MOST_FILES);
        good = false;
    }
    for (size_t i = 0; good && i < names.count; i++) {
        good = add_file(c, site, from, names.items[i], own != NULL);
    }
    if (good && !has_page(site)) {
        cli_usage(c, "--site: the index.html in \"%s\" is not a file of that folder", from);
        good = false;
    }
    cli_strings_reset(&names);
    free(own);
    return good;
}
