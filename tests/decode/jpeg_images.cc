#include "tests/decode/jpeg_images.h"

#include <cmath>
#include <csetjmp>
#include <cstdlib>
#include <random>

#include "gtest/gtest.h"
#include "jerror.h"

namespace shardfeed::testing {
namespace {

struct Errors : jpeg_error_mgr {
  Errors() : jpeg_error_mgr() {
    jpeg_std_error(this);
    error_exit = [](j_common_ptr object) {
      auto& errors = *static_cast<Errors*>(object->err);
      errors.format_message(object, errors.text);
      std::longjmp(errors.jump, 1);
    };
    emit_message = [](j_common_ptr object, int level) {
      // Unusual versions in the segments of JFIF and Adobe are no damage.
      const int code = object->err->msg_code;
      if (level < 0 && code != JWRN_JFIF_MAJOR && code != JWRN_ADOBE_XFORM) {
        ++object->err->num_warnings;
      }
    };
    output_message = [](j_common_ptr) {};
  }
  std::jmp_buf jump;
  char text[JMSG_LENGTH_MAX] = {};
};

struct Decoder {
  explicit Decoder(const std::string& jpeg) : bytes(jpeg) { object.err = &errors; }
  ~Decoder() { jpeg_destroy_decompress(&object); }

  const std::string& bytes;
  Errors errors;
  jpeg_decompress_struct object = {};
};

void Start(Decoder& decoder) {
  jpeg_create_decompress(&decoder.object);
  jpeg_mem_src(&decoder.object, reinterpret_cast<const unsigned char*>(decoder.bytes.data()),
               decoder.bytes.size());
}

bool Decode(Decoder& decoder, J_COLOR_SPACE color_space, int scale_denominator, Pixels& pixels) {
  if (setjmp(decoder.errors.jump) != 0) return false;
  jpeg_decompress_struct& object = decoder.object;
  Start(decoder);
  jpeg_read_header(&object, TRUE);
  object.out_color_space = color_space;
  object.scale_num = 1;
  object.scale_denom = scale_denominator;
  jpeg_start_decompress(&object);
  pixels.width = object.output_width;
  pixels.height = object.output_height;
  pixels.channels = object.output_components;
  const size_t row_size = size_t{pixels.width} * pixels.channels;
  pixels.values.resize(row_size * pixels.height);
  while (object.output_scanline < object.output_height) {
    JSAMPROW row = pixels.values.data() + row_size * object.output_scanline;
    jpeg_read_scanlines(&object, &row, 1);
  }
  jpeg_finish_decompress(&object);
  return true;
}

bool ReadCoefficients(Decoder& decoder, std::vector<int16_t>& values) {
  if (setjmp(decoder.errors.jump) != 0) return false;
  jpeg_decompress_struct& object = decoder.object;
  Start(decoder);
  jpeg_read_header(&object, TRUE);
  jvirt_barray_ptr* arrays = jpeg_read_coefficients(&object);
  for (int c = 0; c < object.num_components; ++c) {
    const jpeg_component_info& component = object.comp_info[c];
    for (JDIMENSION y = 0; y < component.height_in_blocks; ++y) {
      JBLOCKARRAY row = object.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&object),
                                                       arrays[c], y, 1, FALSE);
      values.insert(values.end(), row[0][0], row[0][component.width_in_blocks]);
    }
  }
  return true;
}

bool ReadSegments(Decoder& decoder) {
  if (setjmp(decoder.errors.jump) != 0) return false;
  Start(decoder);
  jpeg_save_markers(&decoder.object, JPEG_COM, 0xffff);
  for (int i = 0; i < 16; ++i) jpeg_save_markers(&decoder.object, JPEG_APP0 + i, 0xffff);
  jpeg_read_header(&decoder.object, TRUE);
  jpeg_read_coefficients(&decoder.object);  // segments may also occur between scans
  return true;
}

}  // namespace

