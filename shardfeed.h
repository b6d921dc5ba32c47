// All that a program needs to feed itself from shards.

#ifndef SHARDFEED_SHARDFEED_H_
#define SHARDFEED_SHARDFEED_H_

#include "cuda/device_iterator.h"
#include "pipeline/dataset.h"
#include "reader/random_access.h"
#include "reader/reader.h"
#include "shard/spec.h"
#include "shard/verify.h"
#include "shard/writer.h"
#include "tfrecord/example_builder.h"

#endif  // SHARDFEED_SHARDFEED_H_
