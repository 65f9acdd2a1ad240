// See operator.h.
#include "softnpu/graph_engine/operator.h"

#include "softnpu/graph_engine/error.h"
#include "softnpu/graph_engine/signature.h"

namespace ge {
using softnpu::graph::Error;
using softnpu::graph::guarded;

struct OperatorImpl {
  std::string type;
  const softnpu::graph::Signature* signature;

  const softnpu::graph::Signature& known() const {
    if (!signature) throw Error("the software NPU has no operator type " + type);
    return *signature;
  }
};

uint32_t Operator::UpdateInputDesc(const char* name, const TensorDesc&) {
  return guarded("ge::Operator::UpdateInputDesc", [&] {
    for (const softnpu::graph::Parameter& input : impl_->known().inputs)
      if (name && std::string_view(input.name) == name) return;
    throw Error(impl_->type + " has no input " + (name ? name : ""));
  });
}

uint32_t Operator::GetAllIrAttrNamesAndTypes(std::map<AscendString, AscendString>& attributes) const {
  return guarded("ge::Operator::GetAllIrAttrNamesAndTypes", [&] {
    for (const char* name : impl_->known().attributes) attributes.emplace(AscendString(name), AscendString(""));
  });
}

bool OperatorFactory::IsExistOp(const char* type) { return type && softnpu::graph::signature_of(type); }

Operator OperatorFactory::CreateOperator(const char*, const char* type) {
  const std::string text = type ? type : "";
  return Operator(std::make_shared<OperatorImpl>(OperatorImpl{text, softnpu::graph::signature_of(text)}));
}

}  // namespace ge
