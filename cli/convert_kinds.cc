#include "cli/convert_kinds.h"

#include <utility>

#include "cli/units.h"
#include "convert/features/class_map.h"
#include "convert/features/feature_choice.h"
#include "convert/features/label_file.h"
#include "convert/sources/captions.h"
#include "convert/sources/cifar.h"
#include "convert/sources/csv.h"
#include "convert/sources/files.h"
#include "convert/sources/idx.h"
#include "convert/sources/imagefolder.h"
#include "convert/sources/images.h"
#include "convert/sources/json.h"
#include "convert/sources/npy.h"
#include "convert/sources/tar.h"
#include "convert/sources/text_lines.h"
#include "convert/sources/tfrecord.h"

namespace shardfeed {
namespace {

using Paths = std::vector<std::string>;

// Adds an option and returns the variable for its value, which is set when the command runs.
std::shared_ptr<std::string> AddText(CLI::App& command, const std::string& name,
                                     const std::string& type, const std::string& help) {
  auto value = std::make_shared<std::string>();
  command.add_option(name, *value, help)->type_name(type);
  return value;
}

std::shared_ptr<std::string> AddClassMap(CLI::App& command, const std::string& what) {
  return AddText(command, "--class-map", "FILE",
                 what + ": one name per line, counted from 0, or JSON {\"cat\": 0}");
}

absl::StatusOr<std::optional<ClassMap>> ReadClassMap(const std::string& path) {
  if (path.empty()) return std::optional<ClassMap>();
  absl::StatusOr<ClassMap> map = ClassMap::Read(path);
  if (!map.ok()) return map.status();
  return std::optional<ClassMap>(*std::move(map));
}

// The values of --jpeg and, for kinds that resize, of --resize-shorter and --quality. `fallback` is
// the mode if --jpeg is not given.
class ImageFlags {
 public:
  ImageFlags(CLI::App& command, JpegMode fallback, bool resizes) : fallback_(fallback) {
    CLI::Option* jpeg =
        command
            .add_option("--jpeg", jpeg_,
                        "seekable: rewrite JPEGs losslessly, so that crops of them decode faster; "
                        "keep: store their bytes unchanged")
            ->check(CLI::IsMember({"seekable", "keep"}))
            ->type_name("KIND");
    // A default that changes bytes is named in the help and in the manifest.
    if (fallback == JpegMode::kSeekable) jpeg->default_str("seekable");
    if (!resizes) return;
    CLI::Option* resize =
        command
            .add_option("--resize-shorter", options_.resize_shorter,
                        "shrink JPEGs whose shorter side is longer to this many pixels")
            ->check(CLI::Range(1, 65500))
            ->type_name("PIXELS");
    command
        .add_option("--quality", options_.quality,
                    "quality of shrunk JPEGs, on libjpeg's scale; default 90")
        ->check(CLI::Range(1, 100))
        ->needs(resize);
  }
  ImageOptions options() const {
    ImageOptions options = options_;
    options.jpeg = jpeg_.empty()         ? fallback_
                   : jpeg_ == "seekable" ? JpegMode::kSeekable
                                         : JpegMode::kKeep;
    return options;
  }

