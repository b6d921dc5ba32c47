#include "shard/declarations/tfds_features.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "io/bounded_json.h"
#include "net/open.h"
#include "nlohmann/json.hpp"
#include "shard/names/names.h"
#include "shard/spec/described_folder.h"

namespace shardfeed {
namespace {

using Json = nlohmann::json;

constexpr char kFeatures[] = "features.json";
constexpr uint64_t kMaxJsonBytes = 64 << 20;
constexpr uint64_t kMaxNamesBytes = 64 << 20;
constexpr std::string_view kOfTfds = "tensorflow_datasets.core.features.";
constexpr int64_t kMaxDimension = INT32_MAX;
constexpr size_t kMaxRank = 32;

// Reads the declarations of features, one call for each level of nesting.
class Reader {
 public:
  // The first error; OK so far.
  const absl::Status& status() const { return status_; }
  std::vector<TfdsFeature> Take() { return std::move(features_); }

  void ReadTop(const Json& json) { Read(json, {}); }

 private:
  // A feature of features.json.
  struct Declared {
    std::string name;   // the Python class without its module
    bool known = true;  // whether TFDS itself has the class
    std::string full_name;
    Json content;
    bool old_form = false;  // the members of `content` are not those of the proto
  };
  // The place of a feature.
  struct Place {
    std::string name;           // in records
    std::string file;           // in names of files
    std::string connector;      // the text around "{}", such as "Sequence({})"
    std::vector<int64_t> dims;  // dimensions of the sequences around it
  };

  void Fail(const std::string& what) {
    if (status_.ok()) status_ = absl::DataLossError(what);
  }

  // Returns the member with the name of the proto's field or, in JSON, its other spelling.
  static const Json* Member(const Json& object, std::string_view name) {
    if (!object.is_object()) return nullptr;
    std::string camel;
    for (size_t i = 0; i < name.size(); ++i) {
      if (name[i] == '_' && i + 1 < name.size()) {
        camel += absl::ascii_toupper(static_cast<unsigned char>(name[++i]));
      } else {
        camel += name[i];
      }
    }
    for (const std::string& key : {camel, std::string(name)}) {
      const auto member = object.find(key);
      if (member != object.end() && !member->is_null()) return &*member;
    }
    return nullptr;
  }
  std::string Text(const Json& object, std::string_view name) {
    const Json* member = Member(object, name);
    if (member == nullptr) return "";
    if (!member->is_string()) Fail(fmt::format("'{}' is not a string", name));
    return member->is_string() ? member->get<std::string>() : "";
  }
  bool Flag(const Json& object, std::string_view name) {
    const Json* member = Member(object, name);
    if (member != nullptr && !member->is_boolean()) Fail(fmt::format("'{}' is not a flag", name));
    return member != nullptr && member->is_boolean() && member->get<bool>();
  }
  // 64-bit numbers are strings in proto3 JSON. Any negative number means any length.
  int64_t Size(const Json& json, std::string_view what) {
    if (json.is_null()) return -1;
    if (json.is_number_integer()) {
      const int64_t number = json.get<int64_t>();
      if (number <= kMaxDimension) return std::max<int64_t>(number, -1);
    } else if (json.is_string()) {
      const std::string& text = json.get_ref<const std::string&>();
      if (text.starts_with('-')) return -1;
      const std::optional<uint64_t> number = ParseNumber(text);
      if (number && *number <= static_cast<uint64_t>(kMaxDimension)) {
        return static_cast<int64_t>(*number);
      }
    }
    Fail(fmt::format("'{}' is not a size", what));
    return -1;
  }
  // 0 if it is not known.
  uint64_t NumClasses(const Json& content) {
    const Json* classes = Member(content, "num_classes");
    const int64_t number = classes == nullptr ? 0 : Size(*classes, "num_classes");
    return number < 0 ? 0 : static_cast<uint64_t>(number);
  }
  // The shape of old forms may be null, which means `unknown`.
  std::vector<int64_t> Shape(const Json& content, const std::vector<int64_t>& unknown) {
    const Json* shape = Member(content, "shape");
    if (shape == nullptr) return unknown;
    const Json* dimensions = shape->is_array() ? shape : Member(*shape, "dimensions");
    if (dimensions == nullptr) return {};
    std::vector<int64_t> sizes;
    if (!dimensions->is_array() || dimensions->size() > kMaxRank) {
      Fail("'shape' is not a list of sizes");
      return {};
    }
    for (const Json& size : *dimensions) sizes.push_back(Size(size, "shape"));
    return sizes;
  }

