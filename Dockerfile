# Two images of lcml. BASE is any Debian-based image with python3 (3.11 or later) and its venv module.
#
#   docker build -t lcml-serving .                      serves exported models: numpy, onnxruntime and the server
#   docker build -t lcml-train --target train .         `lcml train`
#
#   docker run --read-only -p 8000:8000 -v "$PWD/models:/models:ro" lcml-serving
#   docker run -v "$PWD:/home/lcml" --user "$(id -u)" lcml-train DATA --option value
#
# EXTRAS="serving grpc otel verify" adds gRPC, traces and signatures to the service.
# PIP_INDEX_URL and PIP_CERT reach pip during the build and stay out of the images.

ARG BASE=python:3.11-slim

FROM ${BASE} AS build-serving
ARG PIP_INDEX_URL
ARG PIP_CERT
ARG EXTRAS=serving
COPY pyproject.toml /build/
# pyproject.toml alone says what the service needs: its extras and numpy
RUN python3 -m venv /build/venv && python3 -c 'import tomllib; \
    project = tomllib.load(open("/build/pyproject.toml", "rb"))["project"]; \
    numpy = next(name for name in project["dependencies"] if name.startswith("numpy")); \
    extras = [project["optional-dependencies"][name] for name in "'"$EXTRAS"'".split()]; \
    print(numpy, *sum(extras, []), sep="\n")' > /build/requirements.txt
RUN /build/venv/bin/pip install --no-cache-dir --target /opt/serving -r /build/requirements.txt \
    && rm -rf /opt/serving/bin && find /opt/serving -type d -name tests -prune -exec rm -rf {} +
COPY serving/lcml_serving /opt/serving/lcml_serving
RUN python3 -m compileall -q /opt/serving/lcml_serving

FROM ${BASE} AS build-train
ARG PIP_INDEX_URL
ARG PIP_CERT
RUN python3 -m venv /opt/lcml
COPY . /src
RUN /opt/lcml/bin/pip install --no-cache-dir "/src[fast,tracking,tables,export]"

FROM ${BASE} AS train
ENV PATH=/opt/lcml/bin:$PATH HOME=/home/lcml MPLCONFIGDIR=/tmp \
    MLFLOW_DISABLE_TELEMETRY=true ORT_DISABLE_TELEMETRY=1 PYTHONUNBUFFERED=1
COPY --from=build-train /opt/lcml /opt/lcml
RUN mkdir -p /home/lcml && chown 65532:65532 /home/lcml
WORKDIR /home/lcml
USER 65532:65532
STOPSIGNAL SIGTERM
ENTRYPOINT ["lcml", "train"]

FROM ${BASE} AS serving
ENV PYTHONPATH=/opt/serving PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 ORT_DISABLE_TELEMETRY=1 \
    LCML_SERVING_PATH=/models LCML_SERVING_HOST=0.0.0.0 LCML_SERVING_PORT=8000
COPY LICENSE /opt/serving/LICENSE
COPY --from=build-serving /opt/serving /opt/serving
WORKDIR /
USER 65532:65532
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["python3", "-m", "lcml_serving.health"]
ENTRYPOINT ["python3", "-m", "lcml_serving"]
