// Grows works in place: x is an input and the output. Written for this test.
#include "grows.h"

#include "register/op_def_registry.h"

namespace optiling {
static ge::graphStatus Halves(gert::TilingContext* context) {
  GrowsTilingData tiling;
  tiling.set_half(context->GetOutputShape(0)->GetStorageShape().GetShapeSize() / 2);
  tiling.set_tile(64);
  context->SetBlockDim(1);
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  return ge::GRAPH_SUCCESS;
}
}  // namespace optiling

namespace ops {
class Grows : public OpDef {
 public:
  explicit Grows(const char* name) : OpDef(name) {
    this->Input("x").DataType({ge::DT_FLOAT, ge::DT_INT32});
    this->Input("by").Follow("x");
    this->Output("x").Follow("x");
    this->AICore().SetTiling(optiling::Halves).AddConfig("ascend910b");
  }
};
OP_ADD(Grows);
}  // namespace ops
