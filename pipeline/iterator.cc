#include "shardfeed/iterator.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/clock.h"
#include "base/fork_count.h"
#include "base/work_stop.h"
#include "fmt/format.h"
#include "io/buffer.h"
#include "io/page_cache.h"
#include "io/parallel.h"
#include "pipeline/flight_recorder.h"
#include "pipeline/live_run.h"
#include "pipeline/plan/compile.h"
#include "pipeline/plan/fingerprint.h"
#include "pipeline/plan/length.h"
#include "pipeline/plan/sharing.h"
#include "pipeline/plan/step.h"
#include "pipeline/stages/autotune.h"
#include "pipeline/stages/pipeline_state.h"
#include "pipeline/stages/reordered_rows.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/stage.h"
#include "pipeline/stages/verdict.h"

namespace shardfeed {
namespace {

StateWords WordsOf(const std::vector<RankPart>& parts) {
  StateWords words;
  for (const RankPart& part : parts) {
    words.push_back(part.rank);
    words.push_back(part.world);
  }
  return words;
}

// Measures how long a thread waits. Other threads may read the result at any time.
class WaitClock {
 public:
  struct Waits {
    uint64_t total_ns;    // including the present one
    uint64_t present_ns;  // since the thread last got an element; 0 if it does not wait
  };

  void Begin(uint64_t now) {
    ++version_;
    begin_ = now;
    if (asked_ == 0 || now - ended_ > kPauseNs) asked_ = now;
    ++version_;
  }
  // `there`: whether there is an element, for which several waits may be needed.
  void End(uint64_t now, bool there) {
    ++version_;
    total_ += now - begin_;
    begin_ = 0;
    ended_ = now;
    if (there) asked_ = 0;
    ++version_;
  }
  Waits Look(uint64_t now) const {
    for (int tries = 1;; ++tries) {
      const uint64_t version = version_;
      const uint64_t total = total_;
      const uint64_t begin = begin_;
      const uint64_t ended = ended_;
      const uint64_t asked = asked_;
      // A wait just begins or ends. In a child, after fork, that may last forever.
      if ((version % 2 != 0 || version != version_) && tries < kMostTries) continue;
      const bool waits = asked != 0 && (begin != 0 || Since(ended, now) <= kPauseNs);
      return {total + (begin == 0 ? 0 : Since(begin, now)), waits ? Since(asked, now) : 0};
    }
  }
  uint64_t total_ns() const { return total_; }

 private:
  static constexpr int kMostTries = 1000;
  // The longest pause between two waits for the same element.
  static constexpr uint64_t kPauseNs = 1'000'000'000;
  static uint64_t Since(uint64_t then, uint64_t now) { return now - std::min(then, now); }

  std::atomic<uint64_t> version_ = 0;  // odd while the others change
  std::atomic<uint64_t> total_ = 0;    // duration of the waits that have ended
  std::atomic<uint64_t> begin_ = 0;    // when the present wait began; 0: there is none
  std::atomic<uint64_t> ended_ = 0;    // when the last wait ended
  std::atomic<uint64_t> asked_ = 0;    // beginning of the first wait for an element; 0: it came
};

}  // namespace

uint64_t DefaultBudgetBytes() {
  return std::clamp<uint64_t>(FreeMemoryBytes() / 4, uint64_t{128} << 20, uint64_t{2} << 30);
}

// Implements Iterator's functions of the same names.
class Iterator::Run {
 public:
  Run(StepPtr recipe, RunOptions options)
      : recipe_(std::move(recipe)),
        options_(std::move(options)),
        epoch_(options_.epoch),
        start_ns_(NowNs()) {}
  ~Run();

  absl::Status Open();
  absl::Status Next(Batch* out);
  absl::Status Peek(Batch* out);
  void Advance(size_t elements);
  std::optional<bool> Await(std::chrono::nanoseconds most);
  const RowSpec& spec() const { return *recipe_->spec; }
  bool batched() const { return recipe_->batched; }
  uint64_t epoch() const { return epoch_; }
  absl::StatusOr<std::string> StateDict() const;
  bool StateAtHand() const;
  absl::Status LoadStateDict(std::string_view state);
  void Cancel();
  IteratorStats stats() const;

