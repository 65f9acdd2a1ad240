// In place of the C library's <assert.h>, which it includes: behind the kernels' API, assert takes a format, too, as ascendc_assert does. It
// has no guard, since each include of <cassert> defines assert again. What it is not: the function that is called (ascendc/system.h).
#pragma GCC system_header
#include_next <assert.h>
#if defined(ascendc_assert)
#undef assert
#ifdef NDEBUG
#define assert(...) static_cast<void>(0)
#else
#define assert ascendc_assert
#endif
#endif
