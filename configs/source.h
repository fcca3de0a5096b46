// SPDX-License-Identifier: MIT
// Where a value was written: a place in a file, or an override of the command line.
#pragma once

#include <memory>
#include <string>

namespace strata::configs {

struct Source {
  std::string name;  // path of the file, or the whole override
  std::string text;
  bool is_override = false;
};

struct Place {
  std::shared_ptr<const Source> source;  // null: nowhere, a default
  int line = 0, column = 0;              // from 1; columns count characters

  // file:12:3, or override 'a.b=c'
  std::string text() const;
  // file:12, override, default; the source alone where there is no line
  std::string origin() const;
  // The source line with a caret under the column, two lines; empty for overrides.
  std::string excerpt() const;
};

}  // namespace strata::configs
