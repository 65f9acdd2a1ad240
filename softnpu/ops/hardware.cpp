// ANYCEND_STRICT: phase one refuses the data types that CANN's documentation does not name for the chip that ANYCEND_SOC chose. The
// rows are in ops/hardware.yaml. What it is not: a promise that what passes runs on the hardware (functions without a row are not
// checked, nor are combinations of types), or types.cpp, which refuses what the software NPU itself cannot compute.
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "softnpu/ops/op.h"

extern "C" const char* aclrtGetSocName();  // libascendcl.so

namespace softnpu::ops {

using namespace nnopbase;

namespace {

bool asked() {
  const char* value = std::getenv("ANYCEND_STRICT");
  return value && std::strcmp(value, "1") == 0;  // aclInit refuses what is neither 0 nor 1
}

const char* chip() {
  static const char* const name = aclrtGetSocName();
  return name ? name : "Ascend910B3";  // the default of ANYCEND_SOC
}

// Ascend910B alone is an A1 chip, as Ascend910A is; Ascend910B1 and its kin are A2.
Family family() {
  const std::string_view name = chip();
  if (name.starts_with("Ascend950")) return kA5;
  if (name.starts_with("Ascend910_93")) return kA3;
  return name.starts_with("Ascend910B") && name.size() > std::string_view("Ascend910B").size() ? kA2 : kA1;
}

// The accepted types by name: "float32, float16 or bfloat16".
std::string listed(uint64_t accepts) {
  std::string text;
  for (int32_t dtype = 0; dtype < 64; dtype++) {
    if (!((accepts >> dtype) & 1)) continue;
    accepts &= ~(uint64_t{1} << dtype);
    text += (text.empty() ? "" : accepts ? ", " : " or ") + std::string(dtype_name(dtype));
  }
  return text;
}

bool refuse(Plan& plan, const char* parameter, int32_t dtype, uint64_t accepts) {
  const std::string text = std::string("parameter ") + parameter + " has data type " + dtype_name(dtype) + ", which " +
                           chip() + " does not take (ANYCEND_STRICT); it takes " + listed(accepts) +
                           ". Convert it, or unset ANYCEND_STRICT to compute it on the software NPU";
  return plan.fail(ACLNN_ERR_PARAM_INVALID, text.c_str());
}

}  // namespace

const bool strict = asked();

bool check_hardware(Plan& plan, const OpTypes& types) {
  static const Family chosen = family();
  for (int i = 0; i < plan.nargs(); i++) {
    const Arg& a = plan.args()[i];
    const uint64_t accepts = types.hardware[i].accepts[chosen];
    if (!accepts) continue;
    if (accepts == kAbsent) {
      const std::string text = std::string("is not documented for ") + chip() +
                               " (ANYCEND_STRICT). Choose another chip with ANYCEND_SOC, or unset ANYCEND_STRICT to "
                               "compute it on the software NPU";
      return plan.fail(ACLNN_ERR_PARAM_INVALID, text.c_str());
    }
    const char* name = types.params ? types.params[i].name : "of a tensor";
    if (a.kind == Kind::kTensor && a.tensor && !((accepts >> a.tensor->dtype) & 1)) {
      return refuse(plan, name, a.tensor->dtype, accepts);
    }
    for (uint32_t k = 0; a.kind == Kind::kTensors && k < a.count; k++) {
      if (a.tensors[k] && a.tensors[k]->numel && !((accepts >> a.tensors[k]->dtype) & 1)) {
        return refuse(plan, name, a.tensors[k]->dtype, accepts);
      }
    }
  }
  return true;
}

}  // namespace softnpu::ops
