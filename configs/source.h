// SPDX-License-Identifier: MIT
// The place where a value was written: in a file, or in an override on the command line.
#pragma once

#include <memory>
#include <string>

namespace strata::configs {

struct Source {
  std::string name;  // path of the file, or the whole text of the override
  std::string text;
  bool is_override = false;
};

struct Place {
  std::shared_ptr<const Source> source;  // null for a default
  int line = 0, column = 0;              // from 1; columns count characters

  // "file:12:3", or "override 'a.b=c'" with at most the first 200 bytes of the override.
  std::string text() const;
  // "file:12", "override" or "default"; the name of the source alone if there is no line. What is not printable in the
  // name is shown as '?'.
  std::string origin() const;
  // The line of the source and a second line with a caret under the column; empty for overrides.
  std::string excerpt() const;
};

}  // namespace strata::configs
