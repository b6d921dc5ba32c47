// The extension module shardfeed._core, on which the package's Python code is built. Not a public
// interface.

#include "nanobind/nanobind.h"
#include "net/block_cache.h"
#include "python/core/arrow.h"
#include "python/core/batches.h"
#include "python/core/datasets.h"
#include "python/core/device.h"
#include "python/core/errors.h"
#include "python/core/gil.h"
#include "python/core/iterator.h"
#include "python/core/shared_object.h"
#include "python/core/tasks.h"
#include "python/core/writing.h"
#include "reader/run/shared_run.h"
#include "shardfeed/iterator.h"
#include "shardfeed/version.h"
#include "tfrecord/record_stream.h"

namespace shardfeed::python {
void BindCredentials(nanobind::module_& m);  // credentials.cc
}

NB_MODULE(_core, m) {
  using namespace shardfeed::python;  // NOLINT(build/namespaces)
  // Iterators left at exit are not worth a warning.
  nanobind::set_leak_warnings(false);
  BindErrors(m);
  BindBatches(m);
  BindArrow(m);
  BindDatasets(m);
  BindTasks(m);
  BindWriting(m);
  BindDevice(m);
  BindCredentials(m);
  m.def("version", [] { return SHARDFEED_VERSION; });
  m.def("set_max_record_bytes", &shardfeed::SetMaxRecordBytes);
  m.def("max_record_bytes", &shardfeed::MaxRecordBytes);
  m.def("cache_stats", [] {
    const shardfeed::BlockCacheStats stats = shardfeed::GetBlockCacheStats();
    nanobind::dict all;
    all["hits"] = stats.hits;
    all["hit_bytes"] = stats.hit_bytes;
    all["misses"] = stats.misses;
    all["stored"] = stats.stored;
    all["stored_bytes"] = stats.stored_bytes;
    all["waits"] = stats.waits;
    all["refused"] = stats.refused;
    all["damaged"] = stats.damaged;
    all["trouble"] = nanobind::steal(PyUnicode_DecodeUTF8(
        stats.trouble.data(), static_cast<Py_ssize_t>(stats.trouble.size()), "backslashreplace"));
    return all;
  });
  m.def("close_all", [] {
    CloseAtExit([] {
      PyIterator::CloseAll();
      PyDeviceIterator::CloseAll();
    });
  });
  m.def("after_fork", [] {
    ForgetThreads();
    PyIterator::AfterFork();
    PyDeviceIterator::AfterFork();
  });
  m.def("drop_objects", &DropObjects);
  m.def("share_reads", &shardfeed::ShareReads);
  m.def("default_budget_bytes", &shardfeed::DefaultBudgetBytes);
}
