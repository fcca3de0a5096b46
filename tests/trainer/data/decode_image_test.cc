// SPDX-License-Identifier: MIT
#include "trainer/data/images/decode_image.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/images/jpeg_file.h"

namespace strata::trainer {
namespace {

using tools::JpegKind;

// Returns a JPEG of colored waves with noise, so that each block has all frequencies.
std::string jpeg(int64_t height, int64_t width, const JpegKind& kind) {
  unsigned noise = 1;
  return tools::jpeg_file(width, height, kind, [&](int64_t y, std::vector<uint8_t>& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      noise = noise * 1664525 + 1013904223;
      const double wave = std::sin(0.05 * static_cast<double>(i)) +
                          std::cos(0.11 * static_cast<double>(y) + static_cast<double>(i % 3));
      row[i] = static_cast<uint8_t>(128 + 50 * wave + (noise >> 27));
    }
  });
}

Pixels decoded(const std::string& file, const WantedBox& wanted) {
  Pixels pixels;
  decode_image(file, "a.jpg", 3, wanted, pixels);
  EXPECT_GE(pixels.values.size(), static_cast<size_t>(pixels.height * pixels.width * 3));
  return pixels;
}

std::string segment(char marker, const std::string& content) {
  const size_t length = content.size() + 2;
  return std::string{'\xff', marker, static_cast<char>(length >> 8), static_cast<char>(length)} + content;
}

// Returns a progressive JPEG of side x side pixels. Its one Huffman code is the bit 0, which means 0 or the end of a
// block, and each of its scans has the data of one block: it is whole up to 8 x 8 pixels of one component.
std::string progressive(int side, int components, int scans) {
  const char high = static_cast<char>(side >> 8), low = static_cast<char>(side);
  std::string sizes = {8, high, low, high, low, static_cast<char>(components)};
  std::string first_scan = {static_cast<char>(components)};
  for (char component = 1; component <= components; ++component) {
    sizes += {component, 0x11, 0};
    first_scan += {component, 0};
  }
  const std::string code = std::string(1, 1) + std::string(16, 0);
  std::string file = "\xff\xd8" + segment('\xdb', std::string(1, 0) + std::string(64, 1)) + segment('\xc2', sizes) +
                     segment('\xc4', std::string(1, 0x00) + code) + segment('\xc4', std::string(1, 0x10) + code) +
                     segment('\xda', first_scan + std::string(3, 0)) + '\x7f';
  for (int scan = 0; scan < scans; ++scan) file += segment('\xda', {1, 1, 0, 1, 63, 0}) + '\x7f';
  return file + "\xff\xd9";
}

// Takes what the heap has left, down to blocks of 64 kB, and lets it have no more.
class NoMemory {
 public:
  NoMemory() {
    getrlimit(RLIMIT_AS, &before_);
    rlimit none = before_;
    none.rlim_cur = 1;
    setrlimit(RLIMIT_AS, &none);
    while (void* block = std::malloc(1 << 16)) blocks_ = new (block) Block{blocks_};
  }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
  ~NoMemory() {
    setrlimit(RLIMIT_AS, &before_);
    while (blocks_ != nullptr) std::free(std::exchange(blocks_, blocks_->next));
  }

