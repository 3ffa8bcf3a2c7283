"""Logistic circuits as real, packaged, deployable models."""

__version__ = "0.1.0"