  Declared Open(const Json& json) {
    Declared declared;
    if (Member(json, "python_class_name") != nullptr) {
      declared.full_name = Text(json, "python_class_name");
      constexpr std::array<std::string_view, 11> kContents = {
          "json_feature", "features_dict", "tensor", "class_label", "image",   "video",
          "audio",        "bounding_box",  "text",   "translation", "sequence"};
      for (std::string_view name : kContents) {
        const Json* content = Member(json, name);
        if (content == nullptr) continue;
        declared.content = *content;
        if (name == "json_feature") {
          declared.old_form = true;
          const std::string text = Text(*content, "json");
          if (!ParseBoundedJson(text, &declared.content).ok()) Fail("'json' is not JSON");
        }
      }
    } else if (Member(json, "type") != nullptr) {
      declared.full_name = Text(json, "type");
      declared.old_form = Text(json, "proto_cls").empty();
      if (const Json* content = Member(json, "content")) declared.content = *content;
      // The proto in JSON in a string, as one version wrote it.
      if (declared.content.is_string()) {
        const std::string text = declared.content.get<std::string>();
        if (!ParseBoundedJson(text, &declared.content).ok()) Fail("'content' is not JSON");
      }
    } else {
      Fail("a feature names no class");
    }
    declared.known = declared.full_name.starts_with(kOfTfds);
    declared.name = declared.full_name.substr(declared.full_name.rfind('.') + 1);
    return declared;
  }

  Place Child(const Place& place, const std::string& name) {
    Place child = place;
    child.name = place.name.empty() ? name : place.name + "/" + name;
    std::string file = name;
    std::ranges::replace(file, '/', '.');
    child.file = place.file.empty() ? file : place.file + "-" + file;
    return child;
  }
  Place InSequence(const Place& place, const std::string& what, int64_t length) {
    Place inner = place;
    inner.dims.push_back(length);
    const std::string around = place.connector.empty() ? "{}" : place.connector;
    inner.connector =
        around.substr(0, around.find("{}")) + what + "({})" + around.substr(around.find("{}") + 2);
    return inner;
  }

  void Read(const Json& json, const Place& place) {
    Declared declared = Open(json);
    if (!status_.ok()) return;
    const Json& content = declared.content;
    const std::string& name = declared.name;
    if (place.dims.size() > kMaxRank) {
      Fail(fmt::format("'{}' has more than {} nested sequences", place.name, kMaxRank));
    } else if (!declared.known) {
      TfdsFeature feature;
      feature.problem =
          fmt::format("is a {}, and only that class knows what it stores", declared.full_name);
      Add(place, name, {}, std::move(feature));
    } else if (name == "FeaturesDict") {
      const Json* features = declared.old_form ? &content : Member(content, "features");
      if (features == nullptr) return;
      if (!features->is_object()) return Fail("'features' is not an object");
      for (const auto& [child, feature] : features->items()) Read(feature, Child(place, child));
    } else if (name == "Sequence" || name == "Dataset") {
      const Json* inner = Member(content, "feature");
      if (inner == nullptr) return Fail(fmt::format("'{}' has no 'feature'", place.name));
      // The proto leaves out a length of 0, and the old form one that is not known.
      const Json* length = Member(content, "length");
      const int64_t none = declared.old_form ? -1 : 0;
      Read(*inner, InSequence(place, name, length == nullptr ? none : Size(*length, "length")));
    } else if (name == "Translation" || name == "TranslationVariableLanguages") {
      ReadTranslation(content, name, place);
    } else {
      ReadLeaf(declared, place);
    }
  }

