/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * remote/http/curl.h - the few calls of libcurl that are used, found by name at run time. Declared from
 * curl's public description of its interface, which has kept its numbers since 7.1; no header of
 * curl is needed to build this. tests/remote/curl_numbers.py compares them with curl's own.
 */
#ifndef SFT_REMOTE_CURL_H
#define SFT_REMOTE_CURL_H

#include "base/compiler.h"
#include <sft/types.h>

/* X(name, result, arguments), curl_ in front of the name. Handles are pointers; options, codes and
 * what is told of a transfer are numbers. */
#define SFT__REMOTE_CURL_CALLS(X)                                                                  \
    X(version_info, const curl_version_info_data *, (int age))                                     \
    X(global_init, int, (long flags))                                                              \
    X(global_cleanup, void, (void))                                                                \
    X(easy_init, void *, (void))                                                                   \
    X(easy_reset, void, (void *easy))                                                              \
    X(easy_cleanup, void, (void *easy))                                                            \
    X(easy_setopt, int, (void *easy, int option, ...))                                             \
    X(easy_getinfo, int, (void *easy, int info, ...))                                              \
    X(easy_strerror, const char *, (int code))                                                     \
    X(slist_append, struct curl_slist *, (struct curl_slist * list, const char *line))             \
    X(slist_free_all, void, (struct curl_slist * list))                                            \
    X(multi_init, void *, (void))                                                                  \
    X(multi_cleanup, int, (void *multi))                                                           \
    X(multi_setopt, int, (void *multi, int option, ...))                                           \
    X(multi_add_handle, int, (void *multi, void *easy))                                            \
    X(multi_remove_handle, int, (void *multi, void *easy))                                         \
    X(multi_perform, int, (void *multi, int *running))                                             \
    X(multi_poll, int, (void *multi, void *extra, unsigned count, int ms, int *ready))             \
    X(multi_info_read, CURLMsg *, (void *multi, int *left))

struct curl_slist; /* a list of header lines */

typedef struct curl_version_info_data { /* its beginning */
    int age;
    const char *version;
    unsigned version_num; /* 0x075500 is 7.85.0 */
} curl_version_info_data;

typedef struct CURLMsg {
    int msg;
    void *easy_handle;
    union {
        void *whatever;
        int result; /* CURLE_* */
    } data;
} CURLMsg;

struct sockaddr;
struct curl_sockaddr { /* a struct sockaddr of addrlen bytes begins at addr */
    int family;
    int socktype;
    int protocol;
    unsigned addrlen;
    uint16_t addr[8];
};

enum {
    CURLE_OK = 0,
    CURLE_UNSUPPORTED_PROTOCOL = 1,
    CURLE_URL_MALFORMAT = 3,
    CURLE_NOT_BUILT_IN = 4,
    CURLE_COULDNT_RESOLVE_HOST = 6,
    CURLE_WRITE_ERROR = 23,
    CURLE_OUT_OF_MEMORY = 27,
    CURLE_SSL_CONNECT_ERROR = 35,
    CURLE_SSL_ENGINE_NOTFOUND = 53,
    CURLE_SSL_CERTPROBLEM = 58,
    CURLE_SSL_CIPHER = 59,
    CURLE_PEER_FAILED_VERIFICATION = 60,
    CURLE_SSL_CACERT_BADFILE = 77,
    CURLE_SSL_ISSUER_ERROR = 83,
    CURLE_AUTH_ERROR = 94,
    CURLM_OK = 0,
    CURLMSG_DONE = 1,
    CURLINFO_PRIVATE = 1048597,
    CURLINFO_REDIRECT_URL = 1048607,
    CURLINFO_PRIMARY_IP = 1048608,
    CURLMOPT_PIPELINING = 3,
    CURLMOPT_MAXCONNECTS = 6,
    CURLPIPE_MULTIPLEX = 2,
    CURLSOCKTYPE_IPCXN = 0,
    CURL_SOCKET_BAD = -1,
    CURL_GLOBAL_DEFAULT = 3,
    CURL_HTTP_VERSION_1_1 = 2,
    CURL_HTTP_VERSION_2TLS = 4,
    CURL_PREREQFUNC_OK = 0,
    CURL_PREREQFUNC_ABORT = 1,
    CURLVERSION_FIRST = 0,
    CURLOPT_FOLLOWLOCATION = 52, /* options below 10000 take a long, */
    CURLOPT_SSL_VERIFYPEER = 64,
    CURLOPT_SSL_VERIFYHOST = 81,
    CURLOPT_HTTP_VERSION = 84,
    CURLOPT_BUFFERSIZE = 98,
    CURLOPT_NOSIGNAL = 99,
    CURLOPT_CONNECTTIMEOUT_MS = 156,
    CURLOPT_PATH_AS_IS = 234,
    CURLOPT_PIPEWAIT = 237,
    CURLOPT_WRITEDATA = 10001, /* these a pointer to data, */
    CURLOPT_URL = 10002,
    CURLOPT_PROXY = 10004,
    CURLOPT_RANGE = 10007,
    CURLOPT_ERRORBUFFER = 10010,
    CURLOPT_USERAGENT = 10018,
    CURLOPT_HTTPHEADER = 10023,
    CURLOPT_HEADERDATA = 10029,
    CURLOPT_CAINFO = 10065,
    CURLOPT_PRIVATE = 10103,
    CURLOPT_OPENSOCKETDATA = 10164,
    CURLOPT_USERNAME = 10173,
    CURLOPT_PASSWORD = 10174,
    CURLOPT_NOPROXY = 10177,
    CURLOPT_AWS_SIGV4 = 10305,
    CURLOPT_PREREQDATA = 10313,
    CURLOPT_PROTOCOLS_STR = 10318,
    CURLOPT_WRITEFUNCTION = 20011, /* and these a function */
    CURLOPT_HEADERFUNCTION = 20079,
    CURLOPT_OPENSOCKETFUNCTION = 20163,
    CURLOPT_PREREQFUNCTION = 20312
};

typedef struct sft__remote_curl {
#define FIELD(name, result, arguments) result(*name) arguments;
    SFT__REMOTE_CURL_CALLS(FIELD)
#undef FIELD
} sft__remote_curl;

/* Opens libcurl 7.85 or later, which stays open until the process ends. SFT_E_UNSUPPORTED: there is
 * none. */
sft_status sft__remote_curl_find(sft__remote_curl *out, sft_error *err);

#endif
