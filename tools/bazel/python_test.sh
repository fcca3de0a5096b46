#!/bin/sh
# SPDX-License-Identifier: MIT
# Bazel's tests of Python are shell tests that start the Python of .venv: Debian's has no wheels.
exec "$@"
