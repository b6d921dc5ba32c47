#include "cli/flags/convert_kinds.h"

#include <utility>

#include "cli/flags/image_flags.h"
#include "cli/flags/table_flags.h"
#include "cli/terminal/units.h"
#include "convert/features/class_map.h"
#include "convert/features/feature_choice.h"
#include "convert/features/label_file.h"
#include "convert/sources/captions.h"
#include "convert/sources/cifar.h"
#include "convert/sources/coco.h"
#include "convert/sources/csv.h"
#include "convert/sources/files.h"
#include "convert/sources/idx.h"
#include "convert/sources/imagefolder.h"
#include "convert/sources/images.h"
#include "convert/sources/json.h"
#include "convert/sources/metadata_images.h"
#include "convert/sources/npy.h"
#include "convert/sources/tar.h"
#include "convert/sources/text_lines.h"
#include "convert/sources/tfrecord.h"
#include "convert/sources/voc.h"
#include "convert/sources/yolo.h"
#include "fmt/format.h"
#include "shard/schema/class_names.h"

namespace shardfeed {
namespace {

using Paths = std::vector<std::string>;

// For kinds that take nothing over from another dataset but are still compared with it.
MakeSource WithoutLike(std::function<absl::StatusOr<std::unique_ptr<Source>>(Paths)> make) {
  return [make = std::move(make)](Paths paths, const NamedManifest*) {
    return make(std::move(paths));
  };
}

// Adds an option and returns the variable for its value, which is set when the command runs.
std::shared_ptr<std::string> AddText(CLI::App& command, const std::string& name,
                                     const std::string& type, const std::string& help) {
  auto value = std::make_shared<std::string>();
  command.add_option(name, *value, help)->type_name(type);
  return value;
}

std::shared_ptr<std::string> AddClassMap(CLI::App& command, const std::string& what) {
  return AddText(command, "--class-map", "FILE|DATASET",
                 what +
                     ": one name per line, counted from 0, JSON {\"cat\": 0}, or a dataset "
                     "whose classes are these");
}

// Reads the class map, or takes it from the dataset of --like. `needed` says whether classes have
// no numbers without one, so that a dataset without class names is an error.
absl::StatusOr<std::optional<ClassMap>> ReadClassMap(const std::string& path,
                                                     const NamedManifest* like, bool needed) {
  if (!path.empty() && like != nullptr) {
    return absl::InvalidArgumentError(
        "--class-map cannot be combined with --like, which takes the "
        "classes from " +
        like->name);
  }
  if (path.empty() &&
      (like == nullptr || (!needed && ClassesOfImages(like->manifest.classes) == nullptr))) {
    return std::optional<ClassMap>();
  }
  absl::StatusOr<ClassMap> map = like != nullptr ? ClassMap::Of(*like) : ClassMap::Read(path);
  if (!map.ok()) return map.status();
  return std::optional<ClassMap>(*std::move(map));
}

std::shared_ptr<ImageFlags> AddImageFlags(CLI::App& command, JpegMode fallback, bool resizes) {
  return std::make_shared<ImageFlags>(command, fallback, resizes);
}

// Images in a folder that has a table of their features.
absl::StatusOr<std::unique_ptr<Source>> MakeTableOfImages(const std::string& table,
                                                          const StoredImageOptions& images,
                                                          const NamedManifest* like) {
  ChosenKinds kinds;
  if (like != nullptr) kinds = KindsLike(like->manifest.schema, like->name);
  return MakeMetadataImagesSource(table, images, std::move(kinds));
}

MakeSource DeclareImageFolder(CLI::App& command) {
  auto classes = AddClassMap(command, "the numbers of the classes");
  auto images = AddImageFlags(command, JpegMode::kSeekable, /*resizes=*/true);
  return [classes, images](Paths paths,
                           const NamedManifest* like) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<std::string> metadata =
        classes->empty() ? FindMetadata(paths) : absl::StatusOr<std::string>("");
    if (!metadata.ok()) return metadata.status();
    if (!metadata->empty()) return MakeTableOfImages(*metadata, images->options(), like);
    absl::StatusOr<std::optional<ClassMap>> map = ReadClassMap(*classes, like, /*needed=*/true);
    if (!map.ok()) return map.status();
    return MakeImageFolderSource(std::move(paths),
                                 {.classes = *std::move(map), .images = images->options()});
  };
}

std::shared_ptr<std::string> AddSplitColumn(CLI::App& command, const std::string& what) {
  return AddText(command, "--split-column", "NAME",
                 what +
                     " that names each record's split: write several datasets, OUT-VALUE for "
                     "each of its values");
}

MakeSource DeclareImages(CLI::App& command) {
  auto labels = AddText(command, "--label-file", "FILE",
                        "labels: a .csv or .tsv with a header, or lines \"NAME LABEL\"");
  auto table = std::make_shared<LabelFileOptions>();
  command
      .add_option("--label-column", table->label_column,
                  "the column of the label in a .csv or .tsv; default: \"label\", or the second of "
                  "two; other columns become features")
      ->type_name("NAME");
  auto split = AddSplitColumn(command, "the column of the label file");
  auto classes = AddClassMap(command, "the numbers of the labels, or the names of numbers");
  auto images = AddImageFlags(command, JpegMode::kSeekable, /*resizes=*/true);
  return [=](Paths paths, const NamedManifest* like) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<std::string> metadata =
        labels->empty() ? FindMetadata(paths) : absl::StatusOr<std::string>("");
    if (!metadata.ok()) return metadata.status();
    if (!metadata->empty()) {
      if (table->label_column.empty() && split->empty() && classes->empty()) {
        return MakeTableOfImages(*metadata, images->options(), like);
      }
      return absl::InvalidArgumentError(fmt::format(
          "{} describes the images, and all of its columns are features; --label-column, "
          "--split-column and --class-map take --label-file {}",
          *metadata, *metadata));
    }
    ImagesOptions options;
    options.images = images->options();
    if (labels->empty()) {
      if (table->label_column.empty() && split->empty()) {
        absl::StatusOr<std::optional<ClassMap>> map = ReadClassMap(*classes, nullptr, false);
        if (!map.ok()) return map.status();
        options.classes = *std::move(map);
        return MakeImagesSource(std::move(paths), std::move(options));
      }
      return absl::InvalidArgumentError(
          "--label-column and --split-column name columns of a table: add --label-file");
    }
    table->split_column = *split;
    if (like != nullptr) table->kinds = KindsLike(like->manifest.schema, like->name);
    absl::StatusOr<LabelFile> file = LabelFile::Read(*labels, *table);
    if (!file.ok()) return file.status();
    const bool are_classes = file->labels() != LabelFile::Labels::kValues;
    absl::StatusOr<std::optional<ClassMap>> map =
        ReadClassMap(*classes, are_classes ? like : nullptr,
                     /*needed=*/file->labels() == LabelFile::Labels::kNames);
    if (!map.ok()) return map.status();
    options.classes = *std::move(map);
    options.labels = *std::move(file);
    return MakeImagesSource(std::move(paths), std::move(options));
  };
}

