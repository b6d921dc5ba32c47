// Examples as text by Protocol Buffers, with which ours is compared.

#ifndef SHARDFEED_TESTS_TFRECORD_TEXT_PROTO_H_
#define SHARDFEED_TESTS_TFRECORD_TEXT_PROTO_H_

#include <google/protobuf/text_format.h>

#include <optional>
#include <string>

#include "tfrecord/example.pb.h"

namespace shardfeed::testing {

// Returns what Protocol Buffers print of an Example or a SequenceExample, but for fields that these
// do not define; nullopt if they refuse the record.
inline std::optional<std::string> TextProtoOfProtobuf(const std::string& record) {
  SequenceExample sequence;
  if (!sequence.ParseFromString(record)) return std::nullopt;
  sequence.DiscardUnknownFields();
  google::protobuf::TextFormat::Printer printer;
  printer.SetUseUtf8StringEscaping(true);
  std::string text;
  if (sequence.has_feature_lists()) {
    printer.PrintToString(sequence, &text);
  } else {
    Example example;
    if (sequence.has_context()) *example.mutable_features() = sequence.context();
    printer.PrintToString(example, &text);
  }
  return text;
}

}  // namespace shardfeed::testing

#endif  // SHARDFEED_TESTS_TFRECORD_TEXT_PROTO_H_
