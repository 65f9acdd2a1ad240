// y = x * scale + bias, each element plus the sum of steps; negated where asked. count: how many numbers each block had. Written for this
// test as msopgen projects are.
#include "scale_shift.h"

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"

namespace optiling {
static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
  uint64_t ub = 0;
  platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ub);
  const gert::RuntimeAttrs* attrs = context->GetAttrs();
  const auto* steps = attrs->GetListInt(1);
  if (steps->GetSize() > 3 || attrs->GetAttrNum() != 4) return ge::GRAPH_FAILED;
  const uint32_t size = ge::GetSizeByDataType(context->GetInputDesc(0)->GetDataType());
  const uint32_t total = context->GetInputShape(0)->GetStorageShape().GetShapeSize();
  const uint32_t blocks = std::min<uint32_t>(platform.GetCoreNumAiv(), 4);
  ScaleShiftTilingData tiling;
  int64_t padded[3] = {};
  std::copy_n(steps->GetData(), steps->GetSize(), padded);
  tiling.set_steps(padded);
  tiling.set_total(total);
  tiling.set_hasBias(context->GetOptionalInputShape(1) != nullptr);
  tiling.set_scale(*attrs->GetFloat(0));
  tiling.part.set_negate(*attrs->GetBool(2));
  const uint64_t most = ub / 8 / 32 * 32 / size;
  tiling.part.set_each(std::min<uint64_t>((total / blocks + 31) / 32 * 32 + 32, most));
  context->SetBlockDim(blocks);
  context->SetTilingKey(strcmp(attrs->GetStr(3), "twice") == 0 ? 2 : 1);
  context->GetWorkspaceSizes(1)[0] = 4096 + platform.GetLibApiWorkSpaceSize();
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  return ge::GRAPH_SUCCESS;
}
}  // namespace optiling

namespace ops {
class ScaleShift : public OpDef {
 public:
  explicit ScaleShift(const char* name) : OpDef(name) {
    this->Input("x")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND});
    this->Input("bias_row").ParamType(OPTIONAL).DataType({ge::DT_FLOAT, ge::DT_FLOAT16}).AutoContiguous();
    this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_FLOAT16}).UnknownShapeFormat({ge::FORMAT_ND});
    this->Output("count").ParamType(REQUIRED).DataType({ge::DT_INT32, ge::DT_INT32}).InitValue(0);
    this->Attr("scale").AttrType(OPTIONAL).Float(1.0);
    this->Attr("steps").AttrType(OPTIONAL).ListInt({0});
    this->Attr("negate").AttrType(OPTIONAL).Bool(false);
    this->Attr("how").AttrType(OPTIONAL).String("once");
    this->AICore().SetTiling(optiling::TilingFunc);
    this->AICore().AddConfig("ascend910b");
  }
};
OP_ADD(ScaleShift);
}  // namespace ops
