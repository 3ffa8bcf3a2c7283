"""Tests of lcml.kernels."""
