/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/serve/serve.c - connections of the server of one page: a few at once, each for a while. Read serve.h
 * first.
 */
#include "cli/serve/serve.h"
#include "cli/sys.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32 /* connections: a browser opens some that it does not use */, TICK_MS = 250 };
static const double SECONDS_TO_ASK = 10; /* and then as long as the browser goes on reading */
static const double SECONDS_TO_READ = 60;

typedef struct connection {
    cli_socket socket;
    double until;
    char request[CLI_REQUEST_MOST];
    size_t size;
    bool answering;
    cli_answer_of answer;
    size_t sent; /* of head and body */
} connection;

typedef struct server {
    cli *c;
    const cli_site *site;
    connection *connections[MOST];
    size_t count;
    size_t most; /* MOST, or how many there were when the system had no descriptor for another */
} server;

static void end_connection(server *s, size_t i) {
    cli_socket_close(s->connections[i]->socket);
    free(s->connections[i]);
    s->connections[i] = s->connections[--s->count];
    s->most = MOST; /* there is a descriptor again */
}

/* Of those that have not asked yet, the one that has waited longest; s->count: there is none. */
static size_t oldest_idle(const server *s) {
    size_t oldest = s->count;

    for (size_t i = 0; i < s->count; i++) {
        const connection *k = s->connections[i];
        if (!k->answering && (oldest == s->count || k->until < s->connections[oldest]->until)) {
            oldest = i;
        }
    }
    return oldest;
}

/* Is there a place for one more, if need be that of one who says nothing? */
static bool has_room(const server *s) {
    return s->count < s->most || oldest_idle(s) < s->count;
}

static void take_in(server *s) {
    while (has_room(s)) {
        const cli_socket socket = cli_socket_accept(s->site->listening);
        if (socket == CLI_SOCKET_GONE && s->count > 0) {
            s->most = s->count;
            if (oldest_idle(s) < s->count) {
                end_connection(s, oldest_idle(s)); /* there is room for who waits */
                continue;
            }
        }
        if (socket < 0) {
            return;
        }
        if (s->count >= s->most) {
            end_connection(s, oldest_idle(s));
        }
        connection *k = cli_alloc(1, sizeof *k);
        k->socket = socket;
        k->until = cli_sys_now() + SECONDS_TO_ASK;
        s->connections[s->count++] = k;
    }
}

/* False: it is over. */
static bool read_request(const server *s, connection *k) {
    const ptrdiff_t got =
        cli_socket_read(k->socket, k->request + k->size, sizeof k->request - k->size);

    if (got == CLI_SOCKET_AGAIN) {
        return true;
    }
    if (got <= 0) {
        return false;
    }
    k->size += (size_t)got;
    if (cli_request_complete(k->request, k->size) || k->size == sizeof k->request) {
        cli_answer_request(&k->answer, s->site, k->request, k->size);
        k->answering = true;
        k->until = cli_sys_now() + SECONDS_TO_READ;
    }
    return true;
}

static bool send_answer(connection *k) {
    const cli_answer_of *a = &k->answer;
    const bool head = k->sent < a->head_size;
    const char *from = head ? a->head + k->sent : a->body + (k->sent - a->head_size);
    const size_t left = head ? a->head_size - k->sent : a->head_size + a->body_size - k->sent;
    const ptrdiff_t put = left == 0 ? 0 : cli_socket_write(k->socket, from, left);

    if (put == CLI_SOCKET_GONE) {
        return false;
    }
    if (put > 0) {
        k->sent += (size_t)put;
        k->until = cli_sys_now() + SECONDS_TO_READ;
    }
    return k->sent < a->head_size + a->body_size;
}

static void turn(server *s) {
    cli_socket sockets[MOST + 1];
    bool write[MOST + 1] = {false};
    const double now = cli_sys_now();

    for (size_t i = 0; i < s->count; i++) {
        sockets[i] = s->connections[i]->socket;
        write[i] = s->connections[i]->answering;
    }
    sockets[s->count] = s->site->listening;
    cli_socket_wait(sockets, write, s->count + has_room(s), TICK_MS);
    for (size_t i = s->count; i-- > 0;) {
        connection *k = s->connections[i];
        if (now > k->until || (k->answering ? !send_answer(k) : !read_request(s, k))) {
            end_connection(s, i);
        }
    }
    take_in(s);
}

static int make_token(cli_site *site) {
    unsigned char bits[(CLI_TOKEN_ROOM - 1) / 2];
    const int error = cli_random(bits, sizeof bits);

    for (size_t i = 0; i < sizeof bits && error == 0; i++) {
        (void)snprintf(site->token + 2 * i, 3, "%02x", bits[i]);
    }
    return error;
}

bool cli_listen(cli *c, cli_site *site, uint16_t port) {
    int error = cli_socket_start();

    site->port = port;
    const int token = make_token(site);
    error = error != 0 || token != 0 ? error : cli_socket_listen(&site->listening, &site->port);
    if (error != 0 || token != 0) {
        cli_fail_io(c, NULL, error != 0 ? error : token,
                    error != 0 ? "cannot listen on 127.0.0.1"
                               : "the system gives no random numbers for the address");
        return false;
    }
    return true;
}

void cli_serve(cli *c, const cli_site *site, bool (*ready)(cli *c, const char *url)) {
    server s = {.c = c, .site = site, .most = MOST};
    char url[128];

    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/%s/", (unsigned)site->port, site->token);
    cli_sys_catch(true);
    const bool known = ready(c, url);
    while (known && !cli_sys_interrupted()) {
        turn(&s);
    }
    cli_sys_catch(false);
    while (s.count > 0) {
        end_connection(&s, 0);
    }
}
