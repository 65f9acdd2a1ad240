// ge::OperatorFactory and ge::Operator, as far as clients ask which types, optional inputs and attributes exist. What it is not: a node
// of a graph (model.h).
#pragma once

#include <map>

#include "softnpu/graph_engine/ascend_string.h"
#include "softnpu/graph_engine/tensor.h"

namespace ge {

struct OperatorImpl;

// The destructor is virtual, and clients call it through the object: that is part of the interface.
class GE_EXPORT Operator {
 public:
  explicit Operator(std::shared_ptr<OperatorImpl> impl) : impl_(std::move(impl)) {}
  virtual ~Operator() = default;
  uint32_t UpdateInputDesc(const char* name, const TensorDesc& desc);
  uint32_t GetAllIrAttrNamesAndTypes(std::map<AscendString, AscendString>& attributes) const;

 private:
  std::shared_ptr<OperatorImpl> impl_;
};

class GE_EXPORT OperatorFactory {
 public:
  static bool IsExistOp(const char* type);
  static Operator CreateOperator(const char* name, const char* type);
};

}  // namespace ge
