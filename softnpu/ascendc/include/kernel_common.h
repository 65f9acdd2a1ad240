// A name of the toolkit's inner headers, under which some kernels include the API: kernel_operator.h. What it is not: anything of its own.
#pragma once

#include "kernel_operator.h"
