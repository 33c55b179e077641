#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# epoch.sh - the time that everything in a release bears: SOURCE_DATE_EPOCH, else what the source tarball says
# (packaging/epoch, written by tarball.sh), else the time of the last commit.
set -eu
cd "$(dirname "$0")/.."
if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
    echo "$SOURCE_DATE_EPOCH"
elif [ -e packaging/epoch ]; then
    cat packaging/epoch
else
    git log -1 --format=%ct
fi
