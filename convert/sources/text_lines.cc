#include "convert/sources/text_lines.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "convert/input/text_inputs.h"
#include "convert/input/text_reader.h"
#include "convert/items/item_list.h"

namespace shardfeed {
namespace {

class TextLinesSource : public Source {
 public:
  TextLinesSource(std::vector<std::string> paths, uint64_t max_line_bytes)
      : files_(std::move(paths), max_line_bytes) {}

  absl::Status Scan(std::stop_token stop,
                    const std::function<void(uint64_t bytes)>& progress) override {
    lines_of_file_.clear();
    num_records_ = 0;
    left_out_ = ItemList();
    uint64_t number = 0;
    if (absl::Status status = files_.Stat(); !status.ok()) return status;
    for (size_t file = 0; file < files_.size(); ++file) {
      absl::StatusOr<std::unique_ptr<TextReader>> reader =
          files_.OpenFirst(file, !skips_defects(), stop, progress);
      if (!reader.ok()) return reader.status();
      TextReader::Line line;
      uint64_t num_lines = 0;
      while ((*reader)->NextLine(&line)) {
        ++num_lines;
        const bool sound = !skips_defects() || IsText(line.text);
        if (sound) {
          ++num_records_;
        } else if (LeaveOut(files_.ErrorAt(file, line.number,
                                           "the line is not UTF-8 or contains a NUL byte"))) {
          left_out_.Add(number);
        }
        ++number;
      }
      if (!(*reader)->status().ok()) return (*reader)->status();
      lines_of_file_.push_back(num_lines);
    }
    if (num_records_ == 0) {
      if (absl::Status broken = CheckNotAllLeftOut(); !broken.ok()) return broken;
      return files_.ErrorAt(0, 0, "no records: the file is empty");
    }
    return absl::OkStatus();
  }

  uint64_t num_records() const override { return num_records_; }
  uint64_t num_bytes() const override { return files_.num_bytes(); }
  std::string InputFingerprint() const override { return files_.InputFingerprint(); }

  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override {
    ItemList::Pass left_out(left_out_);
    for (uint32_t file = 0; file < files_.size(); ++file) {
      absl::StatusOr<std::unique_ptr<TextReader>> reader = files_.OpenAgain(file);
      if (!reader.ok()) return reader.status();
      TextReader::Line line;
      uint64_t num_lines = 0;
      while ((*reader)->NextLine(&line)) {
        ++num_lines;
        if (left_out.Next()) continue;
        Item item;
        item.bytes = line.text;
        item.file = file;
        item.line = line.number;
        if (absl::Status status = sink(item); !status.ok()) return status;
      }
      if (!(*reader)->status().ok()) return (*reader)->status();
      if (absl::Status status = files_.CheckUnchanged(file); !status.ok()) return status;
      if (num_lines != lines_of_file_[file]) return files_.Changed(file);
    }
    return absl::OkStatus();
  }

  absl::Status Build(const Item& item, ExampleBuilder& builder) const override {
    builder.AddBytes("text", item.bytes);
    return absl::OkStatus();
  }

 private:
  TextFiles files_;
  std::vector<uint64_t> lines_of_file_;
  ItemList left_out_;
  uint64_t num_records_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Source>> MakeTextLinesSource(std::vector<std::string> paths,
                                                            uint64_t max_line_bytes) {
  if (paths.empty()) return absl::InvalidArgumentError("expected text files, got none");
  return std::make_unique<TextLinesSource>(std::move(paths), max_line_bytes);
}

}  // namespace shardfeed
