// See tensor.h.
#include "softnpu/graph_engine/tensor.h"

#include "softnpu/graph_engine/error.h"

namespace ge {
namespace {

constexpr size_t kMostDims = 64;  // of a count that a client passes: more is a mistake

uint32_t set_count(softnpu::graph::Dims& dims, size_t count, const char* function) {
  return softnpu::graph::guarded(function, [&] {
    if (count > kMostDims) throw softnpu::graph::Error(std::to_string(count) + " dimensions");
    dims.resize(count);
  });
}

uint32_t set_dim(softnpu::graph::Dims& dims, size_t index, int64_t dim, const char* function) {
  return softnpu::graph::guarded(function, [&] {
    if (index >= dims.size())
      throw softnpu::graph::Error("dimension " + std::to_string(index) + " of " + std::to_string(dims.size()));
    dims[index] = dim;
  });
}

}  // namespace

Shape::Shape(const std::vector<int64_t>& dims) : impl_(std::make_shared<ShapeImpl>(ShapeImpl{dims})) {}
std::vector<int64_t> Shape::GetDims() const { return impl_ ? impl_->dims : std::vector<int64_t>(); }

TensorDesc::TensorDesc() : impl_(std::make_shared<TensorDescImpl>()) {}
Shape TensorDesc::GetShape() const { return Shape(impl_->dims); }
Format TensorDesc::GetFormat() const { return impl_->format; }
void TensorDesc::SetFormat(Format format) { impl_->format = format; }
void TensorDesc::SetOriginShape(const Shape& shape) { impl_->origin_dims = shape.GetDims(); }
void TensorDesc::SetOriginFormat(Format format) { impl_->origin_format = format; }
DataType TensorDesc::GetDataType() const { return impl_->type; }
void TensorDesc::SetDataType(DataType type) { impl_->type = type; }
void TensorDesc::SetPlacement(Placement placement) { impl_->placement = placement; }
Placement TensorDesc::GetPlacement() const { return impl_->placement; }

Tensor::Tensor() : impl_(std::make_shared<TensorImpl>()) {}

TensorDesc Tensor::GetTensorDesc() const {
  TensorDesc desc;
  *desc.impl_ = impl_->desc;
  return desc;
}

uint32_t Tensor::SetTensorDesc(const TensorDesc& desc) {
  return softnpu::graph::guarded("ge::Tensor::SetTensorDesc", [&] { impl_->desc = *desc.impl_; });
}

const uint8_t* Tensor::GetData() const { return impl_->data.get(); }
uint8_t* Tensor::GetData() { return impl_->data.get(); }

TensorData Tensor::ResetData() {
  impl_->bytes = 0;
  TensorData given = std::move(impl_->data);
  impl_->data = TensorData(nullptr, [](uint8_t*) {});
  return given;
}

uint32_t Tensor::SetData(uint8_t* data, size_t bytes, const DeleteFunc& free) { return ResetData(data, bytes, free); }

uint32_t Tensor::ResetData(uint8_t* data, size_t bytes, const DeleteFunc& free) {
  return softnpu::graph::guarded("ge::Tensor::SetData", [&] {
    impl_->data = TensorData(data, free ? free : [](uint8_t*) {});
    impl_->bytes = bytes;
  });
}

uint32_t Tensor::SetOriginShapeDimNum(size_t count) {
  return set_count(impl_->desc.origin_dims, count, "ge::Tensor::SetOriginShapeDimNum");
}
size_t Tensor::GetOriginShapeDimNum() const { return impl_->desc.origin_dims.size(); }
uint32_t Tensor::SetOriginShapeDim(size_t index, int64_t dim) {
  return set_dim(impl_->desc.origin_dims, index, dim, "ge::Tensor::SetOriginShapeDim");
}
uint32_t Tensor::SetShapeDimNum(size_t count) {
  return set_count(impl_->desc.dims, count, "ge::Tensor::SetShapeDimNum");
}
size_t Tensor::GetShapeDimNum() const { return impl_->desc.dims.size(); }
uint32_t Tensor::SetShapeDim(size_t index, int64_t dim) {
  return set_dim(impl_->desc.dims, index, dim, "ge::Tensor::SetShapeDim");
}
int64_t Tensor::GetShapeDim(size_t index) const {
  return index < impl_->desc.dims.size() ? impl_->desc.dims[index] : 0;
}
uint32_t Tensor::SetFormat(const Format& format) { return impl_->desc.format = format, 0; }
Format Tensor::GetFormat() const { return impl_->desc.format; }
uint32_t Tensor::SetDataType(const DataType& type) { return impl_->desc.type = type, 0; }
DataType Tensor::GetDataType() const { return impl_->desc.type; }
uint32_t Tensor::SetPlacement(const Placement& placement) { return impl_->desc.placement = placement, 0; }
Placement Tensor::GetPlacement() const { return impl_->desc.placement; }

}  // namespace ge
