#!/usr/bin/env bash
# On a CUDA machine with cupy: the GPU tests, the flow pass beside the memory's bandwidth, then MNIST trained on the
# card. Under five minutes, without MLflow.
# LCML_DATA_DIR names the directory that holds mnist/. Prints one JSON object per measurement.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH=".:export:serving${PYTHONPATH:+:$PYTHONPATH}"
python=${PYTHON:-python3}
out=${OUT:-$(mktemp -d)}

"$python" -m pytest -q -m gpu tests/test_flows.py tests/test_learner.py tests/kernels
"$python" -m tests.bench.gpu_flows | tee "$out/flows-gpu.json"
"$python" -m lcml train mnist --backend cupy --max-parameters 164000 --minimum-support 20 \
    --l2 3e-5 --l2-path 3e-5 --l2-path 1e-5 --no-tracking --json --output "$out/mnist-gpu.lcml" | tee "$out/mnist-gpu.json"
