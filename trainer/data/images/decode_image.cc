// SPDX-License-Identifier: MIT
#include "trainer/data/images/decode_image.h"

#include <png.h>

#include <algorithm>
#include <cctype>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

// jpeglib.h must come after the headers that define FILE and size_t.
#include <jpeglib.h>
// jerror.h needs jpeglib.h before it.
#include <jerror.h>

namespace strata::trainer {
namespace {

constexpr int64_t kLongestSide = 65500, kMostPixels = 178'956'970, kMostElongated = 200;

// Extra columns that are decoded on both sides of the wanted part of a JPEG. The decoder smooths colors between
// columns of the chroma planes, which would be wrong at the edge of the decoded part.
constexpr int64_t kMargin = 16;

// Encoders write about 10 scans. Each scan of a progressive JPEG visits all of its blocks again, in 5.5 ns a block (one
// core of the build machine): without a limit, a file of 10 MB keeps a thread busy for a quarter of an hour.
constexpr int kMostScans = 500;
// A JPEG in several scans, as progressive ones are, keeps all of its coefficients, 6 bytes a pixel at most. The limit
// allows 89 million such pixels.
constexpr long kMostCoefficientBytes = 512L << 20;
constexpr size_t kMostKeptBytes = size_t{64} << 20;

constexpr std::string_view kJpegMagic = "\xff\xd8\xff", kPngMagic = "\x89PNG\r\n\x1a\n";

void check_size(int64_t height, int64_t width) {
  const std::string size = std::to_string(width) + " x " + std::to_string(height) + " pixels";
  if (height == 0 || width == 0) throw BadImage("has no pixels: " + size);
  if (height > kLongestSide || width > kLongestSide) throw BadImage(size + ": a side is longer than 65,500");
  if (height * width > kMostPixels) throw BadImage(size + ": more than 178,956,970");
  if (std::max(height, width) > kMostElongated * std::min(height, width)) {
    throw BadImage(size + ": one side is more than 200 times the other");
  }
}

// The libraries report errors by longjmp back to their caller. No object with a destructor may be created in between,
// so each library has a struct of plain members and a separate function for each half.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
  jpeg_progress_mgr progress;
  bool has_many_scans;
};

[[noreturn]] void jpeg_failed(j_common_ptr info) {
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  errors->manager.format_message(info, errors->message);
  std::longjmp(errors->back, 1);
}

// Treats warnings as errors: a warning is damage that the decoder would fill with gray, most often an image that ends
// too early.
void jpeg_warned(j_common_ptr info, int level) {
  if (level < 0) jpeg_failed(info);
}

// libjpeg calls this for each row of blocks of each scan that it reads ahead of the pixels.
void count_scans(j_common_ptr info) {
  if (reinterpret_cast<jpeg_decompress_struct*>(info)->input_scan_number <= kMostScans) return;
  auto* errors = reinterpret_cast<JpegErrors*>(info->err);
  errors->has_many_scans = true;
  std::longjmp(errors->back, 1);
}

bool start_jpeg(jpeg_decompress_struct& info, JpegErrors& errors, std::string_view file) {
  if (setjmp(errors.back) != 0) return false;
  jpeg_create_decompress(&info);
  errors.progress.progress_monitor = count_scans;
  info.progress = &errors.progress;
  info.mem->max_memory_to_use = kMostCoefficientBytes;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  return true;
}

// Throws what libjpeg's last error means. A lack of memory is no damage of the image.
[[noreturn]] void refuse_jpeg(const JpegErrors& errors) {
  if (errors.manager.msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  if (errors.manager.msg_code == JERR_NO_BACKING_STORE) {
    throw BadImage("a JPEG in several scans that takes more than 512 MiB; save it as a baseline JPEG of one scan");
  }
  if (errors.has_many_scans) throw BadImage("a JPEG of more than 500 scans; save it as a baseline JPEG");
  throw BadImage(std::string("damaged JPEG: ") + errors.message);
}

// The place of a box in a buffer of rows.
struct Rows {
  size_t bytes = 0, skipped = 0;  // bytes of a row, and its bytes before the box
};

// buffer <- the rows of the box, with some columns around it. The buffer has space for that many rows of the whole
// image.
bool read_jpeg_rows(jpeg_decompress_struct& info, JpegErrors& errors, const Box& box, uint8_t* buffer, Rows& rows) {
  if (setjmp(errors.back) != 0) return false;
  jpeg_start_decompress(&info);
  const int64_t left = std::max<int64_t>(box.left - kMargin, 0);
  const int64_t right = std::min<int64_t>(box.left + box.width + kMargin, info.image_width);
  JDIMENSION first = static_cast<JDIMENSION>(left), columns = static_cast<JDIMENSION>(right - left);
  if (columns < info.image_width) jpeg_crop_scanline(&info, &first, &columns);  // may decrease `first`
  const JDIMENSION top = static_cast<JDIMENSION>(box.top);
  if (top > 0) jpeg_skip_scanlines(&info, top);
  if (info.output_scanline != top) {  // rows before the box would be outside of `buffer`
    std::snprintf(errors.message, sizeof errors.message, "its rows cannot be decoded from row %u on", top);
    return false;
  }
  rows = {3 * static_cast<size_t>(info.output_width), 3 * static_cast<size_t>(box.left - first)};
  const JDIMENSION end = top + static_cast<JDIMENSION>(box.height);
  while (info.output_scanline < end) {
    JSAMPROW row = buffer + rows.bytes * (info.output_scanline - top);
    jpeg_read_scanlines(&info, &row, 1);
  }
  return true;
}

// Keeps only the columns of the box in `pixels`.
void keep_columns(Pixels& pixels, const Rows& rows) {
  const size_t bytes = 3 * static_cast<size_t>(pixels.width), count = static_cast<size_t>(pixels.height);
  uint8_t* values = pixels.values.data();
  for (size_t y = 0; y < count && bytes < rows.bytes; ++y) {
    std::memmove(values + y * bytes, values + y * rows.bytes + rows.skipped, bytes);
  }
}

// True if the end marker is present: its two bytes do not occur within the pixels' data.
bool has_end(const jpeg_decompress_struct& info) {
  const auto* bytes = reinterpret_cast<const char*>(info.src->next_input_byte);
  return std::string_view(bytes, info.src->bytes_in_buffer).rfind("\xff\xd9") != std::string_view::npos;
}

void make_room(Pixels& pixels, int64_t rows, int64_t columns) {
  const size_t bytes = static_cast<size_t>(rows * columns) * 3;
  // One huge image must not keep its memory for the rest of the run.
  if (pixels.values.size() > kMostKeptBytes && bytes <= kMostKeptBytes) pixels.values = std::vector<uint8_t>();
  if (pixels.values.size() < bytes) pixels.values.resize(bytes);
}

void decode_jpeg(std::string_view file, const WantedBox& wanted, Pixels& pixels) {
  jpeg_decompress_struct info{};
  JpegErrors errors{};
  info.err = jpeg_std_error(&errors.manager);
  errors.manager.error_exit = jpeg_failed;
  errors.manager.emit_message = jpeg_warned;
  struct Destroy {
    jpeg_decompress_struct& info;
    ~Destroy() { jpeg_destroy_decompress(&info); }
  } destroy{info};

  if (!start_jpeg(info, errors, file)) refuse_jpeg(errors);
  check_size(info.image_height, info.image_width);
  if (info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK) throw BadImage("a JPEG in CMYK");
  if (!has_end(info)) throw BadImage("damaged JPEG: the file ends too early");
  info.out_color_space = JCS_RGB;
  // Where scans end before all frequencies were sent, libjpeg guesses them from the blocks around. At the edge of the
  // decoded part these are others than in the whole image.
  info.do_block_smoothing = FALSE;
  const Box box = wanted(info.image_height, info.image_width);
  make_room(pixels, box.height, info.image_width);
  pixels.height = box.height;
  pixels.width = box.width;
  Rows rows;
  if (!read_jpeg_rows(info, errors, box, pixels.values.data(), rows)) refuse_jpeg(errors);
  keep_columns(pixels, rows);
}

struct PngSource {
  const char* at;
  size_t left;
  char message[200];
  bool no_memory;
};

// libpng reports a lack of memory as it reports damage, so its allocations are watched.
png_voidp allocate_for_png(png_structp png, png_alloc_size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) static_cast<PngSource*>(png_get_mem_ptr(png))->no_memory = true;
  return memory;
}

void free_for_png(png_structp, png_voidp memory) { std::free(memory); }

[[noreturn]] void refuse_png(const PngSource& source) {
  if (source.no_memory) throw std::bad_alloc();
  throw BadImage(std::string("damaged PNG: ") + source.message);
}

[[noreturn]] void png_failed(png_structp png, png_const_charp message) {
  auto* source = static_cast<PngSource*>(png_get_error_ptr(png));
  std::snprintf(source->message, sizeof source->message, "%s", message);
  png_longjmp(png, 1);
}

// Warnings are about chunks that do not affect pixels.
void png_warned(png_structp, png_const_charp) {}

void read_png_bytes(png_structp png, png_bytep bytes, size_t count) {
  auto* source = static_cast<PngSource*>(png_get_io_ptr(png));
  if (count > source->left) png_error(png, "the file ends too early");
  std::memcpy(bytes, source->at, count);
  source->at += count;
  source->left -= count;
}

bool start_png(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  // Verifies the checksum of every chunk, even of chunks that are not needed.
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_read_info(png, info);
  return true;
}

bool read_png_rows(png_structp png, png_infop info, uint8_t* values, size_t row_bytes, png_uint_32 height) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_expand(png);  // expands palettes and values of fewer than 8 bits
  png_set_gray_to_rgb(png);
  png_set_strip_alpha(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != row_bytes) png_error(png, "its rows have another length than its header says");
  for (int pass = 0; pass < passes; ++pass) {
    for (png_uint_32 row = 0; row < height; ++row) png_read_row(png, values + row_bytes * row, nullptr);
  }
  png_read_end(png, info);
  return true;
}

