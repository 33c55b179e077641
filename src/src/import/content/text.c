/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/text.c - texts beside weights: which names are those of plain texts, which are
 * those of programs, and what a plain text may still make its loader do (tags of YAML, scripts in
 * SVG, a first line that names an interpreter). A text is harmless for what it is *and* how it is
 * called: the same bytes under the name of a program are not. Read first: content.h.
 */
#include "base/text/utf8.h"
#include "import/content/content.h"
#include "import/pickle/globals.h"
#include "import/settings/settings.h"

/* ---------------------------------------------------------------- names */

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

static bool same(const char *a, const char *b, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (lower(a[i]) != b[i]) {
            return false;
        }
    }
    return true;
}

bool sft__import_content_ends(const char *name, const char *end) {
    const size_t n = strlen(name);
    const size_t m = strlen(end);
    return n >= m && same(name + n - m, end, m);
}

bool sft__import_text_starts(const char *text, size_t len, const char *with) {
    const size_t n = strlen(with);
    return len >= n && memcmp(text, with, n) == 0;
}

bool sft__import_text_has(const char *text, size_t len, const char *word) {
    const size_t n = strlen(word);
    const char *end = text + len;

    for (const char *p = text; (size_t)(end - p) >= n; p++) {
        p = memchr(p, word[0], (size_t)(end - p) - n + 1);
        if (p == NULL || memcmp(p, word, n) == 0) {
            return p != NULL;
        }
    }
    return false;
}

bool sft__import_text_is_one(const char *text, size_t len, const char *const *words) {
    for (size_t i = 0; words[i] != NULL && len != 0; i++) {
        if (words[i][0] == text[0] && strncmp(words[i], text, len) == 0 && words[i][len] == '\0') {
            return true;
        }
    }
    return false;
}

const char *sft__import_content_base(const char *name) {
    const char *base = name;
    for (const char *p = name; *p != '\0'; p++) {
        if (*p == '/' || *p == '\\') {
            base = p + 1;
        }
    }
    return base;
}

/* Absolute, a URL, a drive, or with ".." among its parts. */
bool sft__import_content_leads_away(const char *path) {
    if (path[0] == '/' || path[0] == '\\' || path[0] == '~' || strstr(path, "://") != NULL ||
        (path[0] != '\0' && path[1] == ':')) {
        return true;
    }
    for (const char *p = path; *p != '\0'; p++) {
        const bool first = p == path || p[-1] == '/' || p[-1] == '\\';
        if (first && p[0] == '.' && p[1] == '.' && (p[2] == '\0' || p[2] == '/' || p[2] == '\\')) {
            return true;
        }
    }
    return false;
}

/* "x.yaml", "x.yaml.txt" */
static bool is_called(const char *name, const char *end) {
    const size_t n = strlen(end);

    for (const char *p = sft__import_content_base(name); *p != '\0'; p++) {
        if (strlen(p) >= n && same(p, end, n) && (p[n] == '\0' || p[n] == '.')) {
            return true;
        }
    }
    return false;
}

bool sft__import_content_is_toml(const char *name) {
    return is_called(name, ".toml");
}

bool sft__import_content_is_yaml(const char *name) {
    return is_called(name, ".yaml") || is_called(name, ".yml");
}

bool sft__import_content_is_template(const char *name) {
    return is_called(name, ".jinja") || is_called(name, ".jinja2") || is_called(name, ".j2");
}

typedef struct named {
    const char *end;
    const char *sentence;
} named;

