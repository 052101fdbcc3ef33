"""Baselines: compiled and captured for a workload's exact shapes, and served by the same launcher and clock as candidates."""
