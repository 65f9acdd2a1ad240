// See attention.h.
#include "softnpu/graph_engine/attention.h"

namespace softnpu::graph {

Spec attended(const Value& query, const std::vector<Value>& value, const AttentionOptions& options) {
  if (options.heads <= 0 || query.rank() < 3 || value.empty())
    throw Error("queries of shape " + text_of(query.dims) + " with " + std::to_string(options.heads) + " heads");
  Spec spec = like(query);
  const bool paged = value[0].rank() != query.rank();
  if (options.layout == "BNSD_BSND") {
    std::swap(spec.dims[1], spec.dims[2]);
  } else if (options.layout != "BSH" && options.layout != "BNSD" && options.layout != "BSND" &&
             options.layout != "TND") {
    throw Error("layout " + options.layout + " is not supported: BSH, BNSD, BSND, BNSD_BSND and TND are");
  }
  if (options.layout != "BSH" && !paged) spec.dims.back() = value[0].dims.back();
  return spec;
}

// {1}, if it is not asked for.
Spec lse_of(const Value& query, const AttentionOptions& options) {
  const Dims& dims = query.dims;
  if (!options.lse) return {ACL_FLOAT, {1}};
  if (options.layout == "TND") return {ACL_FLOAT, {dims[0], dims[1], 1}};
  const bool heads_first = options.layout.starts_with("BNSD");
  return {ACL_FLOAT, {dims[0], options.heads, heads_first ? dims[2] : dims[1], 1}};
}

void attend(Step& step, const AttentionOptions& o, const QuantModes& quant, const Value& out, const Value& lse) {
  const aclDataType type = step.in(0).type;
  for (size_t place : {size_t{1}, size_t{2}})
    for (const Value& rows : step.list(place))  // int8 and shorter have their scales
      if (type != ACL_INT8 && bytes_of(rows.type) > 1 && rows.type != type)
        throw Error(std::string("input '") + (place == 1 ? "key" : "value") + "' is " + name_of(rows.type) +
                    " and input 'query' is " + name_of(type) + ": they must have one data type");
  // Places of the row's inputs, which are aclnn's in the same order; lengths are arrays there.
  const auto in = [&](size_t place) -> const Value& { return step.in(place); };
  const auto lengths = [&](size_t place) {
    return in(place) ? std::optional<Dims>(step.ints(in(place))) : std::nullopt;
  };
  step.call(ACLNN(aclnnFusedInferAttentionScoreV4), in(0), step.list(1), step.list(2), in(3), in(4), lengths(5),
            lengths(6), in(7), in(8), in(9), in(10), in(11), in(12), in(13), in(14), in(15), in(16), in(17), in(18),
            in(19), in(20), in(21), in(22), lengths(23), in(24), in(25), in(26), in(27), in(28), o.heads, o.scale,
            o.pre_tokens, o.next_tokens, o.layout, o.kv_heads, o.sparse_mode, o.inner_precise, o.block_size,
            quant.antiquant, o.lse, quant.key, quant.value, quant.query, out, o.lse ? lse : Value());
}

}  // namespace softnpu::graph
