#!/bin/sh
# SPDX-License-Identifier: MIT
# Bazel's Python tests are shell tests that start the Python of .venv, because Debian's Python has no wheels.
exec "$@"
