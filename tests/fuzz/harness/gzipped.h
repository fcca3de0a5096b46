// SPDX-License-Identifier: MIT
// Compresses a text with the right checksum, so that targets of gzipped files reach the code after zlib.
#pragma once

#include <zlib.h>

#include <string>
#include <string_view>

#include "tests/fuzz/harness/target.h"

namespace strata::fuzz {

inline std::string gzipped(std::string_view bytes) {
  constexpr int kGzip = 16;  // added to the window bits, it asks for gzip's header and checksum
  z_stream stream{};
  require(deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflateInit2");
  std::string result(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  const bool whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  result.resize(stream.total_out);
  deflateEnd(&stream);
  require(whole, "deflate");
  return result;
}

}  // namespace strata::fuzz
