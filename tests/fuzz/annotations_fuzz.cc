// Annotations of images: a file is converted or refused, and what its readers accept is sound. The
// first byte chooses the form.

#include <cmath>
#include <set>

#include "base/utf8.h"
#include "convert/sources/coco.h"
#include "convert/sources/voc_annotation.h"
#include "convert/sources/yolo_config.h"
#include "convert/sources/yolo_label.h"
#include "tests/fuzz/source_fuzz.h"

namespace shardfeed {
namespace {

// The header of a PNG image, which is all that is read.
constexpr std::string_view kPng("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x0a\0\0\0\x14\x08\2\0\0\0",
                                29);

void ReadCoco(std::string_view text) {
  const testing::FuzzFile image("a.png", kPng);
  const testing::FuzzFile file("x.json", text);
  for (const bool skip : {false, true}) {
    const auto source = MakeCocoSource({file.path()});
    testing::RunSource(**source, skip);
  }
}

void ReadVoc(std::string_view text) {
  std::set<std::string> others;
  VocAnnotation annotation;
  if (!ReadVocAnnotation(text, "a.xml", others, &annotation).ok()) return;
  for (const VocObject& object : annotation.objects) {
    FUZZ_EXPECT(!object.name.empty());
    FUZZ_EXPECT(IsUtf8(object.name));
    FUZZ_EXPECT(object.xmin <= object.xmax && object.ymin <= object.ymax);
    FUZZ_EXPECT(std::isfinite(object.xmin) && std::isfinite(object.xmax));
  }
}

void ReadConfig(std::string_view text) {
  const auto config = ParseYoloConfig(text, "data.yaml");
  if (!config.ok()) return;
  for (const std::string& name : config->names) FUZZ_EXPECT(!name.empty());
  for (const auto& [subset, folders] : config->subsets) FUZZ_EXPECT(!folders.empty());
  FUZZ_EXPECT((config->num_keypoints == 0) == (config->keypoint_values == 0));
}

void ReadLabel(std::string_view line, uint32_t keypoints, uint32_t values) {
  YoloLabel label;
  if (!ParseYoloLabel(line, keypoints, values, &label).ok()) return;
  FUZZ_EXPECT(label.label >= 0);
  FUZZ_EXPECT(label.xmin <= label.xmax && label.ymin <= label.ymax);
  FUZZ_EXPECT(label.polygon.size() % 2 == 0 && label.polygon.size() != 2);
  FUZZ_EXPECT(label.keypoints.size() == size_t{keypoints} * values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text = testing::View(data + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      ReadCoco(text);
      break;
    case 1:
      ReadVoc(text);
      break;
    case 2:
      ReadConfig(text);
      break;
    default:
      ReadLabel(text, 0, 0);
      ReadLabel(text, 2, 3);
      ReadLabel(text, 1, 2);
  }
  return 0;
}

}  // namespace shardfeed
