// Reads a dataset in an order: many shards at once, ahead of the consumer, in bounded memory.

#ifndef SHARDFEED_READER_READER_H_
#define SHARDFEED_READER_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "reader/order/mix_order.h"
#include "reader/order/order.h"
#include "reader/order/place.h"
#include "reader/plan/mix_past.h"
#include "reader/plan/pack_plan.h"
#include "reader/run/run.h"
#include "reader/shards/selection.h"
#include "reader/shards/shard_table.h"
#include "shardfeed/reader.h"

namespace shardfeed {

// Not thread-safe, except stats. Next starts threads that read, and does so again in a child
// process after fork. A reader may be destroyed at any time.
class Reader {
 public:
  // InvalidArgument: options that contradict each other or the dataset.
  static absl::StatusOr<std::unique_ptr<Reader>> Open(std::shared_ptr<const ShardTable> table,
                                                      ReaderOptions options);
  ~Reader();

  // Delivers the next records; a block without records marks the end of the last epoch. No block
  // has records of two epochs. After an error (DataLoss for damage, with shard, record and byte;
  // otherwise that of the storage), each further call returns it again.
  absl::Status Next(ReadBlock* block);

  // The current position, in records delivered, as a JSON document of some hundred bytes.
  // FailedPrecondition: without `deterministic` there is no such position.
  absl::StatusOr<std::string> StateDict() const;
  // Goes to a saved position, whatever was read before; the number of ranks may differ.
  // FailedPrecondition: the state belongs to other data or another order. InvalidArgument: not a
  // state.
  absl::Status LoadStateDict(std::string_view state);

  // Goes to the first position of this rank at or after `position`. In an epoch with a Leftover,
  // positions are counted as in ReadPlace. With a packing, a row must begin there: Next says if
  // none does.
  void Seek(uint64_t epoch, uint64_t position);
  // Goes to a place, for whichever ranks and batches it was saved: see ReadPlace.
  void GoTo(const ReadPlace& place);
  // The common place of all ranks, if each has delivered as many records as this one. With a
  // packing, it counts rows: `from` is the number of those that the ranks have delivered of the
  // round of batches that is not complete.
  ReadPlace place() const;
  // With a packing: the place after further `records` records of this rank. Nullopt: no row ends
  // there. Errors: as PackPlan::Window.
  absl::StatusOr<std::optional<ReadPlace>> PlaceAfter(const ReadPlace& place,
                                                      uint64_t records) const;

  // For a mixture: a hash of everything that determines the sequence before `place`. Two mixtures
  // that agree after the place may differ in it.
  uint64_t PastOf(const ReadPlace& place) const;

  // The number of batches, and of records, that every rank delivers in an epoch without a packing.
  uint64_t batches_per_epoch() const { return batches_; }
  uint64_t records_per_epoch() const;
  const Order& order() const { return *order_; }
  // The same order, for users that outlive the reader.
  std::shared_ptr<const Order> shared_order() const { return order_; }
  // The order as that of a mixture; null if it is none.
  const std::shared_ptr<const MixOrder>& shared_mix() const { return mix_; }
  // Of a mixture.
  MixPast past() const { return {mix_, pack_}; }
  // The plan of ReaderOptions::pack; null without it.
  const std::shared_ptr<const PackPlan>& shared_pack() const { return pack_; }
  const Selection& selection() const { return selection_; }
  const ShardTable& table() const { return *table_; }
  std::shared_ptr<const ShardTable> shared_table() const { return table_; }
  // With the defaults of the dataset filled in.
  const ReaderOptions& options() const { return options_; }
  // The record that is delivered at a position of an epoch, without a packing.
  uint64_t RecordAt(uint64_t epoch, uint64_t position) const;
  // The numbers of the records of a block that Next has returned. Errors: as PackPlan::Window.
  absl::StatusOr<std::vector<uint64_t>> RecordsOf(const ReadBlock& block) const;
  // The name of the record at a position, for messages; a message if a packing has no such record.
  std::string NameAt(uint64_t epoch, uint64_t position) const;

  MemoryPlan memory_plan() const;
  ReaderStats stats() const;

 private:
  Reader(std::shared_ptr<const ShardTable> table, ReaderOptions options, Selection selection);
  // What the sequence before a place depends on, besides the data; and the data.
  std::string OrderText(const ReadPlace& place) const;
  uint64_t DataBefore(const ReadPlace& place) const;
  // Starts a run of this reader's own, unless there is a run.
  absl::Status StartRun();

  const std::shared_ptr<const ShardTable> table_;
  ReaderOptions options_;
  Selection selection_;
  std::shared_ptr<const Order> order_;
  std::shared_ptr<const MixOrder> mix_;   // null: there is one source
  std::shared_ptr<const PackPlan> pack_;  // null: records are not packed
  uint64_t batches_ = 0;
  // The consumer's place; its position is the next record to deliver.
  ReadPlace place_;
  absl::Status error_;  // error that Next has returned
  std::unique_ptr<ReadRun> run_;
  int run_process_ = 0;  // the process that started run_
};

}  // namespace shardfeed

#endif  // SHARDFEED_READER_READER_H_
