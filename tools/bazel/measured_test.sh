#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# measured_test.sh TEST [ARGUMENTS]: runs a test and adds to its log the user and system seconds of its processes. It is
# for `bazel test --run_under`. tools/launcher/test_times.py reads the line.
TIMEFORMAT='processor seconds: %U %S'
time "$@"
