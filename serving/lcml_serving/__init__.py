"""Serving of exported logistic circuits on onnxruntime."""
