/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * base/text/url.c - what is a URL and no path. Pure.
 */
#include <sft/open.h>

int sft_operand_is_url(const char *text) {
    static const char *const starts[] = {"https://", "http://", "hf://", "s3://"};

    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        const char *at = text;
        const char *start = starts[i];
        while (*start != '\0' && (*at >= 'A' && *at <= 'Z' ? *at | 0x20 : *at) == *start) {
            at++;
            start++;
        }
        if (*start == '\0') {
            return 1;
        }
    }
    return 0;
}