 private:
  struct Block {
    Block* next;
  };
  rlimit before_{};
  Block* blocks_ = nullptr;
};

constexpr char kScan[] = "\xff\xda";  // the marker of a scan, which does not occur within a scan's data

Box everything(int64_t height, int64_t width) { return {0, 0, height, width}; }
Box first_pixel(int64_t, int64_t) { return {0, 0, 1, 1}; }

constexpr int64_t kHeight = 203, kWidth = 157;

// Checks that boxes of a JPEG of kHeight x kWidth pixels have the pixels that are there in the whole image.
void expect_parts_of_the_whole(const std::string& file, const std::string& kind) {
  const Pixels whole = decoded(file, everything);
  ASSERT_EQ(whole.height, kHeight);
  ASSERT_EQ(whole.width, kWidth);
  std::vector<Box> boxes = {{0, 0, 1, 1}, {kHeight - 1, kWidth - 1, 1, 1}, {0, 0, kHeight, 1}, {100, 0, 1, kWidth}};
  for (int64_t n = 0; n < 60; ++n) {
    const int64_t top = n * 37 % kHeight, left = n * 53 % kWidth;
    boxes.push_back({top, left, 1 + n * 29 % (kHeight - top), 1 + n * 31 % (kWidth - left)});
  }
  Pixels part;  // reused for all boxes
  for (const Box& box : boxes) {
    const auto wanted = [&](int64_t height, int64_t width) {
      EXPECT_EQ(height, kHeight);
      EXPECT_EQ(width, kWidth);
      return box;
    };
    decode_image(file, "part.jpeg", 3, wanted, part);
    ASSERT_EQ(part.height, box.height);
    ASSERT_EQ(part.width, box.width);
    int64_t different = 0;
    for (int64_t y = 0; y < box.height; ++y) {
      for (int64_t x = 0; x < 3 * box.width; ++x) {
        const auto there = static_cast<size_t>((box.top + y) * kWidth * 3 + box.left * 3 + x);
        different += part.values[static_cast<size_t>(y * box.width * 3 + x)] != whole.values[there];
      }
    }
    EXPECT_EQ(different, 0) << kind << ", box " << box.height << " x " << box.width << " at " << box.top << ", "
                            << box.left;
  }
}

TEST(DecodeImage, APartOfAJpegIsThatPartOfTheWhole) {
  constexpr std::array<JpegKind, 8> kKinds = {{{1, 1},
                                               {2, 1},
                                               {1, 2},
                                               {2, 2},
                                               {4, 1},
                                               {1, 1, /*gray=*/true},
                                               {2, 2, false, /*progressive=*/true},
                                               {2, 2, false, false, /*restart_rows=*/1}}};
  for (size_t i = 0; i < kKinds.size(); ++i) {
    expect_parts_of_the_whole(jpeg(kHeight, kWidth, kKinds[i]), "kind " + std::to_string(i));
  }
}

// libjpeg guesses the frequencies that no scan sends from the blocks around, which a part may not have.
TEST(DecodeImage, APartOfAJpegThatLacksScansIsThatPartOfTheWhole) {
  for (const JpegKind& kind : {JpegKind{1, 1}, {2, 1}, {2, 2}, {4, 1}}) {
    JpegKind progressive = kind;
    progressive.progressive = true;
    const std::string file = jpeg(kHeight, kWidth, progressive);
    size_t scan = file.find(kScan);
    for (int scans = 1; scans <= 6; ++scans) {
      scan = file.find(kScan, scan + 2);
      ASSERT_NE(scan, std::string::npos);
      expect_parts_of_the_whole(file.substr(0, scan) + "\xff\xd9",
                                std::to_string(scans) + " scans of " + std::to_string(kind.across));
    }
  }
}

TEST(DecodeImage, AJpegThatEndsTooEarlyIsRefusedWhateverIsWanted) {
  const std::string file = jpeg(64, 64, {2, 2});
  const auto first_rows = [](int64_t, int64_t width) { return Box{0, 0, 8, width}; };
  EXPECT_NO_THROW(decoded(file, first_rows));
  EXPECT_NO_THROW(decoded(file + "trailer", first_rows));
  for (const size_t bytes : {file.size() - 1, file.size() - 2, file.size() / 2, size_t{4}}) {
    EXPECT_THROW(decoded(file.substr(0, bytes), first_rows), BadImage) << bytes;
  }
}

// Damage anywhere in the file must not touch memory outside of the file or the pixels, and a refusal must give a
// reason.
TEST(DecodeImage, SurvivesDamageAnywhere) {
  const std::string good = jpeg(48, 80, {2, 2});
  unsigned noise = 7;
  int refused = 0;
  for (size_t at = 3; at < good.size(); at += 3) {
    std::string file = good;
    noise = noise * 1664525 + 1013904223;
    file[at] = static_cast<char>(noise >> 24);
    try {
      decoded(file, [](int64_t height, int64_t width) {
        return Box{height / 4, width / 4, (height + 1) / 2, (width + 1) / 2};
      });
    } catch (const BadImage& problem) {
      EXPECT_GT(std::string(problem.what()).size(), 10u);
      ++refused;
    }
  }
  EXPECT_GT(refused, 10);
}

std::string refusal(const std::string& file) {
  try {
    decoded(file, first_pixel);
  } catch (const BadImage& problem) {
    return problem.what();
  }
  return "was decoded";
}

TEST(DecodeImage, AJpegOfManyScansIsRefused) {
  EXPECT_EQ(refusal(progressive(8, 1, 499)), "was decoded");
  EXPECT_EQ(refusal(progressive(8, 1, 510)), "a JPEG of more than 500 scans; save it as a baseline JPEG");
}

// 12000 x 12000 pixels of three components have 864 MB of coefficients, 9000 x 9000 have 486 MB.
TEST(DecodeImage, AProgressiveJpegThatTakesTooMuchMemoryIsRefused) {
  EXPECT_EQ(refusal(progressive(12000, 3, 1)),
            "a JPEG in several scans that takes more than 512 MiB; save it as a baseline JPEG of one scan");
  EXPECT_EQ(refusal(progressive(9000, 3, 1)), "damaged JPEG: Corrupt JPEG data: premature end of data segment");
}

TEST(DecodeImage, TheMemoryOfAHugeImageIsGivenBack) {
  const std::string file = jpeg(64, 64, {2, 2});
  Pixels pixels;
  for (const bool huge : {false, true}) {
    pixels.values.resize(huge ? size_t{65} << 20 : size_t{63} << 20);
    const size_t before = pixels.values.capacity();
    decode_image(file, "a.jpg", 3, everything, pixels);
    EXPECT_EQ(pixels.values.capacity() < before, huge);
  }
}

// A machine that is short of memory must not decide which images are trained on.
TEST(DecodeImage, ALackOfMemoryIsNoDamage) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the program when it has no memory";
#endif
  // A PNG of 65500 x 328 pixels, up to the first of its pixels: a row takes more than the 64 kB that are left.
  const std::string png(
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\xff\xdc\0\0\x01\x48\x08\x02\0\0\0\xae\x83\x94\x9d\0\0\0\x01IDAT\0", 42);
  for (const std::string& file : {progressive(9000, 3, 1), png}) {
    Pixels pixels;
    pixels.values.resize(size_t{3} * 65500 * 328);
    const std::string name = file == png ? "a.png" : "a.jpg";
    std::string what;
    {
      const NoMemory none;
      try {
        decode_image(file, name, 3, first_pixel, pixels);
      } catch (const BadImage& problem) {
        what = problem.what();
      } catch (const std::bad_alloc&) {
        what = "no memory";
      }
    }
    EXPECT_EQ(what, "no memory");
  }
}

}  // namespace
}  // namespace strata::trainer
