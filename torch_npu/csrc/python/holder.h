// A pybind11 holder: what it holds ends without the interpreter's lock, for ends that wait for threads which may want it.
// Who uses it: distributed.cpp.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <pybind11/pybind11.h>

#include <utility>

namespace npu::python {

// As a base class's holder is a bare c10::intrusive_ptr, this must look like one in memory.
template <class T>
class EndsWithoutGil {
 public:
  EndsWithoutGil() = default;
  EndsWithoutGil(c10::intrusive_ptr<T> held) : held_(std::move(held)) {}  // implicit, as pybind11 wants it
  explicit EndsWithoutGil(T* object) : held_(c10::intrusive_ptr<T>::unsafe_steal_from_new(object)) {}
  EndsWithoutGil(const EndsWithoutGil&) = default;
  EndsWithoutGil(EndsWithoutGil&&) noexcept = default;
  EndsWithoutGil& operator=(EndsWithoutGil other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  ~EndsWithoutGil() {
    if (!held_ || !PyGILState_Check()) return;
    const pybind11::gil_scoped_release without;
    held_.reset();
  }
  T* get() const { return held_.get(); }

 private:
  c10::intrusive_ptr<T> held_;
};

}  // namespace npu::python

PYBIND11_DECLARE_HOLDER_TYPE(T, npu::python::EndsWithoutGil<T>, true)