static const named programs[] = {
    {".py", "a Python file: trust_remote_code, an import or a plugin runs it"},
    {".pyw", "a Python file"},
    {".pyi", "a Python file"},
    {".pyx", "a Cython file"},
    {".pyc", "compiled Python code: an import runs it"},
    {".pyo", "compiled Python code: an import runs it"},
    {".pyd", "a shared library: an import runs it"},
    {".so", "a shared library: whoever loads it runs it"},
    {".dylib", "a shared library: whoever loads it runs it"},
    {".dll", "a shared library: whoever loads it runs it"},
    {".exe", "a program"},
    {".com", "a program"},
    {".msi", "an installer"},
    {".sh", "a shell script"},
    {".bash", "a shell script"},
    {".zsh", "a shell script"},
    {".fish", "a shell script"},
    {".bat", "a shell script"},
    {".cmd", "a shell script"},
    {".ps1", "a shell script"},
    {".vbs", "a script"},
    {".js", "a script"},
    {".mjs", "a script"},
    {".cjs", "a script"},
    {".ts", "a script"},
    {".wasm", "a program for WebAssembly"},
    {".rb", "a script"},
    {".pl", "a script"},
    {".lua", "a script"},
    {".r", "a script"},
    {".jl", "a script"},
    {".php", "a script"},
    {".ipynb", "a notebook: its cells are code"},
    {".html", "a web page: a browser runs its scripts"},
    {".htm", "a web page: a browser runs its scripts"},
    {".xhtml", "a web page: a browser runs its scripts"},
    {".jar", "a program for Java"},
    {".class", "a program for Java"},
    {".whl", "a Python package: its installation runs code"},
    {".egg", "a Python package: an import runs it"},
    {".deb", "a package: its installation runs code"},
    {".rpm", "a package: its installation runs code"},
    {".cu", "source code: torch.utils.cpp_extension compiles and loads such"},
    {".cuh", "source code: torch.utils.cpp_extension compiles and loads such"},
    {".cpp", "source code: torch.utils.cpp_extension compiles and loads such"},
    {".cc", "source code: torch.utils.cpp_extension compiles and loads such"},
    {".c", "source code: torch.utils.cpp_extension compiles and loads such"},
    {".h", "source code"},
    {".lnk", "a link of Windows: opening it may run a program"},
    {".desktop", "a launcher: opening it runs a program"},
    {".mk", "rules that make runs"},
    {".cmake", "commands that cmake runs"},
    {".awk", "a script"},
    {".tcl", "a script"},
    {".ps1xml", "a shell script"},
    {".psm1", "a shell script"},
    {".applescript", "a script"},
    {".scala", "source code"},
    {".go", "source code"},
    {".rs", "source code: a build runs build.rs"},
    {".java", "source code"},
    {".vue", "a script"},
    {".jsx", "a script"},
    {".tsx", "a script"},
    {".hta", "a web page that runs as a program"},
    {".service", "a unit: systemd runs what it names"},
    {".code-workspace", "settings and tasks that an editor acts upon"},
    {".sublime-project", "settings and tasks that an editor acts upon"},
};

/* Whole names, with anything that begins with a dot or a hyphen behind them where it ends in '*'.
 */
