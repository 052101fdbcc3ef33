"""Targets with an NVIDIA GPU: device code and a launch manifest, run by trusted code."""
