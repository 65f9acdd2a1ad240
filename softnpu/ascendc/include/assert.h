// The C library's <assert.h>, and where the kernels' API was included assert(condition, "format", ...), too. It has no guard: <cassert>
// and <assert.h> say assert anew wherever they stand. What it is not: the function that it calls (ascendc/system.h).
#include_next <assert.h>
#if defined(ascendc_assert)
#undef assert
#ifdef NDEBUG
#define assert(...) static_cast<void>(0)
#else
#define assert ascendc_assert
#endif
#endif
