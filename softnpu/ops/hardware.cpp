// ANYCEND_STRICT: phase one refuses the data types that CANN's documentation does not name for the chip that ANYCEND_SOC chose. The
// rows are in ops/hardware.yaml. What it is not: a promise that what passes runs on the hardware (functions without a row are not
// checked, nor are combinations of types), or types.cpp, which refuses what the software NPU itself cannot compute.
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

bool refuse(Plan& plan, const char* parameter, int32_t dtype) {
  char text[200];
  std::snprintf(text, sizeof text, "parameter %s has data type %s, which %s does not take (ANYCEND_STRICT)", parameter,
                dtype_name(dtype), chip());
  return plan.fail(ACLNN_ERR_PARAM_INVALID, text);
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
      char text[100];
      std::snprintf(text, sizeof text, "is not documented for %s (ANYCEND_STRICT)", chip());
      return plan.fail(ACLNN_ERR_PARAM_INVALID, text);
    }
    const char* name = types.params ? types.params[i].name : "of a tensor";
    if (a.kind == Kind::kTensor && a.tensor && !((accepts >> a.tensor->dtype) & 1)) {
      return refuse(plan, name, a.tensor->dtype);
    }
    for (uint32_t k = 0; a.kind == Kind::kTensors && k < a.count; k++) {
      if (a.tensors[k] && a.tensors[k]->numel && !((accepts >> a.tensors[k]->dtype) & 1)) {
        return refuse(plan, name, a.tensors[k]->dtype);
      }
    }
  }
  return true;
}

}  // namespace softnpu::ops
