// SPDX-License-Identifier: MIT
// The executable of all GoogleTest cases that need one GPU. Most of them need all kernels, which are linked once.
#include <gtest/gtest.h>

#include "tests/chosen_file.h"

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  return strata::tests::choose_file(arguments[0]) ? RUN_ALL_TESTS() : 2;
}
