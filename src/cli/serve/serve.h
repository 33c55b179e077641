/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * cli/serve/serve.h - one page, or the files of a small site, on a loopback address, for whoever knows its
 * token. Nothing else is answered: GET and HEAD of /TOKEN/ and of its files alone, with the Host of this
 * server, and not from pages of others. Read cmd.h first.
 */
#ifndef SFT_CLI_SERVE_H
#define SFT_CLI_SERVE_H

#include "cli/cmd.h"

enum { CLI_TOKEN_ROOM = 33, CLI_REQUEST_MOST = 8192, CLI_HEAD_ROOM = 1024 };

/* ---------------------------------------------------------------- answer.c: no sockets */

typedef struct cli_served {
    char *name; /* behind /TOKEN/; "": the page */
    const char *type;
    char *data;
    size_t size;
} cli_served;

typedef intptr_t cli_socket; /* -1: none */

typedef struct cli_site {
    cli_socket listening;
    char token[CLI_TOKEN_ROOM]; /* hex digits */
    uint16_t port;
    cli_served *files;
    size_t count;
} cli_site;

typedef struct cli_answer_of {
    char head[CLI_HEAD_ROOM]; /* status line and fields, with the empty line */
    size_t head_size;
    const char *body; /* static, or the site's */
    size_t body_size;
} cli_answer_of;

/* Is the request complete: does it hold the empty line? */
bool cli_request_complete(const char *request, size_t size);
/* What is answered to a request, or to one that is too long (complete: false). */
void cli_answer_request(cli_answer_of *a, const cli_site *site, const char *request, size_t size);

/* ---------------------------------------------------------------- folder.c: what is served, in memory */

/* One page, whose bytes it owns then. */
void cli_site_page(cli_site *site, char *html, size_t size);
/* index.html and the files beside it, of the types that a site has. folder NULL: where an installed tool
 * has its own, which is then told. False: reported. */
bool cli_site_folder(cli *c, cli_site *site, const char *folder);
void cli_site_reset(cli_site *site);

/* ---------------------------------------------------------------- serve.c */

/* Listens on 127.0.0.1 (port 0: any that is free). Answers come once it is served. False: reported. */
bool cli_listen(cli *c, cli_site *site, uint16_t port);
/* Calls `ready` with the URL, and answers until it is interrupted, unless that says that nobody knows it. */
void cli_serve(cli *c, const cli_site *site, bool (*ready)(cli *c, const char *url));

/* ---------------------------------------------------------------- sockets_posix.c, sockets_win.c */

enum { CLI_SOCKET_AGAIN = -1, CLI_SOCKET_GONE = -2 };

int cli_socket_start(void); /* 0 or an error number, as the next one */
int cli_socket_listen(cli_socket *out, uint16_t *port);
/* Does not block, nor does what it gives. Below 0: CLI_SOCKET_AGAIN, or GONE: somebody waits, and there is
 * no room for a socket. */
cli_socket cli_socket_accept(cli_socket listening);
void cli_socket_close(cli_socket s);
/* Bytes; 0: the other side has ended (of a read); or one of the two above. */
ptrdiff_t cli_socket_read(cli_socket s, void *to, size_t size);
ptrdiff_t cli_socket_write(cli_socket s, const void *from, size_t size);
/* Waits until one of them can be read or, where `write` says so, written; at most `ms`. */
void cli_socket_wait(const cli_socket *s, const bool *write, size_t count, int ms);
int cli_random(void *to, size_t size); /* from the system; 0 or an error number */
/* Shows a URL in the user's browser. False: there is none to be started. */
bool cli_browse(const char *url);

#endif
