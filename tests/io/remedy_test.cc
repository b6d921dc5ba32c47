#include "io/remedy.h"

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace shardfeed {
namespace {

TEST(RemedyTest, IsNoPartOfTheMessage) {
  const absl::Status status = WithRemedy(absl::AlreadyExistsError("a: there is a dataset"),
                                         {"overwrite", "", "replace it"});
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(status.message(), "a: there is a dataset");
  const std::optional<Remedy> remedy = RemedyOf(status);
  ASSERT_TRUE(remedy.has_value());
  EXPECT_EQ(remedy->option, "overwrite");
  EXPECT_EQ(remedy->value, "");
  EXPECT_EQ(remedy->purpose, "replace it");
}

TEST(RemedyTest, StaysWithAnotherMessage) {
  const absl::Status status =
      WithMessage(WithRemedy(absl::DataLossError("too long"), {"max_record", "SIZE", "read it"}),
                  "a: too long");
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "a: too long");
  ASSERT_TRUE(RemedyOf(status).has_value());
  EXPECT_EQ(RemedyOf(status)->value, "SIZE");
}

TEST(RemedyTest, ErrorsHaveNoneOfThemselves) {
  EXPECT_FALSE(RemedyOf(absl::DataLossError("cut")).has_value());
}

}  // namespace
}  // namespace shardfeed