// The values of --columns and --schema.
struct ChoiceFlags {
  std::vector<std::string> columns;
  std::string schema;
};

std::shared_ptr<ChoiceFlags> AddChoice(CLI::App& command) {
  auto flags = std::make_shared<ChoiceFlags>();
  command.add_option("--columns", flags->columns, "make features of these columns only")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A,B,...");
  command
      .add_option("--schema", flags->schema,
                  "kinds to use instead of the inferred ones: JSON {\"age\": \"int64\"}, or the "
                  "manifest of a dataset")
      ->type_name("FILE");
  return flags;
}

// Reads the choice; kinds that it leaves open are those of the dataset of --like. `prefix` is that
// of the features to which the choice applies.
absl::StatusOr<FeatureChoice> ReadChoice(const ChoiceFlags& flags, const NamedManifest* like,
                                         std::string_view prefix = "") {
  FeatureChoice choice;
  choice.columns = flags.columns;
  if (!flags.schema.empty()) {
    auto kinds = ReadFeatureKinds(flags.schema);
    if (!kinds.ok()) return kinds.status();
    choice.kinds = *std::move(kinds);
  }
  if (like == nullptr) return choice;
  for (const auto& [name, chosen] : KindsLike(like->manifest.schema, like->name)) {
    if (!name.starts_with(prefix) || !choice.Chooses(name)) continue;
    const auto [given, fresh] = choice.kinds.emplace(name, chosen);
    if (fresh || given->second.kind == chosen.kind) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: {} is {}, but {} in {}; leave one of --schema and --like out",
                    flags.schema, QuotedName(name), ColumnKindName(given->second.kind),
                    ColumnKindName(chosen.kind), like->name));
  }
  return choice;
}

