#include "shard/manifest/manifest.h"

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "shard/manifest/manifest_seal.h"
#include "shard/spec/spec.h"
#include "shardfeed/examples.h"
#include "tests/testing/files.h"
#include "tfrecord/crc32c.h"

namespace shardfeed {
namespace {

using testing::TestFolder;
using Json = nlohmann::ordered_json;

constexpr char kPath[] = "out/.shardfeed/d.manifest.json";

// A manifest with everything that it may contain.
Manifest Full(const std::string& stem = "d") {
  Manifest manifest;
  manifest.stem = stem;
  manifest.suffix = ".tfrecord";
  manifest.made_by = {{"tool", "shardfeed 1"}, {"command", "convert text"}};
  manifest.notes = {"a note \"with\" quotes"};
  manifest.classes = {{"i", {{0, "cat"}, {7, "a \"dog\"\n\u00f6"}}}, {"j", {{0, "x"}, {1, "y"}}}};
  manifest.skipped.count = 2;
  manifest.skipped.first = {"first", "second"};
  for (uint64_t i = 0; i < 2; ++i) {
    ExampleBuilder builder;
    builder.AddInt64("i", 7);
    builder.AddBytes("text", "four");
    std::string record;
    builder.SerializeExample(&record);
    EXPECT_OK(manifest.schema.AddRecord(record));
    manifest.shards.push_back({ShardName(stem, i, 2, ".tfrecord"), 100 + i, 1, 0xabcdef01});
  }
  return manifest;
}

// The text of a manifest after `change` altered its members, with the checksum of the change.
template <typename Change>
std::string Changed(Change change) {
  Json json = Json::parse(FormatManifest(Full()));
  json.erase("crc32c");
  change(json);
  return SealManifest(json.dump(1));
}

// A manifest of the format before checksums.
std::string Version1() {
  Json json = Json::parse(FormatManifest(Full()));
  json.erase("crc32c");
  json["version"] = 1;
  return json.dump(1) + "\n";
}

TEST(Manifest, GoesBothWays) {
  const Manifest written = Full();
  const auto read = ParseManifest(FormatManifest(written), kPath);
  ASSERT_OK(read);
  EXPECT_EQ(read->stem, "d");
  EXPECT_EQ(read->shards, written.shards);
  EXPECT_EQ(read->made_by, written.made_by);
  EXPECT_EQ(read->notes, written.notes);
  EXPECT_EQ(read->skipped, written.skipped);
  EXPECT_EQ(read->classes, written.classes);
  EXPECT_EQ(read->schema.features(), written.schema.features());
  EXPECT_EQ(FormatManifest(*read), FormatManifest(written));
}

TEST(Manifest, EndsWithTheChecksumOfAllBytesBefore) {
  const std::string text = FormatManifest(Full());
  constexpr size_t kSealBytes = 23;
  const std::string_view sealed(text.data(), text.size() - kSealBytes);
  EXPECT_EQ(text.substr(sealed.size()),
            fmt::format("\"crc32c\": \"{:08x}\"\n}}\n", Crc32c(sealed)));
  EXPECT_EQ(Json::parse(text)["version"], 2);
}

TEST(Manifest, EveryFlippedBitIsDataLoss) {
  const std::string sound = FormatManifest(Full());
  for (size_t bit = 0; bit < 8 * sound.size(); ++bit) {
    std::string text = sound;
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << (bit % 8));
    ASSERT_FALSE(ParseManifest(text, kPath).ok()) << "bit " << bit;
    ASSERT_EQ(ParseManifest(text, kPath).status().code(), absl::StatusCode::kDataLoss) << bit;
  }
}

TEST(Manifest, EveryCutAndEveryLostByteIsDataLoss) {
  const std::string sound = FormatManifest(Full());
  for (size_t i = 0; i < sound.size(); ++i) {
    EXPECT_FAILS(ParseManifest(sound.substr(0, i), kPath), kDataLoss, kPath);
    EXPECT_FAILS(ParseManifest(sound.substr(0, i) + sound.substr(i + 1), kPath), kDataLoss, kPath);
  }
  EXPECT_FAILS(ParseManifest(sound + "\n", kPath), kDataLoss, "it was changed or damaged");
}

TEST(Manifest, ChangeUnderAnOldChecksumSaysTheRightOne) {
  std::string text = FormatManifest(Full());
  text.replace(text.find("convert"), 7, "REVERT!");
  const std::string sealed = text.substr(0, text.size() - 23);
  EXPECT_FAILS(ParseManifest(text, kPath), kDataLoss,
               fmt::format("{}: not a shardfeed manifest: it was changed or damaged: the end of a "
                           "manifest of version 2 with this content is \"crc32c\": \"{:08x}\"; "
                           "restore the file, or remove it: the shards can be read without it",
                           kPath, Crc32c(sealed)));
}

TEST(Manifest, Version1IsReadWithoutAChecksum) {
  const auto read = ParseManifest(Version1(), kPath);
  ASSERT_OK(read);
  EXPECT_EQ(FormatManifest(*read), FormatManifest(Full()));
}

TEST(Manifest, ChecksumCannotBeEscapedByAnotherVersion) {
  std::string text = FormatManifest(Full());
  text.replace(text.find("\"version\": 2"), 12, "\"version\": 1");
  EXPECT_FAILS(ParseManifest(text, kPath), kDataLoss, "it was changed or damaged");
  EXPECT_FAILS(ParseManifest(Changed([](Json& json) { json["version"] = 1; }), kPath), kDataLoss,
               "it was changed or damaged");
  EXPECT_FAILS(ParseManifest(Changed([](Json& json) { json["version"] = 3; }), kPath), kDataLoss,
               "unknown version 3");
  EXPECT_FAILS(ParseManifest(Changed([](Json& json) { json["version"] = "1"; }), kPath), kDataLoss,
               "\"version\": expected an unsigned 64-bit integer, got \"1\"");
  Json json = Json::parse(FormatManifest(Full()));
  json.erase("crc32c");
  EXPECT_FAILS(ParseManifest(json.dump(1) + "\n", kPath), kDataLoss, "it was changed or damaged");
}

TEST(Manifest, HasTheNamesOfClasses) {
  const Json json = Json::parse(FormatManifest(Full()));
  EXPECT_EQ(json["classes"]["i"].dump(),
            "{\"names\":[\"cat\",\"a \\\"dog\\\"\\n\u00f6\"],\"numbers\":[0,7]}");
  EXPECT_EQ(json["classes"]["j"].dump(), "{\"names\":[\"x\",\"y\"]}");
  Manifest manifest = Full();
  manifest.classes.clear();
  EXPECT_FALSE(Json::parse(FormatManifest(manifest)).contains("classes"));
  for (int i = 0; i < 22'000; ++i) manifest.classes["i"][i] = fmt::format("class {}", i);
  const auto read = ParseManifest(FormatManifest(manifest), kPath);
  ASSERT_OK(read);
  EXPECT_EQ(read->classes, manifest.classes);
}

TEST(Manifest, LiesAboutClassesAreRefused) {
  const std::pair<const char*, const char*> lies[] = {
      {"[]", "\"classes\": expected an object"},
      {R"({"i": ["x"]})", "the classes of \"i\": expected an object"},
      {R"({"i": {}})", "the classes of \"i\": \"names\" is missing"},
      {R"({"i": {"names": []}})", "the classes of \"i\": \"names\" is empty"},
      {R"({"i": {"names": [1]}})", "\"names\": expected a list of strings"},
      {R"({"i": {"names": [""]}})", "class 0 has an empty name"},
      {R"({"i": {"names": ["x", "x"]}})", "two classes are named \"x\""},
      {R"({"i": {"names": ["x", "y"], "numbers": [1]}})", "there are 2 names and 1 numbers"},
      {R"({"i": {"names": ["x", "y"], "numbers": [1, 1]}})", "two classes have the number 1"},
      {R"({"i": {"names": ["x"], "numbers": [-1]}})", "-1 is not the number of a class"},
      {R"({"i": {"names": ["x"], "numbers": [9223372036854775808]}})",
       "9223372036854775808 is not the number of a class"},
      {R"({"i": {"names": ["x"], "numbers": [0.5]}})", "0.5 is not the number of a class"},
      {R"({"i": {"names": ["x"], "numbers": {}}})", "\"numbers\": expected a list"}};
  for (const auto& [classes, message] : lies) {
    const Json parsed = Json::parse(classes);
    const auto lie = Changed([&](Json& json) { json["classes"] = parsed; });
    EXPECT_FAILS(ParseManifest(lie, kPath), kDataLoss, message);
  }
}

TEST(Manifest, NamesOfOtherFilesAreRefused) {
  for (const char* name :
       {"../precious/thesis.tex", "/etc/passwd", "", "..", ".", "d-00000-of-00002",
        "d-00001-of-00002.tfrecord", "d-00000-of-00003.tfrecord", "x/d-00000-of-00002.tfrecord",
        "d-000000-of-000002.tfrecord"}) {
    EXPECT_FAILS(
        ParseManifest(Changed([&](Json& json) { json["shards"][0]["file"] = name; }), kPath),
        kDataLoss,
        fmt::format("{}: not a shardfeed manifest: its shard 0 is called '{}' instead of "
                    "'d-00000-of-00002.tfrecord'",
                    kPath, name));
  }
}

TEST(Manifest, StemAndSuffixAreThoseOfTheDataset) {
  const auto with = [](const std::string& stem, const std::string& suffix) {
    return Changed([&](Json& json) {
      json["stem"] = stem;
      json["suffix"] = suffix;
      for (size_t i = 0; i < 2; ++i) json["shards"][i]["file"] = ShardName(stem, i, 2, suffix);
    });
  };
  EXPECT_FAILS(ParseManifest(with("e", ""), kPath), kDataLoss, "it describes 'e'; was it renamed?");
  EXPECT_FAILS(ParseManifest(with("../d", ""), kPath), kDataLoss, "it describes '../d'");
  // Read by another name, as while a dataset is being written.
  EXPECT_OK(ParseManifest(with("e", ""), "manifest"));
  EXPECT_FAILS(ParseManifest(with("../e", ""), "manifest"), kDataLoss, "2 shards with the stem");
  EXPECT_FAILS(ParseManifest(with("", ""), "manifest"), kDataLoss, "2 shards with the stem");
  for (const char* suffix : {"x", "./../../precious", ".", "/x"}) {
    EXPECT_FAILS(
        ParseManifest(with("d", suffix), kPath), kDataLoss,
        fmt::format("2 shards with the stem 'd' and the suffix '{}' are not a valid dataset",
                    suffix));
  }
}

TEST(Manifest, NamesThatAreNotUtf8AreThoseOfTheFiles) {
  const std::string stem = "caf\xe9";
  const std::string path = ManifestPath("out", stem);
  const auto read = ParseManifest(FormatManifest(Full(stem)), path);
  ASSERT_OK(read);
  EXPECT_EQ(read->stem, stem);
  EXPECT_EQ(read->shards[1].file, stem + "-00001-of-00002.tfrecord");
}

TEST(Manifest, TotalsAreThoseOfTheShards) {
  const auto with = [](const char* key, uint64_t value) {
    return ParseManifest(Changed([&](Json& json) { json[key] = value; }), kPath);
  };
  EXPECT_FAILS(with("num_shards", 3), kDataLoss, "num_shards is 3, but it lists 2 shards");
  EXPECT_FAILS(with("records", 1), kDataLoss, "its shards hold more than the totals");
  EXPECT_FAILS(with("records", 3), kDataLoss, "its shards hold less than the totals");
  EXPECT_FAILS(with("bytes", 200), kDataLoss, "its shards hold more than the totals");
  EXPECT_FAILS(with("not_examples", 3), kDataLoss,
               "not_examples is 3, but there are only 2 records");
  EXPECT_FAILS(ParseManifest(Changed([](Json& json) {
                               json["shards"] = Json::array();
                               json["num_shards"] = json["records"] = json["bytes"] = 0;
                               json["features"] = Json::object();
                             }),
                             kPath),
               kDataLoss, "0 shards with the stem");
}

TEST(Manifest, ShardsHoldNoMoreRecordsThanTheirBytesCan) {
  const auto with = [](uint64_t records) {
    return ParseManifest(Changed([&](Json& json) {
                           json["shards"][0]["records"] = records;
                           json["records"] = records + 1;
                         }),
                         kPath);
  };
  // The first has 100 bytes.
  EXPECT_FAILS(with(100 * 1032 / 16 + 1), kDataLoss,
               "'d-00000-of-00002.tfrecord' cannot hold 6451 records in 100 bytes");
  EXPECT_FAILS(with(UINT64_MAX - 1), kDataLoss, "records in 100 bytes");
}

TEST(Manifest, SumsDoNotOverflow) {
  for (const char* key : {"records", "bytes"}) {
    EXPECT_FAILS(ParseManifest(Changed([&](Json& json) {
                                 json[key] = 1;
                                 json["shards"][0][key] = uint64_t{1} << 63;
                                 json["shards"][1][key] = (uint64_t{1} << 63) + 1;
                               }),
                               kPath),
                 kDataLoss, "its shards hold more than the totals");
  }
}

TEST(Manifest, NumbersThatDoNotFitAreRefused) {
  for (const char* number : {"-1", "1.5", "1e3", "18446744073709551616", "true", "null", "\"1\""}) {
    for (const char* key : {"records", "bytes", "num_shards", "not_examples"}) {
      EXPECT_FAILS(
          ParseManifest(Changed([&](Json& json) { json[key] = Json::parse(number); }), kPath),
          kDataLoss, fmt::format("\"{}\": expected an unsigned 64-bit integer, got ", key));
    }
    for (const char* key : {"records", "bytes"}) {
      EXPECT_FAILS(
          ParseManifest(Changed([&](Json& json) { json["shards"][1][key] = Json::parse(number); }),
                        kPath),
          kDataLoss, fmt::format("\"{}\": expected an unsigned 64-bit integer, got ", key));
    }
  }
  for (const char* digest : {"", "x", "-1", "123456789", "0x12", "12 "}) {
    EXPECT_FAILS(
        ParseManifest(Changed([&](Json& json) { json["shards"][0]["records_digest"] = digest; }),
                      kPath),
        kDataLoss, "a records_digest is not a 32-bit hexadecimal number");
  }
}

TEST(Manifest, EachMemberIsNeeded) {
  const Json sound = Json::parse(FormatManifest(Full()));
  for (const auto& [key, value] : sound.items()) {
    if (key == "crc32c" || key == "notes" || key == "skipped" || key == "classes") continue;
    EXPECT_FAILS(ParseManifest(Changed([&, k = key](Json& json) { json.erase(k); }), kPath),
                 kDataLoss, "not a shardfeed manifest");
  }
}

TEST(Manifest, DeepAndLongDocumentsAreRefusedBeforeTheyAreBuilt) {
  constexpr size_t kDeep = 100'000;
  const std::string deep = std::string(kDeep, '[') + std::string(kDeep, ']');
  for (const char* key : {"version", "format", "made_by", "extra"}) {
    EXPECT_FAILS(
        ParseManifest(fmt::format("{{\"format\": \"shardfeed manifest\", \"{}\": {}}}", key, deep),
                      kPath),
        kDataLoss, "nested more than 100 deep");
  }
  std::string many = "{\"a\": [0";
  for (size_t i = 0; i < (size_t{1} << 23); ++i) many += ",0";
  EXPECT_FAILS(ParseManifest(many + "]}", kPath), kDataLoss, "expected at most 8388608");
}

TEST(Manifest, OtherDocumentsAreDataLoss) {
  for (const char* text : {"", "{", "[]", "1", "null", "{}", "\xff", R"({"format": 1})"}) {
    EXPECT_FAILS(ParseManifest(text, kPath), kDataLoss,
                 fmt::format("{}: not a shardfeed manifest: ", kPath));
  }
  EXPECT_FAILS(ParseManifest(R"({"format": "other", "version": 2})", kPath), kDataLoss,
               "\"format\" names another format");
}

TEST(Manifest, MissingOneIsNotFound) {
  TestFolder folder;
  EXPECT_FAILS(ReadManifest(folder / "none"), kNotFound, "none: cannot open");
}

}  // namespace
}  // namespace shardfeed
