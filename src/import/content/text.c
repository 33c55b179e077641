/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * import/content/text.c - texts beside weights: which names are those of plain texts, which are
 * those of programs, and what a plain text may still make its loader do (tags of YAML, scripts in
 * SVG, a first line that names an interpreter). A text is harmless for what it is *and* how it is
 * called: the same bytes under the name of a program are not. Read first: content.h.
 */
#include "base/text/utf8.h"
#include "import/content/content.h"
#include "import/content/letters.h"
#include "import/settings/settings.h"

/* ---------------------------------------------------------------- names */

/* "x.yaml", "x.yaml.txt" */
static bool is_called(const char *name, const char *end) {
    const size_t n = strlen(end);

    const char *p = sft__import_content_base(name);
    for (; (p = strchr(p, end[0])) != NULL; p++) {
        if (strlen(p) >= n && sft__import_text_same(p, end, n) && (p[n] == '\0' || p[n] == '.')) {
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

/* What is said of names, which stand in lower case with a blank between them. */
typedef struct named {
    const char *sentence;
    const char *names;
} named;

static const named programs[] = {
    {"a Python file: trust_remote_code, an import or a plugin runs it", ".py"},
    {"a Python file", ".pyw .pyi"},
    {"a Cython file", ".pyx"},
    {"compiled Python code: an import runs it", ".pyc .pyo"},
    {"a shared library: an import runs it", ".pyd"},
    {"a shared library: whoever loads it runs it", ".so .dylib .dll"},
    {"a program", ".exe .com"},
    {"an installer", ".msi"},
    {"a shell script", ".sh .bash .zsh .fish .bat .cmd .ps1 .ps1xml .psm1"},
    {"a script",
     ".vbs .js .mjs .cjs .ts .rb .pl .lua .r .jl .php .awk .tcl .applescript .vue .jsx .tsx"},
    {"a program for WebAssembly", ".wasm"},
    {"a notebook: its cells are code", ".ipynb"},
    {"a web page: a browser runs its scripts", ".html .htm .xhtml"},
    {"a program for Java", ".jar .class"},
    {"a Python package: its installation runs code", ".whl"},
    {"a Python package: an import runs it", ".egg"},
    {"a package: its installation runs code", ".deb .rpm"},
    {"source code: torch.utils.cpp_extension compiles and loads such", ".cu .cuh .cpp .cc .c"},
    {"source code", ".h .scala .go .java"},
    {"a link of Windows: opening it may run a program", ".lnk"},
    {"a launcher: opening it runs a program", ".desktop"},
    {"rules that make runs", ".mk"},
    {"commands that cmake runs", ".cmake"},
    {"source code: a build runs build.rs", ".rs"},
    {"a web page that runs as a program", ".hta"},
    {"a unit: systemd runs what it names", ".service"},
    {"settings and tasks that an editor acts upon", ".code-workspace .sublime-project"},
};

/* Whole names, with anything that begins with a dot or a hyphen behind them where it ends in '*'.
 */
static const named program_names[] = {
    {"rules that make runs", "makefile* gnumakefile"},
    {"commands that a container's build runs", "dockerfile* containerfile* cog.yaml cog.yml"},
    {"commands that cmake runs", "cmakelists.txt"},
    {"a Python package: its build backend runs when it is installed", "pyproject.toml"},
    {"a package of Rust: its build script runs when it is built", "cargo.toml"},
    {"commands that a build runs",
     "netlify.toml vercel.json now.json netlify.json railway.json railway.toml fly.toml"
     " wrangler.toml wrangler.json serverless.yml render.yaml heroku.yml skaffold.yaml"
     " pulumi.yaml bentofile.yaml snapcraft.yaml recipe.yaml foundry.toml anchor.toml"
     " .goreleaser.yml .goreleaser.yaml"},
    {"commands that a tool runs in its directory",
     "mise.toml mise.local.toml .mise.toml devbox.json"},
    {"containers and their commands",
     "docker-compose.yml docker-compose.yaml compose.yml compose.yaml"},
    {"steps that a workflow runs", "action.yml action.yaml"},
    {"hooks that run when something is committed",
     ".pre-commit-config.yaml lefthook.toml lefthook.yml lefthook.yaml .lefthook.yml"
     " .overcommit.yml .pre-commit-hooks.yaml .pre-commit-config.yml .huskyrc*"
     " .simple-git-hooks.json"},
    {"commands that a server runs",
     ".gitlab-ci.yml .travis.yml azure-pipelines.yml .readthedocs* cloudbuild* buildspec*"
     " appveyor.yml .appveyor.yml bitbucket-pipelines.yml circle.yml codemagic.yaml wercker.yml"
     " shippable.yml azure-pipelines.yaml .travis.yaml .gitlab-ci.yaml .drone.yml .drone.yaml"
     " .woodpecker.yml .woodpecker.yaml .cirrus.yml .cirrus.yaml"},
    {"commands that a tool runs",
     "taskfile.yml taskfile.yaml dvc.yaml nodemon.json deno.json deno.jsonc turbo.json nx.json"
     " lerna.json angular.json rush.json dagger.json pixi.toml tox.toml hatch.toml prefect.yaml"
     " process-compose.yaml process-compose.yml .lintstagedrc* .releaserc* .bowerrc bower.json"
     " dvc.yml"},
    {"plugins and hooks that a build runs", "mkdocs.yml mkdocs.yaml"},
    {"generators that a build runs", "conanfile.txt"},
    {"commands that an editor runs", "devcontainer.json .devcontainer.json .gitpod.yml"},
    {"packages that a build fetches and builds", "vcpkg.json"},
    {"programs that an assistant starts",
     ".mcp.json mcp.json mcp_config.json mcp_settings.json cline_mcp_settings.json"
     " claude_desktop_config.json opencode.json .opencode.json"},
    {"commands that an assistant runs", ".aider.conf.yml"},
    {"names the program that yarn runs", ".yarnrc.yml .yarnrc.yaml"},
    {"plugins that a tool loads",
     "bunfig.toml book.toml typedoc.json jest.config.json karma.json babel.config.json .eslintrc*"
     " .babelrc* .stylelintrc* .prettierrc* .swcrc .mocharc* .nycrc* .arcconfig .czrc .cz.json"
     " .cz.toml .cz.yaml .versionrc* .commitlintrc* .rubocop.yml _config.yml"},
    {"settings by which Jupyter loads code", "jupyter_*config.json"},
    {"code that IPython runs when it starts", "ipython_config.json ipython_kernel_config.json"},
    {"a package of PHP, whose scripts run when it is installed", "composer.json"},
};

/* Directories whose settings programs act upon when they are opened. */
static const named program_directories[] = {
    {"settings and tasks that an editor acts upon when it opens the directory",
     ".vscode .idea .vs"},
    {"commands that an editor runs", ".devcontainer"},
    {"commands that a server runs", ".github .circleci .gitlab"},
    {"settings of Rust's build, which may run programs", ".cargo"},
    {"hooks and commands that an assistant runs", ".claude"},
    {"programs that an assistant starts",
     ".cursor .gemini .codex .windsurf .roo .kiro .continue .opencode .amazonq"},
    {"settings and tasks that an editor acts upon when it opens the directory", ".zed .fleet"},
    {"programs that yarn runs", ".yarn"},
    {"commands that a server runs",
     ".buildkite .woodpecker .semaphore .azure-pipelines .gitea .forgejo .teamcity"},
    {"settings of a build, which may run programs", ".mvn .gradle"},
    {"commands that a tool runs", ".moon"},
    {"settings of a build, which may run programs", ".bundle"},
    {"settings and hooks that Mercurial acts upon", ".hg"},
    {"code that IPython runs when it starts", ".ipython"},
    {"settings by which Jupyter loads code", ".jupyter"},
    {"hooks that run when something is committed", ".husky"},
};

/* A path; its last part, of `len` letters. */
typedef struct path_name {
    const char *path;
    const char *base;
    size_t len;
} path_name;

/* Of a name out of a table, of n letters: does it end the last part, is it all of it, is a directory
 * above it called so? */
typedef bool (*named_fn)(const path_name *p, const char *name, size_t n);

static bool is_ending(const path_name *p, const char *name, size_t n) {
    return p->len >= n && lower(p->base[p->len - 1]) == name[n - 1] &&
           sft__import_text_same(p->base + p->len - n, name, n);
}

static bool is_program_name(const path_name *p, const char *name, size_t n) {
    if (lower(p->base[0]) != name[0]) {
        return false;
    }
    const char *star = memchr(name, '*', n);
    const bool more = name[n - 1] == '*';
    const size_t m = more ? n - 1 : n;

    if (star != NULL && !more) { /* "jupyter_*config.json" */
        return sft__import_text_same(p->base, name, (size_t)(star - name)) &&
               is_ending(p, star + 1, (size_t)(name + n - star) - 1);
    }
    const char behind = p->len >= m ? p->base[m] : '\0';
    return p->len >= m && sft__import_text_same(p->base, name, m) &&
           (p->len == m || (more && (behind == '.' || behind == '-' || behind == '_')));
}

static bool is_beneath(const path_name *p, const char *name, size_t n) {
    for (const char *q = p->path; q + n < p->base; q++) {
        if ((q == p->path || q[-1] == '/' || q[-1] == '\\') && sft__import_text_same(q, name, n) &&
            (q[n] == '/' || q[n] == '\\')) {
            return !sft__import_content_ends(p->base, ".md") &&
                   !sft__import_content_ends(p->base, ".safetensors");
        }
    }
    return false;
}

static const char *sentence_of(const path_name *p, const named *rows, size_t count, named_fn is) {
    for (size_t i = 0; i < count; i++) {
        for (const char *name = rows[i].names; *name != '\0';) {
            const char *blank = strchr(name, ' ');
            const size_t n = blank != NULL ? (size_t)(blank - name) : strlen(name);
            if (is(p, name, n)) {
                return rows[i].sentence;
            }
            name += name[n] == ' ' ? n + 1 : n;
        }
    }
    return NULL;
}

bool sft__import_content_runs(const char *name, const char **sentence) {
    const char *base = sft__import_content_base(name);
    const path_name p = {name, base, strlen(base)};

    const char *said = sentence_of(&p, programs, sizeof programs / sizeof programs[0], is_ending);
    if (said == NULL) {
        said = sentence_of(&p, program_names, sizeof program_names / sizeof program_names[0],
                           is_program_name);
    }
    if (said == NULL && base != name) {
        said = sentence_of(&p, program_directories,
                           sizeof program_directories / sizeof program_directories[0], is_beneath);
    }
    *sentence = said != NULL ? said : *sentence;
    return said != NULL;
}

static const char *const prose_ends[] = {
    ".md",     ".markdown", ".txt",           ".rst",       ".csv",     ".tsv",    ".yaml",
    ".yml",    ".toml",     ".jsonl",         ".ndjson",    ".bib",     ".cff",    ".vocab",
    ".merges", ".bpe",      ".tiktoken",      ".log",       ".labels",  ".names",  ".svg",
    ".json",   ".sha256",   ".md5",           ".lock",      ".jinja",   ".jinja2", ".j2",
    ".model",  ".metadata", ".gitattributes", ".gitignore", ".gitkeep", ".mdx",    ".tex",
};

/* clang-format off */
static const char *const prose_names[] = {
    "license", "licence", "copying", "notice", "authors", "readme", "changelog", "version",
    "byteorder", "citation", "use_policy", "contributors", "maintainers", "cachedir.tag",
    "checkpoint", ".format_version", ".storage_alignment", "serialization_id"};
/* clang-format on */

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
        if (n >= m && sft__import_text_same(base, prose_names[i], m) &&
            (n == m || base[m] == '-' || base[m] == '_')) {
            return true;
        }
    }
    return false;
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

/* *.pth beside Python's packages: its lines that begin with import are run when Python starts. */
static bool path_file(const sft__import_content *c) {
    const char *text = (const char *)c->data;
    const char *end = text + c->len;
    uint32_t verdict = SFT_SCAN_UNKNOWN;

    for (const char *p = text; p < end; p++) {
        const size_t left = (size_t)(end - p);
        if ((p == text || p[-1] == '\n') && (sft__import_text_starts(p, left, "import ") ||
                                             sft__import_text_starts(p, left, "import\t"))) {
            verdict = SFT_SCAN_DANGEROUS;
        }
    }
    sft__import_content_say(
        c, verdict, "code-file",
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
        if (sft__import_text_find(text, end, keys[i]) != NULL) {
            good = false;
            sft__import_content_find(c, SFT_SCAN_UNKNOWN, "git-config", 0,
                                     sft__import_span_of(keys[i]),
                                     "a setting by which git runs commands");
        }
    }
    if (sft__import_text_find(text, end, "[filter") != NULL &&
        sft__import_text_find(text, end, "git-lfs") == NULL) {
        good = false;
        sft__import_content_find(c, SFT_SCAN_UNKNOWN, "git-config", 0,
                                 (sft__import_span){"filter", 6},
                                 "a setting by which git runs commands");
    }
    return good;
}

/* TensorFlow's "checkpoint": which of the checkpoints beside it is the last. */
static bool tf_state(const sft__import_content *c) {
    static const char *const marks[] = {"path: \"/", "../", "://", "..\\"};
    const char *text = (const char *)c->data;
    const char *end = text + c->len;

    bool away = false;

    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        away = away || sft__import_text_find(text, end, marks[i]) != NULL;
    }
    if (away) {
        sft__import_content_say(c, SFT_SCAN_UNKNOWN, "tf-state",
                                "names a checkpoint elsewhere, which TensorFlow would load");
        return false;
    }
    return sft__import_text_find(text, end, "model_checkpoint_path") != NULL;
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
                                 "remote-code", 0, (sft__import_span){text, len < 160 ? len : 160},
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
    if (sft__import_text_starts(text, c->len, "#!") && !c->prose) {
        sft__import_content_say(c, SFT_SCAN_UNKNOWN, "code-file",
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
        sft__import_content_say(c, SFT_SCAN_DANGEROUS, "template",
                                "a template that reaches into the interpreter");
        return false;
    }
    if (strcmp(sft__import_content_base(c->name), "checkpoint") == 0) {
        return tf_state(c);
    }
    return !sft__import_content_ends(c->name, ".svg") || sft__import_content_svg(c);
}