  void ReadTranslation(const Json& content, const std::string& name, const Place& place) {
    if (Member(content, "use_encoder") != nullptr) return AddEncodedText(place, name);
    if (name == "TranslationVariableLanguages") {
      const Place each = InSequence(place, name, -1);
      for (const char* part : {"language", "translation"}) AddValue(Child(each, part), "Text", {});
      return;
    }
    const Json* languages = Member(content, "languages");
    if (languages == nullptr || !languages->is_array()) {
      return Fail(fmt::format("'{}' has no 'languages'", place.name));
    }
    for (const Json& language : *languages) {
      if (!language.is_string()) return Fail("a language is not a string");
      AddValue(Child(place, language.get<std::string>()), "Text", {});
    }
  }

  void ReadLeaf(const Declared& declared, const Place& place) {
    const Json& content = declared.content;
    const std::string& name = declared.name;
    const std::vector<int64_t> pixels = {-1, -1, 3};
    if (name == "Image" || name == "LabeledImage") {
      AddImage(place, name, content, Shape(content, pixels));
    } else if (name == "Video") {
      std::vector<int64_t> shape = Shape(content, {-1, -1, -1, 3});
      const int64_t frames = shape.empty() ? -1 : shape[0];
      if (!shape.empty()) shape.erase(shape.begin());
      AddImage(InSequence(place, name, frames), "Image", content, shape);
    } else if (name == "ClassLabel") {
      TfdsFeature feature;
      feature.dtype = "int64";
      feature.num_classes = NumClasses(content);
      feature.labels_file = place.file + ".labels.txt";
      Add(place, name, {}, std::move(feature));
    } else if (name == "Text") {
      if (Member(content, "use_encoder") != nullptr) return AddEncodedText(place, name);
      AddValue(place, name, {});
    } else if (name == "BBoxFeature") {
      TfdsFeature feature;
      feature.dtype = "float32";
      Add(place, name, {4}, std::move(feature));
    } else if (name == "Tensor" || name == "Scalar" || name == "Audio") {
      ReadTensor(declared, place);
    } else {
      TfdsFeature feature;
      feature.problem = fmt::format("is a {}, which is not known", declared.full_name);
      Add(place, name, {}, std::move(feature));
    }
  }

  void ReadTensor(const Declared& declared, const Place& place) {
    const Json& content = declared.content;
    const bool audio = declared.name == "Audio";
    const std::vector<int64_t> shape =
        Shape(content, audio ? std::vector<int64_t>{-1} : std::vector<int64_t>());
    TfdsFeature feature;
    feature.dtype = Text(content, "dtype");
    if (feature.dtype.empty() && audio) feature.dtype = "int64";
    if (feature.dtype == "string" || feature.dtype == "object" || feature.dtype == "str") {
      feature.dtype = "bytes";
    }
    feature.optional = Flag(content, "optional");
    if (audio && Flag(content, "lazy_decode")) return AddValue(place, declared.name, {});
    const std::string encoding = absl::AsciiStrToLower(Text(content, "encoding"));
    if (encoding == "bytes") {
      feature.encoding = TfdsEncoding::kBytes;
    } else if (encoding == "zlib") {
      feature.encoding = TfdsEncoding::kZlib;
    } else if (!encoding.empty() && encoding != "none") {
      feature.problem = fmt::format("has the encoding '{}', which is not known", encoding);
    }
    if (std::ranges::count(shape, -1) < 2) return Add(place, declared.name, shape, feature);
    // Several lengths are not known: they are in a feature of their own.
    TfdsFeature sizes;
    sizes.dtype = "int32";
    sizes.optional = feature.optional;
    Add(Child(place, "shape"), declared.name + " shape", {static_cast<int64_t>(shape.size())},
        std::move(sizes));
    Add(Child(place, "value"), declared.name, shape, std::move(feature));
  }

