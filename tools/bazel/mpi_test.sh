#!/bin/sh
# SPDX-License-Identifier: MIT
# mpi_test.sh SECONDS RANKS BINARY [ARGUMENTS]: runs a test on RANKS ranks of this machine and ends them all after SECONDS.
# Shared memory only and the loopback interface for mpirun's own messages: a sandbox without network will do.
seconds=$1 ranks=$2 binary=$3
shift 3
exec timeout --kill-after=5 "$seconds" \
  mpirun --oversubscribe --bind-to none -n "$ranks" --mca btl self,vader --mca oob_tcp_if_include lo "$binary" "$@"
