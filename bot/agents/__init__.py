"""Those who propose candidates: `search` over knobs, and an `author` that writes kernels with a model."""