  void AddImage(const Place& place, const std::string& name, const Json& content,
                const std::vector<int64_t>& pixels) {
    TfdsFeature feature;
    feature.dtype = "bytes";
    feature.image_format = Text(content, "encoding_format");
    std::string dtype = Text(content, "dtype");
    if (dtype.empty()) dtype = "uint8";
    if (name == "LabeledImage") {
      if (const Json* label = Member(content, "label")) feature.num_classes = NumClasses(*label);
      feature.labels_file = place.file + ".labels.txt";
    }
    std::string sizes;
    for (int64_t size : pixels) {
      sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ",
                           size < 0 ? "any" : fmt::format("{}", size));
    }
    Add(place, fmt::format("{} of {} [{}]", name, dtype, sizes), {}, std::move(feature));
  }

  void AddValue(const Place& place, const std::string& name, const std::vector<int64_t>& shape) {
    TfdsFeature feature;
    feature.dtype = "bytes";
    Add(place, name, shape, std::move(feature));
  }

  void AddEncodedText(const Place& place, const std::string& name) {
    TfdsFeature feature;
    feature.problem = "is text in the numbers of a vocabulary, which TFDS no longer reads";
    Add(place, name, {}, std::move(feature));
  }

  static FeatureKind KindOf(const TfdsFeature& feature) {
    if (feature.encoding != TfdsEncoding::kNone || feature.dtype == "bytes") {
      return FeatureKind::kBytes;
    }
    constexpr std::array<std::string_view, 9> kIntegers = {
        "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"};
    if (std::ranges::count(kIntegers, feature.dtype) > 0) return FeatureKind::kInt64;
    constexpr std::array<std::string_view, 4> kFloats = {"float16", "bfloat16", "float32",
                                                         "float64"};
    if (std::ranges::count(kFloats, feature.dtype) > 0) return FeatureKind::kFloat;
    return FeatureKind::kNone;
  }

  // Whether values of 8 bytes fit into a record with the known lengths.
  static bool FitsRecord(const std::vector<int64_t>& shape) {
    int64_t bytes = sizeof(int64_t);
    for (int64_t size : shape) {
      if (size > 0 && (__builtin_mul_overflow(bytes, size, &bytes) || bytes > kMaxDimension)) {
        return false;
      }
    }
    return true;
  }

  // Adds the features of records that store values of `shape` at a place. `feature` has the rest.
  void Add(const Place& place, const std::string& connector, const std::vector<int64_t>& shape,
           TfdsFeature feature) {
    feature.name = place.name;
    feature.connector = connector;
    if (!place.connector.empty()) {
      feature.connector = place.connector;
      feature.connector.replace(feature.connector.find("{}"), 2, connector);
    }
    feature.kind = KindOf(feature);
    const bool encoded = feature.encoding != TfdsEncoding::kNone;
    if (encoded && feature.dtype == "bytes" && feature.problem.empty()) {
      feature.problem = "is an encoded array of strings, which TFDS does not write";
    }
    if (feature.kind == FeatureKind::kNone && feature.problem.empty()) {
      feature.problem =
          fmt::format("has the type '{}', which has no counterpart here", feature.dtype);
    }
    if (encoded) feature.array_rank = shape.size();
    const auto unknown = std::ranges::count(shape, -1);
    std::vector<int64_t> dims = place.dims;
    if (dims.size() > 1) {
      // Nested sequences become the values of all of them, and the lengths at each level except the
      // first.
      for (size_t level = 0; level + 1 < dims.size(); ++level) {
        TfdsFeature lengths;
        lengths.name = fmt::format("{}/ragged_row_lengths_{}", place.name, level);
        lengths.connector = "lengths of " + feature.connector;
        lengths.kind = FeatureKind::kInt64;
        lengths.dtype = "int64";
        lengths.shape = {-1};
        lengths.problem = feature.problem;
        features_.push_back(std::move(lengths));
      }
      feature.name += "/ragged_flat_values";
      dims = {-1};
    }
    if (!dims.empty() && feature.problem.empty() &&
        ((!encoded && unknown > 0) || (encoded && unknown == 1))) {
      feature.problem = "is a sequence of arrays whose lengths are not stored";
    }
    feature.shape = dims;
    feature.shape.insert(feature.shape.end(), shape.begin(), shape.end());
    if (feature.problem.empty() && !FitsRecord(feature.shape)) {
      feature.problem = "has more values than a record can hold (2 GiB)";
    }
    features_.push_back(std::move(feature));
  }

