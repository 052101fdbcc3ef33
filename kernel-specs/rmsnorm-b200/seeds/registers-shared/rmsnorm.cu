// RMSNorm forward: y[r, c] = v / sqrt(mean(v[r, :]²) + eps) · weight[c], v = x + residual where a residual is given (then residual_out = v).
// Two kernels with one set of parameters, named after where they keep a row between its two uses; launch.yaml says which takes which lengths.
#include "registers.cuh"
#include "shared.cuh"
