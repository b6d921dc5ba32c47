// Tests what needs no server: URLs, profiles, signatures.

#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "net/aws_profile.h"
#include "net/azure_account.h"
#include "net/open.h"
#include "net/secret_text.h"
#include "net/sigv4.h"
#include "net/url.h"

namespace shardfeed::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
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

TEST(UrlTest, ParametersThatAreSecretsAreFound) {
  for (const char* name :
       {"sig", "Signature", "X-Amz-Signature", "x%2Damz%2dsecurity-token", "X-Goog-Signature",
        "token", "password", "api_key", "apikey", "access_token", "private_token", "auth", "code",
        "jwt", "sas", "client_secret"}) {
    for (const std::string before : {"https://h/t@2?", "https://h/t@2?a=1&", "https://h/t@2?a=1;",
                                     "https://h/t@2#", "https://h/t@2?a#b&"}) {
      EXPECT_EQ(SecretIn(before + name + "=SECRET&b=2"), name) << before;
    }
  }
  for (const char* url : {"https://h/token=1/t@2", "https://h/t@2?version=2&page=3",
                          "https://h/t@2?", "https://h/t@2?%=1&%2=3&=4", "https://h/t@2#part"}) {
    EXPECT_EQ(SecretIn(url), "") << url;
  }
}

TEST(UrlTest, MessagesShowNoSecrets) {
  EXPECT_EQ(ShownUrl("https://h:80/a/b@2"), "https://h:80/a/b@2");
  EXPECT_EQ(ShownUrl("http://[::1]:80/a"), "http://[::1]:80/a");
  EXPECT_EQ(ShownUrl("ftp://u:SECRET@h/t@2?token=SECRET#SECRET"), "ftp://...@h/t@2");
  EXPECT_EQ(ShownUrl("https://SECRET@h"), "https://...@h");
  EXPECT_EQ(ShownUrl("ftp://u:SEC/RET@h/t@2"), "ftp://...");
  EXPECT_EQ(ShownUrl("ftp://u:SEC?RET@h/t@2"), "ftp://...");
  EXPECT_EQ(ShownUrl("abfss://data@account.host/x"), "abfss://data@account.host/x");
  EXPECT_EQ(ShownUrl("abfss://data:SECRET@account.host/x"), "abfss://...@account.host/x");
  EXPECT_EQ(ShownUrl("a/path?x"), "a/path?x");
}

TEST(UrlTest, SchemesNeedTwoSlashes) {
  for (const auto& [name, meant] :
       {std::pair("s3:/bucket/t@2", "s3://bucket/t@2"),
        std::pair("gs:bucket/t@2", "gs://bucket/t@2"), std::pair("file:/tmp/x", "file:///tmp/x")}) {
    EXPECT_EQ(CheckSlashes(name).message(),
              fmt::format("{}: a URL has two slashes after its scheme: {} (for a path that begins "
                          "so, write ./{})",
                          name, meant, name));
  }
  EXPECT_THAT(std::string(CheckSlashes("http:/u:SECRET@h/x").message()),
              AllOf(HasSubstr("http://...@h/x"), Not(HasSubstr("SECRET"))));
  for (const char* name : {"s3://bucket/t@2", "./s3:/x", "a:b/t@2", "s3", "s3x:/y", "a/s3:/x"}) {
    EXPECT_TRUE(CheckSlashes(name).ok()) << name;
  }
}

TEST(SecretTest, KeysAndTokensHaveNoBlanks) {
  EXPECT_TRUE(CheckSecret("KEY", "a/+=~").ok());
  EXPECT_TRUE(CheckSecret("KEY", "").ok());
  EXPECT_TRUE(CheckSecret("KEY", "Basic x", /*blanks=*/true).ok());
  EXPECT_EQ(CheckSecret("KEY", "SECRET\n").message(), "KEY ends with a line break; remove it");
  EXPECT_EQ(CheckSecret("KEY", "SECRET\r\nX: 1").message(),
            "KEY has blanks, line breaks or other characters that must not be in it");
  EXPECT_FALSE(CheckSecret("KEY", "a b").ok());
  EXPECT_FALSE(CheckSecret("KEY", "ä").ok());
  EXPECT_FALSE(CheckSecret("KEY", "a\r\nb", /*blanks=*/true).ok());
}

