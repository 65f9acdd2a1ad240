// c = a b + bias on the cube cores, by the Matmul object and the host's tiling of it. Written for this test.
#include "register/op_def_registry.h"
#include "register/tilingdata_base.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/tiling_api.h"

namespace optiling {
BEGIN_TILING_DATA_DEF(RowsTimesTilingData)
TILING_DATA_FIELD_DEF(uint32_t, cores);
TILING_DATA_FIELD_DEF_STRUCT(TCubeTiling, product);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(RowsTimes, RowsTimesTilingData)

static ge::graphStatus TilingFunc(gert::TilingContext* context) {
  const gert::Shape &a = context->GetInputTensor(0)->GetStorageShape(),
                    &b = context->GetInputTensor(1)->GetStorageShape();
  if (a.GetDim(1) != b.GetDim(0)) return ge::GRAPH_FAILED;
  const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
  matmul_tiling::MultiCoreMatmulTiling product(platform);
  using namespace matmul_tiling;
  product.SetDim(2);
  product.SetAType(matmul_tiling::TPosition::GM, CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16);
  product.SetBType(matmul_tiling::TPosition::GM, CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16);
  product.SetCType(matmul_tiling::TPosition::GM, CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT);
  product.SetShape(a.GetDim(0), b.GetDim(1), a.GetDim(1));
  product.SetOrgShape(a.GetDim(0), b.GetDim(1), a.GetDim(1));
  product.SetBias(false);
  product.SetBufferSpace(-1, -1, -1);
  RowsTimesTilingData tiling;
  if (product.GetTiling(tiling.product) == -1) return ge::GRAPH_FAILED;
  tiling.set_cores(tiling.product.get_usedCoreNum());
  context->SetBlockDim(tiling.get_cores());
  context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize();
  tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
  context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
  return ge::GRAPH_SUCCESS;
}
}  // namespace optiling

namespace ops {
class RowsTimes : public OpDef {
 public:
  explicit RowsTimes(const char* name) : OpDef(name) {
    this->Input("a").ParamType(REQUIRED).DataType({ge::DT_FLOAT16});
    this->Input("b").ParamType(REQUIRED).DataType({ge::DT_FLOAT16});
    this->Output("c").ParamType(REQUIRED).DataType({ge::DT_FLOAT});
    this->AICore().SetTiling(optiling::TilingFunc);
    OpAICoreConfig config;
    config.DynamicShapeSupportFlag(true).ExtendCfgInfo("opFile.value", "rows_times_kernel");
    this->AICore().AddConfig("ascend910b", config);
    this->AICore().AddConfig("ascend910_93", config);
  }
};
OP_ADD(RowsTimes);
}  // namespace ops
