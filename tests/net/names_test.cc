// Tests what needs no server: URLs, profiles, signatures.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "net/aws_profile.h"
#include "net/open.h"
#include "net/sigv4.h"
#include "net/url.h"

namespace shardfeed::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(UrlTest, SchemesAreTold) {
  EXPECT_EQ(SchemeOf("s3://bucket/key"), "s3");
  EXPECT_EQ(SchemeOf("file:///a"), "file");
  EXPECT_EQ(SchemeOf("a/b://c"), std::nullopt);
  EXPECT_EQ(SchemeOf("://c"), std::nullopt);
  EXPECT_EQ(SchemeOf("plain/path"), std::nullopt);
  EXPECT_EQ(SchemeOf("./s3://bucket"), std::nullopt);
  EXPECT_TRUE(IsRemote("https://host"));
  EXPECT_FALSE(IsRemote("/https:/host"));
}

TEST(UrlTest, PartsAreHostAndKey) {
  const UrlParts parts = SplitUrl("s3://bucket/a/b c");
  EXPECT_EQ(parts.scheme, "s3");
  EXPECT_EQ(parts.host, "bucket");
  EXPECT_EQ(parts.key, "a/b c");
  EXPECT_EQ(SplitUrl("s3://bucket").key, "");
  EXPECT_EQ(SplitUrl("http://host:80/").host, "host:80");
}

TEST(UrlTest, AllButUnreservedCharactersAreEscaped) {
  EXPECT_EQ(UrlEscape("aZ9-_.~", false), "aZ9-_.~");
  EXPECT_EQ(UrlEscape("a b/c+d=é%", true), "a%20b/c%2Bd%3D%C3%A9%25");
  EXPECT_EQ(UrlEscape("/", false), "%2F");
}

TEST(ProfileTest, SettingsAreThoseOfTheSection) {
  constexpr char kText[] =
      "# comment\n"
      "region = outside\n"
      "[default]\n"
      "aws_access_key_id=a\r\n"
      "  \n"
      "s3 =\n"
      "  addressing_style = path\n"
      "; comment\n"
      "region = one = two\n"
      "[profile other]\n"
      "region=three\n"
      "nonsense\n";
  EXPECT_THAT(
      ParseProfile(kText, "default"),
      ElementsAre(Pair("aws_access_key_id", "a"), Pair("region", "one = two"), Pair("s3", "")));
  EXPECT_THAT(ParseProfile(kText, "other"), ElementsAre(Pair("region", "three")));
  EXPECT_THAT(ParseProfile(kText, "none"), IsEmpty());
  EXPECT_THAT(ParseProfile("[", "default"), IsEmpty());
  EXPECT_THAT(ParseProfile("", "default"), IsEmpty());
}

TEST(SignatureTest, QueriesAreInTheOrderOfNames) {
  EXPECT_EQ(CanonicalQuery({{"prefix", "a/b"}, {"list-type", "2"}, {"max keys", ""}}),
            "list-type=2&max%20keys=&prefix=a%2Fb");
}

// Made by botocore's S3SigV4Auth for the same key, time and payload.
TEST(SignatureTest, IsThatOfOtherSigners) {
  HttpRequest request;
  SignRequest({"AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "token"}, "eu-west-1",
              "s3", "http://localhost:9000", "/bucket/a%20b", {{"x", "1 2"}}, {}, 1'700'000'000,
              &request);
  EXPECT_EQ(request.headers.back(),
            "Authorization: AWS4-HMAC-SHA256 "
            "Credential=AKIDEXAMPLE/20231114/eu-west-1/s3/aws4_request,"
            "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,"
            "Signature=e9bd4148404491cad997071ffb6a99f40ef0a67ba4e3e0ae7d1d407800b75f3d");
}

}  // namespace
}  // namespace shardfeed::testing
