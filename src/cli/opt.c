/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/opt.c - the argument parser over a command's option table. Long options are never
 * abbreviated;
 * --opt=value and --opt value; short ones may be joined (-qv, -oFILE); options and operands may be
 * mixed;
 * "--" ends options. Read cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/operands/url.h"
#include "cli/sys.h"
#include <stdlib.h>
#include <string.h>

typedef struct shared_option {
    uint32_t bit; /* CLI_WITH_*; 0: every command */
    cli_opt opt;
} shared_option;

static const shared_option shared_options[] = {
    {CLI_WITH_JSON, CLI_OPT_FLAG("json", 0, "write JSON")},
    {CLI_WITH_OUTPUT,
     CLI_OPT_ARG(CLI_FILE, "output", 'o', "FILE", "write to FILE; - is standard output")},
    {CLI_WITH_FORCE, CLI_OPT_FLAG("force", 'f', "overwrite a file that exists")},
    {CLI_WITH_SIZES, CLI_OPT_FLAG("iec", 0, "sizes in KiB, MiB, GiB (default)")},
    {CLI_WITH_SIZES, CLI_OPT_FLAG("si", 0, "sizes in kB, MB, GB")},
    {CLI_WITH_SIZES, CLI_OPT_FLAG("bytes", 0, "sizes in bytes")},
    {CLI_WITH_JOBS,
     CLI_OPT_ARG(CLI_NUMBER, "jobs", 'j', "N", "use N threads (default: one per processor)")},
    {CLI_WITH_EXPLAIN, CLI_OPT_FLAG("explain", 0, "say for each file how it is read, and why")},
    {CLI_WITH_LIMITS, CLI_OPT_ARG(CLI_BYTES, "max-header-bytes", 0, "SIZE",
                                  "largest header to accept (default 100,000,000)")},
    {CLI_WITH_IMPORT,
     CLI_OPT_ARG(
         CLI_TEXT, "key", 0, "KEY",
         "of a nested file of another format: the part to read (\"state_dict\", \"ema.params\"), . "
         "for all; default: the weights are looked for")},
    {CLI_WITH_IMPORT,
     CLI_OPT_CHOICE(
         "dedup", 0, "RULE", "hf|first|keep|error|alias",
         "of a file of another format: names of the same bytes are one tensor, called as Hugging "
         "Face does (hf, default) or as in the file (first); or each is one (keep); "
         "alias: views of a tensor are other names of a part of it, too")},
    {CLI_WITH_IMPORT,
     CLI_OPT_FLAG("allow-opaque", 0,
                  "of a file of another format: leave out what is not understood")},
    {CLI_WITH_IMPORT,
     CLI_OPT_FLAG("no-crc", 0, "of a file of another format: do not compare zip checksums")},
    {CLI_WITH_IMPORT,
     CLI_OPT_ARG(
         CLI_LIST, "view-as", 0, "PATTERN=DTYPE",
         "of a file of another format: what elements without a type are, or others of that size "
         "(\"*=BF16\" for a .npz of bfloat16); may be repeated, later ones count")},
    {CLI_WITH_IMPORT,
     CLI_OPT_FLAG("dequantize", 0, "of a GGUF file: 32-bit floats instead of quantised blocks")},
    {CLI_WITH_RANKS,
     CLI_OPT_ARG(CLI_FILE, "layout", 0, "FILE",
                 "of directories of ranks: how tensors are sharded (strategy, layout.json ...)")},
    {CLI_WITH_RANKS, CLI_OPT_ARG(CLI_TEXT, "step", 0, "NAME",
                                 "of directories of ranks: the files whose names end so (3_2)")},
    {CLI_WITH_RANKS,
     CLI_OPT_FLAG("partial", 0,
                  "of directories of ranks: leave out incomplete tensors, and say which")},
    {CLI_WITH_REMOTE, CLI_OPT_ARG(CLI_NUMBER, "connections", 0, "N",
                                  "of a URL: at most N connections at once (default 8)")},
    {CLI_WITH_REMOTE, CLI_OPT_ARG(CLI_FILE, "block-cache", 0, "DIR",
                                  "of a URL: keep what was read in DIR, for the next time")},
    {CLI_WITH_REMOTE,
     CLI_OPT_FLAG("allow-http", 0, "of a URL: http:// to other machines, unencrypted")},
    {CLI_WITH_REMOTE,
     CLI_OPT_FLAG("offline", 0, "of a URL: only what the local Hugging Face cache has")},
    {0, CLI_OPT_CHOICE("color", 0, "WHEN", "auto|always|never",
                       "use colour: auto (on a terminal, unless NO_COLOR is set), always, never")},
    {0, CLI_OPT_FLAG("quiet", 'q', "no warnings, no progress")},
    {0, CLI_OPT_FLAG("verbose", 'v', "say more on standard error")},
    {0, CLI_OPT_FLAG("help", 'h', "show this help")},
};

