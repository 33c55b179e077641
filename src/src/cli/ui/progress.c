/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/ui/progress.c - Ctrl-C and the progress line, both through the library's sft_control. The line
 * appears after one second, on standard error, if that is a terminal; it is wiped at the end. Read
 * cmd.h first.
 */
#include "cli/cmd.h"
#include "cli/sys.h"
#include "cli/team.h"
#include <stdio.h>
#include <string.h>

enum { STDERR_FD = 2 };

static void duration(char text[32], double seconds) {
    const unsigned long long s = seconds > 0 && seconds < 1e9 ? (unsigned long long)seconds : 0;
    if (s >= 3600) {
        (void)snprintf(text, 32, "%llu:%02llu:%02llu", s / 3600, s / 60 % 60, s % 60);
    } else {
        (void)snprintf(text, 32, "%llu:%02llu", s / 60, s % 60);
    }
}

static void draw(const cli *c, const cli_progress *p, const sft_progress *now, double elapsed) {
    char line[256];
    char done[32];
    char total[32];
    char rate[32];
    char left[32] = "";
    const double speed = (double)now->bytes_done / elapsed;
    const char *start = p->plain ? "" : "\r";
    const char *end = p->plain ? "\n" : "\033[K";
    int n;

    cli_size(done, now->bytes_done, c->units);
    cli_size(rate, (uint64_t)speed, c->units == CLI_PLAIN ? CLI_IEC : c->units);
    if (now->bytes_total > 0) {
        const double rest = (double)(now->bytes_total - now->bytes_done) / (speed > 0 ? speed : 1);
        duration(left, rest);
        n = snprintf(line, sizeof line, "%s%.40s: %u%%  %s of %s  %s/s  %s left%s", start, p->label,
                     (unsigned)((double)now->bytes_done * 100.0 / (double)now->bytes_total), done,
                     cli_size(total, now->bytes_total, c->units), rate, left, end);
    } else {
        n = snprintf(line, sizeof line, "%s%.40s: %s  %s/s%s", start, p->label, done, rate, end);
    }
    if (n > 0) {
        (void)cli_sys_write(STDERR_FD, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
    }
}

static int poll_control(void *ctx, const sft_progress *now) {
    cli *c = ctx;
    cli_progress *p = &c->progress;

    if (cli_sys_interrupted() || cli_sys_lost_pages()) {
        return 1;
    }
    if (p->enabled && now != NULL) {
        const double time = cli_sys_now();
        const double every = p->plain ? 5.0 : 0.1;
        if (time - p->started >= (p->plain ? every : 1.0) && time - p->drawn >= every) {
            p->drawn = time;
            p->visible = !p->plain;
            draw(c, p, now, time - p->started);
        }
    }
    return 0;
}

const sft_control *cli_control(cli *c, const char *label) {
    cli_progress *p = &c->progress;
    SFT_INIT(&p->control);
    p->control.poll = poll_control;
    p->control.ctx = c;
    p->label = label;
    p->started = cli_sys_now();
    p->drawn = 0;
    p->plain = c->team != NULL && !cli_sys_is_terminal(STDERR_FD); /* what mpirun gives */
    p->enabled = !c->quiet && !c->out.mute && (p->plain || cli_sys_is_terminal(STDERR_FD));
    return &p->control;
}

void cli_control_end(cli *c) {
    if (c->progress.visible) {
        (void)cli_sys_write(STDERR_FD, "\r\033[K", 4);
        c->progress.visible = false;
    }
    c->progress.enabled = false;
}

bool cli_stopped(const cli *c) {
    return c->out.closed || cli_sys_interrupted();
}
