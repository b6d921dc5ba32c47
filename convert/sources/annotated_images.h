// The common part of the sources whose records are images with annotations that are kept elsewhere.

#ifndef SHARDFEED_CONVERT_SOURCES_ANNOTATED_IMAGES_H_
#define SHARDFEED_CONVERT_SOURCES_ANNOTATED_IMAGES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "convert/features/image_file.h"
#include "convert/features/image_rewriter.h"
#include "convert/input/fingerprint.h"
#include "convert/input/name_list.h"
#include "convert/items/source.h"
#include "media/image_header.h"

namespace shardfeed {

// A list of image files, numbered from 0, each of which becomes a record unless it is dropped. The
// subclass fills the list in Scan and adds the other features. A name takes 24 bytes more than its
// length. Thread-safe as Source.
class AnnotatedImages : public Source {
 public:
  uint64_t num_records() const override { return images_.size() - num_dropped_; }
  uint64_t num_bytes() const override { return num_bytes_; }
  uint64_t mean_record_bytes() const override {
    return num_records() == 0 || rewriter_.resizes()
               ? 0
               : num_bytes_ / num_records() + kOtherFeatureBytes;
  }
  std::vector<std::string> built_notes() const override { return rewriter_.notes(); }
  void ForgetBuilt() override { rewriter_.Reset(); }
  absl::Status ForEach(const std::function<absl::Status(const Item&)>& sink) const override;
  absl::Status Build(const Item& item, ExampleBuilder& builder) const override;
  // An image is identified by its name.
  absl::Status AppendKey(const Item& item, std::string* key) const override;
  absl::Status VisitContent(
      const Item& item, const std::function<void(std::string_view bytes)>& visit) const override;
  std::string InputFingerprint() const override { return fingerprint_.Hex(); }

 protected:
  explicit AnnotatedImages(const StoredImageOptions& options) : rewriter_(options) {}

  // Adds the features of image `number` other than those of AddImage. `header` is the image's
  // before it was rewritten. `row` is what ForEach passed to MakeItem.
  virtual absl::Status AddFeatures(uint64_t number, const Item& row, const ImageHeader& header,
                                   ExampleBuilder& builder) const = 0;

  // The following are for Scan.
  void ClearImages();
  // Returns the number of a folder with images.
  uint32_t AddFolder(std::string path);
  // Adds the image at `name` below the folder, even if there is an error: the caller may drop it.
  //
  // DataLoss: the name leads outside of the folder, or the file is empty. NotFound and the like:
  // there is no such file.
  absl::Status AddFile(uint32_t folder, std::string_view name);
  void Drop(uint64_t number);
  // Adds an annotation file to the fingerprint and the size. Errors: it cannot be read.
  absl::Status AddAnnotationFile(const std::string& path);

  uint64_t num_images() const { return images_.size(); }
  bool is_dropped(uint64_t number) const { return images_[number].dropped; }
  std::string_view NameOf(uint64_t number) const {
    const Image& image = images_[number];
    return std::string_view(names_).substr(image.begin, image.size);
  }
  std::string PathOf(uint64_t number) const;
  uint32_t FolderOf(uint64_t number) const { return images_[number].folder; }
  // Reads the image's size from its file, for annotations that do not tell it.
  absl::StatusOr<ImageHeader> ReadHeader(uint64_t number) const;
  // DataLoss: the image has another size than `file`, which annotates it, says.
  absl::Status CheckSize(uint64_t number, const ImageHeader& header, uint32_t width,
                         uint32_t height, std::string_view file) const;
  // Adds the size and time of a file to the fingerprint. Errors: there is no such file.
  absl::StatusOr<uint64_t> AddToFingerprint(const std::string& path);

  // Makes the item of image `number` in `bytes`, which it replaces; `row` is handed to AddFeatures.
  static Item MakeItem(uint64_t number, const Item& row, std::string& bytes);

 private:
  struct Image {
    uint64_t begin;  // where its name begins in names_
    uint32_t size;
    uint32_t folder : 31;
    uint32_t dropped : 1;
  };
  static uint64_t NumberOf(const Item& item);

  ImageRewriter rewriter_;
  std::vector<std::string> folders_;
  std::string names_;
  std::vector<Image> images_;
  uint64_t num_dropped_ = 0;
  uint64_t num_bytes_ = 0;
  Fingerprint fingerprint_;
};

}  // namespace shardfeed

#endif  // SHARDFEED_CONVERT_SOURCES_ANNOTATED_IMAGES_H_
