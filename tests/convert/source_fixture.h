// The common part of the tests of sources: files to convert, and the records that result.

#ifndef SHARDFEED_TESTS_CONVERT_SOURCE_FIXTURE_H_
#define SHARDFEED_TESTS_CONVERT_SOURCE_FIXTURE_H_

#include <filesystem>
#include <fstream>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "convert/items/source.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shardfeed/examples.h"
#include "tfrecord/example.pb.h"

namespace shardfeed {

class SourceTest : public testing::Test {
 protected:
  SourceTest() {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) /
              (std::string(test->test_suite_name()) + "." + test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~SourceTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(std::string_view name) const { return (folder_ / name).string(); }

  // Writes a file, and the folders that contain it; returns its path.
  std::string Write(std::string_view name, std::string_view content) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path.string();
  }

  // A copy of an item that was handed out.
  struct Kept {
    std::string bytes;
    uint32_t file;
    uint64_t line;
  };

  static absl::Status Scan(Source& source) { return source.Scan({}, {}); }

  static std::vector<Kept> Items(const Source& source) {
    std::vector<Kept> items;
    const absl::Status status = source.ForEach([&](const Item& item) {
      items.push_back({std::string(item.bytes), item.file, item.line});
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
    return items;
  }

  static absl::StatusOr<Example> BuildItem(const Source& source, const Kept& kept) {
    // In memory of exactly this size, so that AddressSanitizer detects any read past the end.
    const std::unique_ptr<char[]> exact(new char[kept.bytes.size()]);
    kept.bytes.copy(exact.get(), kept.bytes.size());
    Item item;
    item.bytes = std::string_view(exact.get(), kept.bytes.size());
    item.file = kept.file;
    item.line = kept.line;
    ExampleBuilder builder;
    absl::Status status = source.Build(item, builder);
    if (!status.ok()) return status;
    std::string bytes;
    builder.SerializeExample(&bytes);
    Example example;
    EXPECT_TRUE(example.ParseFromString(bytes));
    return example;
  }

  // Scans, and builds all records.
  static std::vector<Example> Convert(Source& source) {
    const absl::Status status = Scan(source);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return {};
    std::vector<Example> examples;
    for (const Kept& item : Items(source)) {
      absl::StatusOr<Example> example = BuildItem(source, item);
      EXPECT_TRUE(example.ok()) << example.status();
      if (example.ok()) examples.push_back(*std::move(example));
    }
    EXPECT_EQ(examples.size(), source.num_records());
    return examples;
  }

  static void ExpectError(const absl::Status& status, absl::StatusCode code,
                          const std::string& message) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(message));
  }

  // A record as text: "a=int64[1 2] b=bytes[x]", features by name.
  static std::string Text(const Example& example) {
    std::vector<std::string> names;
    for (const auto& feature : example.features().feature()) names.push_back(feature.first);
    std::sort(names.begin(), names.end());
    std::string text;
    for (const std::string& name : names) {
      const Feature& feature = example.features().feature().at(name);
      text += (text.empty() ? "" : " ") + name + "=";
      std::string values;
      const auto add = [&values](const std::string& value) {
        values += (values.empty() ? "" : " ") + value;
      };
      if (feature.has_int64_list()) {
        for (int64_t value : feature.int64_list().value()) add(std::to_string(value));
        text += "int64";
      } else if (feature.has_float_list()) {
        for (float value : feature.float_list().value()) {
          std::ostringstream number;
          number.precision(9);
          number << value;
          add(number.str());
        }
        text += "float";
      } else if (feature.has_bytes_list()) {
        for (const std::string& value : feature.bytes_list().value()) add(value);
        text += "bytes";
      }
      text += "[" + values + "]";
    }
    return text;
  }

  static std::vector<std::string> Texts(const std::vector<Example>& examples) {
    std::vector<std::string> texts;
    for (const Example& example : examples) texts.push_back(Text(example));
    return texts;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_TESTS_CONVERT_SOURCE_FIXTURE_H_
