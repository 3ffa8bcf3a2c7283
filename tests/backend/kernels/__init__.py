"""Tests of lcml.backend.kernels."""
