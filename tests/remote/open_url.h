/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * tests/remote/open_url.h - a URL at the one door, by the opener of this library alone.
 */
#ifndef SFT_TESTS_OPEN_URL_H
#define SFT_TESTS_OPEN_URL_H

#include <sft/remote.h>

static inline sft_status open_url(sft_catalog **out, sft_remote *remote, const char *url,
                                  const sft_open_options *options, sft_error *err) {
    sft_remote_opening opening;
    sft_door_options door;
    const sft_opener_row row = {sft_remote_opener(), &opening};

    SFT_INIT(&opening);
    opening.remote = remote;
    SFT_INIT(&door);
    door.open = options;
    door.rows = &row;
    door.row_count = 1;
    return sft_open(out, url, NULL, &door, err);
}

#endif
