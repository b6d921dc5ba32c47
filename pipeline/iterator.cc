#include "pipeline/iterator.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "io/bounded_json.h"
#include "io/buffer.h"
#include "io/page_cache.h"
#include "io/parallel.h"
#include "nlohmann/json.hpp"
#include "pipeline/fork_count.h"
#include "pipeline/plan/compile.h"
#include "pipeline/plan/fingerprint.h"
#include "pipeline/plan/sharing.h"
#include "pipeline/verdict.h"
#include "pipeline/work_stop.h"

namespace shardfeed {
namespace {

constexpr int kStateVersion = 2;

uint64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

StateWords WordsOf(const std::vector<RankPart>& parts) {
  StateWords words;
  for (const RankPart& part : parts) {
    words.push_back(part.rank);
    words.push_back(part.world);
  }
  return words;
}

std::string RanksText(const StateWords& words) {
  std::string text;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    text += fmt::format("{}rank {} of {}", i > 0 ? ", " : "", words[i], words[i + 1]);
  }
  return text.empty() ? "a chain without ranks" : text;
}

// Nothing where the field is missing or no list of numbers.
std::optional<StateWords> NumbersOf(const nlohmann::json& state, const char* field) {
  if (!state.contains(field) || !state[field].is_array()) return std::nullopt;
  StateWords words;
  for (const auto& word : state[field]) {
    if (!word.is_number_unsigned()) return std::nullopt;
    words.push_back(word.get<uint64_t>());
  }
  return words;
}

// What State writes.
struct PipelineState {
  std::string chain;
  uint64_t epoch = 0;
  std::optional<StateWords> ranks;  // WordsOf, where the state is good for these alone
  StateWords place;

  // InvalidArgument: it is no state, or one of another version.
  static absl::StatusOr<PipelineState> Parse(std::string_view text) {
    nlohmann::json json;
    // Its place is as long as the shuffle buffers are large.
    const absl::Status parsed = ParseBoundedJson(text, &json, /*max_values=*/text.size());
    if (!parsed.ok() || !json.is_object() || !json.contains("format") ||
        json["format"] != "shardfeed pipeline state" || !json.contains("version")) {
      return absl::InvalidArgumentError("not the state of a pipeline of shardfeed");
    }
    if (json["version"] != kStateVersion) {
      return absl::InvalidArgumentError(
          fmt::format("a pipeline's state of version {}; this shardfeed reads version {}",
                      json["version"].dump(), kStateVersion));
    }
    PipelineState state;
    const std::optional<StateWords> place = NumbersOf(json, "place");
    state.ranks = NumbersOf(json, "ranks");
    if (!json.contains("chain") || !json["chain"].is_string() || !json.contains("epoch") ||
        !json["epoch"].is_number_unsigned() || !place ||
        json.contains("ranks") != state.ranks.has_value()) {
      return absl::InvalidArgumentError(
          "the state is damaged: its chain, epoch, ranks or place are missing or of another kind");
    }
    state.chain = json["chain"];
    state.epoch = json["epoch"];
    state.place = *place;
    return state;
  }
};

}  // namespace

uint64_t DefaultBudgetBytes() {
  return std::clamp<uint64_t>(FreeMemoryBytes() / 4, uint64_t{128} << 20, uint64_t{2} << 30);
}

absl::StatusOr<std::shared_ptr<RunContext>> Iterator::MakeContext() const {
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
  context->allocator = options.allocator;
  if (!context->allocator) {
    // Batches come and go in like sizes: their memory is used again, so that the kernel need not
    // clear pages for each.
    context->allocator = [pool = BufferPool::Create(context->budget_bytes)](size_t size) {
      std::shared_ptr<Buffer> buffer = pool->Allocate(size);
      char* data = buffer->data();
      return std::shared_ptr<char>(std::move(buffer), data);
    };
  }
  return context;
}

absl::StatusOr<std::unique_ptr<Iterator>> Iterator::Start(StepPtr recipe,
                                                          const RunOptions& options) {
  std::unique_ptr<Iterator> iterator(new Iterator(std::move(recipe), options));
  if (absl::Status status = iterator->Open(); !status.ok()) return status;
  return iterator;
}

