// Grows and Shrinks work in place, from one kernel's file: x is an input and an output. Shrinks has versions, is launched for nothing, too, and
// has a kernel for one type of hint. Written for this test.
#include "grows.h"

#include "register/op_def_registry.h"

namespace optiling {
static ge::graphStatus Halves(gert::TilingContext* context, uint32_t told, int64_t number) {
  GrowsTilingData tiling;
  tiling.set_half(context->GetOutputShape(0)->GetStorageShape().GetShapeSize() / 2);
  tiling.set_tile(64);
  tiling.set_told(told);
  tiling.set_number(static_cast<int32_t>(number));
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  return ge::GRAPH_SUCCESS;
}
static ge::graphStatus Grow(gert::TilingContext* context) {
  const bool empty = context->GetInputTensor(0)->GetShapeSize() == 0;
  return empty ? ge::GRAPH_FAILED : Halves(context, 0, 0);
}
static ge::graphStatus Shrink(gert::TilingContext* context) {
  const auto* told = context->GetOutputShape(1);
  return Halves(context, told ? told->GetStorageShape().GetShapeSize() : 0, *context->GetAttrs()->GetInt(0));
}
}  // namespace optiling

namespace ops {
class Grows : public OpDef {
 public:
  explicit Grows(const char* name) : OpDef(name) {
    this->Input("x").DataType({ge::DT_FLOAT, ge::DT_INT32});
    this->Input("by").Follow("x");
    this->Output("x").Follow("x");
    this->AICore().SetTiling(optiling::Grow).AddConfig("ascend910b");
  }
};
OP_ADD(Grows);

class Shrinks : public OpDef {
 public:
  explicit Shrinks(const char* name) : OpDef(name) {
    this->Input("x").DataType({ge::DT_FLOAT, ge::DT_INT32});
    this->Input("by").Follow("x");
    this->Input("hint")
        .ParamType(OPTIONAL)
        .DataType({ge::DT_FLOAT, ge::DT_INT64})
        .DataTypeForBinQuery({ge::DT_INT64, ge::DT_INT64})
        .Version(1);
    this->Output("x").Follow("x");
    this->Output("told").ParamType(OPTIONAL).DataType({ge::DT_INT32, ge::DT_INT32}).InitValue(0);
    this->Attr("new").AttrType(OPTIONAL).Int(3).Version(2);
    OpAICoreConfig config;
    config.ExtendCfgInfo("opFile.value", "grows").ExtendCfgInfo("opInterface.value", "shrinks");
    this->AICore().SetTiling(optiling::Shrink).LaunchWithZeroEleOutputTensors(true).AddConfig("ascend910b", config);
  }
};
OP_ADD(Shrinks);
}  // namespace ops
