// SPDX-License-Identifier: MIT
// Checks archives with wrong bytes anywhere: they are read or refused as bad data, and nothing else happens.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "base/errors.h"
#include "trainer/data/images/web_dataset.h"

namespace strata::trainer {
namespace {

constexpr size_t kBlock = 512, kChecksum = 148;

// Corrects the checksum of a header, so that the reader trusts the header's fields.
void sign(std::string& archive, size_t header) {
  unsigned sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    sum += i >= kChecksum && i < kChecksum + 8 ? ' ' : static_cast<unsigned char>(archive[header + i]);
  }
  std::array<char, 8> digits;
  std::snprintf(digits.data(), digits.size(), "%06o", sum % 01000000);
  archive.replace(header + kChecksum, 8, std::string(digits.data(), 7) + " ");
}

void add(std::string& archive, const std::string& name, const std::string& content) {
  const size_t header = archive.size();
  archive.resize(header + kBlock);
  std::array<char, 12> size;
  std::snprintf(size.data(), size.size(), "%011zo", content.size());
  archive.replace(header, name.size(), name);
  archive.replace(header + 100, 7, "0000644");
  archive.replace(header + 124, 11, size.data());
  archive[header + 156] = '0';
  archive.replace(header + 257, 5, "ustar");
  archive.replace(header + 263, 2, "00");
  sign(archive, header);
  archive += content;
  archive.resize((archive.size() + kBlock - 1) / kBlock * kBlock);
}

TEST(WebDataset, IsRefusedOrReadWhateverStandsInTheArchive) {
  std::string good;
  for (int i = 0; i < 6; ++i) {
    add(good, "part/" + std::to_string(i) + ".png", std::string(static_cast<size_t>(100 + 300 * i), 'x'));
    add(good, "part/" + std::to_string(i) + ".cls", std::to_string(i));
  }
  good.resize(good.size() + 2 * kBlock);
  const std::string path = testing::TempDir() + "damaged.tar";
  const auto samples = [&](const std::string& archive) {
    std::ofstream(path, std::ios::binary) << archive;
    const WebDataset set(path, /*classes=*/6, /*shuffle=*/4);
    std::vector<int64_t> order;
    for (int64_t place = 0; place < set.count(); ++place) order.push_back(set.image_at(/*key=*/1, place));
    set.fetch(order);
    for (const int64_t image : order) EXPECT_LT(set.read(image).size(), good.size());
    return set.count();
  };
  ASSERT_EQ(samples(good), 6);

  uint32_t noise = 1;
  const auto next = [&](size_t bound) {
    noise = noise * 1664525 + 1013904223;
    return (noise >> 8) % bound;
  };
  int refused = 0, read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good;
    const bool in_headers = round % 2 == 1;
    for (int i = 0; i <= round % 3; ++i) {
      const size_t at = next(bad.size());
      bad[in_headers ? at / kBlock * kBlock + at % 160 : at] = static_cast<char>(next(256));
    }
    for (size_t block = 0; in_headers && block < bad.size(); block += kBlock) {
      if (bad.compare(block + 257, 5, "ustar") == 0) sign(bad, block);
    }
    if (round % 5 == 0) bad.resize(next(bad.size()));
    try {
      samples(bad);
      ++read;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(read, 500);
}

TEST(WebDataset, SaysWhenAnArchiveChangesDuringTheRun) {
  const auto archive_of = [](const std::string& name) {
    std::string archive;
    add(archive, name + ".png", "xxx");
    add(archive, name + ".cls", "1");
    archive.resize(archive.size() + 2 * kBlock);
    return archive;
  };
  const std::string path = testing::TempDir() + "changing.tar";
  const auto write = [&](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
  for (const std::string& later : {archive_of("b"), archive_of("a").substr(0, kBlock + 1), std::string()}) {
    write(archive_of("a"));
    const WebDataset set(path, /*classes=*/2, /*shuffle=*/1);
    write(later);
    try {
      set.fetch({0});
      FAIL() << "was read";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data);
      EXPECT_TRUE(std::string(error.what()).starts_with(path + ": ")) << error.what();
    }
  }
}

}  // namespace
}  // namespace strata::trainer