static const named program_names[] = {
    {"makefile*", "rules that make runs"},
    {"gnumakefile", "rules that make runs"},
    {"dockerfile*", "commands that a container's build runs"},
    {"containerfile*", "commands that a container's build runs"},
    {"cmakelists.txt", "commands that cmake runs"},
    {"pyproject.toml", "a Python package: its build backend runs when it is installed"},
    {"cargo.toml", "a package of Rust: its build script runs when it is built"},
    {"netlify.toml", "commands that a build runs"},
    {"mise.toml", "commands that a tool runs in its directory"},
    {"mise.local.toml", "commands that a tool runs in its directory"},
    {".mise.toml", "commands that a tool runs in its directory"},
    {"docker-compose.yml", "containers and their commands"},
    {"docker-compose.yaml", "containers and their commands"},
    {"compose.yml", "containers and their commands"},
    {"compose.yaml", "containers and their commands"},
    {"action.yml", "steps that a workflow runs"},
    {"action.yaml", "steps that a workflow runs"},
    {".pre-commit-config.yaml", "hooks that run when something is committed"},
    {".gitlab-ci.yml", "commands that a server runs"},
    {".travis.yml", "commands that a server runs"},
    {"azure-pipelines.yml", "commands that a server runs"},
    {"taskfile.yml", "commands that a tool runs"},
    {"taskfile.yaml", "commands that a tool runs"},
    {"dvc.yaml", "commands that a tool runs"},
    {"cog.yaml", "commands that a container's build runs"},
    {"mkdocs.yml", "plugins and hooks that a build runs"},
    {"conanfile.txt", "generators that a build runs"},
    {"devcontainer.json", "commands that an editor runs"},
    {".devcontainer.json", "commands that an editor runs"},
    {"vcpkg.json", "packages that a build fetches and builds"},
    {"nodemon.json", "commands that a tool runs"},
    {".mcp.json", "programs that an assistant starts"},
    {"mcp.json", "programs that an assistant starts"},
    {"mcp_config.json", "programs that an assistant starts"},
    {"mcp_settings.json", "programs that an assistant starts"},
    {"cline_mcp_settings.json", "programs that an assistant starts"},
    {"claude_desktop_config.json", "programs that an assistant starts"},
    {"opencode.json", "programs that an assistant starts"},
    {".opencode.json", "programs that an assistant starts"},
    {".aider.conf.yml", "commands that an assistant runs"},
    {".yarnrc.yml", "names the program that yarn runs"},
    {".yarnrc.yaml", "names the program that yarn runs"},
    {"deno.json", "commands that a tool runs"},
    {"deno.jsonc", "commands that a tool runs"},
    {"turbo.json", "commands that a tool runs"},
    {"nx.json", "commands that a tool runs"},
    {"lerna.json", "commands that a tool runs"},
    {"angular.json", "commands that a tool runs"},
    {"rush.json", "commands that a tool runs"},
    {"dagger.json", "commands that a tool runs"},
    {"devbox.json", "commands that a tool runs in its directory"},
    {"pixi.toml", "commands that a tool runs"},
    {"tox.toml", "commands that a tool runs"},
    {"hatch.toml", "commands that a tool runs"},
    {"bunfig.toml", "plugins that a tool loads"},
    {"book.toml", "plugins that a tool loads"},
    {"typedoc.json", "plugins that a tool loads"},
    {"jest.config.json", "plugins that a tool loads"},
    {"karma.json", "plugins that a tool loads"},
    {"babel.config.json", "plugins that a tool loads"},
    {"prefect.yaml", "commands that a tool runs"},
    {"process-compose.yaml", "commands that a tool runs"},
    {"process-compose.yml", "commands that a tool runs"},
    {"lefthook.toml", "hooks that run when something is committed"},
    {"lefthook.yml", "hooks that run when something is committed"},
    {"lefthook.yaml", "hooks that run when something is committed"},
    {".lefthook.yml", "hooks that run when something is committed"},
    {".overcommit.yml", "hooks that run when something is committed"},
    {".pre-commit-hooks.yaml", "hooks that run when something is committed"},
    {".pre-commit-config.yml", "hooks that run when something is committed"},
    {".eslintrc*", "plugins that a tool loads"},
    {".babelrc*", "plugins that a tool loads"},
    {".stylelintrc*", "plugins that a tool loads"},
    {".prettierrc*", "plugins that a tool loads"},
    {".swcrc", "plugins that a tool loads"},
    {".mocharc*", "plugins that a tool loads"},
    {".nycrc*", "plugins that a tool loads"},
    {".lintstagedrc*", "commands that a tool runs"},
    {".releaserc*", "commands that a tool runs"},
    {".bowerrc", "commands that a tool runs"},
    {"bower.json", "commands that a tool runs"},
    {".arcconfig", "plugins that a tool loads"},
    {".huskyrc*", "hooks that run when something is committed"},
    {".czrc", "plugins that a tool loads"},
    {".cz.json", "plugins that a tool loads"},
    {".cz.toml", "plugins that a tool loads"},
    {".cz.yaml", "plugins that a tool loads"},
    {".versionrc*", "plugins that a tool loads"},
    {".commitlintrc*", "plugins that a tool loads"},
    {".simple-git-hooks.json", "hooks that run when something is committed"},
    {"jupyter_*config.json", "settings by which Jupyter loads code"},
    {"ipython_config.json", "code that IPython runs when it starts"},
    {"ipython_kernel_config.json", "code that IPython runs when it starts"},
    {".rubocop.yml", "plugins that a tool loads"},
    {".gitpod.yml", "commands that an editor runs"},
    {".readthedocs*", "commands that a server runs"},
    {"_config.yml", "plugins that a tool loads"},
    {"cloudbuild*", "commands that a server runs"},
    {"buildspec*", "commands that a server runs"},
    {"appveyor.yml", "commands that a server runs"},
    {".appveyor.yml", "commands that a server runs"},
    {"bitbucket-pipelines.yml", "commands that a server runs"},
    {"circle.yml", "commands that a server runs"},
    {"codemagic.yaml", "commands that a server runs"},
    {"wercker.yml", "commands that a server runs"},
    {"shippable.yml", "commands that a server runs"},
    {"azure-pipelines.yaml", "commands that a server runs"},
    {".travis.yaml", "commands that a server runs"},
    {".gitlab-ci.yaml", "commands that a server runs"},
    {".drone.yml", "commands that a server runs"},
    {".drone.yaml", "commands that a server runs"},
    {".woodpecker.yml", "commands that a server runs"},
    {".woodpecker.yaml", "commands that a server runs"},
    {".cirrus.yml", "commands that a server runs"},
    {".cirrus.yaml", "commands that a server runs"},
    {"vercel.json", "commands that a build runs"},
    {"now.json", "commands that a build runs"},
    {"netlify.json", "commands that a build runs"},
    {"railway.json", "commands that a build runs"},
    {"railway.toml", "commands that a build runs"},
    {"fly.toml", "commands that a build runs"},
    {"wrangler.toml", "commands that a build runs"},
    {"wrangler.json", "commands that a build runs"},
    {"serverless.yml", "commands that a build runs"},
    {"render.yaml", "commands that a build runs"},
    {"heroku.yml", "commands that a build runs"},
    {"skaffold.yaml", "commands that a build runs"},
    {"pulumi.yaml", "commands that a build runs"},
    {"bentofile.yaml", "commands that a build runs"},
    {"snapcraft.yaml", "commands that a build runs"},
    {"recipe.yaml", "commands that a build runs"},
    {"foundry.toml", "commands that a build runs"},
    {"anchor.toml", "commands that a build runs"},
    {"mkdocs.yaml", "plugins and hooks that a build runs"},
    {".goreleaser.yml", "commands that a build runs"},
    {".goreleaser.yaml", "commands that a build runs"},
    {"dvc.yml", "commands that a tool runs"},
    {"cog.yml", "commands that a container's build runs"},
    {"composer.json", "a package of PHP, whose scripts run when it is installed"},
};