  absl::Status status_;
  std::vector<TfdsFeature> features_;
};

// Whether the set consists of shards of the splits, whose stems and suffixes it compares.
bool IsOfSplits(const ShardSet& set, const std::vector<std::pair<std::string, Described>>& splits) {
  return std::ranges::all_of(set.paths, [&](const std::string& path) {
    const std::optional<ShardNameView> name = ViewShardName(SplitPath(path).name);
    return name && std::ranges::any_of(splits, [&](const auto& split) {
             return split.second.stem == name->stem && split.second.suffix == name->suffix;
           });
  });
}

}  // namespace

absl::StatusOr<TfdsFeatures> ParseTfdsFeatures(std::string_view text, std::string path) {
  Json json;
  absl::Status status = ParseBoundedJson(text, &json);
  Reader reader;
  if (status.ok()) {
    reader.ReadTop(json);
    status = reader.status();
  }
  if (!status.ok()) {
    return absl::DataLossError(fmt::format("{}: not TFDS's description of features: {}", path,
                                           std::string(status.message())));
  }
  return TfdsFeatures{std::move(path), reader.Take()};
}

absl::StatusOr<std::shared_ptr<const TfdsFeatures>> FindTfdsFeatures(const ShardSet& set) {
  if (set.paths.empty()) return nullptr;
  const std::string directory(SplitPath(set.paths.front()).directory);
  for (const std::string& path : set.paths) {
    if (SplitPath(path).directory != directory) return nullptr;
  }
  const std::string path = JoinPath(directory, kFeatures);
  const absl::StatusOr<std::string> text = ReadWhole(path, kMaxJsonBytes);
  if (absl::IsNotFound(text.status())) return nullptr;
  if (!text.ok()) return text.status();
  const auto splits = ReadTfdsSplits(JoinPath(directory, kTfdsInfo));
  // If that file is missing, or from another program, or describes files of another format,
  // features.json says nothing about these files.
  if (absl::IsNotFound(splits.status()) || absl::IsInvalidArgument(splits.status())) return nullptr;
  if (!splits.ok()) return splits.status();
  if (!IsOfSplits(set, *splits)) return nullptr;
  absl::StatusOr<TfdsFeatures> features = ParseTfdsFeatures(*text, path);
  if (!features.ok()) return features.status();
  return std::make_shared<const TfdsFeatures>(*std::move(features));
}

absl::StatusOr<FeatureClasses> ReadTfdsClasses(const TfdsFeatures& features) {
  FeatureClasses classes;
  for (const TfdsFeature& feature : features.features) {
    if (feature.labels_file.empty()) continue;
    const std::string path = JoinPath(SplitPath(features.path).directory, feature.labels_file);
    const absl::StatusOr<std::string> text = ReadWhole(path, kMaxNamesBytes);
    if (absl::IsNotFound(text.status())) continue;
    if (!text.ok()) return text.status();
    std::vector<std::string> names;
    for (absl::string_view line : absl::StrSplit(*text, '\n')) {
      line = absl::StripAsciiWhitespace(line);
      if (!line.empty()) names.emplace_back(line);
    }
    if (names.empty()) continue;
    if (feature.num_classes != 0 && names.size() != feature.num_classes) {
      return absl::DataLossError(fmt::format("{}: has {} names, but features.json has {} classes",
                                             path, names.size(), feature.num_classes));
    }
    ClassNames of_feature = ClassesInOrder(names);
    if (!AreClassNames(of_feature)) {
      return absl::DataLossError(
          fmt::format("{}: a name of a class appears twice, or is not UTF-8", path));
    }
    classes[feature.name] = std::move(of_feature);
  }
  return classes;
}

