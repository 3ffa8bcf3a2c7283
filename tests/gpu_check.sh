#!/usr/bin/env bash
# On a CUDA machine with cupy: the GPU tests, the flow pass beside the memory's bandwidth, then MNIST trained on the
# card by two recipes, one of a whole circuit and one of windows. Under five minutes, without MLflow.
# LCML_DATA_DIR names the directory that holds mnist/. Prints one JSON object per measurement.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH=".:export:serving${PYTHONPATH:+:$PYTHONPATH}"
python=${PYTHON:-python3}
out=${OUT:-$(mktemp -d)}

"$python" -m pytest -q -m gpu tests/passes/test_flows.py tests/learning/test_learner.py tests/backend/kernels
"$python" -m tests.bench.gpu_flows | tee "$out/flows-gpu.json"
for recipe in mnist-flat mnist-164k; do
    "$python" -m lcml train --recipe "$recipe" --backend cupy --time-limit 100 --no-tracking --json \
        --output "$out/$recipe-gpu.lcml" | tee "$out/$recipe-gpu.json"
done
