// SPDX-License-Identifier: MIT
#include "tools/bench/images/jpeg_file.h"

#include <cstdio>
#include <cstdlib>

// jpeglib.h must come after the headers that define FILE and size_t.
#include <jpeglib.h>

namespace strata::tools {

std::string jpeg_file(int64_t width, int64_t height, const JpegKind& kind,
                      const std::function<void(int64_t y, std::vector<uint8_t>& row)>& fill) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(width);
  info.image_height = static_cast<JDIMENSION>(height);
  info.input_components = kind.gray ? 1 : 3;
  info.in_color_space = kind.gray ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, kind.quality, TRUE);
  info.comp_info[0].h_samp_factor = kind.across;
  info.comp_info[0].v_samp_factor = kind.down;
  if (kind.progressive) jpeg_simple_progression(&info);
  info.restart_in_rows = kind.restart_rows;
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> row(static_cast<size_t>(width * info.input_components));
  for (int64_t y = 0; y < height; ++y) {
    fill(y, row);
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&info, &rows, 1);
  }
  jpeg_finish_compress(&info);
  std::string file(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return file;
}

}  // namespace strata::tools
