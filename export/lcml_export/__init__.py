"""The flattened ONNX form of a logistic circuit."""
