// SPDX-License-Identifier: MIT
// Checks each file that its input names. Prints "accepted", or why the file is not a safetensors file.
#include <iostream>
#include <string>

#include "base/errors.h"
#include "trainer/checkpoint/safetensors.h"

int main() {
  for (std::string path; std::getline(std::cin, path);) {
    try {
      const strata::trainer::SafetensorsFile file(path);
      std::cout << "accepted" << std::endl;
    } catch (const strata::Error& error) {
      std::cout << std::string(error.what()).substr(path.size()) << std::endl;
    }
  }
}