// Adds --max-record, whose value ReadMaxRecord turns into bytes.
std::shared_ptr<std::string> AddMaxRecord(CLI::App& command) {
  return AddText(command, "--max-record", "SIZE",
                 "a longer line, row or object is an error; default 64MiB");
}

absl::StatusOr<uint64_t> ReadMaxRecord(const std::string& text) {
  if (text.empty()) return kDefaultMaxLineBytes;
  const std::optional<uint64_t> size = ParseSize(text);
  if (size && *size > 0 && *size <= (uint64_t{1} << 30)) return *size;
  return absl::InvalidArgumentError("--max-record " + text + ": expected a size of at most 1GiB");
}

std::shared_ptr<std::string> AddSplitKey(CLI::App& command, const std::string& what) {
  return AddText(
      command, "--split-key", "NAME",
      what + " whose value decides the split: records with the same value stay together");
}

MakeSource DeclareCaptions(CLI::App& command) {
  auto options = std::make_shared<CaptionsOptions>();
  auto choice = AddChoice(command);
  command.add_flag("--keep-json", options->keep_json,
                   "keep each .json file as one feature instead of one feature for each key");
  auto images = AddImageFlags(command, JpegMode::kSeekable, /*resizes=*/true);
  return [options, choice, images](
             Paths paths, const NamedManifest* like) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<FeatureChoice> chosen = ReadChoice(*choice, like);
    if (!chosen.ok()) return chosen.status();
    if (like != nullptr) {
      std::erase_if(chosen->kinds, [](const auto& of_feature) {
        return of_feature.first == "text" || of_feature.first.starts_with("image/");
      });
    }
    options->choice = *std::move(chosen);
    options->images = images->options();
    return MakeCaptionsSource(std::move(paths), *options);
  };
}

MakeSource DeclareCoco(CLI::App& command) {
  auto folder =
      AddText(command, "--images", "FOLDER",
              "the folder that file names begin in; default: that of the annotation file");
  auto max_record = AddMaxRecord(command);
  auto images = AddImageFlags(command, JpegMode::kSeekable, /*resizes=*/true);
  return [=](Paths paths, const NamedManifest*) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<uint64_t> size = ReadMaxRecord(*max_record);
    if (!size.ok()) return size.status();
    return MakeCocoSource(
        std::move(paths),
        {.images_folder = *folder, .max_object_bytes = *size, .images = images->options()});
  };
}

MakeSource DeclareVoc(CLI::App& command) {
  auto options = std::make_shared<VocOptions>();
  auto subset = AddText(command, "--subset", "NAME",
                        "only the images that ImageSets/Main/NAME.txt lists; default: all");
  command.add_flag(
      "--zero-based", options->zero_based,
      "coordinates are edges that count from 0, and are divided by the size unchanged");
  auto classes = AddClassMap(command, "the numbers of the classes");
  auto images = AddImageFlags(command, JpegMode::kSeekable, /*resizes=*/true);
  return [=](Paths paths, const NamedManifest* like) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<std::optional<ClassMap>> map = ReadClassMap(*classes, like, /*needed=*/true);
    if (!map.ok()) return map.status();
    return MakeVocSource(std::move(paths), {.subset = *subset,
                                            .classes = *std::move(map),
                                            .zero_based = options->zero_based,
                                            .images = images->options()});
  };
}

MakeSource DeclareYolo(CLI::App& command) {
  auto subset = AddText(command, "--subset", "NAME",
                        "train, val or test of data.yaml, or a folder in images/; needed if there "
                        "are several");
  auto images = AddImageFlags(command, JpegMode::kSeekable, /*resizes=*/true);
  return [=](Paths paths, const NamedManifest*) -> absl::StatusOr<std::unique_ptr<Source>> {
    return MakeYoloSource(std::move(paths), {.subset = *subset, .images = images->options()});
  };
}

MakeSource DeclareTable(CLI::App& command, bool tabs) {
  auto flags = AddTableFlags(command, tabs);
  auto choice = AddChoice(command);
  auto max_record = AddMaxRecord(command);
  auto key = AddSplitKey(command, "the column");
  auto split = AddSplitColumn(command, "the column");
  return [=](Paths paths, const NamedManifest* like) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<CsvOptions> options = ReadTableFlags(*flags);
    if (!options.ok()) return options.status();
    if (tabs) options->delimiter = '\t';
    absl::StatusOr<FeatureChoice> chosen = ReadChoice(*choice, like);
    if (!chosen.ok()) return chosen.status();
    options->choice = *std::move(chosen);
    absl::StatusOr<uint64_t> size = ReadMaxRecord(*max_record);
    if (!size.ok()) return size.status();
    options->max_row_bytes = *size;
    options->key_column = *key;
    options->split_column = *split;
    return MakeCsvSource(std::move(paths), *std::move(options));
  };
}

