// SPDX-License-Identifier: MIT
// A library without candidates.
extern "C" __attribute__((visibility("default"))) int other_function() { return 1; }