 private:
  JpegMode fallback_;
  std::string jpeg_;
  ImageOptions options_;
};

std::shared_ptr<ImageFlags> AddImageFlags(CLI::App& command, JpegMode fallback, bool resizes) {
  return std::make_shared<ImageFlags>(command, fallback, resizes);
}

MakeSource DeclareImageFolder(CLI::App& command) {
  auto classes = AddClassMap(command, "the numbers of the classes");
  auto images = AddImageFlags(command, JpegMode::kSeekable, /*resizes=*/true);
  return [classes, images](Paths paths) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<std::optional<ClassMap>> map = ReadClassMap(*classes);
    if (!map.ok()) return map.status();
    return MakeImageFolderSource(std::move(paths),
                                 {.classes = *std::move(map), .images = images->options()});
  };
}

MakeSource DeclareImages(CLI::App& command) {
  auto labels = AddText(command, "--label-file", "FILE",
                        "labels: a .csv or .tsv with a header, or lines \"NAME LABEL\"");
  auto classes = AddClassMap(command, "the numbers of the labels, or the names of numbers");
  auto images = AddImageFlags(command, JpegMode::kSeekable, /*resizes=*/true);
  return [labels, classes, images](Paths paths) -> absl::StatusOr<std::unique_ptr<Source>> {
    ImagesOptions options;
    options.images = images->options();
    absl::StatusOr<std::optional<ClassMap>> map = ReadClassMap(*classes);
    if (!map.ok()) return map.status();
    options.classes = *std::move(map);
    if (!labels->empty()) {
      absl::StatusOr<LabelFile> file = LabelFile::Read(*labels);
      if (!file.ok()) return file.status();
      options.labels = *std::move(file);
    }
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
      ->type_name("A,B,...");
  command
      .add_option("--schema", flags->schema,
                  "kinds to use instead of the inferred ones: JSON {\"age\": \"int64\"}, or the "
                  "manifest of a dataset")
      ->type_name("FILE");
  return flags;
}

absl::StatusOr<FeatureChoice> ReadChoice(const ChoiceFlags& flags) {
  FeatureChoice choice;
  choice.columns = flags.columns;
  if (!flags.schema.empty()) {
    auto kinds = ReadFeatureKinds(flags.schema);
    if (!kinds.ok()) return kinds.status();
    choice.kinds = *std::move(kinds);
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
  return [options, choice, images](Paths paths) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<FeatureChoice> chosen = ReadChoice(*choice);
    if (!chosen.ok()) return chosen.status();
    options->choice = *std::move(chosen);
    options->images = images->options();
    return MakeCaptionsSource(std::move(paths), *options);
  };
}

MakeSource DeclareTable(CLI::App& command, char delimiter) {
  auto options = std::make_shared<CsvOptions>();
  options->dialect.delimiter = delimiter;
  auto no_quotes = std::make_shared<bool>(false);
  command.add_flag("--no-quotes", *no_quotes, "treat quotes as ordinary characters");
  command.add_option("--names", options->names, "names of the columns, for files without a header")
      ->delimiter(',')
      ->type_name("A,B,...");
  auto choice = AddChoice(command);
  auto max_record = AddMaxRecord(command);
  auto key = AddSplitKey(command, "the column");
  auto given = std::make_shared<std::string>();
  if (delimiter == ',') {
    command.add_option("--delimiter", *given, "character between cells; default ','")
        ->type_name("CHARACTER");
  }
  return [=](Paths paths) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<FeatureChoice> chosen = ReadChoice(*choice);
    if (!chosen.ok()) return chosen.status();
    options->choice = *std::move(chosen);
    absl::StatusOr<uint64_t> size = ReadMaxRecord(*max_record);
    if (!size.ok()) return size.status();
    options->max_row_bytes = *size;
    options->key_column = *key;
    options->dialect.quotes = !*no_quotes;
    if (given->size() > 1) {
      return absl::InvalidArgumentError("--delimiter " + *given + ": expected one character");
    }
    if (!given->empty()) options->dialect.delimiter = given->front();
    return MakeCsvSource(std::move(paths), *options);
  };
}

MakeSource DeclareJson(CLI::App& command, JsonLayout layout) {
  auto choice = AddChoice(command);
  auto max_record = AddMaxRecord(command);
  auto key = AddSplitKey(command, "the key (dotted, if nested)");
  return [=](Paths paths) -> absl::StatusOr<std::unique_ptr<Source>> {
    JsonOptions options;
    options.key = *key;
    absl::StatusOr<FeatureChoice> chosen = ReadChoice(*choice);
    if (!chosen.ok()) return chosen.status();
    options.choice = *std::move(chosen);
    absl::StatusOr<uint64_t> size = ReadMaxRecord(*max_record);
    if (!size.ok()) return size.status();
    options.max_object_bytes = *size;
    return MakeJsonSource(std::move(paths), layout, std::move(options));
  };
}

MakeSource DeclareText(CLI::App& command) {
  auto max_record = AddMaxRecord(command);
  return [=](Paths paths) -> absl::StatusOr<std::unique_ptr<Source>> {
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
  return [options, choice, images](Paths paths) -> absl::StatusOr<std::unique_ptr<Source>> {
    options->images = images->options();
    absl::StatusOr<FeatureChoice> chosen = ReadChoice(*choice);
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
  return [classes](Paths paths) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<std::optional<ClassMap>> map = ReadClassMap(*classes);
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
  return [variant, classes](Paths paths) -> absl::StatusOr<std::unique_ptr<Source>> {
    absl::StatusOr<std::optional<ClassMap>> map = ReadClassMap(*classes);
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
                       "\nExample:\n"
                       "  shardfeed convert imagefolder photos/ out/train@64 --shuffle 7\n",
                   .default_shuffle = 0,
                   .declare = DeclareImageFolder});
  kinds.push_back(
      {.name = "images",
       .help = "Images in any folders, with a file of labels or without labels",
       .details = "Features: those of imagefolder; class features only with --label-file.\n"
                  "\nExamples:\n"
                  "  shardfeed convert images scans/ out/scans@8\n"
                  "  shardfeed convert images train/ out/train@16 --label-file train.csv --shuffle "
                  "1\n",
       .declare = DeclareImages});
  kinds.push_back(
      {.name = "captions",
       .help = "Images with a .txt or .json of the same name beside each",
       .details = "Features: those of images; \"text\" from the .txt file; one for each key of the "
                  ".json file.\n"
                  "\nExample:\n"
                  "  shardfeed convert captions laion/ out/laion@64\n",
       .declare = DeclareCaptions});
  kinds.push_back({.name = "files",
                   .help = "Files of any kind: one record per file",
                   .details = "Features: \"bytes\" and \"name\".\n"
                              "\nExample:\n"
                              "  shardfeed convert files sounds/ out/sounds@8\n",
                   .declare = [](CLI::App&) { return MakeSource(MakeFilesSource); }});
  kinds.push_back(
      {.name = "csv",
       .help = "Tables of comma-separated values",
       .details = "The first row names the features. A column of integers becomes int64, a column "
                  "of other numbers\n"
                  "becomes float (32 bits, as in TFRecord), and any other column becomes bytes. "
                  "Empty cells are\n"
                  "missing values.\n"
                  "\nExamples:\n"
                  "  shardfeed convert csv flights.csv out/flights@4 --shuffle 1\n"
                  "  shardfeed convert csv flights.csv.gz out/flights@4\n"
                  "  shardfeed convert csv iris.data out/iris@1 --names "
                  "length,width,petal_length,petal_width,kind\n",
       .reads_standard_input = true,
       .declare = [](CLI::App& command) { return DeclareTable(command, ','); }});
  kinds.push_back({.name = "tsv",
                   .help = "Tables of values separated by tabs",
                   .details = "Like csv. Files in which quotes are ordinary characters need "
                              "--no-quotes.\n"
                              "\nExample:\n"
                              "  shardfeed convert tsv reviews.tsv out/reviews@4 --no-quotes\n",
                   .reads_standard_input = true,
                   .declare = [](CLI::App& command) { return DeclareTable(command, '\t'); }});
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
       .declare = [](CLI::App&) { return MakeSource(MakeNpySource); }});
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
             [images](const Paths& paths) { return MakeTfrecordSource(paths, images->options()); });
       }});
  return kinds;
}

}  // namespace shardfeed
