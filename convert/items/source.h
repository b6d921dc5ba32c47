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
#include "shardfeed/examples.h"

namespace shardfeed {

// One raw record and where it came from. `bytes` mean something only to the source that made the
// item (a path, a row of a table ...), and live until the callback that got the item returns.
struct Item {
  std::string_view bytes;
  uint32_t file = 0;  // number of the file among the source's
  uint64_t line = 0;  // 1-based line in that file where the item starts; 0 where lines mean nothing
};

// A kind of raw data. The calls come in the order Scan, then any number of ForEach and BuildRecord.
//
// Errors: NotFound and the like for files that cannot be read; DataLoss for content that is not
// what it should be, with "FILE:LINE: ..." or "FILE: ..." and the remedy.
class Source {
 public:
  virtual ~Source() = default;

  // To be called before Scan: broken records are left out in the place of failing. `report` gets
  // each that Scan finds, in order, or several of one defect at once; BuildRecord still fails with
  // DataLoss, which is the caller's to skip. Input that cannot be told apart into records, or not
  // be read at all, is an error still.
  void SkipDefects(std::function<void(const absl::Status& defect, uint64_t records)> report) {
    report_defect_ = std::move(report);
  }

  // Reads the whole input once (names only, for folders): counts the records and fixes the names
  // and types of their features. `progress` is called now and then with the bytes read so far.
  virtual absl::Status Scan(std::stop_token stop,
                            const std::function<void(uint64_t bytes)>& progress) = 0;

  // Known after Scan.
  virtual uint64_t num_records() const = 0;
  // The input's size: a measure for progress and, roughly, for the size of the output.
  virtual uint64_t num_bytes() const = 0;
  // The mean size of a record, about, where the scan tells it; 0 where records have to be built for
  // that.
  virtual uint64_t mean_record_bytes() const { return 0; }
  // The names of the classes 0, 1 ... of image/class/label; empty where they have none.
  virtual std::vector<std::string> class_names() const { return {}; }
  // Notes for the user, such as "skipped 2 files that are not images: a/Thumbs.db, ...".
  virtual std::vector<std::string> notes() const { return {}; }
  // The same about the records that were built since the last ForgetBuilt, each of them once. Not
  // for the manifest: records of shards that are taken over from an interrupted run are not built.
  virtual std::vector<std::string> built_notes() const { return {}; }
  virtual void ForgetBuilt() {}

  // Hands the items to `sink` one after another in a fixed order (sorted folders and names; rows as
  // they stand). Stops at the first error of `sink` and returns it.
  virtual absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const = 0;

  // Adds the item's features to an empty `builder`. Thread safe. What it adds as borrowed lives
  // until the next call on the same thread.
  virtual absl::Status Build(const Item& item, ExampleBuilder& builder) const = 0;

  // What tells the item from others for good, whatever comes before or after it: an image's path,
  // a row, a key. Thread safe; may read the item's files.
  virtual absl::Status AppendKey(const Item& item, std::string* key) const {
    key->append(item.bytes);
    return absl::OkStatus();
  }
  // Hands out what makes the item a duplicate of another: its content, without its name. Thread
  // safe. The same errors as Build.
  virtual absl::Status VisitContent(
      const Item& item, const std::function<void(std::string_view bytes)>& visit) const {
    visit(item.bytes);
    return absl::OkStatus();
  }
  // Known after Scan: a short text that differs where the input does. Files count by their names,
  // sizes and times.
  virtual std::string InputFingerprint() const = 0;

  // Appends the item's record to `out`: by default, the Example that Build makes with `builder`,
  // which it clears first. Thread safe for different builders.
  virtual absl::Status BuildRecord(const Item& item, ExampleBuilder& builder,
                                   std::string* out) const {
    builder.Clear();
    absl::Status status = Build(item, builder);
    if (status.ok()) builder.SerializeExample(out);
    return status;
  }

 protected:
  bool skips_defects() const { return report_defect_ != nullptr; }
  // For Scan: whether records with this defect are to be left out, and then reports them.
  bool LeaveOut(const absl::Status& defect, uint64_t records = 1) const {
    if (skips_defects() && records > 0) report_defect_(defect, records);
    return skips_defects();
  }

 private:
  std::function<void(const absl::Status& defect, uint64_t records)> report_defect_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_ITEMS_SOURCE_H_
