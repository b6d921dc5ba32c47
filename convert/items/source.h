// Raw data as a sequence of items that each become one record.

#ifndef SHARDFEED_CONVERT_ITEMS_SOURCE_H_
#define SHARDFEED_CONVERT_ITEMS_SOURCE_H_

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "convert/items/split_names.h"
#include "fmt/format.h"
#include "shard/schema/class_names.h"
#include "shard/schema/schema.h"
#include "shardfeed/examples.h"

namespace shardfeed {

// One raw record and its place. `bytes` have a meaning only to the source that made the item (a
// path, a row of a table), and are valid until the callback that received the item returns.
struct Item {
  std::string_view bytes;
  uint32_t file = 0;  // number of the file among the source's
  uint64_t line = 0;  // 1-based line of the file where the item starts; 0 if there are no lines
};

// A feature that a source makes of a column: its name, and "int64", "float" or "bytes".
struct ColumnDescription {
  std::string name;
  std::string kind;
};

// A kind of raw data. Call Scan first, then ForEach and BuildRecord any number of times.
//
// Errors: NotFound and the like for files that cannot be read; DataLoss for unexpected content,
// with "FILE:LINE: ..." or "FILE: ..." and the remedy.
class Source {
 public:
  virtual ~Source() = default;

  // Call before Scan to leave out broken records instead of failing. `report` gets each defect that
  // Scan finds, in order, with the number of records that it affects. BuildRecord still fails with
  // DataLoss, and the caller must skip the record. Input that cannot be read or split into records
  // is still an error.
  void SkipDefects(std::function<void(const absl::Status& defect, uint64_t records)> report) {
    report_defect_ = std::move(report);
  }

  // Whether a column of the input divides it into splits(). Also available before Scan.
  virtual bool names_splits() const { return false; }

  // Reads the whole input once (only names, for folders), counts the records, and fixes the names
  // and types of their features. `progress` is called from time to time with the bytes read so far.
  virtual absl::Status Scan(std::stop_token stop,
                            const std::function<void(uint64_t bytes)>& progress) = 0;

  // Available after Scan.
  virtual uint64_t num_records() const = 0;
  // Size of the input, for progress and for a rough estimate of the output's size.
  virtual uint64_t num_bytes() const = 0;
  // Approximate mean size of a record if Scan knows it; 0 if records must be built to find out.
  virtual uint64_t mean_record_bytes() const { return 0; }
  // The names of classes, for features whose numbers have names.
  virtual FeatureClasses classes() const { return {}; }
  // The types that features had before they became lists, where the input declares them.
  virtual FeatureTypes types() const { return {}; }
  // The features of the records in the order of their names, if Scan knows them.
  virtual std::vector<ColumnDescription> columns() const { return {}; }
  // The splits that a column of the input names, in the order of their first records, at most
  // kMaxSplits; empty unless names_splits().
  virtual std::vector<SplitCount> splits() const { return {}; }
  // Notes for the user, such as "skipped 2 files that are not images: a/Thumbs.db, ...".
  virtual std::vector<std::string> notes() const { return {}; }
  // Notes on the records that were built since the last ForgetBuilt, each counted once. Not for the
  // manifest: records of shards that are taken over from an interrupted run are not built.
  virtual std::vector<std::string> built_notes() const { return {}; }
  virtual void ForgetBuilt() {}

  // Passes the items to `sink` in a fixed order (folders and names sorted; rows in file order).
  // Stops at the first error of `sink` and returns it.
  virtual absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const = 0;

  // Adds the item's features to an empty `builder`. Thread-safe. Borrowed memory that it adds is
  // valid until the next call on the same thread.
  virtual absl::Status Build(const Item& item, ExampleBuilder& builder) const = 0;

  // Appends what identifies the item regardless of the other items: an image's path, a row, a key.
  // Thread-safe; may read the item's files.
  virtual absl::Status AppendKey(const Item& item, std::string* key) const {
    key->append(item.bytes);
    return absl::OkStatus();
  }
  // The number of the item's split among splits(). Thread-safe.
  virtual absl::StatusOr<size_t> SplitOf(const Item&) const {
    return absl::UnimplementedError("this kind has no splits");
  }
  // Passes to `visit` what makes two items duplicates: the content, without the name. Thread-safe.
  // Errors: those of Build.
  virtual absl::Status VisitContent(
      const Item& item, const std::function<void(std::string_view bytes)>& visit) const {
    visit(item.bytes);
    return absl::OkStatus();
  }
  // Available after Scan: a short text that differs if the input differs. Files are compared by
  // their names, sizes and times.
  virtual std::string InputFingerprint() const = 0;

  // Appends the item's record to `out`: by default, the Example that Build makes with `builder`,
  // which is cleared first. Thread-safe for different builders.
  virtual absl::Status BuildRecord(const Item& item, ExampleBuilder& builder,
                                   std::string* out) const {
    builder.Clear();
    absl::Status status = Build(item, builder);
    if (status.ok()) builder.SerializeExample(out);
    return status;
  }

 protected:
  bool skips_defects() const { return report_defect_ != nullptr; }
  // For Scan: reports the defect if broken records are to be left out, and returns whether they
  // are.
  bool LeaveOut(const absl::Status& defect, uint64_t records = 1) const {
    if (skips_defects() && records > 0) {
      if (num_left_out_ == 0) first_left_out_ = std::string(defect.message());
      num_left_out_ += records;
      report_defect_(defect, records);
    }
    return skips_defects();
  }
  // For Scan, if there are no records: OK, or that all of them were left out.
  absl::Status CheckNotAllLeftOut() const {
    if (num_left_out_ == 0) return absl::OkStatus();
    return absl::DataLossError(fmt::format("no records: every one is broken ({}), the first is {}",
                                           num_left_out_, first_left_out_));
  }

 private:
  mutable uint64_t num_left_out_ = 0;
  mutable std::string first_left_out_;
  std::function<void(const absl::Status& defect, uint64_t records)> report_defect_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_ITEMS_SOURCE_H_
