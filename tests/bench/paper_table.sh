#!/usr/bin/env bash
# Trains the rows of docs/benchmarks.md that stand beside the paper's Table 3 and leaves a JSON object per row in
# the directory given (default: paper-table). LCML_DATA_DIR names the directory of mnist/ and fashion-mnist/.
# Rows that are there already are not trained again. Names of rows may follow the directory to train these alone.
set -euo pipefail
out=${1:-paper-table}
shift || true
mkdir -p "$out"

row() { # name, then the options of lcml train
    local name=$1
    shift
    if [ ! -s "$out/$name.json" ] && { [ -z "$wanted" ] || [[ " $wanted " == *" $name "* ]]; }; then
        lcml train "$@" --backend numpy --no-tracking --json --output "$out/$name.lcml" --checkpoint-dir "$out" \
            > "$out/$name.part" 2> "$out/$name.log"
        mv "$out/$name.part" "$out/$name.json"
    fi
}

wanted="$*"
full=(--minimum-support 20 --l2 3e-5 --l2-path 3e-5 --l2-path 1e-5)
row mnist-100 mnist --max-parameters 164000 "${full[@]}"
row fashion-100 fashion-mnist --max-parameters 260000 "${full[@]}"
for set in mnist fashion; do
    data=${set/fashion/fashion-mnist}
    for encoder in scale boolean; do
        row "$set-2-$encoder" "$data" --max-parameters 164000 --encoder "$encoder" --train-fraction 0.02
        row "$set-10-$encoder" "$data" --max-parameters 164000 --encoder "$encoder" --train-fraction 0.1
    done
    row "$set-100-boolean" "$data" --max-parameters 164000 --encoder boolean "${full[@]}"
done