MakeSource DeclareJson(CLI::App& command, JsonLayout layout) {
  auto choice = AddChoice(command);
  auto dates = std::make_shared<std::string>();
  AddDatesFlag(command, "key", dates.get());
  auto max_record = AddMaxRecord(command);
  auto key = AddSplitKey(command, "the key (dotted, if nested)");
  auto split = AddSplitColumn(command, "the key (dotted, if nested)");
  return [=](Paths paths, const NamedManifest* like) -> absl::StatusOr<std::unique_ptr<Source>> {
    JsonOptions options;
    options.key = *key;
    options.split_key = *split;
    absl::StatusOr<FeatureChoice> chosen = ReadChoice(*choice, like);
    if (!chosen.ok()) return chosen.status();
    options.choice = *std::move(chosen);
    absl::StatusOr<uint64_t> size = ReadMaxRecord(*max_record);
    if (!size.ok()) return size.status();
    options.max_object_bytes = *size;
    const absl::StatusOr<DatesAs> as = ReadDatesFlag(*dates);
    if (!as.ok()) return as.status();
    options.dates = *as;
    return MakeJsonSource(std::move(paths), layout, std::move(options));
  };
}

MakeSource DeclareText(CLI::App& command) {
  auto max_record = AddMaxRecord(command);
  return [=](Paths paths, const NamedManifest*) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<uint64_t> size = ReadMaxRecord(*max_record);
    if (!size.ok()) return size.status();
    return MakeTextLinesSource(std::move(paths), *size);
  };
}

MakeSource DeclareTar(CLI::App& command) {
  auto options = std::make_shared<TarOptions>();
  command.add_flag("--parse-json", options->parse_json,
                   "make features of the keys of .json members (json.KEY)");
  auto choice = AddChoice(command);
  auto images = AddImageFlags(command, JpegMode::kKeep, /*resizes=*/false);
  return [options, choice, images](
             Paths paths, const NamedManifest* like) -> absl::StatusOr<std::unique_ptr<Source>> {
    options->images = images->options();
    absl::StatusOr<FeatureChoice> chosen = ReadChoice(*choice, like, "json.");
    if (!chosen.ok()) return chosen.status();
    if (!options->parse_json && (!choice->columns.empty() || !choice->schema.empty())) {
      return absl::InvalidArgumentError(
          "--columns and --schema are about the keys of JSON: add --parse-json");
    }
    options->choice = *std::move(chosen);
    return MakeTarSource(std::move(paths), *options);
  };
}

MakeSource DeclareIdx(CLI::App& command) {
  auto classes = AddClassMap(command, "the names of the labels");
  return [classes](Paths paths,
                   const NamedManifest* like) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<std::optional<ClassMap>> map = ReadClassMap(*classes, like, /*needed=*/false);
    if (!map.ok()) return map.status();
    return MakeIdxSource(std::move(paths), {.classes = *std::move(map)});
  };
}

MakeSource DeclareCifar(CLI::App& command) {
  auto variant = std::make_shared<int>(0);
  command
      .add_option("--variant", *variant, "10 or 100; default: inferred from the sizes of the files")
      ->check(CLI::IsMember({10, 100}));
  auto classes = AddClassMap(command, "the names of the labels");
  return [variant, classes](Paths paths,
                            const NamedManifest* like) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<std::optional<ClassMap>> map = ReadClassMap(*classes, like, /*needed=*/false);
    if (!map.ok()) return map.status();
    return MakeCifarSource(std::move(paths), {.variant = *variant, .classes = *std::move(map)});
  };
}

}  // namespace