// True for an APNG, which has a chunk acTL before its pixels.
bool is_animated(std::string_view file) {
  size_t at = kPngMagic.size();
  while (at + 8 <= file.size()) {
    const std::string_view kind = file.substr(at + 4, 4);
    if (kind == "acTL") return true;
    if (kind == "IDAT") return false;
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | static_cast<uint8_t>(file[at + i]);
    at += 12 + length;
  }
  return false;
}

void cut(Pixels& pixels, const Box& box) {
  const size_t bytes = 3 * static_cast<size_t>(box.width);
  for (int64_t y = 0; y < box.height; ++y) {
    const size_t from = 3 * static_cast<size_t>((box.top + y) * pixels.width + box.left);
    std::memmove(pixels.values.data() + static_cast<size_t>(y) * bytes, pixels.values.data() + from, bytes);
  }
  pixels.height = box.height;
  pixels.width = box.width;
}

void decode_png(std::string_view file, const WantedBox& wanted, Pixels& pixels) {
  if (is_animated(file)) throw BadImage("an animated PNG");
  PngSource source{file.data(), file.size(), {}, false};
  png_structp png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &source, png_failed, png_warned, &source,
                                             allocate_for_png, free_for_png);
  if (png == nullptr) throw std::bad_alloc();
  png_infop info = png_create_info_struct(png);
  struct Destroy {
    png_structp& png;
    png_infop& info;
    ~Destroy() { png_destroy_read_struct(&png, &info, nullptr); }
  } destroy{png, info};
  if (info == nullptr) throw std::bad_alloc();
  png_set_read_fn(png, &source, read_png_bytes);
  png_set_user_limits(png, 0x7fffffff, 0x7fffffff);  // check_size() applies the limits
  png_set_chunk_cache_max(png, 1);  // skips texts, which would be unpacked and kept: 0.8 MB of them took 770 MB

  if (!start_png(png, info)) refuse_png(source);
  const png_uint_32 height = png_get_image_height(png, info), width = png_get_image_width(png, info);
  check_size(height, width);
  if (png_get_bit_depth(png, info) > 8) throw BadImage("a PNG of 16 bits a channel");
  make_room(pixels, height, width);
  pixels.height = height;
  pixels.width = width;
  if (!read_png_rows(png, info, pixels.values.data(), static_cast<size_t>(width) * 3, height)) refuse_png(source);
  cut(pixels, wanted(pixels.height, pixels.width));
}

