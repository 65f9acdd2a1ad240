// ge::Shape, ge::TensorDesc and ge::Tensor: how a client hands memory to a graph and takes it back. One shared pointer each: that
// layout is part of the interface, for clients copy and destroy them by inlined code. What it is not: a value inside a graph (value.h).
#pragma once

#include <functional>
#include <memory>

#include "softnpu/graph_engine/types.h"

namespace ge {

struct ShapeImpl {
  softnpu::graph::Dims dims;
};

class GE_EXPORT Shape {
 public:
  explicit Shape(const std::vector<int64_t>& dims);
  std::vector<int64_t> GetDims() const;

 private:
  std::shared_ptr<ShapeImpl> impl_;
};

struct TensorDescImpl {
  softnpu::graph::Dims dims, origin_dims;
  Format format = static_cast<Format>(ACL_FORMAT_ND), origin_format = static_cast<Format>(ACL_FORMAT_ND);
  DataType type = static_cast<DataType>(ACL_FLOAT);
  Placement placement = kPlacementHost;
};

class GE_EXPORT TensorDesc {
 public:
  TensorDesc();
  Shape GetShape() const;
  Format GetFormat() const;
  void SetFormat(Format format);
  void SetOriginShape(const Shape& shape);
  void SetOriginFormat(Format format);
  DataType GetDataType() const;
  void SetDataType(DataType type);
  void SetPlacement(Placement placement);
  Placement GetPlacement() const;

 private:
  friend class Tensor;
  std::shared_ptr<TensorDescImpl> impl_;
};

using DeleteFunc = std::function<void(uint8_t*)>;
using TensorData = std::unique_ptr<uint8_t[], DeleteFunc>;

struct TensorImpl {
  TensorDescImpl desc;
  TensorData data;
  size_t bytes = 0;
};

class GE_EXPORT Tensor {
 public:
  Tensor();
  TensorDesc GetTensorDesc() const;
  uint32_t SetTensorDesc(const TensorDesc& desc);
  const uint8_t* GetData() const;
  uint8_t* GetData();
  // Gives the data away, with what frees it.
  TensorData ResetData();
  // Takes data, and what frees it. Null and 0 bytes: the graph is to allocate.
  uint32_t SetData(uint8_t* data, size_t bytes, const DeleteFunc& free);
  uint32_t ResetData(uint8_t* data, size_t bytes, const DeleteFunc& free);
  uint32_t SetOriginShapeDimNum(size_t count);
  size_t GetOriginShapeDimNum() const;
  uint32_t SetOriginShapeDim(size_t index, int64_t dim);
  uint32_t SetShapeDimNum(size_t count);
  size_t GetShapeDimNum() const;
  uint32_t SetShapeDim(size_t index, int64_t dim);
  int64_t GetShapeDim(size_t index) const;
  uint32_t SetFormat(const Format& format);
  Format GetFormat() const;
  uint32_t SetDataType(const DataType& type);
  DataType GetDataType() const;
  uint32_t SetPlacement(const Placement& placement);
  Placement GetPlacement() const;

  TensorImpl& impl() const { return *impl_; }  // the room's own

 private:
  std::shared_ptr<TensorImpl> impl_;
};
static_assert(sizeof(Shape) == 16 && sizeof(TensorDesc) == 16 && sizeof(Tensor) == 16);

}  // namespace ge