TEST(SecretTest, PathsAreNotContents) {
  setenv("SHARDFEED_TEST_PATH", "/etc/a {b}", 1);
  EXPECT_EQ(*PathIn("SHARDFEED_TEST_PATH"), "/etc/a {b}");
  for (const char* content :
       {"{\"private_key\": \"x\"}", "eyJhbGciOi.x.y", "-----BEGIN PRIVATE KEY-----", "a\nb"}) {
    setenv("SHARDFEED_TEST_PATH", content, 1);
    EXPECT_EQ(PathIn("SHARDFEED_TEST_PATH").status().message(),
              "SHARDFEED_TEST_PATH must hold the path of a file, but seems to hold what the file "
              "contains");
  }
  unsetenv("SHARDFEED_TEST_PATH");
  EXPECT_EQ(*PathIn("SHARDFEED_TEST_PATH"), "");
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

// Settings of this process, without any of Azure's before and afterwards.
class AzureTest : public ::testing::Test {
 protected:
  void SetUp() override { Clear(); }
  void TearDown() override { Clear(); }
  static void Clear() {
    for (const char* name :
         {"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_ENDPOINT",
          "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN"}) {
      unsetenv(name);
    }
  }
  static AzureAccount Find(const char* url) {
    const absl::StatusOr<AzureUrl> parsed = ParseAzureUrl(url);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    const absl::StatusOr<AzureAccount> found = FindAzureAccount(*parsed);
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? *found : AzureAccount();
  }
};

constexpr char kLake[] = "abfss://data@lake.dfs.core.windows.net/x";

TEST_F(AzureTest, UrlsNameContainersAndAccounts) {
  EXPECT_EQ(ParseAzureUrl("az://data/a/b@2")->container, "data");
  EXPECT_EQ(ParseAzureUrl("az://$root/a")->container, "$root");
  EXPECT_EQ(ParseAzureUrl(kLake)->container, "data");
  EXPECT_EQ(ParseAzureUrl(kLake)->account, "lake");
  EXPECT_EQ(ParseAzureUrl(kLake)->endpoint, "https://lake.blob.core.windows.net");
  EXPECT_EQ(ParseAzureUrl("abfss://data@lake.dfs.core.chinacloudapi.cn/x")->endpoint,
            "https://lake.blob.core.chinacloudapi.cn");
  for (const char* wrong :
       {"az://a_b/x", "az://data@lake.dfs.core.windows.net/x", "abfss://data/x",
        "abfss://data@lake/x", "abfss://data@.dfs.core.windows.net/x", "abfss://@lake.dfs.net/x",
        "abfss://a@b@lake.dfs.core.windows.net/x", "abfss://data@lake.dfs.host:80/x"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseAzureUrl(wrong).status())) << wrong;
  }
}

TEST_F(AzureTest, SettingsBelongToTheAccountThatTheyName) {
  EXPECT_EQ(Find(kLake).endpoint, "https://lake.blob.core.windows.net");
  EXPECT_FALSE(FindAzureAccount(*ParseAzureUrl("az://data/x")).ok());
  setenv("AZURE_STORAGE_KEY", "YSBrZXk=", 1);
  EXPECT_EQ(Find(kLake).key, "a key");
  EXPECT_FALSE(FindAzureAccount(*ParseAzureUrl("az://data/x")).ok());
  setenv("AZURE_STORAGE_ACCOUNT", "mine", 1);
  EXPECT_EQ(Find("az://data/x").endpoint, "https://mine.blob.core.windows.net");
  EXPECT_EQ(Find("az://data/x").source, "AZURE_STORAGE_KEY");
  EXPECT_EQ(Find(kLake).key, "");
  setenv("AZURE_STORAGE_ENDPOINT", "http://127.0.0.1:10000/mine/", 1);
  EXPECT_EQ(Find("az://data/x").endpoint, "http://127.0.0.1:10000/mine");
  EXPECT_EQ(Find(kLake).endpoint, "https://lake.blob.core.windows.net");
  setenv("AZURE_STORAGE_CONNECTION_STRING",
         "defaultendpointsprotocol=http;AccountName=lake;EndpointSuffix=core.usgovcloudapi.net;"
         "SharedAccessSignature=?sv=1&sig=a%3D;AccountKey=;;nonsense",
         1);
  EXPECT_EQ(Find("az://data/x").endpoint, "http://lake.blob.core.usgovcloudapi.net");
  EXPECT_EQ(Find(kLake).sas, "sv=1&sig=a%3D");
  EXPECT_EQ(Find("abfss://data@other.dfs.core.windows.net/x").sas, "");
}

// By the SDK's SharedKeyCredentialPolicy (azure-storage-blob 12.31.1).
TEST_F(AzureTest, SignaturesAreThoseOfOtherSigners) {
  AzureAccount account;
  account.name = "account";
  account.key = "a key";
  HttpRequest request;
  request.method = "PUT";
  request.url = "http://localhost:10000/account/data/a%20b?blockid=ab%2B%2F&comp=block";
  request.headers = {"x-ms-version: 2020-10-02",  "x-ms-date: Tue, 14 Nov 2023 22:13:20 GMT",
                     "x-ms-blob-type: BlockBlob", "x-ms-meta-shardfeed_writer: me",
                     "If-None-Match: *",          "Content-MD5: XUFAKrxLKna5cZ2REBfFkg=="};
  request.body = std::make_shared<const std::string>("hello");
  EXPECT_EQ(SharedKeyHeader(account, {{"blockid", "ab+/"}, {"comp", "block"}}, request),
            "Authorization: SharedKey account:K4Lo9NNPN6SARILEsjLyDNkhZqkn7HwdX3VrF4hrDRQ=");
  HttpRequest get;
  get.url = "https://account.blob.core.windows.net/data/x";
  get.headers = {"x-ms-date: Tue, 14 Nov 2023 22:13:20 GMT", "x-ms-version: 2020-10-02",
                 "If-Match: \"0x8D\""};
  EXPECT_EQ(SharedKeyHeader(account, {}, get),
            "Authorization: SharedKey account:YOBZYph5DVhz++PGcN5ifHnA2oPwproGiL+u/FpRawc=");
}

TEST_F(AzureTest, SharedAccessSignaturesSayWhenTheyEnd) {
  EXPECT_EQ(SasExpiry("sv=1&se=2023-11-14T22%3A13%3A20Z&sig=x"), 1'700'000'000);
  EXPECT_EQ(SasExpiry("se=2023-11-14"), 1'699'920'000);
  EXPECT_EQ(SasExpiry("si=policy&sig=x"), std::nullopt);
  EXPECT_EQ(SasExpiry("se=&sig=x"), std::nullopt);
}

}  // namespace
}  // namespace shardfeed::testing