/* Directories whose settings programs act upon when they are opened. */
static const named program_directories[] = {
    {".vscode", "settings and tasks that an editor acts upon when it opens the directory"},
    {".idea", "settings and tasks that an editor acts upon when it opens the directory"},
    {".vs", "settings and tasks that an editor acts upon when it opens the directory"},
    {".devcontainer", "commands that an editor runs"},
    {".github", "commands that a server runs"},
    {".circleci", "commands that a server runs"},
    {".gitlab", "commands that a server runs"},
    {".cargo", "settings of Rust's build, which may run programs"},
    {".claude", "hooks and commands that an assistant runs"},
    {".cursor", "programs that an assistant starts"},
    {".gemini", "programs that an assistant starts"},
    {".codex", "programs that an assistant starts"},
    {".windsurf", "programs that an assistant starts"},
    {".roo", "programs that an assistant starts"},
    {".kiro", "programs that an assistant starts"},
    {".continue", "programs that an assistant starts"},
    {".opencode", "programs that an assistant starts"},
    {".amazonq", "programs that an assistant starts"},
    {".zed", "settings and tasks that an editor acts upon when it opens the directory"},
    {".fleet", "settings and tasks that an editor acts upon when it opens the directory"},
    {".yarn", "programs that yarn runs"},
    {".buildkite", "commands that a server runs"},
    {".woodpecker", "commands that a server runs"},
    {".semaphore", "commands that a server runs"},
    {".azure-pipelines", "commands that a server runs"},
    {".gitea", "commands that a server runs"},
    {".forgejo", "commands that a server runs"},
    {".teamcity", "commands that a server runs"},
    {".mvn", "settings of a build, which may run programs"},
    {".gradle", "settings of a build, which may run programs"},
    {".moon", "commands that a tool runs"},
    {".bundle", "settings of a build, which may run programs"},
    {".hg", "settings and hooks that Mercurial acts upon"},
    {".ipython", "code that IPython runs when it starts"},
    {".jupyter", "settings by which Jupyter loads code"},
    {".husky", "hooks that run when something is committed"},
};