Iterator::Iterator(StepPtr recipe, RunOptions options)
    : recipe_(std::move(recipe)), options_(std::move(options)), start_ns_(NowNs()) {}

absl::Status Iterator::Open() {
  forks_ = ForkCount();
  absl::StatusOr<std::shared_ptr<RunContext>> context = MakeContext();
  if (!context.ok()) return context.status();
  context_ = *std::move(context);
  absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(recipe_, context_, options_.epoch);
  if (!stage.ok()) return stage.status();
  queue_ = std::make_unique<ElementQueue>(*std::move(stage));
  tuner_ = options_.autotune ? std::make_unique<Autotuner>(context_.get()) : nullptr;
  return absl::OkStatus();
}

Iterator::~Iterator() {
  if (Forked()) {
    Abandon();
  } else if (context_ != nullptr) {  // it was opened
    Cancel();
  }
}

bool Iterator::Forked() const { return ForkCount() != forks_; }

// The stages' threads are the parent's, and their locks may be held for ever: nothing of them is
// touched.
void Iterator::Abandon() {
  tuner_ = nullptr;
  new std::shared_ptr<RunContext>(std::move(context_));
  static_cast<void>(queue_.release());
}

absl::Status Iterator::OpenAgain() {
  if (!options_.deterministic) {
    Abandon();
    return absl::FailedPreconditionError(
        "forked while batches were delivered as they were ready (deterministic = false): there is "
        "no place to go on from; start the run in the child");
  }
  // What the consumer's thread has of the stages is as it was.
  StateWords words;
  queue_->Save(&words);
  Abandon();
  options_.trace = nullptr;
  if (absl::Status status = Open(); !status.ok()) return status;
  StateReader reader(words);
  absl::Status status = queue_->Load(&reader);
  return status.ok() ? reader.status() : status;
}

uint64_t Iterator::EndWait(uint64_t start_ns, size_t rows) {
  constexpr uint64_t kTracedNs = 10'000;  // shorter waits are not traced
  const uint64_t end = NowNs();
  wait_ns_ += end - start_ns;
  if (options_.trace && end - start_ns > kTracedNs) {
    options_.trace->Add("next", start_ns, end, rows);
  }
  return end;
}

absl::Status Iterator::Ask(Batch* out, absl::Status (*work)(ElementQueue&, Batch*)) {
  *out = Batch();
  if (!error_.ok()) return error_;
  if (Forked()) {
    error_ = OpenAgain();
    if (!error_.ok()) return error_;
  }
  const WorkStop wanted(context_->stop.get_token());
  const uint64_t start = NowNs();
  if (!repeated_.empty()) {
    *out = repeated_;
  } else {
    error_ = work(*queue_, out);
    if (options_.headspace && error_.ok()) repeated_ = *out;
  }
  const uint64_t end = EndWait(start, out->rows);
  if (tuner_ != nullptr) tuner_->Look(end, wait_ns_);
  // A stage may have seen it first.
  if ((error_.ok() || absl::IsCancelled(error_)) && context_->stop.stop_requested()) {
    error_ = absl::CancelledError("the run was cancelled");
    *out = Batch();
  }
  return error_;
}

absl::Status Iterator::Next(Batch* out) {
  absl::Status status =
      Ask(out, [](ElementQueue& queue, Batch* taken) { return queue.Take(1, taken); });
  elements_ += out->empty() ? 0 : 1;
  rows_ += out->rows;
  damaged_ += out->damaged.size();
  return status;
}

absl::Status Iterator::Peek(Batch* out) {
  return Ask(out, [](ElementQueue& queue, Batch* ready) {
    absl::Status status = queue.Fill();
    if (!status.ok() || queue.ended()) return status;
    *ready = queue.head().batched ? queue.head() : queue.head().Slice(queue.at(), queue.left());
    return status;
  });
}

std::optional<bool> Iterator::Await(std::chrono::nanoseconds most) {
  if (!error_.ok() || !repeated_.empty()) return true;
  if (Forked()) return std::nullopt;
  const WorkStop wanted(context_->stop.get_token());
  if (most.count() <= 0) return queue_->Await(most);
  const uint64_t start = NowNs();
  const std::optional<bool> there = queue_->Await(most);
  EndWait(start, 0);
  return there;
}

