"""The campaign: a durable workflow from a committed spec to an accepted kernel, or to the reason why there is none."""