void make_grey(Pixels& pixels) {
  const auto count = static_cast<size_t>(pixels.height * pixels.width);
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* rgb = pixels.values.data() + 3 * i;
    // 0.299, 0.587 and 0.114 in 16-bit fixed point with rounding, as in PIL.
    pixels.values[i] = static_cast<uint8_t>((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16);
  }
}

bool has_suffix(std::string_view name, std::string_view suffix) {
  const auto same = [](char wanted, char c) { return wanted == std::tolower(static_cast<unsigned char>(c)); };
  return name.size() >= suffix.size() &&
         std::equal(suffix.begin(), suffix.end(), name.end() - static_cast<std::ptrdiff_t>(suffix.size()), same);
}

}  // namespace

void decode_image(std::string_view file, std::string_view name, int64_t channels, const WantedBox& wanted,
                  Pixels& pixels) {
  const bool is_jpeg = file.starts_with(kJpegMagic), is_png = file.starts_with(kPngMagic);
  if (!is_jpeg && !is_png) throw BadImage(file.empty() ? "is empty" : "is neither a JPEG nor a PNG file");
  const bool fits = is_jpeg ? has_suffix(name, ".jpg") || has_suffix(name, ".jpeg") : has_suffix(name, ".png");
  if (!fits) {
    throw BadImage(std::string("is a ") + (is_jpeg ? "JPEG" : "PNG") + " file, and its name says something else");
  }
  is_jpeg ? decode_jpeg(file, wanted, pixels) : decode_png(file, wanted, pixels);
  if (channels == 1) make_grey(pixels);
}

}  // namespace strata::trainer
