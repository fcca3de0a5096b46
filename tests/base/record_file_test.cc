// SPDX-License-Identifier: MIT
#include "base/files/record_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "base/files/file_io.h"
#include "base/files/temporary_folder.h"

namespace strata {
namespace {

// No file of this process may become larger, as on a full disk, until the destructor.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

class RecordFileTest : public testing::Test {
 protected:
  std::string text() const { return read_text_file(path_, 1000); }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/records";
  std::vector<std::string> warnings_;
  RecordFile::Warn warn_ = [this](const std::string& text) { warnings_.push_back(text); };
};

TEST_F(RecordFileTest, ARecordIsThereWholeOrNotAtAll) {
  RecordFile file(path_, 0, warn_);
  file.append("first\n");
  {
    const FileSizeLimit limit(10);  // four bytes of the next record fit
    file.append("second\n");
    file.append("third\n");
  }
  EXPECT_EQ(text(), "first\n");
  file.append("fourth\n");  // there is space again
  EXPECT_EQ(text(), "first\nfourth\n");
  ASSERT_EQ(warnings_.size(), 1);
  EXPECT_NE(warnings_[0].find("records: write failed: File too large; this record is lost, and later ones are tried"),
            std::string::npos)
      << warnings_[0];
}

TEST_F(RecordFileTest, StaysAsItIsIfItCannotBeCut) {
  RecordFile(path_, 0, warn_).append("first\n");
  {
    const FileSizeLimit limit(10);
    RecordFile file(path_, /*keep=*/11, warn_);
    file.append("second\n");
  }
  EXPECT_EQ(text(), "first\n");
  ASSERT_EQ(warnings_.size(), 1);
  EXPECT_NE(warnings_[0].find("records: ftruncate failed: File too large; nothing is written to it"), std::string::npos)
      << warnings_[0];
}

}  // namespace
}  // namespace strata
