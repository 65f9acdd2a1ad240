// What the `compose:` rows of ops/aten.yaml call: operators that CANN has no function for, composed of the device's own. Each
// returns the values; the generated wrapper has run the meta function and gives them to its outputs, cast to their type. What it
// is not: a fallback; nothing here leaves the device, and where a number is read back to choose how often a step is repeated,
// the function says so. Real numbers are computed in double precision and rounded once.
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <utility>

namespace npu {

inline void give(const at::Tensor& values, const at::Tensor& out) { out.copy_(values); }
template <class... T, class... Out>
void give(const std::tuple<T...>& values, const Out&... outs) {
  std::apply([&](const T&... each) { (outs.copy_(each), ...); }, values);
}

// On the current device, in double precision (complex stays complex).
at::Tensor wide(const at::Tensor& self);
at::Tensor on_device(const at::Tensor& self);
std::pair<at::Tensor, at::Tensor> broadcast(const at::Tensor& a, const at::Tensor& b);
at::Tensor where(const at::Tensor& condition, const at::Tensor& yes, const at::Tensor& no);
at::Tensor where(const at::Tensor& condition, const at::Tensor& yes, double no);
at::Tensor where(const at::Tensor& condition, double yes, const at::Tensor& no);

// Two tensors of one type (elementwise.cpp).
at::Tensor copysign(const at::Tensor& self, const at::Tensor& other);
at::Tensor fmax(const at::Tensor& self, const at::Tensor& other);
at::Tensor fmin(const at::Tensor& self, const at::Tensor& other);
at::Tensor hypot(const at::Tensor& self, const at::Tensor& other);
at::Tensor nextafter(const at::Tensor& self, const at::Tensor& other);
at::Tensor lcm(const at::Tensor& self, const at::Tensor& other);
at::Tensor huber(const at::Tensor& self, const at::Tensor& target, int64_t reduction, double delta);
at::Tensor index_reduce(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                        c10::string_view reduce, bool include_self);

// Special functions, each of one argument (special.cpp).
at::Tensor airy_ai(const at::Tensor& x);
at::Tensor bessel_j0(const at::Tensor& x);
at::Tensor bessel_j1(const at::Tensor& x);
at::Tensor bessel_y0(const at::Tensor& x);
at::Tensor bessel_y1(const at::Tensor& x);
at::Tensor modified_bessel_i0(const at::Tensor& x);
at::Tensor modified_bessel_i1(const at::Tensor& x);
at::Tensor modified_bessel_k0(const at::Tensor& x);
at::Tensor modified_bessel_k1(const at::Tensor& x);
at::Tensor scaled_modified_bessel_k0(const at::Tensor& x);
at::Tensor scaled_modified_bessel_k1(const at::Tensor& x);
at::Tensor spherical_bessel_j0(const at::Tensor& x);
at::Tensor ndtri(const at::Tensor& x);

// Exponentials, the normal distribution, zeta and gamma functions (gamma.cpp).
at::Tensor i0e(const at::Tensor& x);
at::Tensor i1e(const at::Tensor& x);
at::Tensor erfcx(const at::Tensor& x);
at::Tensor log_ndtr(const at::Tensor& x);
at::Tensor entr(const at::Tensor& x);
at::Tensor xlog1py(const at::Tensor& x, const at::Tensor& y);
at::Tensor zeta(const at::Tensor& x, const at::Tensor& q);
at::Tensor polygamma(int64_t n, const at::Tensor& x);
at::Tensor igamma(const at::Tensor& a, const at::Tensor& x);
at::Tensor igammac(const at::Tensor& a, const at::Tensor& x);

// Orthogonal polynomials of order n at x, by their recurrences (polynomial.cpp).
enum class Polynomial { kT, kU, kV, kW, kHermite, kHermiteE, kLaguerre, kLegendre };
at::Tensor polynomial(Polynomial kind, const at::Tensor& x, const at::Tensor& n);
at::Tensor shifted_polynomial(Polynomial kind, const at::Tensor& x, const at::Tensor& n);

// Linear algebra (linalg_lu.cpp, linalg_factor.cpp).
std::tuple<at::Tensor, at::Tensor, at::Tensor> lu_factor(const at::Tensor& A, bool pivot, bool check_errors);
at::Tensor lu_solve(const at::Tensor& LU, const at::Tensor& pivots, const at::Tensor& B, bool left, bool adjoint);
std::tuple<at::Tensor, at::Tensor, at::Tensor> lu_unpack(const at::Tensor& LU, const at::Tensor& pivots, bool data,
                                                         bool unpack_pivots);
std::tuple<at::Tensor, at::Tensor> cholesky_factor(const at::Tensor& self, bool upper, bool check_errors);
std::tuple<at::Tensor, at::Tensor, at::Tensor> singular_values(const at::Tensor& A, bool full, bool vectors);
std::tuple<at::Tensor, at::Tensor> eigen_hermitian(const at::Tensor& A, c10::string_view triangle, bool vectors);

// Symmetric and Hermitian matrices that need not be definite (linalg_lapack.cpp).
std::tuple<at::Tensor, at::Tensor, at::Tensor> ldl_factor(const at::Tensor& self, bool hermitian, bool check_errors);
at::Tensor ldl_solve(const at::Tensor& LD, const at::Tensor& pivots, const at::Tensor& B, bool hermitian);

// Windows whose places are drawn (pooling.cpp); bits of numbers (bits.cpp).
std::tuple<at::Tensor, at::Tensor> fractional_pool(const at::Tensor& self, at::IntArrayRef window, at::IntArrayRef out,
                                                   const at::Tensor& samples);
at::Tensor fractional_pool_backward(const at::Tensor& grad, const at::Tensor& self, at::IntArrayRef out,
                                    const at::Tensor& indices);
at::Tensor exclusive_or(const at::Tensor& self, at::IntArrayRef dims, bool keepdim, int64_t mode);

// Indices of sparse matrices (sparse_indices.cpp): sorted rows to the places where each row begins, and back.
at::Tensor row_begins(const at::Tensor& rows, int64_t size, bool out_int32);
at::Tensor rows_of_begins(const at::Tensor& begins, const at::Tensor& cols, bool out_int32, bool transpose);

}  // namespace npu
