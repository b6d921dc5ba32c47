// All public headers of C++. shardfeed_c.h is that of C.

#ifndef SHARDFEED_SHARDFEED_H_
#define SHARDFEED_SHARDFEED_H_

#include "shardfeed/batch.h"        // batches in memory
#include "shardfeed/credentials.h"  // credentials for stores
#include "shardfeed/cuda.h"         // batches on a GPU
#include "shardfeed/dataset.h"      // chains of steps that deliver batches
#include "shardfeed/examples.h"     // building tf.train.Example records
#include "shardfeed/functions.h"    // user functions of Map, Filter, FlatMap ...
#include "shardfeed/images.h"       // decoding and augmenting images
#include "shardfeed/index.h"        // indexes, records by number
#include "shardfeed/iterator.h"     // runs of a dataset
#include "shardfeed/options.h"      // options that several parts share
#include "shardfeed/reader.h"       // raw records in an order
#include "shardfeed/schema.h"       // types, features
#include "shardfeed/spec.h"         // names of datasets
#include "shardfeed/verify.h"       // checking and repairing
#include "shardfeed/version.h"      // the version
#include "shardfeed/writer.h"       // writing records

#endif  // SHARDFEED_SHARDFEED_H_
