// See value.h.
#include "softnpu/graph_engine/value.h"

namespace softnpu::graph {

Dims strides_of(const Dims& dims) {
  Dims strides(dims.size());
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= dims[i] > 0 ? dims[i] : 1;
  }
  return strides;
}

bool Value::dense() const {
  const Dims wanted = strides_of(dims);
  for (size_t i = 0; i < dims.size(); i++)
    if (dims[i] > 1 && strides[i] != wanted[i]) return elements() == 0;
  return true;
}

Value dense_value(const Spec& spec, std::shared_ptr<Storage> storage) {
  return {spec.type, spec.dims, strides_of(spec.dims), 0, std::move(storage), false};
}

}  // namespace softnpu::graph
