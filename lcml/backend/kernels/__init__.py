"""Fused kernels for one kind of machine each. A backend imports the one it needs; nothing else does."""
