#include "call.h"

// Return the names of all kernels in this library, separated by spaces.
extern "C" const char* smrl_kernels() { return kernel_names.c_str(); }
