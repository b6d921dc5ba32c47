// Identities of augmentations, for fingerprints.

#ifndef SHARDFEED_PIPELINE_ROWS_AUGMENT_IDENTITY_H_
#define SHARDFEED_PIPELINE_ROWS_AUGMENT_IDENTITY_H_

#include <vector>

#include "pipeline/data/identity.h"
#include "pipeline/rows/augment.h"

namespace shardfeed {

// One identity for each step, of its name and all of its parameters.
std::vector<Identity> IdentitiesOf(const std::vector<Augmentation>& steps);

}  // namespace shardfeed

#endif  // SHARDFEED_PIPELINE_ROWS_AUGMENT_IDENTITY_H_
