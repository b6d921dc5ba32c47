// Augmentations as typed values, for fingerprints.

#ifndef SHARDFEED_PIPELINE_AUGMENT_IDENTITY_H_
#define SHARDFEED_PIPELINE_AUGMENT_IDENTITY_H_

#include <vector>

#include "pipeline/augment.h"
#include "pipeline/identity.h"

namespace shardfeed {

// Of each step, its name and all of its parameters.
std::vector<Identity> IdentitiesOf(const std::vector<Augmentation>& steps);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_AUGMENT_IDENTITY_H_
