#include "python/core/shared_object.h"

#include <atomic>
#include <vector>

#include "base/mutex.h"

namespace shardfeed::python {
namespace {

struct Dropped {
  Mutex mutex;
  std::vector<PyObject*> objects ABSL_GUARDED_BY(mutex);
  std::atomic<bool> any = false;
};

// Leaked, since threads may drop objects while the process ends.
Dropped& AllDropped() {
  static auto* dropped = new Dropped();
  return *dropped;
}

}  // namespace

std::shared_ptr<PyObject> ShareObject(nanobind::object object) {
  return {object.release().ptr(), [](PyObject* o) {
            Dropped& dropped = AllDropped();
            MutexLock lock(dropped.mutex);
            dropped.objects.push_back(o);
            dropped.any = true;
          }};
}

void DropObjects() {
  Dropped& dropped = AllDropped();
  if (!dropped.any) return;
  std::vector<PyObject*> objects;
  {
    MutexLock lock(dropped.mutex);
    objects.swap(dropped.objects);
    dropped.any = false;
  }
  for (PyObject* o : objects) Py_DECREF(o);
}

}  // namespace shardfeed::python