 private:
  absl::StatusOr<std::shared_ptr<RunContext>> MakeContext() const;
  // Whether this is a child process after fork.
  bool Forked() const;
  void Abandon();
  absl::Status OpenAgain();
  // The recipe's fingerprint in the form that states have.
  absl::StatusOr<std::string> Chain() const;
  absl::Status StartLive();
  // Counts a wait of the consumer that ends now, for `rows` rows; `there`: whether what it waited
  // for is there. Returns the time.
  uint64_t EndWait(uint64_t start_ns, size_t rows, bool there);
  void NoteDelivered(const Batch& batch, size_t row);
  std::optional<DeliveredPast> PastDelivered() const;
  absl::Status CheckPast(const DeliveredPast& past) const;
  // Runs `work` on the queue; the common part of Next and Peek.
  absl::Status Ask(Batch* out, absl::Status (*work)(ElementQueue&, Batch*));

  const StepPtr recipe_;  // its steps are keys in context_
  RunOptions options_;
  std::atomic<uint64_t> epoch_;
  std::shared_ptr<RunContext> context_;
  std::unique_ptr<Autotuner> tuner_;
  std::unique_ptr<ElementQueue> queue_;  // null if Load has failed, as error_ says
  uint64_t forks_ = 0;
  mutable std::string chain_;  // fingerprint of the chain, computed on first use
  // Where the run began, if not at the beginning of its epoch.
  std::optional<MergedPlace> merged_;
  bool notes_delivered_ = false;
  bool mixes_ = false;  // whether the chain reads a mixture, and nothing else
  // If positions are recorded: what was delivered before the run or Load, and the last row since.
  std::optional<Delivered> delivered_;
  std::optional<LastRow> last_row_;
  std::optional<DeliveredPast> past_;  // what Load has found
  Batch repeated_;
  absl::Status error_;
  std::atomic<uint64_t> elements_ = 0;
  std::atomic<uint64_t> rows_ = 0;
  std::atomic<uint64_t> damaged_ = 0;
  WaitClock waits_;
  uint64_t start_ns_ = 0;
  std::unique_ptr<LivePublisher> live_;  // calls stats(); may be null
};

absl::StatusOr<std::shared_ptr<RunContext>> Iterator::Run::MakeContext() const {
  const RunOptions& options = options_;
  if (!(options.cpu_share > 0 && options.cpu_share <= 1)) {
    return absl::InvalidArgumentError(
        fmt::format("cpu_share is {}, but must be above 0 and not above 1", options.cpu_share));
  }
  auto context = std::make_shared<RunContext>();
  context->threads =
      std::max(1, static_cast<int>(ThreadCount(options.threads) * options.cpu_share + 1e-9));
  context->gate.SetLimit(context->threads);
  context->deterministic = options.deterministic;
  context->trace = options.trace;
  context->autotune = options.autotune;
  context->tuning = options.tuning;
  const uint64_t readers = NumberSources(*recipe_, context.get());
  context->budget_bytes = options.budget_bytes > 0 ? options.budget_bytes : DefaultBudgetBytes();
  if (readers > 0) {
    context->budget_bytes /= 2;
    context->reader_budget_bytes = std::max<uint64_t>(context->budget_bytes / readers, 1);
  }
  context->merged = merged_;
  context->allocator = options.allocator;
  if (!context->allocator) {
    // Batches have similar sizes, so their memory is reused, which saves the kernel clearing new
    // pages.
    context->allocator = [pool = BufferPool::Create(context->budget_bytes)](size_t size) {
      std::shared_ptr<Buffer> buffer = pool->Allocate(size);
      char* data = buffer->data();
      return std::shared_ptr<char>(std::move(buffer), data);
    };
  }
  return context;
}

absl::Status Iterator::Run::Open() {
  forks_ = ForkCount();
  absl::StatusOr<std::shared_ptr<RunContext>> context = MakeContext();
  if (!context.ok()) return context.status();
  context_ = *std::move(context);
  absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(recipe_, context_, epoch_);
  if (!stage.ok()) return stage.status();
  queue_ = std::make_unique<ElementQueue>(*std::move(stage));
  mixes_ = ReadsMixture(*recipe_);
  notes_delivered_ =
      mixes_ || (UnevenStep(*recipe_) != nullptr && UnmergeableStep(*recipe_) == nullptr);
  tuner_ = options_.autotune ? std::make_unique<Autotuner>(context_.get()) : nullptr;
  return StartLive();
}

absl::Status Iterator::Run::StartLive() {
  std::function<void(const LiveRun&)> record;
  if (!options_.flight_recorder.empty()) {
    absl::StatusOr<std::shared_ptr<FlightRecorder>> recorder =
        FlightRecorder::Create(options_.flight_recorder, options_.starved_seconds);
    if (!recorder.ok()) return recorder.status();
    record = [recorder = *std::move(recorder)](const LiveRun& live) { recorder->Add(live); };
  }
  LiveRun run;
  run.chain = ChainText(*recipe_);
  for (const RankPart& part : PartsOf(*recipe_)) {
    run.rank += part.rank * run.world;
    run.world *= part.world;
  }
  const auto look = [this](LiveRun* live) {
    live->epoch = epoch_;
    live->waiting_seconds = static_cast<double>(waits_.Look(NowNs()).present_ns) * 1e-9;
    live->all = stats();
  };
  live_ = LivePublisher::Start(std::move(run), look, std::move(record));
  return absl::OkStatus();
}

Iterator::Run::~Run() {
  if (Forked()) {
    Abandon();
  } else if (context_ != nullptr) {  // Open has succeeded
    live_ = nullptr;
    Cancel();
  }
}

bool Iterator::Run::Forked() const { return ForkCount() != forks_; }

// In a child, the stages' threads do not exist and their locks may be held forever, so nothing of
// them is touched.
void Iterator::Run::Abandon() {
  static_cast<void>(live_.release());
  tuner_ = nullptr;
  new std::shared_ptr<RunContext>(std::move(context_));
  static_cast<void>(queue_.release());
}

absl::Status Iterator::Run::OpenAgain() {
  if (!options_.deterministic) {
    Abandon();
    return absl::FailedPreconditionError(
        "forked while batches were delivered out of order (deterministic = false), so there is "
        "no position to continue from; start the run in the child");
  }
  // The consumer's side of the stages is intact.
  StateWords words;
  queue_->Save(&words);
  Abandon();
  options_.trace = nullptr;
  if (absl::Status status = Open(); !status.ok()) return status;
  StateReader reader(words);
  absl::Status status = queue_->Load(&reader);
  return status.ok() ? reader.status() : status;
}

uint64_t Iterator::Run::EndWait(uint64_t start_ns, size_t rows, bool there) {
  constexpr uint64_t kTracedNs = 10'000;  // shorter waits are not traced
  const uint64_t end = NowNs();
  waits_.End(end, there);
  if (options_.trace && end - start_ns > kTracedNs) {
    options_.trace->Add("next", start_ns, end, rows);
  }
  return end;
}

absl::Status Iterator::Run::Ask(Batch* out, absl::Status (*work)(ElementQueue&, Batch*)) {
  *out = Batch();
  if (!error_.ok()) return error_;
  if (Forked()) {
    error_ = OpenAgain();
    if (!error_.ok()) return error_;
  }
  const WorkStop wanted(context_->stop.get_token());
  const uint64_t start = NowNs();
  waits_.Begin(start);
  if (!repeated_.empty()) {
    *out = repeated_;
  } else {
    error_ = work(*queue_, out);
    if (options_.headspace && error_.ok()) repeated_ = *out;
  }
  const uint64_t end = EndWait(start, out->rows, /*there=*/true);
  if (tuner_ != nullptr) tuner_->Look(end, waits_.total_ns());
  // A stage may have noticed the cancellation first.
  if ((error_.ok() || absl::IsCancelled(error_)) && context_->stop.stop_requested()) {
    error_ = absl::CancelledError("the run was cancelled");
    *out = Batch();
  }
  return error_;
}

void Iterator::Run::NoteDelivered(const Batch& batch, size_t row) {
  if (!notes_delivered_) return;
  last_row_.emplace(batch, row);
}

absl::Status Iterator::Run::Next(Batch* out) {
  absl::Status status =
      Ask(out, [](ElementQueue& queue, Batch* taken) { return queue.Take(1, taken); });
  elements_ += out->empty() ? 0 : 1;
  rows_ += out->rows;
  if (out->rows > 0) NoteDelivered(*out, out->rows - 1);
  damaged_ += out->damaged.size();
  return status;
}

absl::Status Iterator::Run::Peek(Batch* out) {
  return Ask(out, [](ElementQueue& queue, Batch* ready) {
    absl::Status status = queue.Fill();
    if (!status.ok() || queue.ended()) return status;
    *ready = queue.head().batched ? queue.head() : queue.head().Slice(queue.at(), queue.left());
    return status;
  });
}

std::optional<bool> Iterator::Run::Await(std::chrono::nanoseconds most) {
  if (!error_.ok() || !repeated_.empty()) return true;
  if (Forked()) return std::nullopt;
  const WorkStop wanted(context_->stop.get_token());
  if (most.count() <= 0) return queue_->Await(most);
  const uint64_t start = NowNs();
  waits_.Begin(start);
  const std::optional<bool> there = queue_->Await(most);
  EndWait(start, 0, there.value_or(true));
  return there;
}

void Iterator::Run::Advance(size_t elements) {
  if (elements == 0) return;
  elements_ += elements;
  rows_ += !repeated_.empty() ? elements : queue_->head().batched ? queue_->head().rows : elements;
  if (!repeated_.empty()) return;
  // Rows of the head that are skipped.
  const shardfeed::Batch& head = queue_->head();
  const uint64_t begin = head.batched ? 0 : queue_->at();
  const uint64_t end = head.batched ? head.rows : begin + elements;
  damaged_ += std::count_if(head.damaged.begin(), head.damaged.end(),
                            [&](uint32_t row) { return row >= begin && row < end; });
  NoteDelivered(head, end - 1);
  queue_->Advance(elements);
}

absl::StatusOr<std::string> Iterator::Run::Chain() const {
  if (chain_.empty()) {
    const absl::StatusOr<uint64_t> fingerprint = FingerprintOf(*recipe_, Coverage::kSequence);
    if (!fingerprint.ok()) return fingerprint.status();
    chain_ = fmt::format("{:016x}", *fingerprint);
  }
  return chain_;
}

std::optional<DeliveredPast> Iterator::Run::PastDelivered() const {
  if (!mixes_ || !last_row_) return past_;
  const std::optional<DeliveredRow> last = last_row_->LastTaken();
  const std::optional<MixPast> past = context_->past();
  if (!last || !past) return std::nullopt;
  uint64_t position = last->position;
  if (UnevenStep(*recipe_) == nullptr) {
    // The state must be the same for all ranks, so it names the end of their round. That of planned
    // rows is not known here; but the place of the reader tells their past.
    const std::vector<RankPart> parts = PartsOf(*recipe_);
    if (past->is_planned() || parts.size() != 1) return std::nullopt;
    position += parts[0].world - 1 - std::min<uint64_t>(position, parts[0].rank);
  }
  return DeliveredPast{last->epoch, position, past->Key(last->epoch, position + 1)};
}

absl::Status Iterator::Run::CheckPast(const DeliveredPast& past) const {
  const std::optional<MixPast> mixed = context_->past();
  if (!mixed || mixed->Key(past.epoch, past.position + 1) == past.key) return absl::OkStatus();
  return mixed->Differs(past.epoch, past.position + 1);
}

bool Iterator::Run::StateAtHand() const { return !chain_.empty() || IndexesMade(*recipe_); }

absl::StatusOr<std::string> Iterator::Run::StateDict() const {
  if (!context_->deterministic) {
    return absl::FailedPreconditionError(
        "batches are delivered out of order (deterministic = false), so there is no position to "
        "return to");
  }
  const absl::StatusOr<std::string> chain = Chain();
  if (!chain.ok()) return chain.status();
  PipelineState state;
  state.chain = *chain;
  state.epoch = epoch_;
  state.merged = merged_;
  if (UnevenStep(*recipe_) != nullptr) {
    state.ranks = WordsOf(PartsOf(*recipe_));
    const Step* alone = UnmergeableStep(*recipe_);
    const std::optional<Delivered> delivered = last_row_ ? last_row_->AllDelivered() : delivered_;
    if (alone == nullptr && last_row_ && !delivered) {
      // Rows of a function of batches that changes their number do not tell their record.
      for (alone = recipe_.get(); alone->as<BatchFnWork>() == nullptr && !alone->inputs.empty();) {
        alone = alone->inputs[0].get();
      }
    } else if (alone == nullptr && delivered && delivered->held.size() > kMaxHeldRows) {
      for (alone = recipe_.get(); !alone->tells_held;) alone = alone->inputs[0].get();
    }
    if (alone != nullptr) {
      state.alone = alone->name;
    } else {
      const absl::StatusOr<uint64_t> size = EpochRecords(*recipe_);
      if (!size.ok()) return size.status();
      state.size = *size;
      state.delivered = delivered;
    }
  }
  if (queue_ == nullptr) return error_;
  state.past = PastDelivered();
  queue_->Save(&state.place.emplace());
  return state.Format();
}

absl::Status Iterator::Run::LoadStateDict(std::string_view text) {
  const absl::StatusOr<PipelineState> state = PipelineState::Parse(text);
  if (!state.ok()) return state.status();
  const absl::StatusOr<std::string> chain = Chain();
  if (!chain.ok()) return chain.status();
  if (state->chain != *chain) {
    return absl::FailedPreconditionError(fmt::format(
        "the state belongs to another chain or other data: it was saved for {}, this one is {}",
        state->chain, *chain));
  }
  const Step* const uneven = UnevenStep(*recipe_);
  const bool merged = !state->place;
  if (!merged && (uneven != nullptr || state->ranks)) {
    const std::vector<RankPart> parts = PartsOf(*recipe_);
    if (!state->ranks || *state->ranks != WordsOf(parts)) {
      return absl::FailedPreconditionError(fmt::format(
          "the state was saved by {}, but this is {}: the ranks of this chain advance unevenly{}, "
          "so a state is valid only for the same rank of the same number of ranks{}",
          RanksText(state->ranks.value_or(StateWords())), RanksText(WordsOf(parts)),
          uneven == nullptr ? "" : fmt::format(" because of '{}'", uneven->name),
          UnmergeableStep(*recipe_) == nullptr
              ? "; merge_states merges those of all ranks into one for any number of ranks"
              : ""));
    }
  }
  if (state->merged.has_value() && UnmergeableStep(*recipe_) != nullptr) {
    return absl::InvalidArgumentError(
        "the state is damaged: states of this chain cannot be merged");
  }
  const bool begins_alike = state->merged == merged_;
  const bool other_epoch = state->epoch != epoch_;
  merged_ = state->merged;
  epoch_ = state->epoch;
  if (Forked()) {
    Abandon();
    options_.trace = nullptr;
    if (absl::Status status = Open(); !status.ok()) return error_ = status;
  } else if (merged || other_epoch || !begins_alike || queue_ == nullptr) {
    // The threads of the previous stages read the context, so they end first.
    queue_ = nullptr;
    context_->merged = merged_;
    absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(recipe_, context_, state->epoch);
    if (!stage.ok()) return error_ = stage.status();
    queue_ = std::make_unique<ElementQueue>(*std::move(stage));
  }
  error_ = absl::OkStatus();
  repeated_ = Batch();
  delivered_ = state->delivered;
  past_ = state->past;
  last_row_.reset();
  absl::Status status;
  if (!merged) {
    StateReader reader(*state->place);
    status = queue_->Load(&reader);
    if (status.ok()) status = reader.status();
    if (status.ok() && !reader.at_end()) {
      status = absl::InvalidArgumentError("the state is not one of this chain: it is too long");
    }
  }
  if (status.ok() && past_) status = CheckPast(*past_);
  if (!status.ok()) error_ = status;
  return status;
}

void Iterator::Run::Cancel() { context_->stop.request_stop(); }

IteratorStats Iterator::Run::stats() const {
  IteratorStats stats;
  const uint64_t now = NowNs();
  stats.seconds = static_cast<double>(now - start_ns_) * 1e-9;
  stats.elements = elements_;
  stats.rows = rows_;
  stats.dropped_damaged = context_->dropped_damaged;
  stats.damaged = damaged_ + stats.dropped_damaged;
  stats.wait_seconds = static_cast<double>(waits_.Look(now).total_ns) * 1e-9;
  for (const auto& c : context_->AllCounters()) {
    StageStats stage;
    stage.name = c->name;
    stage.reads = c->reads;
    stage.threads = c->threads;
    stage.workers = c->workers;
    stage.read_ahead = c->read_ahead;
    stage.batches = c->batches;
    stage.rows = c->rows;
    stage.bytes = c->bytes;
    stage.busy_seconds = static_cast<double>(c->busy_ns) * 1e-9;
    stage.wait_in_seconds = static_cast<double>(c->wait_in_ns) * 1e-9;
    stage.invalid = c->invalid;
    stage.wait_out_seconds = static_cast<double>(c->wait_out_ns) * 1e-9;
    stage.ready = c->ready;
    stage.ahead = c->ahead;
    stage.ahead_bytes = c->ahead_bytes;
    stage.peak_bytes = c->peak_bytes;
    if (stage.read_ahead > 0) {
      stats.tuning.push_back({stage.name, stage.workers, stage.read_ahead});
    }
    stats.stages.push_back(std::move(stage));
  }
  SkippedRecords ignored = context_->Ignored();
  stats.ignored = ignored.count;
  stats.first_ignored = std::move(ignored.first);
  stats.decisions = context_->Decisions();
  Verdict verdict = FindLimit(stats.seconds, stats.wait_seconds, stats.stages);
  stats.limit = std::move(verdict.limit);
  stats.verdict = std::move(verdict.text);
  return stats;
}

absl::StatusOr<std::unique_ptr<Iterator>> Iterator::Start(StepPtr recipe,
                                                          const RunOptions& options) {
  auto run = std::make_unique<Run>(std::move(recipe), options);
  if (absl::Status status = run->Open(); !status.ok()) return status;
  return std::unique_ptr<Iterator>(new Iterator(std::move(run)));
}

Iterator::Iterator(std::unique_ptr<Run> run) : run_(std::move(run)) {}
Iterator::~Iterator() = default;

absl::Status Iterator::Next(Batch* out) { return run_->Next(out); }
absl::Status Iterator::Peek(Batch* out) { return run_->Peek(out); }
void Iterator::Advance(size_t elements) { run_->Advance(elements); }
std::optional<bool> Iterator::Await(std::chrono::nanoseconds most) { return run_->Await(most); }
const RowSpec& Iterator::spec() const { return run_->spec(); }
bool Iterator::batched() const { return run_->batched(); }
uint64_t Iterator::epoch() const { return run_->epoch(); }
absl::StatusOr<std::string> Iterator::StateDict() const { return run_->StateDict(); }
bool Iterator::StateAtHand() const { return run_->StateAtHand(); }
absl::Status Iterator::LoadStateDict(std::string_view state) { return run_->LoadStateDict(state); }
void Iterator::Cancel() { run_->Cancel(); }
IteratorStats Iterator::stats() const { return run_->stats(); }

}  // namespace shardfeed
