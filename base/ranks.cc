// SPDX-License-Identifier: MIT
#include "base/ranks.h"

#include <new>
#include <optional>
#include <system_error>

#include "base/errors.h"

namespace strata {

std::vector<std::string> gather_results(const Ranks& ranks, const std::function<std::string()>& work) {
  std::string mine;  // "+<result>", or "-", one byte with the exit code, and the reason
  const auto failure = [](ExitCode code, const char* reason) {
    return std::string{'-', static_cast<char>(code)} + reason;
  };
  try {
    mine = '+' + work();
  } catch (const Error& error) {
    mine = failure(error.code(), error.what());
  } catch (const std::bad_alloc& error) {
    mine = failure(ExitCode::out_of_memory, error.what());
  } catch (const std::system_error& error) {  // those of std::filesystem too
    mine = failure(ExitCode::storage, error.what());
  } catch (const std::exception& error) {
    mine = failure(ExitCode::internal, error.what());
  }
  std::vector<std::string> results = ranks.gather(mine);
  std::optional<ExitCode> code;
  std::string problems;
  for (std::string& result : results) {
    if (result.starts_with('-')) {
      if (!code) code = static_cast<ExitCode>(static_cast<unsigned char>(result[1]));
      problems += (problems.empty() ? "" : "; ") + result.substr(2);
    }
    result.erase(0, 1);
  }
  if (code) throw Error(*code, problems);
  return results;
}

}  // namespace strata