FeatureTypes TypesOf(const TfdsFeatures& features) {
  FeatureTypes types;
  for (const TfdsFeature& feature : features.features) {
    if (!feature.problem.empty() || feature.encoding != TfdsEncoding::kNone) continue;
    FeatureType type;
    if (feature.kind != FeatureKind::kBytes) type.dtype = feature.dtype;
    // A schema has no other dimension of any length than the first.
    if (std::ranges::count(feature.shape, -1) ==
        (!feature.shape.empty() && feature.shape.front() == -1 ? 1 : 0)) {
      type.shape = feature.shape;
    }
    if (!type.empty()) types[feature.name] = std::move(type);
  }
  return types;
}

absl::StatusOr<std::optional<TfdsDeclared>> FindTfdsDeclared(const ShardSet& set) {
  const auto lost = [](std::string_view what, const absl::Status& why) {
    return fmt::format("{} are lost: {}", what, std::string(why.message()));
  };
  TfdsDeclared declared;
  const absl::StatusOr<std::shared_ptr<const TfdsFeatures>> found = FindTfdsFeatures(set);
  if (absl::IsDataLoss(found.status())) {
    declared.notes.push_back(lost("the types that TFDS declares", found.status()));
    return declared;
  }
  if (!found.ok()) return found.status();
  if (*found == nullptr) return std::nullopt;
  const TfdsFeatures& tfds = **found;
  std::vector<std::string> reduced;
  for (const TfdsFeature& feature : tfds.features) {
    const auto reduce = [&](std::string_view what) {
      reduced.push_back(fmt::format("{} ({})", QuotedName(feature.name), what));
    };
    if (!feature.problem.empty()) {
      reduce(feature.connector);
      continue;
    }
    if (feature.encoding != TfdsEncoding::kNone) {
      reduce("arrays in strings");
      continue;
    }
    const auto unknown = std::ranges::count(feature.shape, -1);
    const bool any_length = unknown > 0 || std::ranges::count(feature.shape, 0) > 0;
    if (feature.optional && !any_length) reduce("a value for records without it");
    FeatureType& type = declared.types[feature.name];
    type.dtype = feature.dtype;
    // parse() gives single values of all other shapes with lengths that are not known.
    const bool in_front =
        unknown == 1 && feature.shape.front() == -1 && std::ranges::count(feature.shape, 0) == 0;
    type.shape = !any_length || in_front ? feature.shape : std::vector<int64_t>{-1};
  }
  if (!reduced.empty()) {
    constexpr size_t kShown = 5;
    const size_t count = reduced.size();
    if (count > kShown) reduced.resize(kShown);
    declared.notes.push_back(fmt::format(
        "{} declares more about {} than a manifest can hold, so they are parsed as what records "
        "hold: {}{}",
        tfds.path, count == 1 ? "1 feature" : fmt::format("{} features", count),
        fmt::join(reduced, ", "), count > kShown ? ", ..." : ""));
  }
  absl::StatusOr<FeatureClasses> classes = ReadTfdsClasses(tfds);
  if (absl::IsDataLoss(classes.status())) {
    declared.notes.push_back(lost("names of classes", classes.status()));
    return declared;
  }
  if (!classes.ok()) return classes.status();
  declared.classes = *std::move(classes);
  return declared;
}

}  // namespace shardfeed