static bool is_program_name(const char *base, const char *name) {
    const size_t n = strlen(name);
    const char *star = strchr(name, '*');
    const bool more = name[n - 1] == '*';
    const size_t m = more ? n - 1 : n;
    const size_t len = strlen(base);

    if (star != NULL && !more) { /* "jupyter_*config.json" */
        return same(base, name, (size_t)(star - name)) && sft__import_content_ends(base, star + 1);
    }
    return len >= m && same(base, name, m) &&
           (len == m || (more && (base[m] == '.' || base[m] == '-' || base[m] == '_')));
}

/* Is it beneath a directory of this name? */
static bool is_beneath(const char *path, const char *base, const char *directory) {
    const size_t n = strlen(directory);

    for (const char *p = path; p + n < base; p++) {
        if ((p == path || p[-1] == '/' || p[-1] == '\\') && same(p, directory, n) &&
            (p[n] == '/' || p[n] == '\\')) {
            return true;
        }
    }
    return false;
}

bool sft__import_content_runs(const char *name, const char **sentence) {
    const char *base = sft__import_content_base(name);

    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        if (sft__import_content_ends(base, programs[i].end)) {
            *sentence = programs[i].sentence;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof program_names / sizeof program_names[0]; i++) {
        if (is_program_name(base, program_names[i].end)) {
            *sentence = program_names[i].sentence;
            return true;
        }
    }
    for (size_t i = 0; i < sizeof program_directories / sizeof program_directories[0]; i++) {
        if (is_beneath(name, base, program_directories[i].end) &&
            !sft__import_content_ends(base, ".md") &&
            !sft__import_content_ends(base, ".safetensors")) {
            *sentence = program_directories[i].sentence;
            return true;
        }
    }
    return false;
}

static const char *const prose_ends[] = {
    ".md",     ".markdown", ".txt",           ".rst",       ".csv",     ".tsv",    ".yaml",
    ".yml",    ".toml",     ".jsonl",         ".ndjson",    ".bib",     ".cff",    ".vocab",
    ".merges", ".bpe",      ".tiktoken",      ".log",       ".labels",  ".names",  ".svg",
    ".json",   ".sha256",   ".md5",           ".lock",      ".jinja",   ".jinja2", ".j2",
    ".model",  ".metadata", ".gitattributes", ".gitignore", ".gitkeep", ".mdx",    ".tex",
};

static const char *const prose_names[] = {
    "license",
    "licence",
    "copying",
    "notice",
    "authors",
    "readme",
    "changelog",
    "version",
    "byteorder",
    "citation",
    "use_policy",
    "contributors",
    "maintainers",
    "cachedir.tag",
    "checkpoint",
    ".format_version",
    ".storage_alignment",
    "serialization_id",
};

bool sft__import_content_is_prose(const char *name) {
    const char *base = sft__import_content_base(name);
    const size_t n = strlen(base);

    for (size_t i = 0; i < sizeof prose_ends / sizeof prose_ends[0]; i++) {
        if (sft__import_content_ends(base, prose_ends[i])) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof prose_names / sizeof prose_names[0]; i++) {
        const size_t m = strlen(prose_names[i]);
        if (n >= m && same(base, prose_names[i], m) &&
            (n == m || base[m] == '-' || base[m] == '_')) {
            return true;
        }
    }
    return false;
}

/* ---------------------------------------------------------------- names of Python */

