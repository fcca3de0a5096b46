#!/bin/sh
# SPDX-License-Identifier: MIT
# instruction_set_test.sh FLAGS VARIABLES BINARY [ARGUMENTS]: runs a GoogleTest binary with the given environment
# variables. If /proc/cpuinfo lacks a flag, the test is reported as skipped. Commas separate flags and variables.
flags=$(echo "$1" | tr , ' ') variables=$(echo "$2" | tr , ' ') binary=$3
shift 3
missing=
for flag in $flags; do
  grep -m 1 '^flags' /proc/cpuinfo | grep -qw "$flag" || missing="$missing $flag"
done
if [ -n "$missing" ]; then
  echo "not run: this processor has no$missing"
  [ -z "$XML_OUTPUT_FILE" ] || cat >"$XML_OUTPUT_FILE" <<END
<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="instruction_set" tests="1" failures="0">
<testcase name="${binary##*/}" classname="$(echo "$flags" | tr ' ' .)" status="notrun"><skipped message="this processor has no$missing"/></testcase>
</testsuite></testsuites>
END
  exit 0
fi
# shellcheck disable=SC2086
exec env $variables "$binary" "$@"
