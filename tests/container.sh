#!/usr/bin/env bash
# Build the images of the Dockerfile without a docker daemon and try them: the serving image runs under runc with a
# read-only root as its numeric user, answers tritonclient, and ends with exit code 0 on SIGTERM; so does the image of
# docs/deploy/model.Dockerfile, with its model inside, from a layout that any registry takes.
#
#     tests/container.sh [serving] [train]        default: serving; needs root
#
# BASE=image uses that base image; else one is made from Debian's packages. PYTHON is the Python with the test
# dependencies. EXTRAS are those of the Dockerfile. Exit code 77 and a message where the tools are missing and cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."

PYTHON=${PYTHON:-python3}
TARGETS=("${@:-serving}")
WORK=$(mktemp -d)
CONTAINER=""
export STORAGE_DRIVER=vfs

cleanup() {
    [ -z "$CONTAINER" ] || buildah rm "$CONTAINER" >/dev/null
    rm -rf "$WORK"
}
trap cleanup EXIT

missing() { for tool in buildah mmdebstrap runc; do command -v "$tool" >/dev/null || return 0; done; return 1; }

if [ "$(id -u)" != 0 ]; then
    echo "container test not run: it needs root" >&2
    exit 77
fi
if missing; then
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends buildah mmdebstrap runc uidmap; } \
        >"$WORK/apt.log" 2>&1 || true
fi
if missing; then
    echo "container test not run: it needs buildah, mmdebstrap and runc, and apt-get could not install them" >&2
    exit 77
fi

if [ -z "${BASE:-}" ]; then
    BASE=localhost/lcml-test-base:bookworm
    if ! buildah inspect --type image "$BASE" >/dev/null 2>&1; then
        mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$WORK/base.tar"
        scratch=$(buildah from scratch)
        buildah add --quiet "$scratch" "$WORK/base.tar" /
        buildah config --cmd '["python3"]' "$scratch"
        buildah commit --quiet --rm "$scratch" "$BASE"
        rm "$WORK/base.tar"
    fi
fi

build() {  # target
    local pip=()
    [ -z "${PIP_INDEX_URL:-}" ] || pip+=(--build-arg "PIP_INDEX_URL=$PIP_INDEX_URL")
    [ -z "${PIP_CERT:-}" ] || pip+=(--volume "$PIP_CERT:/run/build-ca.crt:ro" --build-arg PIP_CERT=/run/build-ca.crt)
    buildah build --isolation chroot --network host --format docker --build-arg "BASE=$BASE" "${pip[@]}" \
        --build-arg "EXTRAS=${EXTRAS:-serving}" --target "$1" --tag "localhost/lcml-$1:test" . >"$WORK/build.log" 2>&1 \
        || { tail -50 "$WORK/build.log" >&2; return 1; }
}

check() {  # target image
    buildah inspect --type image "$2" >"$WORK/image.json"
    CONTAINER=$(buildah from "$2")
    "$PYTHON" -m tests.serving.container "$1" "$WORK/image.json" "$(buildah mount "$CONTAINER")" "$WORK/bundle"
    buildah rm "$CONTAINER" >/dev/null
    CONTAINER=""
}

for target in "${TARGETS[@]}"; do
    build "$target"
    check "$target" "localhost/lcml-$target:test"
    if [ "$target" = serving ]; then
        buildah build --quiet --isolation chroot --build-arg BASE=localhost/lcml-serving:test --format docker \
            --tag localhost/lcml-model:test -f docs/deploy/model.Dockerfile "$WORK/bundle/models" >/dev/null
        buildah push --quiet --format oci localhost/lcml-model:test "oci:$WORK/layout:iris"
        buildah rmi localhost/lcml-model:test >/dev/null
        image=$(cd "$WORK" && buildah pull --quiet oci:layout:iris) # a name in capitals, as of $WORK, cannot be pulled
        check model "$image"
        buildah rmi "$image" >/dev/null
    fi
done
