// Dataset and everything that a step consists of, for the files that implement its steps.

#ifndef SHARDFEED_PIPELINE_DATASET_H_
#define SHARDFEED_PIPELINE_DATASET_H_

#include "pipeline/data/batch_builder.h"
#include "pipeline/plan/step.h"
#include "pipeline/rows/augment.h"
#include "pipeline/rows/decode_image.h"
#include "pipeline/rows/row_step.h"
#include "pipeline/stages/batching.h"
#include "pipeline/stages/flat_map.h"
#include "pipeline/stages/mixup.h"
#include "pipeline/stages/packing.h"
#include "pipeline/stages/parallel_stage.h"
#include "pipeline/stages/run_context.h"
#include "pipeline/stages/sources.h"
#include "reader/shards/lazy_shard_table.h"
#include "reader/shards/shard_table.h"
#include "shard/schema/skipped_records.h"
#include "shardfeed/dataset.h"  // IWYU pragma: export

#endif  // SHARDFEED_PIPELINE_DATASET_H_
