# SPDX-License-Identifier: Apache-2.0 OR MIT
# cmake -D IN=FILE -D OUT=FILE.c -P embed.cmake - the template of report's page as a C array.
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes
  "${bytes}")
file(WRITE ${OUT} "/* Made of web/dist/report.html. */
#include <stddef.h>
extern const unsigned char cli_report_template[];
extern const size_t cli_report_template_size;
const unsigned char cli_report_template[] = {
${bytes}};
const size_t cli_report_template_size = sizeof cli_report_template;
")
