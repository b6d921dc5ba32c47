// The names of augmentations and of their fields, for all that treats them alike: the identity of a
// step, and reading them from Python.

#ifndef SHARDFEED_PIPELINE_ROWS_AUGMENT_FIELDS_H_
#define SHARDFEED_PIPELINE_ROWS_AUGMENT_FIELDS_H_

#include <string_view>
#include <tuple>
#include <type_traits>

#include "shardfeed/images.h"

namespace shardfeed::augment {

template <typename A, typename T>
struct Field {
  const char* name;
  T A::*member;
};
template <typename A, typename T>
Field(const char*, T A::*) -> Field<A, T>;

// kName is the name of the augmentation A. kAll has its fields, in the order of its identity, which
// must not change.
template <typename A>
struct FieldsOf;

// Calls `visit(name, field)` for each field of the augmentation, in the order of kAll.
template <typename A, typename Visit>
void VisitFields(A& augmentation, const Visit& visit) {
  std::apply([&](const auto&... field) { (visit(field.name, augmentation.*field.member), ...); },
             FieldsOf<std::remove_const_t<A>>::kAll);
}

template <>
struct FieldsOf<ColorJitter> {
  static constexpr std::string_view kName = "ColorJitter";
  static constexpr auto kAll = std::tuple{
      Field{"brightness", &ColorJitter::brightness}, Field{"contrast", &ColorJitter::contrast},
      Field{"saturation", &ColorJitter::saturation}, Field{"hue", &ColorJitter::hue}};
};
template <>
struct FieldsOf<RandomGrayscale> {
  static constexpr std::string_view kName = "RandomGrayscale";
  static constexpr auto kAll = std::tuple{Field{"p", &RandomGrayscale::p}};
};
template <>
struct FieldsOf<GaussianBlur> {
  static constexpr std::string_view kName = "GaussianBlur";
  static constexpr auto kAll = std::tuple{Field{"kernel_size", &GaussianBlur::kernel_size},
                                          Field{"sigma", &GaussianBlur::sigma}};
};
template <>
struct FieldsOf<RandomErasing> {
  static constexpr std::string_view kName = "RandomErasing";
  static constexpr auto kAll =
      std::tuple{Field{"p", &RandomErasing::p}, Field{"scale", &RandomErasing::scale},
                 Field{"ratio", &RandomErasing::ratio}, Field{"value", &RandomErasing::value},
                 Field{"random_value", &RandomErasing::random_value}};
};
template <>
struct FieldsOf<RandomHorizontalFlip> {
  static constexpr std::string_view kName = "RandomHorizontalFlip";
  static constexpr auto kAll = std::tuple{Field{"p", &RandomHorizontalFlip::p}};
};
template <>
struct FieldsOf<RandomVerticalFlip> {
  static constexpr std::string_view kName = "RandomVerticalFlip";
  static constexpr auto kAll = std::tuple{Field{"p", &RandomVerticalFlip::p}};
};
template <>
struct FieldsOf<Pad> {
  static constexpr std::string_view kName = "Pad";
  static constexpr auto kAll =
      std::tuple{Field{"padding", &Pad::padding}, Field{"fill", &Pad::fill},
                 Field{"padding_mode", &Pad::padding_mode}};
};
template <>
struct FieldsOf<RandomRotation> {
  static constexpr std::string_view kName = "RandomRotation";
  static constexpr auto kAll =
      std::tuple{Field{"degrees", &RandomRotation::degrees},
                 Field{"interpolation", &RandomRotation::interpolation},
                 Field{"center", &RandomRotation::center}, Field{"fill", &RandomRotation::fill}};
};
template <>
struct FieldsOf<RandomAffine> {
  static constexpr std::string_view kName = "RandomAffine";
  static constexpr auto kAll = std::tuple{Field{"degrees", &RandomAffine::degrees},
                                          Field{"translate", &RandomAffine::translate},
                                          Field{"scale", &RandomAffine::scale},
                                          Field{"shear", &RandomAffine::shear},
                                          Field{"interpolation", &RandomAffine::interpolation},
                                          Field{"fill", &RandomAffine::fill},
                                          Field{"center", &RandomAffine::center}};
};
template <>
struct FieldsOf<RandomPerspective> {
  static constexpr std::string_view kName = "RandomPerspective";
  static constexpr auto kAll = std::tuple{
      Field{"distortion_scale", &RandomPerspective::distortion_scale},
      Field{"p", &RandomPerspective::p}, Field{"interpolation", &RandomPerspective::interpolation},
      Field{"fill", &RandomPerspective::fill}};
};
template <>
struct FieldsOf<RandomInvert> {
  static constexpr std::string_view kName = "RandomInvert";
  static constexpr auto kAll = std::tuple{Field{"p", &RandomInvert::p}};
};
template <>
struct FieldsOf<RandomPosterize> {
  static constexpr std::string_view kName = "RandomPosterize";
  static constexpr auto kAll =
      std::tuple{Field{"bits", &RandomPosterize::bits}, Field{"p", &RandomPosterize::p}};
};
template <>
struct FieldsOf<RandomSolarize> {
  static constexpr std::string_view kName = "RandomSolarize";
  static constexpr auto kAll =
      std::tuple{Field{"threshold", &RandomSolarize::threshold}, Field{"p", &RandomSolarize::p}};
};
template <>
struct FieldsOf<RandomAutocontrast> {
  static constexpr std::string_view kName = "RandomAutocontrast";
  static constexpr auto kAll = std::tuple{Field{"p", &RandomAutocontrast::p}};
};
template <>
struct FieldsOf<RandomEqualize> {
  static constexpr std::string_view kName = "RandomEqualize";
  static constexpr auto kAll = std::tuple{Field{"p", &RandomEqualize::p}};
};
template <>
struct FieldsOf<RandomAdjustSharpness> {
  static constexpr std::string_view kName = "RandomAdjustSharpness";
  static constexpr auto kAll =
      std::tuple{Field{"sharpness_factor", &RandomAdjustSharpness::sharpness_factor},
                 Field{"p", &RandomAdjustSharpness::p}};
};
template <>
struct FieldsOf<RandAugment> {
  static constexpr std::string_view kName = "RandAugment";
  static constexpr auto kAll = std::tuple{
      Field{"num_ops", &RandAugment::num_ops}, Field{"magnitude", &RandAugment::magnitude},
      Field{"num_magnitude_bins", &RandAugment::num_magnitude_bins},
      Field{"interpolation", &RandAugment::interpolation}, Field{"fill", &RandAugment::fill}};
};
template <>
struct FieldsOf<TrivialAugmentWide> {
  static constexpr std::string_view kName = "TrivialAugmentWide";
  static constexpr auto kAll =
      std::tuple{Field{"num_magnitude_bins", &TrivialAugmentWide::num_magnitude_bins},
                 Field{"interpolation", &TrivialAugmentWide::interpolation},
                 Field{"fill", &TrivialAugmentWide::fill}};
};
template <>
struct FieldsOf<RandomApply> {
  static constexpr std::string_view kName = "RandomApply";
  static constexpr auto kAll =
      std::tuple{Field{"transforms", &RandomApply::transforms}, Field{"p", &RandomApply::p}};
};

}  // namespace shardfeed::augment

#endif  // SHARDFEED_PIPELINE_ROWS_AUGMENT_FIELDS_H_
