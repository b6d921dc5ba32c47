#include "convert/items/item_selection.h"

#include <random>
#include <set>

#include "convert/input/fingerprint.h"
#include "tests/testing/files.h"

namespace shardfeed {
namespace {

using testing::TestFolder;

// Given items, whose keys and contents are their bytes.
class GivenSource : public Source {
 public:
  explicit GivenSource(std::vector<std::string> items) : items_(std::move(items)) {}

  absl::Status Scan(std::stop_token, const std::function<void(uint64_t)>&) override {
    return absl::OkStatus();
  }
  uint64_t num_records() const override { return items_.size(); }
  uint64_t num_bytes() const override { return 0; }
  std::string InputFingerprint() const override { return ""; }
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override {
    for (const std::string& item : items_) {
      if (absl::Status status = sink({.bytes = item}); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status Build(const Item&, ExampleBuilder&) const override { return absl::OkStatus(); }
  absl::Status VisitContent(const Item& item,
                            const std::function<void(std::string_view)>& visit) const override {
    if (item.bytes == "broken") return absl::DataLossError("broken");
    visit(item.bytes);
    return absl::OkStatus();
  }

 private:
  std::vector<std::string> items_;
};

class ItemSelectionTest : public ::testing::Test {
 protected:
  SelectionOptions Options() {
    SelectionOptions options;
    options.directory = folder_.path();
    return options;
  }
  TestFolder folder_;
};

TEST_F(ItemSelectionTest, KeepsTheFirstOfEqualContents) {
  std::mt19937 random(1);
  std::vector<std::string> items(30000);
  for (std::string& item : items) item = std::to_string(random() % 9000);
  const GivenSource source(items);
  for (size_t memory : {64 << 20, 100 << 10, 10 << 10}) {
    SelectionOptions options = Options();
    options.deduplicate = true;
    options.memory_bytes = memory;
    options.threads = 2;
    const auto selection = ItemSelection::Make(source, options);
    ASSERT_OK(selection);
    std::set<std::string> seen;
    for (size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(selection->OutputOf(i), seen.insert(items[i]).second ? 0 : ItemSelection::kNowhere);
    }
    EXPECT_EQ(selection->CountOf(0), seen.size());
    EXPECT_EQ(selection->num_duplicates(), items.size() - seen.size());
    EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  }
}

TEST_F(ItemSelectionTest, OneContentThatFillsTheMemory) {
  const GivenSource source(std::vector<std::string>(20000, "the same"));
  SelectionOptions options = Options();
  options.deduplicate = true;
  options.memory_bytes = 10 << 10;
  const auto selection = ItemSelection::Make(source, options);
  ASSERT_OK(selection);
  EXPECT_EQ(selection->CountOf(0), 1);
  EXPECT_EQ(selection->OutputOf(0), 0);
}

TEST_F(ItemSelectionTest, SharesAreFractionsOfTheHash) {
  std::vector<std::string> items;
  for (int i = 0; i < 20000; ++i) items.push_back(std::to_string(i));
  SelectionOptions options = Options();
  options.shares = {0.5, 0.3, 0.2};
  const auto selection = ItemSelection::Make(GivenSource(items), options);
  ASSERT_OK(selection);
  for (size_t i = 0; i < items.size(); ++i) {
    const double at = static_cast<double>(KeyHash(items[i])) * 0x1p-64;
    EXPECT_EQ(selection->OutputOf(i), at < 0.5 ? 0 : at < 0.8 ? 1 : 2);
  }
  EXPECT_NEAR(selection->CountOf(0), 10000, 300);
  EXPECT_NEAR(selection->CountOf(2), 4000, 300);
}

TEST_F(ItemSelectionTest, WhatIsBrokenIsADuplicateOfNone) {
  const GivenSource source({"x", "broken", "broken", "x"});
  SelectionOptions options = Options();
  options.deduplicate = true;
  EXPECT_FAILS(ItemSelection::Make(source, options), kDataLoss, "broken");
  options.skip_defects = true;
  const auto selection = ItemSelection::Make(source, options);
  ASSERT_OK(selection);
  EXPECT_EQ(selection->CountOf(0), 3);
}

TEST(FingerprintTest, IsStable) {
  // XXH64 with seed 0, as computed by xxhsum and Python's xxhash.
  EXPECT_EQ(KeyHash(""), 0xef46db3751d8e999u);
  EXPECT_EQ(KeyHash("abc"), 0x44bc2cf5ad770999u);
  Fingerprint a, b;
  a.Add("ab");
  a.Add("c");
  b.Add("a");
  b.Add("bc");
  EXPECT_NE(a.Hex(), b.Hex());
  EXPECT_EQ(a.Hex().size(), 32);
}

}  // namespace
}  // namespace shardfeed
