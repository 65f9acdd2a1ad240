// Asks for what no call here has, as `what` says: 1, compile info; 2, an input's values; 3 and 4, numbers that became negative. Written for this
// test.
#include "register/op_def_registry.h"
#include "register/op_impl_registry.h"

namespace optiling {
struct AsksInfo {
  int32_t cores;
};
static ge::graphStatus Parse(gert::TilingParseContext*) { return ge::GRAPH_SUCCESS; }
static ge::graphStatus Tile(gert::TilingContext* context) {
  const int64_t what = *context->GetAttrs()->GetInt(0);
  context->SetBlockDim(1);
  if (what == 1) context->SetBlockDim(context->GetCompileInfo<AsksInfo>()->cores);
  if (what == 3) context->SetBlockDim(-1);
  if (what == 4) context->GetWorkspaceSizes(1)[0] = -1;
  if (what == 2) context->SetTilingKey(context->GetInputTensor(1)->GetData<int32_t>()[0]);
  return context->GetInputTensor(0)->GetData<float>() == nullptr ? ge::GRAPH_SUCCESS : ge::GRAPH_FAILED;
}
IMPL_OP_OPTILING(Asks).Tiling(Tile).TilingParse<AsksInfo>(Parse).TilingInputsDataDependency({1});
}  // namespace optiling

namespace ops {
class Asks : public OpDef {
 public:
  explicit Asks(const char* name) : OpDef(name) {
    this->Input("x")
        .DataType({ge::DT_FLOAT, ge::DT_FLOAT16})
        .Format({ge::FORMAT_ND, ge::FORMAT_FRACTAL_NZ})
        .IgnoreContiguous();
    this->Input("z").DataTypeList({ge::DT_FLOAT, ge::DT_INT32}).FormatList({ge::FORMAT_ND, ge::FORMAT_FRACTAL_NZ});
    this->Input("w").Follow("z");
    this->Output("y").Follow("w").InitValue(std::vector<float>{0});
    this->Attr("what").Int(0);
    this->AICore().AddConfig("ascend910b");
  }
};
OP_ADD(Asks);
}  // namespace ops