void Iterator::Advance(size_t elements) {
  if (elements == 0) return;
  elements_ += elements;
  rows_ += !repeated_.empty() ? elements : queue_->head().batched ? queue_->head().rows : elements;
  if (!repeated_.empty()) return;
  // Rows that are passed, of those that the head tells of.
  const shardfeed::Batch& head = queue_->head();
  const uint64_t begin = head.batched ? 0 : queue_->at();
  const uint64_t end = head.batched ? head.rows : begin + elements;
  damaged_ += std::count_if(head.damaged.begin(), head.damaged.end(),
                            [&](uint32_t row) { return row >= begin && row < end; });
  queue_->Advance(elements);
}

absl::StatusOr<std::string> Iterator::Chain() const {
  if (chain_.empty()) {
    const absl::StatusOr<uint64_t> fingerprint = FingerprintOf(*recipe_, Coverage::kSequence);
    if (!fingerprint.ok()) return fingerprint.status();
    chain_ = fmt::format("{:016x}", *fingerprint);
  }
  return chain_;
}

bool Iterator::StateAtHand() const { return !chain_.empty() || IndexesMade(*recipe_); }

absl::StatusOr<std::string> Iterator::State() const {
  if (!context_->deterministic) {
    return absl::FailedPreconditionError(
        "batches are delivered as they are ready (deterministic = false), so there is no place to "
        "come back to");
  }
  const absl::StatusOr<std::string> chain = Chain();
  if (!chain.ok()) return chain.status();
  StateWords words;
  queue_->Save(&words);
  nlohmann::ordered_json state = {{"format", "shardfeed pipeline state"},
                                  {"version", kStateVersion},
                                  {"chain", *chain},
                                  {"epoch", options_.epoch}};
  if (UnevenStep(*recipe_) != nullptr) state["ranks"] = WordsOf(PartsOf(*recipe_));
  state["place"] = words;
  return state.dump();
}

absl::Status Iterator::Load(std::string_view text) {
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
  if (uneven != nullptr || state->ranks) {
    const std::vector<RankPart> parts = PartsOf(*recipe_);
    if (!state->ranks || *state->ranks != WordsOf(parts)) {
      return absl::FailedPreconditionError(fmt::format(
          "the state was saved by {}, and this is {}: the ranks of this chain advance unevenly{}, "
          "so that a rank's state is good for the same rank of as many ranks alone",
          RanksText(state->ranks.value_or(StateWords())), RanksText(WordsOf(parts)),
          uneven == nullptr ? "" : fmt::format(", for it has '{}'", uneven->name)));
    }
  }
  if (Forked()) {
    Abandon();
    options_.trace = nullptr;
    options_.epoch = state->epoch;
    if (absl::Status status = Open(); !status.ok()) return status;
  } else if (state->epoch != options_.epoch) {
    absl::StatusOr<std::unique_ptr<Stage>> stage = Compile(recipe_, context_, state->epoch);
    if (!stage.ok()) return stage.status();
    queue_ = std::make_unique<ElementQueue>(*std::move(stage));
    options_.epoch = state->epoch;
  }
  error_ = absl::OkStatus();
  repeated_ = Batch();
  StateReader reader(state->place);
  absl::Status status = queue_->Load(&reader);
  if (status.ok()) status = reader.status();
  if (status.ok() && !reader.at_end()) {
    status = absl::InvalidArgumentError("the state is not one of this chain: it is too long");
  }
  if (!status.ok()) error_ = status;
  return status;
}

void Iterator::Cancel() { context_->stop.request_stop(); }

IteratorStats Iterator::stats() const {
  IteratorStats stats;
  stats.seconds = static_cast<double>(NowNs() - start_ns_) * 1e-9;
  stats.elements = elements_;
  stats.rows = rows_;
  stats.damaged = damaged_;
  stats.wait_seconds = static_cast<double>(wait_ns_.load()) * 1e-9;
  for (const auto& c : context_->AllCounters()) {
    StageStats stage;
    stage.name = c->name;
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
  const Verdict verdict = FindLimit(stats.seconds, stats.wait_seconds, context_->AllCounters());
  stats.limit = verdict.limit;
  stats.verdict = verdict.text;
  return stats;
}

}  // namespace shardfeed
