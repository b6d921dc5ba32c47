#include "convert/sources/voc_annotation.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <vector>

#include "base/excerpt.h"
#include "base/utf8.h"
#include "convert/features/column.h"
#include "fmt/format.h"
#include "pugixml.hpp"

namespace shardfeed {
namespace {

// Elements beyond this number are data rather than names.
constexpr size_t kMaxOthers = 20;

// The text of an element without the blanks around it; a view of the document.
std::string_view TextOf(pugi::xml_node node) {
  constexpr std::string_view kBlanks = " \t\r\n";
  std::string_view text = node.text().get();
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  while (!text.empty() && kBlanks.find(text.back()) != kBlanks.npos) text.remove_suffix(1);
  return text;
}

// Elements of which another one may have one.
constexpr std::string_view kOnce[] = {"filename", "size",      "width",     "height", "name",
                                      "pose",     "truncated", "difficult", "bndbox", "xmin",
                                      "ymin",     "xmax",      "ymax"};

bool IsText(const pugi::xml_node& node) {
  return node.type() == pugi::node_pcdata || node.type() == pugi::node_cdata;
}

class Reader {
 public:
  Reader(std::string_view xml, std::string_view path) : xml_(xml), path_(path) {}

  absl::Status ErrorAt(ptrdiff_t offset, std::string_view what) const {
    const size_t before = std::clamp<ptrdiff_t>(offset, 0, static_cast<ptrdiff_t>(xml_.size()));
    const auto line = 1 + std::count(xml_.begin(), xml_.begin() + before, '\n');
    return absl::DataLossError(fmt::format("{}:{}: {}", path_, line, what));
  }
  absl::Status Error(pugi::xml_node node, std::string_view what) const {
    return ErrorAt(node.offset_debug(), what);
  }
  absl::Status Bad(pugi::xml_node node, std::string_view wanted) const {
    return Error(
        node, fmt::format("<{}> must be {}, got {}", node.name(), wanted, Excerpt(TextOf(node))));
  }

  // Checks that no value below the node is divided or stands twice.
  absl::Status CheckValues(pugi::xml_node node) const {
    std::vector<pugi::xml_node> nodes = {node};
    while (!nodes.empty()) {
      node = nodes.back();
      nodes.pop_back();
      if (std::ranges::count_if(node.children(), IsText) > 1) {
        return Error(node, fmt::format("the text of <{}> is divided by a comment or an element",
                                       node.name()));
      }
      std::set<std::string_view> names;
      for (pugi::xml_node child : node.children()) {
        if (child.type() != pugi::node_element) continue;
        nodes.push_back(child);
        const bool once = std::ranges::count(kOnce, child.name()) > 0;
        if (once && !names.insert(child.name()).second) {
          return Error(child, fmt::format("<{}> has two <{}>", node.name(), child.name()));
        }
      }
    }
    return absl::OkStatus();
  }
  absl::Status ReadText(pugi::xml_node node, std::string* text) const {
    *text = TextOf(node);
    if (IsUtf8(*text)) return absl::OkStatus();
    return Bad(node, "UTF-8, or in the encoding that the file declares");
  }
  static bool ToNumber(pugi::xml_node node, double* number) {
    const std::string_view text = TextOf(node);
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *number);
    return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() &&
           std::isfinite(*number) && ToFloat(*number).has_value();
  }
  absl::Status ReadFlag(pugi::xml_node node, std::optional<bool>* flag) const {
    const std::string_view text = TextOf(node);
    if (text != "0" && text != "1") return Bad(node, "0 or 1");
    *flag = text == "1";
    return absl::OkStatus();
  }
  absl::Status ReadSize(pugi::xml_node size, VocAnnotation* annotation) const {
    for (const auto& [name, pixels] :
         {std::pair("width", &annotation->width), {"height", &annotation->height}}) {
      const pugi::xml_node node = size.child(name);
      double number = 0;
      if (!node) continue;
      if (!ToNumber(node, &number) || number < 0 || number != std::floor(number) ||
          number > std::numeric_limits<int32_t>::max()) {
        return Bad(node, "a number of pixels");
      }
      *pixels = static_cast<uint32_t>(number);
    }
    return absl::OkStatus();
  }
  absl::Status ReadBox(pugi::xml_node box, VocObject* object) const {
    for (const auto& [name, value] : {std::pair("xmin", &object->xmin),
                                      {"ymin", &object->ymin},
                                      {"xmax", &object->xmax},
                                      {"ymax", &object->ymax}}) {
      const pugi::xml_node node = box.child(name);
      if (!node) return Error(box, fmt::format("the box has no <{}>", name));
      if (!ToNumber(node, value)) return Bad(node, "a number");
    }
    if (object->xmin <= object->xmax && object->ymin <= object->ymax) return absl::OkStatus();
    return Error(box, fmt::format("the box ends before it begins: x from {} to {}, y from {} to {}",
                                  object->xmin, object->xmax, object->ymin, object->ymax));
  }
  absl::Status ReadObject(pugi::xml_node node, std::set<std::string>& others,
                          VocObject* object) const {
    bool has_box = false;
    for (pugi::xml_node child : node.children()) {
      const std::string_view name = child.name();
      absl::Status status;
      if (name == "name") {
        status = ReadText(child, &object->name);
      } else if (name == "pose") {
        status = ReadText(child, &object->pose.emplace());
      } else if (name == "truncated") {
        status = ReadFlag(child, &object->truncated);
      } else if (name == "difficult") {
        status = ReadFlag(child, &object->difficult);
      } else if (name == "bndbox") {
        has_box = true;
        status = ReadBox(child, object);
      } else if (!name.empty() && others.size() < kMaxOthers) {
        others.insert(Excerpt(name, 30));
      }
      if (!status.ok()) return status;
    }
    if (object->name.empty()) return Error(node, "the object has no <name>");
    return has_box ? absl::OkStatus() : Error(node, "the object has no <bndbox>");
  }

 private:
  const std::string_view xml_;
  const std::string_view path_;
};

}  // namespace

absl::Status ReadVocAnnotation(std::string_view xml, std::string_view path,
                               std::set<std::string>& others, VocAnnotation* annotation) {
  const Reader reader(xml, path);
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size());
  if (!parsed) {
    return reader.ErrorAt(parsed.offset, fmt::format("invalid XML: {}", parsed.description()));
  }
  const pugi::xml_node root = document.child("annotation");
  if (!root) {
    return reader.ErrorAt(
        0, fmt::format("expected <annotation>, got <{}>", document.document_element().name()));
  }
  annotation->width = annotation->height = 0;
  annotation->objects.clear();
  absl::Status status = reader.CheckValues(root);
  if (status.ok()) status = reader.ReadText(root.child("filename"), &annotation->filename);
  if (status.ok()) status = reader.ReadSize(root.child("size"), annotation);
  for (pugi::xml_node node : root.children("object")) {
    if (!status.ok()) return status;
    status = reader.ReadObject(node, others, &annotation->objects.emplace_back());
  }
  return status;
}

}  // namespace shardfeed
