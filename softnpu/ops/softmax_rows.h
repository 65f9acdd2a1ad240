// A row of scores: its softmax, and gradients through softmax and its logarithm, each in one or two passes that the compiler vectorizes. A
// library's exp takes twenty times as long for -inf, which is what a hidden score is. Sums run in one order whatever the processor. Called by
// operators of rows.
#pragma once

#include <cstdint>

namespace softnpu::ops::kernels {

template <class T>  // float, double
struct RowStatistic {
  T maximum, sum;
};

// -inf where it is hidden.
void hide_row(float* row, int64_t n, const bool* hidden);
void hide_row(double* row, int64_t n, const bool* hidden);

// row *= with.
void multiply_row(float* row, int64_t n, const float* with);
void multiply_row(double* row, int64_t n, const double* with);

// row = exp(row - maximum), where maximum is the largest of the row and `floor`, or 0 if that is -inf. The sum is that of the row.
RowStatistic<float> softmax_row(float* row, int64_t n, float floor);
RowStatistic<double> softmax_row(double* row, int64_t n, double floor);

// row = exp(row - from.maximum) / from.sum; returns the sum before the division.
float softmax_row_again(float* row, int64_t n, RowStatistic<float> from);
double softmax_row_again(double* row, int64_t n, RowStatistic<double> from);

// With kept: d *= kept, applied = row * kept. Returns the sum of d * row.
float softmax_row_mean(const float* row, int64_t n, const float* kept, float* d, float* applied);
double softmax_row_mean(const double* row, int64_t n, const double* kept, double* d, double* applied);

// d = (d - mean) * row.
void softmax_row_gradient(const float* row, int64_t n, float mean, float* d);
void softmax_row_gradient(const double* row, int64_t n, double mean, double* d);

// The sum of row * with; without `with` that of row.
float row_sum(const float* row, int64_t n, const float* with);
double row_sum(const double* row, int64_t n, const double* with);

// out = exp(row) * factor - share * shares, where rows are logarithms of a softmax; without `shares` nothing is subtracted.
void log_softmax_row_gradient(const float* row, int64_t n, float factor, float share, const float* shares, float* out);
void log_softmax_row_gradient(const double* row, int64_t n, double factor, double share, const double* shares,
                              double* out);

}  // namespace softnpu::ops::kernels
