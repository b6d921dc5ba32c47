#include "decode/images/jpeg/libjpeg.h"

#include <exception>

#include "fmt/format.h"
#include "jerror.h"

namespace shardfeed {
namespace {

LibjpegErrors& ErrorsOf(j_common_ptr object) { return *static_cast<LibjpegErrors*>(object->err); }

[[noreturn]] void Fail(j_common_ptr object) {
  LibjpegErrors& errors = ErrorsOf(object);
  errors.code = errors.msg_code;
  errors.in_scans = object->is_decompressor != FALSE &&
                    reinterpret_cast<j_decompress_ptr>(object)->input_scan_number > 0;
  errors.format_message(object, errors.text);
  std::longjmp(errors.jump, 1);
}

void OnMessage(j_common_ptr object, int level) {
  if (level >= 0) return;  // trace messages
  LibjpegErrors& errors = ErrorsOf(object);
  // Unusual version numbers in the segments of JFIF and Adobe, which all decoders accept.
  if (errors.msg_code == JWRN_JFIF_MAJOR || errors.msg_code == JWRN_ADOBE_XFORM) return;
  ++errors.num_warnings;
  if (!errors.accept_damaged) Fail(object);
}

void Ignore(j_common_ptr) {}

void IgnoreInput(j_decompress_ptr) {}

boolean OnEnd(j_decompress_ptr decoder) {
  auto* object = reinterpret_cast<j_common_ptr>(decoder);
  LibjpegErrors& errors = ErrorsOf(object);
  errors.cut_off = true;
  errors.msg_code = JWRN_JPEG_EOF;
  errors.emit_message(object, -1);
  // Damage is accepted: an EOI marker makes libjpeg fill in the rest.
  static constexpr JOCTET kEnd[] = {0xff, JPEG_EOI};
  decoder->src->next_input_byte = kEnd;
  decoder->src->bytes_in_buffer = sizeof(kEnd);
  return TRUE;
}

void Skip(j_decompress_ptr decoder, long num_bytes) {
  jpeg_source_mgr& source = *decoder->src;
  if (num_bytes <= 0) return;
  if (static_cast<size_t>(num_bytes) > source.bytes_in_buffer) {
    OnEnd(decoder);
    return;
  }
  source.next_input_byte += num_bytes;
  source.bytes_in_buffer -= num_bytes;
}

void CountScans(j_common_ptr object) {
  const int scans = reinterpret_cast<j_decompress_ptr>(object)->input_scan_number;
  if (scans <= static_cast<LibjpegScanLimit*>(object->progress)->max_scans) return;
  ErrorsOf(object).too_many_scans = true;
  Fail(object);
}

void StartTarget(j_compress_ptr encoder) {
  auto& target = *static_cast<LibjpegOutput*>(encoder->dest);
  target.next_output_byte = reinterpret_cast<JOCTET*>(target.out->data());
  target.free_in_buffer = target.out->size();
}

boolean GrowTarget(j_compress_ptr encoder) {
  auto& target = *static_cast<LibjpegOutput*>(encoder->dest);
  const size_t size = target.out->size();
  bool grown = true;
  try {
    target.out->resize(2 * size);
  } catch (const std::exception&) {
    grown = false;  // the jump must not leave the handler
  }
  if (!grown) ERREXIT1(encoder, JERR_OUT_OF_MEMORY, 0);
  target.next_output_byte = reinterpret_cast<JOCTET*>(target.out->data() + size);
  target.free_in_buffer = size;
  return TRUE;
}

void EndTarget(j_compress_ptr encoder) {
  auto& target = *static_cast<LibjpegOutput*>(encoder->dest);
  target.out->resize(target.out->size() - target.free_in_buffer);
}

}  // namespace

LibjpegErrors::LibjpegErrors() : jpeg_error_mgr() {
  jpeg_std_error(this);
  error_exit = Fail;
  emit_message = OnMessage;
  output_message = Ignore;
}

void LibjpegErrors::Reset(bool accept_damaged_images) {
  accept_damaged = accept_damaged_images;
  cut_off = too_many_scans = false;
  code = 0;
  in_scans = false;
  num_warnings = 0;
}

absl::Status LibjpegErrors::ToStatus(uint64_t num_bytes) const {
  if (too_many_scans) return absl::ResourceExhaustedError("JPEG has too many scans");
  if (cut_off) {
    return absl::DataLossError(
        fmt::format("JPEG is cut off: the file ends after {} bytes, before its image", num_bytes));
  }
  // A header in the midst of the scans is damage, whatever kind it announces. So is a scan with
  // more than 10 blocks in an MCU (JERR_BAD_MCU_SIZE), which no JPEG may have.
  switch (in_scans && code == JERR_SOF_UNSUPPORTED ? 0 : code) {
    case JERR_OUT_OF_MEMORY:
      return absl::ResourceExhaustedError("there is not enough memory for the JPEG's image");
    case JERR_ARITH_NOTIMPL:
    case JERR_BAD_PRECISION:
    case JERR_CCIR601_NOTIMPL:
    case JERR_COMPONENT_COUNT:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_IMAGE_TOO_BIG:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
    case JERR_SOF_UNSUPPORTED:
    case JERR_WIDTH_OVERFLOW:
      return absl::UnimplementedError(
          fmt::format("JPEG of a kind that is not supported: {}", std::string_view(text)));
    default: {
      // Most of libjpeg's warnings begin with this.
      std::string_view what = text;
      constexpr std::string_view kPrefix = "Corrupt JPEG data: ";
      if (what.starts_with(kPrefix)) what.remove_prefix(kPrefix.size());
      return absl::DataLossError(fmt::format("JPEG is damaged: {}", what));
    }
  }
}

LibjpegMemory::LibjpegMemory() : jpeg_source_mgr() {
  init_source = IgnoreInput;
  fill_input_buffer = OnEnd;
  skip_input_data = Skip;
  resync_to_restart = jpeg_resync_to_restart;
  term_source = IgnoreInput;
}

void LibjpegMemory::Start(std::string_view jpeg) {
  next_input_byte = reinterpret_cast<const JOCTET*>(jpeg.data());
  bytes_in_buffer = jpeg.size();
}

LibjpegScanLimit::LibjpegScanLimit(int max) : jpeg_progress_mgr(), max_scans(max) {
  progress_monitor = CountScans;
}

LibjpegOutput::LibjpegOutput(std::string* string) : jpeg_destination_mgr(), out(string) {
  init_destination = StartTarget;
  empty_output_buffer = GrowTarget;
  term_destination = EndTarget;
}

}  // namespace shardfeed