std::string MakeJpeg(const JpegSpec& spec) {
  Errors errors;
  jpeg_compress_struct encoder;
  encoder.err = &errors;
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  if (setjmp(errors.jump) != 0) {
    std::fprintf(stderr, "MakeJpeg: %s\n", errors.text);
    std::abort();
  }
  jpeg_create_compress(&encoder);
  jpeg_mem_dest(&encoder, &bytes, &size);
  const int components = static_cast<int>(spec.sampling.size());
  encoder.image_width = spec.width;
  encoder.image_height = spec.height;
  encoder.input_components = components;
  encoder.in_color_space = components == 1   ? JCS_GRAYSCALE
                           : components == 3 ? JCS_RGB
                           : components == 4 ? JCS_CMYK
                                             : JCS_UNKNOWN;
  jpeg_set_defaults(&encoder);
  if (spec.rgb) jpeg_set_colorspace(&encoder, JCS_RGB);
  if (spec.ycck) jpeg_set_colorspace(&encoder, JCS_YCCK);
  if (components == 4) encoder.write_Adobe_marker = spec.adobe ? TRUE : FALSE;
  jpeg_set_quality(&encoder, spec.quality, TRUE);
  for (int i = 0; i < components; ++i) {
    encoder.comp_info[i].h_samp_factor = spec.sampling[i].first;
    encoder.comp_info[i].v_samp_factor = spec.sampling[i].second;
  }
  encoder.optimize_coding = spec.optimized ? TRUE : FALSE;
  encoder.arith_code = spec.arithmetic ? TRUE : FALSE;
  encoder.restart_interval = spec.restart_interval;
  encoder.restart_in_rows = spec.restart_rows;
  if (spec.progressive) jpeg_simple_progression(&encoder);
  std::vector<jpeg_scan_info> scans = spec.scans;
  if (spec.separate_scans) {
    for (int i = 0; i < components; ++i) scans.push_back({1, {i}, 0, 63, 0, 0});
  }
  if (!scans.empty()) {
    encoder.scan_info = scans.data();
    encoder.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&encoder, TRUE);
  for (const auto& [marker, content] : spec.segments) {
    jpeg_write_marker(&encoder, marker, reinterpret_cast<const JOCTET*>(content.data()),
                      content.size());
  }
  std::mt19937 random(spec.seed);
  std::vector<uint8_t> row(size_t(spec.width) * components);
  while (encoder.next_scanline < encoder.image_height) {
    const int y = static_cast<int>(encoder.next_scanline);
    for (int x = 0; x < spec.width; ++x) {
      for (int c = 0; c < components; ++c) {
        if (spec.last_coefficient_only) {
          const auto wave = [](int i) { return std::cos((2 * i + 1) * 7 * M_PI / 16); };
          const int block = (x / 8 * 7 + y / 8 * 5) % 6;
          const double height = (block % 2 == 0 ? 30 : -30) * (1 + block / 2);
          row[size_t(x) * components + c] =
              static_cast<JSAMPLE>(std::lround(128 + height * wave(x % 8) * wave(y % 8)));
          continue;
        }
        // Noise only in some places, so that some blocks are full and others nearly empty.
        const int noise = (x / 24 + y / 24) % 3 == 0 ? static_cast<int>(random() % 128) : 0;
        row[size_t(x) * components + c] =
            static_cast<uint8_t>((x * (c + 1) + y * (3 - c % 3)) / 2 % 200 + noise / (c + 1));
      }
    }
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&encoder, &rows, 1);
  }
  jpeg_finish_compress(&encoder);
  jpeg_destroy_compress(&encoder);
  std::string jpeg(reinterpret_cast<const char*>(bytes), size);
  std::free(bytes);
  return jpeg;
}

Pixels DecodeByLibjpeg(const std::string& jpeg, J_COLOR_SPACE color_space, int scale_denominator) {
  Decoder decoder(jpeg);
  Pixels pixels;
  if (!Decode(decoder, color_space, scale_denominator, pixels)) pixels.error = decoder.errors.text;
  pixels.warnings = static_cast<int>(decoder.errors.num_warnings);
  return pixels;
}

std::vector<int16_t> Coefficients(const std::string& jpeg) {
  Decoder decoder(jpeg);
  std::vector<int16_t> values;
  if (!ReadCoefficients(decoder, values) || decoder.errors.num_warnings > 0) return {};
  return values;
}

std::vector<std::pair<int, std::string>> Segments(const std::string& jpeg) {
  Decoder decoder(jpeg);
  std::vector<std::pair<int, std::string>> segments;
  EXPECT_TRUE(ReadSegments(decoder)) << decoder.errors.text;
  for (const auto* m = decoder.object.marker_list; m != nullptr; m = m->next) {
    segments.emplace_back(m->marker,
                          std::string(reinterpret_cast<const char*>(m->data), m->data_length));
  }
  return segments;
}

size_t FindMarker(const std::string& jpeg, uint8_t code) {
  for (size_t at = 2; at + 4 <= jpeg.size() && jpeg[at] == '\xff';) {
    const auto marker = static_cast<uint8_t>(jpeg[at + 1]);
    if (marker == code) return at;
    if (marker == 0xda) break;
    at += 2 + (static_cast<uint8_t>(jpeg[at + 2]) << 8 | static_cast<uint8_t>(jpeg[at + 3]));
  }
  return std::string::npos;
}

}  // namespace shardfeed::testing
