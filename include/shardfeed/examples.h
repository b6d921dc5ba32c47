// Builds serialized tf.train.Example and tf.train.SequenceExample messages.
//
// The bytes are those that Protocol Buffers' deterministic serialization gives (features in name
// order, lists packed), so equal input gives equal bytes whoever writes them. They are written
// directly: no message objects, and no libprotobuf, which cannot live in a Python extension beside
// TensorFlow's own copy of it. Wire format: protobuf.dev/programming-guides/encoding; messages:
// example.proto.

#ifndef SHARDFEED_EXAMPLES_H_
#define SHARDFEED_EXAMPLES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace shardfeed {

// Collects the features of one record. Reuse a builder for many records: Clear() keeps its memory.
// Not thread-safe. If a name is added twice, the later feature counts, as in a protobuf map.
class ExampleBuilder {
 public:
  // Names are UTF-8 (the caller checks). Bytes are copied once.
  void AddBytes(std::string_view name, std::string_view value);
  // The same for values that the caller keeps until the record is serialized, which saves a copy.
  void AddBorrowedBytes(std::string_view name, std::string_view value);
  void AddBorrowedFloatList(std::string_view name, absl::Span<const float> values);
  void AddBytesList(std::string_view name, absl::Span<const std::string_view> values);
  void AddFloat(std::string_view name, float value) { AddFloatList(name, {&value, 1}); }
  void AddFloatList(std::string_view name, absl::Span<const float> values);
  void AddInt64(std::string_view name, int64_t value) { AddInt64List(name, {&value, 1}); }
  void AddInt64List(std::string_view name, absl::Span<const int64_t> values);

  // Starts the next step of the named feature list of a SequenceExample; the Append* calls fill it.
  // Steps of one list are added in order.
  void AppendBytesStep(std::string_view list, absl::Span<const std::string_view> values);
  void AppendFloatStep(std::string_view list, absl::Span<const float> values);
  void AppendInt64Step(std::string_view list, absl::Span<const int64_t> values);

  // Appends the message to `out`. The features added become the context of a SequenceExample.
  void SerializeExample(std::string* out);
  void SerializeSequenceExample(std::string* out);

  void Clear();

 private:
  // Name: [name, name + name_size) of names_; serialized Feature: [begin, end) of arena_, and then
  // what is borrowed.
  struct Entry {
    size_t name;
    size_t name_size;
    size_t begin;
    size_t end;
    std::string_view borrowed;

    size_t size() const { return end - begin + borrowed.size(); }
  };
  struct StepList {
    std::string name;
    std::string steps;  // the fields of the FeatureList
  };

  std::string_view NameOf(const Entry& entry) const {
    return std::string_view(names_).substr(entry.name, entry.name_size);
  }
  static size_t MapEntrySize(const Entry& entry);
  void AddFeature(std::string_view name, size_t begin);
  void AppendStep(std::string_view list, std::string_view feature);
  std::string& StepsOf(std::string_view list);
  void SerializeFeatures(int field, std::string* out);

  std::string arena_;
  std::string names_;
  std::vector<Entry> entries_;
  std::vector<StepList> lists_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_EXAMPLES_H_
