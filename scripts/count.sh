# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# count.sh - sourced by scripts that run many commands: `run COMMAND...` prints it, runs it and counts; `counted` at the
# end prints "N passed, N failed" and fails if any did. What could not run at all adds to `failed`.
passed=0
failed=0
run() {
    printf '== %s\n' "$*"
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}
counted() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}