uint32_t sft__import_content_global(const char *module, size_t module_len, const char *name,
                                    size_t name_len) {
    const char *why;
    const sft__import_global *row = sft__import_global_find(module, module_len, name, name_len);
    return sft__import_global_verdict(row, module, module_len, name, name_len, &why);
}

/* The dots may lie anywhere between module and attributes: the worst reading counts, except that of
 * a name alone, which is one of this program's. */
uint32_t sft__import_content_dotted(const char *name, size_t len) {
    uint32_t worst = SFT_SCAN_UNKNOWN;
    unsigned dots = 0;

    for (size_t i = len; i-- > 0 && dots < 16;) {
        if (name[i] == '.') {
            const uint32_t v = sft__import_content_global(name, i, name + i + 1, len - i - 1);
            worst = v > worst ? v : worst;
            dots++;
        }
    }
    return worst;
}

/* ---------------------------------------------------------------- is it a text? */

bool sft__import_content_is_text(const uint8_t *data, size_t len) {
    for (size_t i = 0; i < len; i++) {
        const uint8_t b = data[i];
        if (b < 0x20 ? b != '\n' && b != '\t' && b != '\r' && b != '\f' : b == 0x7f) {
            return false;
        }
    }
    return sft__base_utf8_valid(data, len) == len;
}

/* ---------------------------------------------------------------- all texts */

static bool starts(const char *p, size_t len, const char *with) {
    const size_t n = strlen(with);
    return len >= n && memcmp(p, with, n) == 0;
}

static bool contains(const char *p, const char *end, const char *word) {
    const size_t n = strlen(word);
    for (; (size_t)(end - p) >= n; p++) {
        if (lower(*p) == word[0] && same(p, word, n)) {
            return true;
        }
    }
    return false;
}

/* *.pth beside Python's packages: its lines that begin with import are run when Python starts. */
static bool path_file(const sft__import_content *c) {
    const char *text = (const char *)c->data;
    const char *end = text + c->len;
    uint32_t verdict = SFT_SCAN_UNKNOWN;

    for (const char *p = text; p < end; p++) {
        const size_t left = (size_t)(end - p);
        if ((p == text || p[-1] == '\n') &&
            (starts(p, left, "import ") || starts(p, left, "import\t"))) {
            verdict = SFT_SCAN_DANGEROUS;
        }
    }
    sft__import_content_find(
        c, verdict, "code-file", 0, "", 0,
        "a text called *.pth: Python runs its import lines when it starts, if it lies "
        "beside the packages");
    return false;
}

/* .git/config: what git would run, it says there. */
static bool git_config(const sft__import_content *c) {
    static const char *const keys[] = {
        "fsmonitor", "sshcommand", "hookspath", "pager",   "editor",  "textconv", "askpass",
        "gitproxy",  "[alias",     "[include",  "command", "program", "helper",   "[credential"};
    const char *text = (const char *)c->data;
    const char *end = text + c->len;
    bool good = true;

    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (contains(text, end, keys[i])) {
            good = false;
            sft__import_content_find(c, SFT_SCAN_UNKNOWN, "git-config", 0, keys[i], strlen(keys[i]),
                                     "a setting by which git runs commands");
        }
    }
    if (contains(text, end, "[filter") && !contains(text, end, "git-lfs")) {
        good = false;
        sft__import_content_find(c, SFT_SCAN_UNKNOWN, "git-config", 0, "filter", 6,
                                 "a setting by which git runs commands");
    }
    return good;
}

/* TensorFlow's "checkpoint": which of the checkpoints beside it is the last. */
static bool tf_state(const sft__import_content *c) {
    const char *text = (const char *)c->data;
    const char *end = text + c->len;

    if (contains(text, end, "path: \"/") || contains(text, end, "../") ||
        contains(text, end, "://") || contains(text, end, "..\\")) {
        sft__import_content_find(c, SFT_SCAN_UNKNOWN, "tf-state", 0, "", 0,
                                 "names a checkpoint elsewhere, which TensorFlow would load");
        return false;
    }
    return contains(text, end, "model_checkpoint_path");
}

