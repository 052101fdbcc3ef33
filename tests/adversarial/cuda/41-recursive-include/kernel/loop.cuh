#include "loop.cuh"
