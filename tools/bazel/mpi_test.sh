#!/bin/sh
# SPDX-License-Identifier: MIT
# mpi_test.sh SECONDS RANKS BINARY [ARGUMENTS]: runs a test with RANKS ranks on this machine and ends all of them after
# SECONDS times STRATA_TEST_SLOWDOWN, which is set for sanitizers. It uses shared memory, and the loopback interface for
# mpirun's messages, so it runs in a sandbox without network. mpirun has the folder of the test, because an mpirun that
# starts or ends may remove the folder that it shares with others, and one that makes its own in it then fails.
seconds=$(($1 * ${STRATA_TEST_SLOWDOWN:-1})) ranks=$2 binary=$3
shift 3
timeout --kill-after=5 "$seconds" \
  mpirun --oversubscribe --bind-to none -n "$ranks" --mca btl self,vader --mca oob_tcp_if_include lo \
  --mca orte_tmpdir_base "$TEST_TMPDIR" "$binary" "$@"
outcome=$?
[ "$outcome" -ne 124 ] || echo "mpi_test.sh: the $ranks ranks took more than $seconds s, so they were ended" >&2
exit "$outcome"