/* What Hugging Face's cache keeps in refs/: the digits of a commit. */
bool sft__import_content_is_commit(const char *text, size_t len) {
    len -= len > 0 && text[len - 1] == '\n';
    for (size_t i = 0; i < len; i++) {
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f'))) {
            return false;
        }
    }
    return len == 40 || len == 64;
}

/* Has one of its blocks, {{ }} or {% %}, words that lead to the interpreter? */
static bool reaches_out(const char *text, size_t len) {
    const char *end = text + len;

    if (!sft__import_content_breaks_out(text, len)) {
        return false;
    }
    for (const char *p = text; p < end;) {
        p = memchr(p, '{', (size_t)(end - p));
        if (p == NULL || end - p < 4) {
            return false;
        }
        if (p[1] != '{' && p[1] != '%') {
            p++;
            continue;
        }
        const char *q = p + 2;
        while (q + 1 < end && !(q[1] == '}' && (q[0] == '}' || q[0] == '%'))) {
            q++;
        }
        if (sft__import_content_breaks_out(p, (size_t)(q - p))) {
            return true;
        }
        p = q;
    }
    return false;
}

/* Texts of MLflow's that are the name of a module, which is imported. */
static bool is_mlflow(const sft__import_content *c, bool *good) {
    static const char *const pickles[] = {"mlflow.pytorch.pickle_module", "pickle", "cloudpickle",
                                          "dill", NULL};
    static const char *const keras[] = {"keras", "tensorflow.keras", "tf_keras", NULL};
    const char *base = sft__import_content_base(c->name);
    const bool is_pickle = strcmp(base, "pickle_module_info.txt") == 0;
    const char *text = (const char *)c->data;
    size_t len = c->len;

    if (!is_pickle && strcmp(base, "keras_module.txt") != 0) {
        return false;
    }
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == ' ')) {
        len--;
    }
    *good = sft__import_text_is_one(text, len, is_pickle ? pickles : keras);
    if (!*good) {
        const uint32_t verdict = sft__import_content_global(text, len, "x", 1);
        sft__import_content_find(c, verdict == SFT_SCAN_DANGEROUS ? verdict : SFT_SCAN_UNKNOWN,
                                 "remote-code", 0, text, len < 160 ? len : 160,
                                 "a module that MLflow would import");
    }
    return true;
}

bool sft__import_content_text(const sft__import_content *c) {
    const char *text = (const char *)c->data;
    bool good;

    if (is_mlflow(c, &good)) {
        return good;
    }

    if (sft__import_content_is_commit(text, c->len)) {
        return true;
    }

    if (sft__import_content_ends(c->name, ".pth")) {
        return path_file(c);
    }
    if (c->prose && strcmp(sft__import_content_base(c->name), "config") == 0) {
        return git_config(c);
    }
    if (!c->prose && !sft__import_content_is_prose(c->name)) {
        return false;
    }
    if (starts(text, c->len, "#!") && !c->prose) {
        sft__import_content_find(c, SFT_SCAN_UNKNOWN, "code-file", 0, "", 0,
                                 "its first line names an interpreter: a script");
        return false;
    }
    if (sft__import_content_is_yaml(c->name)) {
        return sft__import_content_yaml(c);
    }
    if (sft__import_content_is_toml(c->name)) {
        return sft__import_content_toml(c);
    }
    if (sft__import_setting_is_requirements(c->name)) {
        return sft__import_setting_requirements(c);
    }
    if (sft__import_setting_is_entry_points(c->name)) {
        return sft__import_setting_entry_points(c);
    }
    if (reaches_out(text, c->len)) {
        sft__import_content_find(c, SFT_SCAN_DANGEROUS, "template", 0, "", 0,
                                 "a template that reaches into the interpreter");
        return false;
    }
    if (strcmp(sft__import_content_base(c->name), "checkpoint") == 0) {
        return tf_state(c);
    }
    return !sft__import_content_ends(c->name, ".svg") || sft__import_content_svg(c);
}
