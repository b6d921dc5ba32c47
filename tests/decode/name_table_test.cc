#include "decode/features/name_table.h"

#include <random>
#include <set>

#include "gtest/gtest.h"

namespace shardfeed {
namespace {

TEST(NameTable, FindsEveryNameWhateverIsGuessed) {
  std::vector<std::string> names;
  for (size_t size = 0; size < 40; ++size) names.emplace_back(size, 'a');
  const NameTable table(names);
  for (uint32_t i = 0; i < names.size(); ++i) {
    for (uint32_t guess = 0; guess < names.size(); ++guess) {
      // In memory of its own, so that reads beyond it are detected.
      const std::vector<char> copy(names[i].begin(), names[i].end());
      EXPECT_EQ(table.Find({copy.data(), copy.size()}, guess), i);
    }
  }
  EXPECT_EQ(table.Find(std::string(40, 'a'), 3), NameTable::kNone);
}

TEST(NameTable, TellsNamesApartThatDifferInOneByte) {
  for (size_t size = 1; size < 40; ++size) {
    const std::string name(size, 'x');
    const NameTable table(std::vector<std::string>{name});
    for (size_t at = 0; at < size; ++at) {
      std::string other = name;
      other[at] = 'y';
      EXPECT_EQ(table.Find(other, 0), NameTable::kNone) << other;
    }
  }
}

TEST(NameTable, ManyNames) {
  std::mt19937 random(5);
  std::set<std::string> distinct;
  while (distinct.size() < 1000) {
    std::string name;
    for (int n = random() % 12; n >= 0; --n) name += static_cast<char>('a' + random() % 3);
    distinct.insert(name);
  }
  std::vector<std::string> names(distinct.begin(), distinct.end());
  std::shuffle(names.begin(), names.end(), random);
  const std::vector<std::string> others(names.begin() + 500, names.end());
  names.resize(500);
  const NameTable table(names);
  for (uint32_t i = 0; i < names.size(); ++i) EXPECT_EQ(table.Find(names[i], 0), i);
  for (const std::string& other : others) EXPECT_EQ(table.Find(other, 0), NameTable::kNone);
}

TEST(NameTable, MayBeEmpty) { EXPECT_TRUE(NameTable({}).empty()); }

}  // namespace
}  // namespace shardfeed
