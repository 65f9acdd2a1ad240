// AscendC::Std, the part of the C++ library that kernels have on the chip, by its names. What it is not: all of std.
#pragma once

#include <tuple>
#include <type_traits>
#include <utility>

namespace AscendC::Std {

// Of two types, too; what comes out has the first one's.
template <class T, class U>
constexpr T max(const T& src0, const U& src1) {
  return src0 > static_cast<T>(src1) ? src0 : static_cast<T>(src1);
}
template <class T, class U>
constexpr T min(const T& src0, const U& src1) {
  return src0 > static_cast<T>(src1) ? static_cast<T>(src1) : src0;
}

using std::add_const, std::add_const_t, std::decay, std::decay_t, std::remove_const, std::remove_const_t,
    std::remove_cv, std::remove_cv_t;
using std::add_lvalue_reference, std::add_lvalue_reference_t, std::add_pointer, std::add_pointer_t, std::remove_pointer,
    std::remove_pointer_t;
using std::add_rvalue_reference, std::add_rvalue_reference_t, std::remove_reference, std::remove_reference_t;
using std::conditional, std::conditional_t, std::enable_if, std::enable_if_t, std::false_type, std::integral_constant,
    std::true_type;
using std::forward, std::index_sequence, std::integer_sequence, std::make_index_sequence, std::make_integer_sequence,
    std::move;
using std::get, std::make_tuple, std::tie, std::tuple, std::tuple_element, std::tuple_element_t, std::tuple_size,
    std::tuple_size_v;
using std::is_array, std::is_array_v, std::is_class, std::is_class_v, std::is_const, std::is_const_v, std::is_enum,
    std::is_enum_v;
using std::is_base_of, std::is_base_of_v, std::is_convertible, std::is_convertible_v, std::is_same, std::is_same_v;
using std::is_floating_point, std::is_floating_point_v, std::is_integral, std::is_integral_v, std::is_pointer,
    std::is_pointer_v;
using std::is_reference, std::is_reference_v, std::is_void, std::is_void_v;

}  // namespace AscendC::Std
