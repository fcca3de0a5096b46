// SPDX-License-Identifier: MIT
// The main function of unit tests.
#include <gtest/gtest.h>

#include "base/end_process.h"

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  strata::end_process(RUN_ALL_TESTS());
}