std::vector<ConvertKind> ConvertKinds() {
  std::vector<ConvertKind> kinds;
  kinds.push_back({.name = "imagefolder",
                   .help = "A folder of class folders of images",
                   .details =
                       "Each folder in SOURCE is a class; labels count the classes in the order of "
                       "their names.\n"
                       "Features: image/encoded, image/format, image/height, image/width, "
                       "image/class/label,\n"
                       "image/class/text, image/filename. Shuffled by default, since folders come "
                       "sorted by class.\n"
                       "JPEGs are rewritten losslessly (same pixels, same Exif and profile) to be "
                       "seekable. Those\n"
                       "that cannot be rewritten are kept and counted; damaged images are named.\n"
                       "If SOURCE has metadata.csv or metadata.jsonl with a column file_name, its "
                       "rows are the records\n"
                       "and its other columns are features; folders are not classes then.\n"
                       "\nExample:\n"
                       "  shardfeed convert imagefolder photos/ out/train@64 --shuffle 7\n"
                       "  shardfeed convert imagefolder more/ out/val@8 --class-map out/train@64\n",
                   .default_shuffle = 0,
                   .declare = DeclareImageFolder});
  kinds.push_back(
      {.name = "images",
       .help = "Images in any folders, with a file of labels or without labels",
       .details = "Features: those of imagefolder; class features only with --label-file. "
                  "metadata.csv and\n"
                  "metadata.jsonl are read as by imagefolder.\n"
                  "\nExamples:\n"
                  "  shardfeed convert images scans/ out/scans@8\n"
                  "  shardfeed convert images train/ out/train@16 --label-file train.csv --shuffle "
                  "1\n"
                  "  shardfeed convert images all/ out/birds@16 --label-file birds.csv "
                  "--label-column species --split-column split\n",
       .declare = DeclareImages});
  kinds.push_back(
      {.name = "captions",
       .help = "Images with a .txt or .json of the same name beside each",
       .details = "Features: those of images; \"text\" from the .txt file; one for each key of the "
                  ".json file.\n"
                  "\nExample:\n"
                  "  shardfeed convert captions laion/ out/laion@64\n",
       .declare = DeclareCaptions});
  kinds.push_back(
      {.name = "coco",
       .help = "Images with boxes, outlines, keypoints and captions in a JSON file of COCO's form",
       .details = "Features: those of images, and image/object/... named as in TensorFlow's object "
                  "detection API:\n"
                  "bbox/xmin (a fraction of the width) and so on, class/label (the category's id), "
                  "class/text, area.\n"
                  "\nExample:\n"
                  "  shardfeed convert coco annotations/instances_train2017.json out/train@64 "
                  "--images train2017/\n",
       .declare = DeclareCoco});
  kinds.push_back(
      {.name = "voc",
       .help = "Images with boxes in XML files, in Pascal VOC's folders",
       .details = "Features: those of images, and image/object/... as for coco, with difficult, "
                  "truncated and view.\n"
                  "Classes are numbered in the order of their names.\n"
                  "\nExample:\n"
                  "  shardfeed convert voc VOCdevkit/VOC2012/ out/train@8 --subset train\n",
       .declare = DeclareVoc});
  kinds.push_back(
      {.name = "yolo",
       .help = "Images with boxes, outlines or keypoints in text files, as YOLO's tools read them",
       .details = "SOURCE is data.yaml, or a folder with it or with images/, labels/ and "
                  "classes.txt.\n"
                  "Features: those of images, and image/object/... as for coco.\n"
                  "\nExample:\n"
                  "  shardfeed convert yolo coco8/data.yaml out/train@8 --subset train\n",
       .declare = DeclareYolo});
  kinds.push_back({.name = "files",
                   .help = "Files of any kind: one record per file",
                   .details = "Features: \"bytes\" and \"name\".\n"
                              "\nExample:\n"
                              "  shardfeed convert files sounds/ out/sounds@8\n",
                   .declare = [](CLI::App&) { return WithoutLike(MakeFilesSource); }});
  kinds.push_back(
      {.name = "csv",
       .help = "Tables of comma-separated values",
       .details =
           "The first row names the features. A column of integers, or of true and false, "
           "becomes int64, a column\n"
           "of other numbers becomes float (32 bits, as in TFRecord), and any other column "
           "becomes bytes. Empty\n"
           "cells, and words such as NA among numbers, are missing values. Delimiter, header, "
           "encoding and\n"
           "decimal mark are guessed; a note tells what was guessed, and the options say it "
           "themselves.\n"
           "\nExamples:\n"
           "  shardfeed convert csv flights.csv out/flights@4 --shuffle 1\n"
           "  shardfeed convert csv flights.csv.gz out/flights@4\n"
           "  shardfeed convert csv iris.data out/iris@1 --names "
           "length,width,petal_length,petal_width,kind\n"
           "  shardfeed convert csv umsatz.csv out/umsatz@1 --encoding windows-1252 "
           "--thousands .\n",
       .reads_standard_input = true,
       .declare = [](CLI::App& command) { return DeclareTable(command, /*tabs=*/false); }});
  kinds.push_back(
      {.name = "tsv",
       .help = "Tables of values separated by tabs",
       .details = "Like csv. Files in which quotes are ordinary characters need "
                  "--no-quotes.\n"
                  "\nExample:\n"
                  "  shardfeed convert tsv reviews.tsv out/reviews@4 --no-quotes\n",
       .reads_standard_input = true,
       .declare = [](CLI::App& command) { return DeclareTable(command, /*tabs=*/true); }});
  kinds.push_back(
      {.name = "jsonl",
       .help = "JSON lines: one object per line",
       .details = "Numbers, strings, booleans and lists become features; nested objects give "
                  "dotted names;\n"
                  "lists of lists and of objects give flat values and NAME_lengths; null is a "
                  "missing value.\n"
                  "\nExample:\n"
                  "  shardfeed convert jsonl events.jsonl out/events@8 --compression gzip\n",
       .reads_standard_input = true,
       .declare = [](CLI::App& command) { return DeclareJson(command, JsonLayout::kLines); }});
  kinds.push_back(
      {.name = "json",
       .help = "JSON: one array of objects",
       .details = "Like jsonl, for files that hold [{...}, {...}].\n"
                  "\nExamples:\n"
                  "  shardfeed convert json books.json out/books@2\n"
                  "  jq .data squad.json | shardfeed convert json - out/squad@1\n",
       .reads_standard_input = true,
       .declare = [](CLI::App& command) { return DeclareJson(command, JsonLayout::kArray); }});
  kinds.push_back({.name = "text",
                   .help = "One record per line of text",
                   .details = "The only feature is \"text\".\n"
                              "\nExample:\n"
                              "  shardfeed convert text corpus.txt out/corpus@16\n",
                   .reads_standard_input = true,
                   .declare = DeclareText});
  kinds.push_back(
      {.name = "tar",
       .help = "Tar archives in the layout of WebDataset: files that share a stem form one record",
       .details = "Features: __key__ (the name up to its first dot) and one for each ending, such "
                  "as jpg and cls.\n"
                  "Plain, or compressed with gzip, Zstandard, xz or bzip2. Nothing is unpacked.\n"
                  "\nExample:\n"
                  "  shardfeed convert tar 'shards/train-*.tar' out/train@64\n",
       .reads_standard_input = true,
       .declare = DeclareTar});
  kinds.push_back(
      {.name = "idx",
       .help = "IDX files of images and labels, such as MNIST's",
       .details = "Features: image/raw, image/height, image/width, image/channels, "
                  "image/class/label.\n"
                  "\nExample:\n"
                  "  shardfeed convert idx train-images-idx3-ubyte.gz train-labels-idx1-ubyte.gz "
                  "out/train@4\n",
       .declare = DeclareIdx});
  kinds.push_back(
      {.name = "cifar",
       .help = "Binary files of CIFAR-10 and CIFAR-100",
       .details = "Features: those of idx, and image/class/coarse_label for CIFAR-100.\n"
                  "\nExample:\n"
                  "  shardfeed convert cifar cifar-10-batches-bin/data_batch_*.bin out/train@4\n",
       .declare = DeclareCifar});
  kinds.push_back(
      {.name = "npy",
       .help = "NumPy arrays: row i of each goes into record i",
       .details = "SOURCE is FILE.npy or NAME=FILE.npy; the feature is named NAME, or after the "
                  "file.\n"
                  "\nExample:\n"
                  "  shardfeed convert npy x=images.npy y=labels.npy out/train@4\n",
       .declare = [](CLI::App&) { return WithoutLike(MakeNpySource); }});
  kinds.push_back(
      {.name = "tfrecord",
       .help = "Records of another dataset, unchanged, to be compressed, sharded or shuffled again",
       .details = "SOURCE is stem@N, stem@*, a folder, a glob, or files.\n"
                  "\nExample:\n"
                  "  shardfeed convert tfrecord old/train@1024 out/train@64 --compression gzip "
                  "--shuffle 1\n",
       .resolves_specs = true,
       .declare = [](CLI::App& command) {
         auto images = AddImageFlags(command, JpegMode::kKeep, /*resizes=*/false);
         return MakeSource(
             [images](const Paths& paths,
                      const NamedManifest*) -> absl::StatusOr<std::unique_ptr<Source>> {
               return MakeTfrecordSource(paths, images->options());
             });
       }});
  return kinds;
}

}  // namespace shardfeed