const cli_opt *cli_option_at(const cli_command *command, size_t n) {
    size_t at = 0;

    for (const cli_opt *opt = command->options; opt != NULL && opt->name != NULL; opt++) {
        if (at++ == n) {
            return opt;
        }
    }
    for (size_t i = 0; i < sizeof shared_options / sizeof shared_options[0]; i++) {
        const shared_option *s = &shared_options[i];
        if ((s->bit == 0 || (command->common & s->bit) != 0) && at++ == n) {
            return &s->opt;
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- words that are nearly right */

enum { WORD_MAX = 40 };

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap of neighbours) between two short words. */
static size_t distance(const char *a, const char *b) {
    size_t d[WORD_MAX + 1][WORD_MAX + 1];
    const size_t la = strlen(a);
    const size_t lb = strlen(b);

    if (la > WORD_MAX || lb > WORD_MAX) {
        return WORD_MAX;
    }
    for (size_t i = 0; i <= la; i++) {
        d[i][0] = i;
        for (size_t k = 1; k <= lb; k++) {
            if (i == 0) {
                d[i][k] = k;
                continue;
            }
            const size_t change = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
            d[i][k] = least(change, least(d[i - 1][k], d[i][k - 1]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) {
                d[i][k] = least(d[i][k], d[i - 2][k - 2] + 1);
            }
        }
    }
    return d[la][lb];
}

const char *cli_closest(const char *word, const char *const *words, size_t count) {
    const char *best = NULL;
    size_t best_distance = 3;

    for (size_t i = 0; i < count; i++) {
        size_t n = distance(word, words[i]);
        if (strlen(word) >= 3 && strncmp(word, words[i], strlen(word)) == 0) {
            n = 1; /* an abbreviation */
        }
        if (n < best_distance && n * 2 <= strlen(words[i])) {
            best = words[i];
            best_distance = n;
        }
    }
    return best;
}

/* ---------------------------------------------------------------- values */

static bool parse_digits(const char **text, uint64_t *value) {
    const char *s = *text;
    uint64_t v = 0;

    if (*s < '0' || *s > '9') {
        return false;
    }
    for (; *s >= '0' && *s <= '9'; s++) {
        const uint64_t digit = (uint64_t)(*s - '0');
        if (v > (UINT64_MAX - digit) / 10) {
            return false;
        }
        v = v * 10 + digit;
    }
    *text = s;
    *value = v;
    return true;
}

bool cli_parse_bytes(const char *text, bool units, uint64_t *value) {
    static const char letters[] = "kmgtp";
    uint64_t scale = 1;

    if (!parse_digits(&text, value)) {
        return false;
    }
    if (*text == '\0' || !units) {
        return *text == '\0';
    }
    const char lower = (char)(*text | 0x20);
    const char *letter = strchr(letters, lower);
    if (letter != NULL && lower != '\0') {
        const bool si = (text[1] | 0x20) == 'b';
        for (const char *p = letters; p <= letter; p++) {
            scale *= si ? 1000 : 1024; /* at most 1024^5 */
        }
        text += text[1] == 'i' ? 2 : 1;
    }
    text += (*text | 0x20) == 'b' ? 1 : 0;
    if (*text != '\0' || *value > UINT64_MAX / scale) {
        return false;
    }
    *value *= scale;
    return true;
}

static bool parse_real(const char *text, double *value) {
    char *end;
    if ((*text < '0' || *text > '9') && *text != '.') { /* no sign, no "inf", no "nan" */
        return false;
    }
    *value = strtod(text, &end); /* the tool never leaves the C locale */
    return *end == '\0' && *value >= 0;
}

static bool is_choice(const char *choices, const char *word) {
    const size_t len = strlen(word);
    while (len > 0 && choices != NULL) {
        if (strncmp(choices, word, len) == 0 && (choices[len] == '|' || choices[len] == '\0')) {
            return true;
        }
        choices = strchr(choices, '|');
        choices = choices != NULL ? choices + 1 : NULL;
    }
    return false;
}

static bool take_value(cli *c, const cli_opt *opt, const char *text) {
    cli_value *v = &c->values[c->value_count];
    bool good = true;

    v->opt = opt;
    v->text = text;
    v->number = 0;
    v->real = 0;
    if (opt->type == CLI_NUMBER || opt->type == CLI_BYTES) {
        good = cli_parse_bytes(text, opt->type == CLI_BYTES, &v->number);
    } else if (opt->type == CLI_REAL) {
        good = parse_real(text, &v->real);
    } else if (opt->type == CLI_CHOICE) {
        good = is_choice(opt->choices, text);
    }
    if (!good) {
        cli_usage(c, "--%s: \"%s\" is not %s", opt->name, text,
                  opt->type == CLI_CHOICE  ? opt->choices
                  : opt->type == CLI_BYTES ? "a size such as 4096, 64K or 2GB"
                                           : "a number");
        return false;
    }
    c->value_count++;
    return true;
}

/* ---------------------------------------------------------------- arguments */

static const cli_opt *find_long(const cli_command *command, const char *name, size_t len) {
    const cli_opt *opt;
    for (size_t n = 0; (opt = cli_option_at(command, n)) != NULL; n++) {
        if (strlen(opt->name) == len && memcmp(opt->name, name, len) == 0) {
            return opt;
        }
    }
    return NULL;
}

static const cli_opt *find_short(const cli_command *command, char letter) {
    const cli_opt *opt;
    for (size_t n = 0; (opt = cli_option_at(command, n)) != NULL; n++) {
        if (opt->letter == letter && letter != '\0') {
            return opt;
        }
    }
    return NULL;
}

static void unknown_option(cli *c, const char *name, size_t len) {
    const char *words[64];
    char word[WORD_MAX + 1];
    const cli_opt *opt;
    size_t count = 0;

    while (count < 64 && (opt = cli_option_at(c->command, count)) != NULL) {
        words[count++] = opt->name;
    }
    len = len < WORD_MAX ? len : WORD_MAX;
    memcpy(word, name, len);
    word[len] = '\0';
    const char *closest = cli_closest(word, words, count);
    if (closest != NULL) {
        cli_usage(c, "unknown option --%s; did you mean --%s?", word, closest);
    } else {
        cli_usage(c, "unknown option --%s", word);
    }
}

typedef struct cursor {
    int argc;
    char **argv;
    int at;
} cursor;

static bool parse_long(cli *c, cursor *args) {
    const char *name = args->argv[args->at] + 2;
    const char *equals = strchr(name, '=');
    const size_t len = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const cli_opt *opt = find_long(c->command, name, len);

    if (opt == NULL) {
        unknown_option(c, name, len);
        return false;
    }
    if (opt->type == CLI_FLAG) {
        if (equals != NULL) {
            cli_usage(c, "--%s takes no argument", opt->name);
            return false;
        }
        return take_value(c, opt, NULL);
    }
    if (equals == NULL && args->at + 1 >= args->argc) {
        cli_usage(c, "--%s needs an argument: %s", opt->name, opt->arg);
        return false;
    }
    return take_value(c, opt, equals != NULL ? equals + 1 : args->argv[++args->at]);
}

static bool parse_short(cli *c, cursor *args) {
    for (const char *s = args->argv[args->at] + 1; *s != '\0'; s++) {
        const cli_opt *opt = find_short(c->command, *s);
        if (opt == NULL) {
            const char letter[2] = {*s, '\0'};
            cli_usage(c, "unknown option -%s", (*s & 0x80) == 0 ? letter : "?");
            return false;
        }
        if (opt->type == CLI_FLAG) {
            if (!take_value(c, opt, NULL)) {
                return false;
            }
            continue;
        }
        if (s[1] == '\0' && args->at + 1 >= args->argc) {
            cli_usage(c, "-%c needs an argument: %s", *s, opt->arg);
            return false;
        }
        return take_value(c, opt, s[1] != '\0' ? s + 1 : args->argv[++args->at]);
    }
    return true;
}

static void apply_common(cli *c) {
    const char *when = cli_text(c, "color");
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    const bool automatic = when == NULL || strcmp(when, "auto") == 0;
    const bool wanted =
        (no_color == NULL || no_color[0] == '\0') && (term == NULL || strcmp(term, "dumb") != 0);

    c->json = cli_flag(c, "json");
    c->quiet = cli_flag(c, "quiet");
    c->verbose = cli_flag(c, "verbose");
    c->force = cli_flag(c, "force");
    c->color = automatic ? wanted && cli_sys_is_terminal(1) : strcmp(when, "always") == 0;
    c->color_error = automatic ? wanted && cli_sys_is_terminal(2) : strcmp(when, "always") == 0;
    for (size_t i = 0; i < c->value_count; i++) {
        const char *name = c->values[i].opt->name;
        c->units = strcmp(name, "iec") == 0     ? CLI_IEC
                   : strcmp(name, "si") == 0    ? CLI_SI
                   : strcmp(name, "bytes") == 0 ? CLI_PLAIN
                                                : c->units;
    }
}

static bool check_operands(cli *c) {
    if (c->operand_count < c->command->min_operands) {
        cli_usage(c, "not enough operands: %s wanted", c->command->operands);
        return false;
    }
    if (c->command->max_operands != CLI_MANY && c->operand_count > c->command->max_operands) {
        cli_usage(c, "unexpected operand \"%s\"", c->operands[c->command->max_operands]);
        return false;
    }
    return true;
}

bool cli_parse(cli *c, int argc, char **argv) {
    cursor args = {argc, argv, 0};
    bool only_operands = false;
    size_t letters = 0;

    for (int i = 0; i < argc; i++) { /* each value comes from a letter or a word */
        letters += strlen(argv[i]) + 1;
    }
    c->values = cli_alloc(letters + 1, sizeof *c->values);
    c->operands = cli_alloc((size_t)argc + 1, sizeof *c->operands);
    for (; args.at < argc; args.at++) {
        char *word = argv[args.at];
        if (only_operands || word[0] != '-' || word[1] == '\0') {
            c->operands[c->operand_count++] = word;
        } else if (word[1] != '-') {
            if (!parse_short(c, &args)) {
                return false;
            }
        } else if (word[2] == '\0') {
            only_operands = true;
        } else if (!parse_long(c, &args)) {
            return false;
        }
    }
    apply_common(c);
    return cli_flag(c, "help") || check_operands(c);
}

/* ---------------------------------------------------------------- questions */

static const cli_value *find_value(const cli *c, const char *name, size_t nth, bool last) {
    const cli_value *found = NULL;
    for (size_t i = 0; i < c->value_count; i++) {
        if (strcmp(c->values[i].opt->name, name) == 0) {
            found = &c->values[i];
            if (!last && nth-- == 0) {
                return found;
            }
        }
    }
    return last ? found : NULL;
}

bool cli_flag(const cli *c, const char *name) {
    return find_value(c, name, 0, true) != NULL;
}

const char *cli_text(const cli *c, const char *name) {
    const cli_value *v = find_value(c, name, 0, true);
    return v != NULL ? v->text : NULL;
}

const char *cli_list(const cli *c, const char *name, size_t nth) {
    const cli_value *v = find_value(c, name, nth, false);
    return v != NULL ? v->text : NULL;
}

uint64_t cli_number(const cli *c, const char *name, uint64_t otherwise) {
    const cli_value *v = find_value(c, name, 0, true);
    return v != NULL ? v->number : otherwise;
}

double cli_real(const cli *c, const char *name, double otherwise) {
    const cli_value *v = find_value(c, name, 0, true);
    return v != NULL ? v->real : otherwise;
}

sft_limits cli_limits(const cli *c) {
    sft_limits limits;

    SFT_INIT(&limits);
    limits.header_bytes = cli_number(c, "max-header-bytes", 0);
    return limits;
}
