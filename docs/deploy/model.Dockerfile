# The service with its models: docker build -f docs/deploy/model.Dockerfile -t iris MODELS, a directory with NAME/VERSION/model.onnx
ARG BASE=lcml-serving
FROM ${BASE}
COPY . /models
